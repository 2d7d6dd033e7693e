//! Requests, each on its own thread. All of them send their data to one bounded channel. Dropping
//! its receiver ends them, without waiting for a silent server.

use crate::library::hub::{Failure, Hub, Requested, Said};
use hearth_formats::is_web_page;
use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Messages that wait in the channel.
const CAPACITY: usize = 8;

/// Most bytes of a message.
const MAX_BYTES: usize = 256 << 10;

/// Bytes at the start of a file that are looked at.
const START: u64 = 32;

/// An event of a request.
#[derive(Debug)]
pub enum Event {
    /// The headers of its response.
    Head(Head),
    /// The next bytes.
    Bytes(Vec<u8>),
    /// The end, always the last: `None` after a complete response.
    End(Option<Failure>),
}

/// The headers of a response.
#[derive(Debug)]
pub struct Head {
    /// The part of the file.
    pub sent: Requested,
    /// The version of the file and the range support that the response headers name.
    pub said: Said,
}

/// A request for a file or a range of it.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The first and the last byte (inclusive); `None` means the whole file, or its end.
    pub range: Option<(u64, Option<u64>)>,
    /// The version that the range must be of; of another one the whole file comes.
    pub version: Option<String>,
}

/// The connections in progress, by the number of their request.
#[derive(Debug)]
pub struct Connections {
    sender: SyncSender<(u64, Event)>,
    receiver: Receiver<(u64, Event)>,
}

impl Connections {
    pub fn new() -> Self {
        let (sender, receiver) = sync_channel(CAPACITY);
        Self { sender, receiver }
    }

    /// Requests a part of a file, or all of it.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn open(&self, hub: &Hub, url: &str, number: u64, wanted: Wanted) -> io::Result<()> {
        let (hub, url, sender) = (hub.clone(), url.to_owned(), self.sender.clone());
        let work = move || {
            let mut end = End {
                sender,
                number,
                // After a panic.
                failure: Some(Failure::Temporary("the connection broke".to_owned())),
            };
            end.failure = receive(&hub, &url, &wanted, |event| end.sender.send((number, event)).is_ok()).err();
        };
        thread::Builder::new().name("download".to_owned()).spawn(work).map(drop)
    }

    /// The next event, if one comes in time.
    pub fn next(&self, timeout: Duration) -> Option<(u64, Event)> {
        // It is never disconnected: there is always a sender.
        self.receiver.recv_timeout(timeout).ok()
    }
}

/// Sends [`Event::End`] when it is dropped.
struct End {
    sender: SyncSender<(u64, Event)>,
    number: u64,
    failure: Option<Failure>,
}

impl Drop for End {
    fn drop(&mut self) {
        // The receiver may have been dropped.
        let _ = self.sender.send((self.number, Event::End(self.failure.take())));
    }
}

/// Requests and passes on what comes, until `send` returns false.
fn receive(hub: &Hub, url: &str, wanted: &Wanted, send: impl Fn(Event) -> bool) -> Result<(), Failure> {
    let response = hub.get(url, wanted.range, wanted.version.as_deref())?;
    let head = Head {
        sent: Requested::from_response(&response)?,
        said: Said::from_response(&response, wanted.range.is_some() && wanted.version.is_none()),
    };
    let is_start = head.sent.start == 0;
    let mut body = response.into_body().into_reader();
    // Some servers send a login page as if it were the file.
    let start = if is_start { start(&mut body)? } else { Vec::new() };
    if is_web_page(&start) {
        return Err(Failure::web_page());
    }
    if !send(Event::Head(head)) || !start.is_empty() && !send(Event::Bytes(start)) {
        return Ok(());
    }
    let mut buffer = vec![0; MAX_BYTES];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) if send(Event::Bytes(buffer[..count].to_vec())) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&error)),
        }
    }
}

/// The first bytes of a file, enough to tell a web page.
fn start(body: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match body.take(START).read_to_end(&mut bytes) {
        // What came before the connection broke is of use; the next read fails, too.
        Err(error) if bytes.is_empty() => Err(broken(&error)),
        _ => Ok(bytes),
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::Temporary(format!("the connection broke ({error})"))
}
