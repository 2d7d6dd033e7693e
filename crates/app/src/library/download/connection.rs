//! Requests, each on its own thread. All threads send their data to one bounded channel. Dropping
//! its receiver ends them without waiting for a server that sends no data.

use crate::library::hub::{Failure, Hub, ResponseRange, ServerInfo};
use hearth_formats::is_web_page;
use hearth_protocol::FetchFailure;
use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Capacity of the channel in messages.
const CAPACITY: usize = 8;

/// Most bytes of a message.
const MAX_BYTES: usize = 256 << 10;

/// Bytes at the start of a file in which a web page is recognized.
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
    /// The range of the file that the response contains.
    pub range: ResponseRange,
    /// The version and range support that the headers name.
    pub server_info: ServerInfo,
}

/// A request for a file or a range of it.
#[derive(Debug, Clone, Default)]
pub struct RangeRequest {
    /// The first and the last byte (inclusive); `None` means the whole file, or its end.
    pub range: Option<(u64, Option<u64>)>,
    /// The version of the file to which the range applies. The server sends the whole file if it
    /// has another version.
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
    /// The thread cannot be started.
    pub fn open(&self, hub: &Hub, url: &str, number: u64, request: RangeRequest) -> io::Result<()> {
        let (hub, url, sender) = (hub.clone(), url.to_owned(), self.sender.clone());
        let work = move || {
            let mut end = End {
                sender,
                number,
                // The failure that is sent if `receive` panics.
                failure: Some(Failure::Temporary(FetchFailure::EndedEarly)),
            };
            end.failure = receive(&hub, &url, &request, |event| end.sender.send((number, event)).is_ok()).err();
        };
        thread::Builder::new().name("download".to_owned()).spawn(work).map(drop)
    }

    /// The next event, or `None` after the timeout.
    pub fn next(&self, timeout: Duration) -> Option<(u64, Event)> {
        // The channel is never disconnected: `self` has a sender.
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

/// Sends a request and passes on its events until `send` returns `false`.
fn receive(hub: &Hub, url: &str, request: &RangeRequest, send: impl Fn(Event) -> bool) -> Result<(), Failure> {
    let response = hub.get(url, request.range, request.version.as_deref())?;
    let head = Head {
        range: ResponseRange::from_response(&response)?,
        server_info: ServerInfo::from_response(&response, request.range.is_some() && request.version.is_none()),
    };
    let is_start = head.range.start == 0;
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
            Err(error) => return Err(Failure::broken(&error)),
        }
    }
}

/// Reads the first bytes of a file, in which a web page is recognized.
fn start(body: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match body.take(START).read_to_end(&mut bytes) {
        // Bytes from before the connection broke are usable; the next read returns the error again.
        Err(error) if bytes.is_empty() => Err(Failure::broken(&error)),
        _ => Ok(bytes),
    }
}
