//! Requests on threads of their own. What they receive comes through one bounded channel; dropping
//! its receiver ends them, without waiting for a silent server.

use crate::library::hub::{Failure, Hub, Requested};
use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};
use ureq::{Body, http::Response, http::header};

/// Messages that wait in the channel.
const CAPACITY: usize = 8;

/// Most bytes of a message.
const MAX_BYTES: usize = 256 << 10;

/// What a request has brought.
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
    /// The version of the file, if the server names it.
    pub etag: Option<String>,
}

/// Open connections, by the number of their request.
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

    /// Requests the bytes from `range.0` to `range.1` (inclusive), or the whole file.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn open(&self, hub: &Hub, url: &str, number: u64, range: Option<(u64, Option<u64>)>) -> io::Result<()> {
        let (hub, url, sender) = (hub.clone(), url.to_owned(), self.sender.clone());
        let work = move || {
            let mut end = End {
                sender,
                number,
                // After a panic.
                failure: Some(Failure::Temporary("the connection broke".to_owned())),
            };
            end.failure = receive(&hub, &url, range, |event| end.sender.send((number, event)).is_ok()).err();
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
fn receive(
    hub: &Hub,
    url: &str,
    range: Option<(u64, Option<u64>)>,
    send: impl Fn(Event) -> bool,
) -> Result<(), Failure> {
    let response = hub.get(url, range)?;
    let head = Head {
        sent: Requested::of(&response)?,
        etag: etag(&response),
    };
    if !send(Event::Head(head)) {
        return Ok(());
    }
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; MAX_BYTES];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) if send(Event::Bytes(buffer[..count].to_vec())) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Temporary(format!("the connection broke ({error})"))),
        }
    }
}

fn etag(response: &Response<Body>) -> Option<String> {
    let value = response.headers().get(header::ETAG)?;
    value.to_str().ok().map(str::to_owned)
}
