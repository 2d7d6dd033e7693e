//! The requests for one file: a large one comes as ranges in parallel if the server can, and in one
//! stream otherwise. The thread that asks for the file writes it, alone. Bytes of two versions are
//! never joined: the published hash decides or, without one, a range is requested of the version
//! that has arrived, and what comes of another one replaces it.

use super::{
    Progress, Report,
    connection::{Connections, Event, Head, Wanted},
    partial::Partial,
    report,
};
use crate::library::{
    Flaw, LibraryError,
    hub::{Failure, Hub, RemotePart, Said, without_query},
};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Consecutive requests without data after which a download fails.
const MAX_EMPTY_REQUESTS: u32 = 5;

/// Interval at which a download without data checks whether it was stopped.
const TICK: Duration = Duration::from_millis(100);

/// Longest wait that a server may ask for; longer ones end the download, to be tried again later.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Most bytes of one stream that a crash loses.
const STREAM_RECORD: u64 = 8 << 20;

/// The request mode of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As ranges; the first one tells whether the server can.
    Trying,
    /// As ranges in parallel.
    Ranges,
    /// From the end of what is there to the end of the file.
    OneStream,
}

/// A part of the file that is or will be requested.
#[derive(Debug)]
struct Part {
    /// The first missing byte.
    at: u64,
    end: u64,
    /// The end of the present response.
    until: u64,
    /// The greatest `at` so far.
    furthest: u64,
    empty_requests: u32,
    /// When it may be requested.
    due: Instant,
}

impl Part {
    fn new(at: u64, end: u64) -> Self {
        Self {
            at,
            end,
            until: end,
            furthest: at,
            empty_requests: 0,
            due: Instant::now(),
        }
    }
}

/// The requests for one file.
pub struct Fetch<'a, 'p> {
    hub: &'a Hub,
    remote: &'a RemotePart,
    /// Whether its first bytes must be the beginning of a GGUF file.
    is_start: bool,
    /// Bytes of the whole file.
    total: u64,
    partial: &'a mut Partial,
    progress: Report<'p>,
    mode: Mode,
    connections: Connections,
    /// Requests in progress, by their number.
    active: HashMap<u64, Part>,
    next_number: u64,
    /// Parts whose request has failed.
    failed: Vec<Part>,
    /// Where parts that were never requested begin.
    cursor: u64,
    /// Requests at a time.
    limit: usize,
}

impl<'a, 'p> Fetch<'a, 'p> {
    /// Requests for what is missing of the present piece of an unfinished file of `total` bytes.
    /// `is_start` means that it begins as a GGUF file does.
    pub fn new(
        hub: &'a Hub,
        remote: &'a RemotePart,
        is_start: bool,
        total: u64,
        partial: &'a mut Partial,
        progress: Report<'p>,
    ) -> Self {
        Self {
            hub,
            remote,
            is_start,
            total,
            partial,
            progress,
            mode: Mode::Trying,
            connections: Connections::new(),
            active: HashMap::new(),
            next_number: 0,
            failed: Vec::new(),
            cursor: 0,
            limit: 1,
        }
    }

    /// Requests until the file has its size.
    pub fn run(mut self) -> Result<(), LibraryError> {
        let ended = self.request_all();
        // What has arrived counts next time, however this ended.
        let recorded = self.partial.record();
        ended.and(recorded)
    }

    fn request_all(&mut self) -> Result<(), LibraryError> {
        if self.remote.size < self.hub.ranges.min_file_size {
            self.use_one_stream(false)?;
        }
        loop {
            self.report()?;
            self.start_requests()?;
            let next_due = self.failed.iter().map(|part| part.due).min();
            if self.active.is_empty() && next_due.is_none() {
                return Ok(());
            }
            let wait = next_due.map_or(TICK, |due| due.saturating_duration_since(Instant::now()));
            match self.connections.next(wait.min(TICK)) {
                Some((number, Event::Head(head))) => self.begin(number, head)?,
                Some((number, Event::Bytes(bytes))) => self.write(number, &bytes)?,
                Some((number, Event::End(failure))) => self.end(number, failure)?,
                None => {}
            }
        }
    }

    fn report(&mut self) -> Result<(), LibraryError> {
        let now = Progress::Loading {
            done: self.partial.total(),
            total: self.total,
        };
        report(self.progress, now)
    }

    fn refused(&self, why: impl Into<String>, is_temporary: bool) -> LibraryError {
        LibraryError::Download {
            name: self.remote.name.clone(),
            url: without_query(&self.remote.url).to_owned(),
            is_temporary,
            why: why.into(),
            kept: self.partial.kept(),
        }
    }

    /// Drops what has arrived of a version that the server does not have any more.
    fn changed(&mut self) -> LibraryError {
        self.connections = Connections::new();
        match self.partial.forget() {
            Ok(()) => LibraryError::Changed {
                name: self.remote.name.clone(),
                url: without_query(&self.remote.url).to_owned(),
            },
            Err(error) => error,
        }
    }

    /// Starts as many requests as may run at a time. A failed part keeps its place while it waits.
    fn start_requests(&mut self) -> Result<(), LibraryError> {
        while self.active.len() < self.limit {
            let now = Instant::now();
            let part = match self.failed.iter().position(|part| part.due <= now) {
                Some(at) => self.failed.swap_remove(at),
                None if self.active.len() + self.failed.len() >= self.limit => return Ok(()),
                None => match self.new_part() {
                    Some(part) => part,
                    None => return Ok(()),
                },
            };
            self.open(part)?;
        }
        Ok(())
    }

    /// The next part that was never requested.
    fn new_part(&mut self) -> Option<Part> {
        let gap = self.partial.spans().gap(self.cursor, self.remote.size)?;
        let size = self.hub.ranges.size.max(1);
        let end = match self.mode {
            Mode::OneStream => self.remote.size,
            Mode::Trying | Mode::Ranges => gap.end.min((gap.start / size + 1).saturating_mul(size)),
        };
        self.cursor = end;
        Some(Part::new(gap.start, end))
    }

    fn open(&mut self, part: Part) -> Result<(), LibraryError> {
        let range = match self.mode {
            Mode::OneStream => (part.at > 0).then_some((part.at, None)),
            Mode::Trying | Mode::Ranges => Some((part.at, Some(part.end - 1))),
        };
        let number = self.next_number;
        self.next_number += 1;
        let wanted = Wanted {
            range,
            version: self.partial.needs_version().map(str::to_owned),
        };
        self.connections
            .open(self.hub, &self.remote.url, number, wanted)
            .map_err(|error| self.refused(format!("this system starts no more threads ({error})"), true))?;
        self.active.insert(number, part);
        Ok(())
    }

    /// Checks the headers of a response.
    fn begin(&mut self, number: u64, head: Head) -> Result<(), LibraryError> {
        let Some(part) = self.active.get_mut(&number) else {
            return Ok(());
        };
        if head.sent.total.is_some_and(|total| total != self.remote.size) {
            return Err(match self.remote.sha256 {
                Some(_) => self.refused("the file there has another size than it was said to have", false),
                // The expected size may be out of date.
                None => self.changed(),
            });
        }
        if self.mode == Mode::OneStream {
            return self.begin_stream(number, head);
        }
        let is_other = !self.partial.fits(&head.said);
        let is_known = self.remote.sha256.is_some() || head.said.version.is_some();
        match head.sent.last {
            Some(last) if head.sent.start == part.at && last < part.end && !is_other && is_known => {
                part.until = last + 1;
            }
            _ => {
                self.use_one_stream(is_other)?;
                self.partial.learn(Said {
                    version: None,
                    ranges: head.said.ranges,
                });
                return Ok(());
            }
        }
        self.partial.learn(head.said);
        if self.mode == Mode::Trying {
            self.mode = Mode::Ranges;
            self.limit = self.hub.ranges.parallel.max(1);
        }
        Ok(())
    }

    fn begin_stream(&mut self, number: u64, head: Head) -> Result<(), LibraryError> {
        let Some(mut part) = self.active.remove(&number) else {
            return Ok(());
        };
        let start = head.sent.start;
        if start > 0 && !self.partial.fits(&head.said) {
            self.connections = Connections::new();
            part.at = 0;
            self.partial.forget()?;
            return self.retry(part, "the file changed on the server meanwhile".to_owned(), None);
        }
        if start > part.at {
            self.connections = Connections::new();
            return self.retry(part, "the server sent another part of the file".to_owned(), None);
        }
        if start == 0 {
            // The whole file, of whatever version.
            part.at = 0;
            self.partial.forget()?;
        } else if start < part.at {
            part.at = start;
            self.partial.truncate(start)?;
        }
        self.partial.learn(head.said);
        self.active.insert(number, part);
        Ok(())
    }

    /// Gives up ranges: the file comes from the end of what is there without a gap, or from its
    /// start if what is there is of another version.
    fn use_one_stream(&mut self, is_other: bool) -> Result<(), LibraryError> {
        if self.mode != Mode::OneStream {
            tracing::info!(name = self.remote.name, "the file is requested in one stream");
        }
        self.connections = Connections::new();
        self.active.clear();
        self.failed.clear();
        (self.mode, self.limit, self.cursor) = (Mode::OneStream, 1, 0);
        if is_other || !self.partial.can_continue() {
            return self.partial.forget();
        }
        let prefix = self.partial.spans().prefix();
        if self.partial.spans().end() > prefix {
            self.partial.truncate(prefix)
        } else {
            Ok(())
        }
    }

    fn write(&mut self, number: u64, bytes: &[u8]) -> Result<(), LibraryError> {
        let Some(part) = self.active.get_mut(&number) else {
            return Ok(());
        };
        if part.until - part.at < bytes.len() as u64 {
            return match self.mode {
                Mode::OneStream => Err(self.refused("the file there is longer than it was said to be", false)),
                Mode::Trying | Mode::Ranges => self.use_one_stream(false),
            };
        }
        if part.at == 0 && self.is_start && self.remote.sha256.is_none() && !may_be_gguf(bytes) {
            return Err(LibraryError::flawed(&self.remote.name, &self.remote.url, Flaw::NotGguf));
        }
        self.partial.write(part.at, bytes)?;
        part.at += bytes.len() as u64;
        let most = match self.mode {
            Mode::OneStream => self.hub.ranges.size.min(STREAM_RECORD),
            Mode::Trying | Mode::Ranges => self.hub.ranges.size,
        };
        if self.partial.unrecorded() >= most {
            self.partial.record()
        } else {
            Ok(())
        }
    }

    /// Ends a request.
    fn end(&mut self, number: u64, failure: Option<Failure>) -> Result<(), LibraryError> {
        match (self.active.remove(&number), failure) {
            (Some(part), _) if part.at == part.end => Ok(()),
            (Some(part), None) => self.retry(part, "the connection ended early".to_owned(), None),
            (Some(part), Some(Failure::Temporary(why))) => self.retry(part, why, None),
            (Some(part), Some(Failure::Busy(why, delay))) => self.retry(part, why, Some(delay)),
            // Shorter than a moment ago.
            (Some(_), Some(Failure::Range)) if self.remote.sha256.is_none() => Err(self.changed()),
            (Some(_), Some(failure)) => Err(self.refused(failure.why(), false)),
            (None, _) => Ok(()),
        }
    }

    /// Requests a part again, alone; `delay` is what the server asks for.
    fn retry(&mut self, mut part: Part, why: String, delay: Option<Duration>) -> Result<(), LibraryError> {
        // A server without range support restarts at 0 each time: only bytes beyond the furthest
        // offset so far count as progress.
        part.empty_requests = if part.at > part.furthest {
            0
        } else {
            part.empty_requests + 1
        };
        part.furthest = part.furthest.max(part.at);
        part.until = part.end;
        if part.empty_requests == MAX_EMPTY_REQUESTS || delay.is_some_and(|delay| delay > MAX_RETRY_AFTER) {
            return Err(self.refused(why, true));
        }
        if self.mode == Mode::OneStream && part.at > 0 && !self.partial.can_continue() {
            // Nothing could tell that the rest is of the same file.
            part.at = 0;
            self.partial.forget()?;
        }
        tracing::info!(why, part.empty_requests, "the request is retried");
        let now = Instant::now();
        part.due = match part.empty_requests {
            0 => now,
            count => now + self.hub.retry_delay * (1 << (count - 1)),
        };
        self.failed.push(part);
        if let Some(delay) = delay {
            // The server asks for less: the other parts wait, too, and one fewer is requested.
            self.limit = (self.limit - 1).max(1);
            self.failed
                .iter_mut()
                .for_each(|part| part.due = part.due.max(now + delay));
        }
        Ok(())
    }
}

/// Whether a file that begins with these bytes may be a GGUF file.
fn may_be_gguf(start: &[u8]) -> bool {
    const MAGIC: &[u8] = b"GGUF";
    let len = start.len().min(MAGIC.len());
    start[..len] == MAGIC[..len]
}
