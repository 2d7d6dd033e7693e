//! Downloads: resumable, verified against the catalog, and moved into place once complete.

use super::{LibraryError, catalog::Entry};
use hearth_formats::{durable::commit_file, hex};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use ureq::{Agent, http::StatusCode};

/// The default hub; `HF_ENDPOINT` overrides it.
const HUB: &str = "https://huggingface.co";

/// Time limit of one request; the next one resumes. It detects a hanging connection, and a slow one
/// loses nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Consecutive requests without data after which the download fails.
const MAX_EMPTY_REQUESTS: u32 = 5;

/// Progress of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Downloading.
    Loading {
        /// Bytes downloaded.
        done: u64,
        /// Total bytes.
        total: u64,
    },
    /// Complete; the digest is being verified.
    Checking,
}

/// The hub to download from.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Base URL, without a trailing slash.
    pub endpoint: String,
    /// Bearer token, sent to the endpoint only, and over HTTPS only.
    pub token: Option<String>,
    /// Delay before the first retry; doubles with each.
    pub retry_delay: Duration,
}

impl Hub {
    /// The hub of the environment: `HF_ENDPOINT`, `HF_TOKEN`, and `HF_HUB_OFFLINE`, which disables
    /// downloads.
    pub fn from_environment() -> Result<Self, LibraryError> {
        let set = |key: &str| std::env::var(key).ok().filter(|value| !value.trim().is_empty());
        if set("HF_HUB_OFFLINE").is_some_and(|value| value != "0") {
            return Err(LibraryError::Offline);
        }
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
        Ok(Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            token: set("HF_TOKEN").map(|token| token.trim().to_owned()),
            retry_delay: Duration::from_secs(1),
        })
    }

    /// The token, if the endpoint uses HTTPS.
    fn token_to_send(&self) -> Option<&str> {
        let encrypted = self
            .endpoint
            .get(..8)
            .is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        self.token.as_deref().filter(|_| encrypted)
    }

    fn url(&self, entry: &Entry) -> String {
        format!(
            "{}/{}/resolve/{}/{}",
            self.endpoint, entry.repository, entry.revision, entry.file
        )
    }
}

/// Downloads an entry into a folder. Returns the file's path. An incomplete download stays as
/// `NAME.partial`; `progress` returns `Break` to cancel.
pub fn download(
    hub: &Hub,
    entry: &Entry,
    folder: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<PathBuf, LibraryError> {
    let target = folder.join(&entry.file);
    let partial = folder.join(format!("{}.partial", entry.file));
    let failed = |source: io::Error| LibraryError::Write {
        path: partial.clone(),
        source,
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&partial)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LibraryError::AlreadyDownloading(entry.name.clone())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }

    fetch(hub, entry, &mut file, &partial, progress)?;
    report(progress, Progress::Checking)?;
    let found = sha256(&mut file).map_err(failed)?;
    if found != entry.sha256 {
        drop(file);
        fs::remove_file(&partial).map_err(failed)?;
        return Err(LibraryError::HashMismatch {
            name: entry.name.clone(),
            url: hub.url(entry),
            found,
        });
    }
    // Windows does not rename an open file.
    drop(file);
    commit_file(&partial, &target).map_err(|source| LibraryError::Write {
        path: target.clone(),
        source,
    })?;
    Ok(target)
}

/// Requests until the file is as long as the catalog says.
fn fetch(
    hub: &Hub,
    entry: &Entry,
    file: &mut File,
    partial: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), LibraryError> {
    let agent: Agent = Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .timeout_recv_body(Some(REQUEST_TIMEOUT))
        .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let failed = |source: io::Error| LibraryError::Write {
        path: partial.to_owned(),
        source,
    };
    if file.seek(SeekFrom::End(0)).map_err(failed)? > entry.size {
        // From another version of the catalog.
        file.set_len(0).map_err(failed)?;
    }
    let mut empty_requests = 0;
    loop {
        let start = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if start == entry.size {
            return Ok(());
        }
        report(
            progress,
            Progress::Loading {
                done: start,
                total: entry.size,
            },
        )?;
        let why = match request(&agent, hub, entry, start, file, progress) {
            Ok(()) => "the connection ended early".to_owned(),
            Err(RequestError::Temporary(why)) => why,
            Err(RequestError::Final(error)) => return Err(error),
            Err(RequestError::Disk(error)) => return Err(failed(error)),
        };
        if file.seek(SeekFrom::End(0)).map_err(failed)? > start {
            empty_requests = 0;
        } else {
            empty_requests += 1;
            if empty_requests == MAX_EMPTY_REQUESTS {
                return Err(LibraryError::Download {
                    name: entry.name.clone(),
                    url: hub.url(entry),
                    why,
                });
            }
            tracing::info!(why, empty_requests, "the download is retried");
            thread::sleep(hub.retry_delay * (1 << (empty_requests - 1)));
        }
    }
}

enum RequestError {
    /// Temporary: the request is retried.
    Temporary(String),
    /// The file cannot be written.
    Disk(io::Error),
    /// Permanent: a retry would fail, too.
    Final(LibraryError),
}

/// Requests the missing bytes and appends them to the file.
fn request(
    agent: &Agent,
    hub: &Hub,
    entry: &Entry,
    start: u64,
    file: &mut File,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), RequestError> {
    let url = hub.url(entry);
    let mut request = agent.get(&url);
    if let Some(token) = hub.token_to_send() {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    if start > 0 {
        request = request.header("Range", format!("bytes={start}-"));
    }
    let refused = |why: &str| {
        RequestError::Final(LibraryError::Download {
            name: entry.name.clone(),
            url: url.clone(),
            why: why.to_owned(),
        })
    };
    let response = match request.call() {
        Ok(response) => response,
        Err(ureq::Error::StatusCode(code)) => {
            return Err(match code {
                401 | 403 if hub.token.is_some() && hub.token_to_send().is_none() => {
                    refused("the hub requires a login, and HF_TOKEN is sent only to an HF_ENDPOINT with https://")
                }
                401 | 403 => refused("the hub requires a login: accept the model's terms there and set HF_TOKEN"),
                404 | 410 => refused("the hub no longer has this file"),
                408 | 429 | 500.. => RequestError::Temporary(format!("the hub responded with {code}")),
                _ => refused(&format!("the hub responded with {code}")),
            });
        }
        Err(error) => return Err(RequestError::Temporary(error.to_string())),
    };
    let mut done = start;
    if start > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
        // The server ignores the range and sends the whole file.
        file.set_len(0).map_err(RequestError::Disk)?;
        done = 0;
    }
    file.seek(SeekFrom::Start(done)).map_err(RequestError::Disk)?;
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                if done + count as u64 > entry.size {
                    return Err(refused("the file there is longer than the catalog says"));
                }
                file.write_all(&buffer[..count]).map_err(RequestError::Disk)?;
                done += count as u64;
                report(
                    progress,
                    Progress::Loading {
                        done,
                        total: entry.size,
                    },
                )
                .map_err(RequestError::Final)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(RequestError::Temporary(error.to_string())),
        }
    }
}

fn report(progress: &mut dyn FnMut(Progress) -> ControlFlow<()>, now: Progress) -> Result<(), LibraryError> {
    match progress(now) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(LibraryError::Cancelled),
    }
}

/// The sha256 of a whole file, in hexadecimal.
fn sha256(file: &mut File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::new();
    io::copy(file, &mut digest)?;
    Ok(hex(digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_over_https_only() {
        let sent = |endpoint: &str| {
            let hub = Hub {
                endpoint: endpoint.to_owned(),
                token: Some("secret".to_owned()),
                retry_delay: Duration::ZERO,
            };
            hub.token_to_send().is_some()
        };
        assert!(sent(HUB) && sent("HTTPS://mirror.example"));
        for endpoint in ["http://huggingface.co", "http://localhost:8080", "https:/a", "", "ü"] {
            assert!(!sent(endpoint), "{endpoint}");
        }
    }
}
