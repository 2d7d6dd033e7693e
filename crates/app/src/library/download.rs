//! Downloads: resumed where they ended, checked against the catalog, and in place only when they are whole.

use super::{LibraryError, catalog::Entry};
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

/// The hub, unless `HF_ENDPOINT` names another.
const HUB: &str = "https://huggingface.co";

/// One request lasts at most this long; the next goes on where it ended. So a connection that hangs is noticed without a
/// timer of its own, and a slow one loses nothing.
const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// Requests in a row that may bring nothing before it is given up.
const TRIES: u32 = 5;

/// How a download stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bytes are coming.
    Loading {
        /// Bytes that are here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// All bytes are here and are compared with the catalog.
    Checking,
}

/// Where files come from, and how patiently.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Without a slash at its end.
    pub endpoint: String,
    /// Sent as a bearer token, to the endpoint alone, and only where that is encrypted.
    pub token: Option<String>,
    /// The wait before the second try; it doubles with each.
    pub patience: Duration,
}

impl Hub {
    /// As the environment has it: `HF_ENDPOINT`, `HF_TOKEN`, and `HF_HUB_OFFLINE`, which forbids every download.
    pub fn from_environment() -> Result<Self, LibraryError> {
        let set = |key: &str| std::env::var(key).ok().filter(|value| !value.trim().is_empty());
        if set("HF_HUB_OFFLINE").is_some_and(|value| value != "0") {
            return Err(LibraryError::Offline);
        }
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
        Ok(Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            token: set("HF_TOKEN").map(|token| token.trim().to_owned()),
            patience: Duration::from_secs(1),
        })
    }

    /// The token, unless all between here and the endpoint could read it.
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

/// Downloads an entry into a folder and says where it is. What has come so far is kept beside it as `NAME.partial` when
/// the download ends early; `progress` ends it by breaking.
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
    tell(progress, Progress::Checking)?;
    let found = sha256(&mut file).map_err(failed)?;
    if found != entry.sha256 {
        drop(file);
        fs::remove_file(&partial).map_err(failed)?;
        return Err(LibraryError::WrongHash {
            name: entry.name.clone(),
            url: hub.url(entry),
            found,
        });
    }
    file.sync_all().map_err(failed)?;
    // Windows does not rename an open file.
    drop(file);
    fs::rename(&partial, &target).map_err(|source| LibraryError::Write {
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
        .timeout_recv_body(Some(LONGEST_REQUEST))
        .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let failed = |source: io::Error| LibraryError::Write {
        path: partial.to_owned(),
        source,
    };
    if file.seek(SeekFrom::End(0)).map_err(failed)? > entry.size {
        // Left by another state of the catalog.
        file.set_len(0).map_err(failed)?;
    }
    let mut fruitless = 0;
    loop {
        let here = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if here == entry.size {
            return Ok(());
        }
        tell(
            progress,
            Progress::Loading {
                done: here,
                total: entry.size,
            },
        )?;
        let why = match request(&agent, hub, entry, here, file, progress) {
            Ok(()) => "the connection ended early".to_owned(),
            Err(Trouble::Temporary(why)) => why,
            Err(Trouble::Final(error)) => return Err(error),
            Err(Trouble::Disk(error)) => return Err(failed(error)),
        };
        if file.seek(SeekFrom::End(0)).map_err(failed)? > here {
            fruitless = 0;
        } else {
            fruitless += 1;
            if fruitless == TRIES {
                return Err(LibraryError::Download {
                    name: entry.name.clone(),
                    url: hub.url(entry),
                    why,
                });
            }
            tracing::info!(why, fruitless, "the download is tried again");
            thread::sleep(hub.patience * (1 << (fruitless - 1)));
        }
    }
}

enum Trouble {
    /// Worth another try.
    Temporary(String),
    /// The file cannot be written.
    Disk(io::Error),
    /// Nothing that another try would mend.
    Final(LibraryError),
}

/// One request for what is missing, appended to the file as it comes.
fn request(
    agent: &Agent,
    hub: &Hub,
    entry: &Entry,
    here: u64,
    file: &mut File,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), Trouble> {
    let url = hub.url(entry);
    let mut request = agent.get(&url);
    if let Some(token) = hub.token_to_send() {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    if here > 0 {
        request = request.header("Range", format!("bytes={here}-"));
    }
    let refused = |why: &str| {
        Trouble::Final(LibraryError::Download {
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
                    refused("the hub asks who you are, and HF_TOKEN is sent to an HF_ENDPOINT with https:// alone")
                }
                401 | 403 => refused("the hub asks who you are: accept the model's terms there and set HF_TOKEN"),
                404 | 410 => refused("the hub no longer has this file"),
                408 | 429 | 500.. => Trouble::Temporary(format!("the hub answered {code}")),
                _ => refused(&format!("the hub answered {code}")),
            });
        }
        Err(error) => return Err(Trouble::Temporary(error.to_string())),
    };
    let mut done = here;
    if here > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
        // It sends everything from the start.
        file.set_len(0).map_err(Trouble::Disk)?;
        done = 0;
    }
    file.seek(SeekFrom::Start(done)).map_err(Trouble::Disk)?;
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                if done + count as u64 > entry.size {
                    return Err(refused("the file there is longer than the catalog says"));
                }
                file.write_all(&buffer[..count]).map_err(Trouble::Disk)?;
                done += count as u64;
                tell(
                    progress,
                    Progress::Loading {
                        done,
                        total: entry.size,
                    },
                )
                .map_err(Trouble::Final)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::Temporary(error.to_string())),
        }
    }
}

fn tell(progress: &mut dyn FnMut(Progress) -> ControlFlow<()>, now: Progress) -> Result<(), LibraryError> {
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
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_an_encrypted_endpoint_alone() {
        let sent = |endpoint: &str| {
            let hub = Hub {
                endpoint: endpoint.to_owned(),
                token: Some("secret".to_owned()),
                patience: Duration::ZERO,
            };
            hub.token_to_send().is_some()
        };
        assert!(sent(HUB) && sent("HTTPS://mirror.example"));
        for endpoint in ["http://huggingface.co", "http://localhost:8080", "https:/a", "", "ü"] {
            assert!(!sent(endpoint), "{endpoint}");
        }
    }
}
