//! The requests for one file. A large file is requested as parallel ranges if the server supports
//! them, and in one stream otherwise. Only the thread that runs [`Fetch`] writes the file. Bytes of
//! two versions are never joined: the published hash decides. Without one, ranges are requested of
//! the version that was received, and bytes of another version replace the received ones.

use super::{
    Progress, Report,
    connection::{Connections, Event, Head, RangeRequest},
    partial::Partial,
    report,
};
use crate::library::{
    Flaw, LibraryError,
    hub::{Failure, Hub, RemotePart, ServerInfo, without_query},
};
use hearth_protocol::FetchFailure;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Consecutive requests without data after which a download fails.
const MAX_EMPTY_REQUESTS: u32 = 5;

/// Interval at which a download without data checks whether it was stopped.
const TICK: Duration = Duration::from_millis(100);

/// Longest delay that a server may request; a longer one ends the download, which is retried later.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Bytes of one stream after which the record is written: a crash loses at most as many.
const STREAM_RECORD: u64 = 8 << 20;

/// The request mode of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As ranges; the first response shows whether the server supports them.
    Probing,
    /// As parallel ranges.
    Ranges,
    /// From the end of the received bytes to the end of the file.
    OneStream,
}

/// A part of the file that is or will be requested.
#[derive(Debug)]
struct Part {
    /// The first missing byte.
    at: u64,
    end: u64,
    /// The end of the current response.
    until: u64,
    /// The greatest `at` so far.
    furthest: u64,
    empty_requests: u32,
    /// The earliest time of its next request.
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
    /// Whether the file must begin as a GGUF file does.
    is_start: bool,
    /// Size of the whole file in bytes.
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
    /// Offset from which no part was requested yet.
    cursor: u64,
    /// Most requests at a time.
    limit: usize,
}

impl<'a, 'p> Fetch<'a, 'p> {
    /// Creates the requests for the missing bytes of the current piece of an unfinished file of
    /// `total` bytes. `is_start` means that the piece must begin as a GGUF file does.
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
            mode: Mode::Probing,
            connections: Connections::new(),
            active: HashMap::new(),
            next_number: 0,
            failed: Vec::new(),
            cursor: 0,
            limit: 1,
        }
    }

    /// Sends requests until the piece is complete.
    pub fn run(mut self) -> Result<(), LibraryError> {
        let result = self.request_all();
        // Received bytes are recorded even after a failure, so that the next download reuses them.
        let recorded = self.partial.record();
        result.and(recorded)
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

    fn download_error(&self, failure: FetchFailure, is_temporary: bool) -> LibraryError {
        LibraryError::Download {
            name: self.remote.name.clone(),
            url: without_query(&self.remote.url).to_owned(),
            is_temporary,
            failure,
            kept: self.partial.kept(),
        }
    }

    /// Drops the received bytes of a version that the server no longer has. Returns the error.
    fn changed_error(&mut self) -> LibraryError {
        self.connections = Connections::new();
        match self.partial.reset() {
            Ok(()) => LibraryError::Changed {
                name: self.remote.name.clone(),
                url: without_query(&self.remote.url).to_owned(),
            },
            Err(error) => error,
        }
    }

    /// Starts requests up to the limit. A failed part that waits for its retry counts as a request.
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
            Mode::Probing | Mode::Ranges => gap.end.min((gap.start / size + 1).saturating_mul(size)),
        };
        self.cursor = end;
        Some(Part::new(gap.start, end))
    }

    fn open(&mut self, part: Part) -> Result<(), LibraryError> {
        let range = match self.mode {
            Mode::OneStream => (part.at > 0).then_some((part.at, None)),
            Mode::Probing | Mode::Ranges => Some((part.at, Some(part.end - 1))),
        };
        let number = self.next_number;
        self.next_number += 1;
        let request = RangeRequest {
            range,
            version: self.partial.needs_version().map(str::to_owned),
        };
        self.connections
            .open(self.hub, &self.remote.url, number, request)
            .map_err(|error| {
                let detail = error.to_string();
                self.download_error(FetchFailure::NoThreads { detail }, true)
            })?;
        self.active.insert(number, part);
        Ok(())
    }

    /// Checks the headers of a response.
    fn begin(&mut self, number: u64, head: Head) -> Result<(), LibraryError> {
        let Some(part) = self.active.get_mut(&number) else {
            return Ok(());
        };
        if head.range.total.is_some_and(|total| total != self.remote.size) {
            return Err(match self.remote.sha256 {
                Some(_) => self.download_error(FetchFailure::OtherSize, false),
                // Without a hash, the expected size may be of an earlier version.
                None => self.changed_error(),
            });
        }
        if self.mode == Mode::OneStream {
            return self.begin_stream(number, head);
        }
        let is_other_version = !self.partial.fits(&head.server_info);
        let is_verifiable = self.remote.sha256.is_some() || head.server_info.version.is_some();
        match head.range.last {
            Some(last) if head.range.start == part.at && last < part.end && !is_other_version && is_verifiable => {
                part.until = last + 1;
            }
            _ => {
                self.use_one_stream(is_other_version)?;
                self.partial.update_server_info(ServerInfo {
                    version: None,
                    ranges: head.server_info.ranges,
                });
                return Ok(());
            }
        }
        self.partial.update_server_info(head.server_info);
        if self.mode == Mode::Probing {
            self.mode = Mode::Ranges;
            self.limit = self.hub.ranges.parallel.max(1);
        }
        Ok(())
    }

    fn begin_stream(&mut self, number: u64, head: Head) -> Result<(), LibraryError> {
        let Some(mut part) = self.active.remove(&number) else {
            return Ok(());
        };
        let start = head.range.start;
        if start > 0 && !self.partial.fits(&head.server_info) {
            self.connections = Connections::new();
            part.at = 0;
            self.partial.reset()?;
            return self.retry(part, FetchFailure::Changed, None);
        }
        if start > part.at {
            self.connections = Connections::new();
            return self.retry(part, FetchFailure::OtherRange, None);
        }
        if start == 0 {
            // The whole file, of any version.
            part.at = 0;
            self.partial.reset()?;
        } else if start < part.at {
            part.at = start;
            self.partial.truncate(start)?;
        }
        self.partial.update_server_info(head.server_info);
        self.active.insert(number, part);
        Ok(())
    }

    /// Switches to one stream, from the end of the received prefix, or from the start of the file
    /// if the received bytes are of another version.
    fn use_one_stream(&mut self, is_other_version: bool) -> Result<(), LibraryError> {
        if self.mode != Mode::OneStream {
            tracing::info!(name = self.remote.name, "the file is requested in one stream");
        }
        self.connections = Connections::new();
        self.active.clear();
        self.failed.clear();
        (self.mode, self.limit, self.cursor) = (Mode::OneStream, 1, 0);
        if is_other_version || !self.partial.can_continue() {
            return self.partial.reset();
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
                Mode::OneStream => Err(self.download_error(FetchFailure::TooLong, false)),
                Mode::Probing | Mode::Ranges => self.use_one_stream(false),
            };
        }
        if part.at == 0 && self.is_start && self.remote.sha256.is_none() && !may_be_gguf(bytes) {
            return Err(LibraryError::flawed(&self.remote.name, &self.remote.url, Flaw::NotGguf));
        }
        self.partial.write(part.at, bytes)?;
        part.at += bytes.len() as u64;
        let record_interval = match self.mode {
            Mode::OneStream => self.hub.ranges.size.min(STREAM_RECORD),
            Mode::Probing | Mode::Ranges => self.hub.ranges.size,
        };
        if self.partial.unrecorded() >= record_interval {
            self.partial.record()
        } else {
            Ok(())
        }
    }

    /// Ends a request.
    fn end(&mut self, number: u64, failure: Option<Failure>) -> Result<(), LibraryError> {
        match (self.active.remove(&number), failure) {
            (Some(part), _) if part.at == part.end => Ok(()),
            (Some(part), None) => self.retry(part, FetchFailure::EndedEarly, None),
            (Some(part), Some(Failure::Temporary(cause))) => self.retry(part, cause, None),
            (Some(part), Some(Failure::Busy(cause, delay))) => self.retry(part, cause, Some(delay)),
            // The file became shorter after its size was requested.
            (Some(_), Some(Failure::Range)) if self.remote.sha256.is_none() => Err(self.changed_error()),
            (Some(_), Some(failure)) => Err(self.download_error(failure.cause(), false)),
            (None, _) => Ok(()),
        }
    }

    /// Schedules another request for a part, after at least `delay`, the server's `Retry-After`.
    fn retry(&mut self, mut part: Part, cause: FetchFailure, delay: Option<Duration>) -> Result<(), LibraryError> {
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
            return Err(self.download_error(cause, true));
        }
        if self.mode == Mode::OneStream && part.at > 0 && !self.partial.can_continue() {
            // Neither a hash nor a version can show that the rest is of the same file.
            part.at = 0;
            self.partial.reset()?;
        }
        tracing::info!(?cause, part.empty_requests, "the request is retried");
        let now = Instant::now();
        part.due = match part.empty_requests {
            0 => now,
            count => now + self.hub.retry_delay * (1 << (count - 1)),
        };
        self.failed.push(part);
        if let Some(delay) = delay {
            // The server is overloaded: the other parts wait too, and the limit decreases by one.
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
