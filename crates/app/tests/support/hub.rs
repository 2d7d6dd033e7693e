//! A local hub with the response shapes of the real ones, which misbehaves on demand.

use hearth_app::library::Hub;
use hearth_formats::hex;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

/// A response to one request.
#[derive(Debug, Clone, Copy)]
pub enum Reply {
    /// The requested range.
    Good,
    /// The requested range, with this version of the file.
    Tagged(&'static str),
    /// The requested range of a file of which this header names the version, or the whole file if
    /// the range was requested of another version; after this many bytes the connection breaks.
    Versioned(&'static str, usize),
    /// This many bytes of it, then the connection breaks.
    Broken(usize),
    /// This many bytes of it, then silence.
    Stalled(usize),
    /// A byte of it every 20 ms.
    Dribble,
    /// Half of it, and the rest once [`TOGETHER`] responses like this are under way.
    Together,
    /// The whole file, ignoring the range.
    NoRanges,
    /// Another file of the same length.
    Other,
    /// Another range than the requested one.
    OtherRange,
    /// The requested range with more bytes than it has.
    LongRange,
    /// The requested range of a longer file.
    OtherTotal,
    /// The range does not exist.
    NoRange,
    /// More bytes than expected.
    Long,
    /// The same, of an unknown length.
    LongUnsized,
    /// A network's login page.
    Portal,
    /// A login page that claims to be a file.
    Disguised,
    /// A redirect to itself.
    Circle,
    /// A redirect to another address.
    Redirect(&'static str),
    /// Bytes that are no JSON, in place of JSON.
    Garbage,
    /// A status without a body.
    Status(u16),
    /// Too many requests: another one may come after this long, in seconds.
    Busy(u32),
}

/// See [`Reply::Together`].
pub const TOGETHER: usize = 4;

/// A hub that sends the next reply to each request (the last one repeatedly), and its log of
/// requests.
pub struct FakeHub {
    pub hub: Hub,
    requests: Arc<Mutex<Vec<String>>>,
}

/// An address at which nothing listens.
pub fn unreachable() -> Hub {
    Hub {
        retry_delay: Duration::from_millis(1),
        ..Hub::at("http://127.0.0.1:1")
    }
}

impl FakeHub {
    /// A hub with one file at every address.
    pub fn new(file: Vec<u8>, replies: &'static [Reply]) -> Self {
        let file = Arc::new(file);
        Self::start(move |_| Some(file.clone()), replies)
    }

    /// A hub with these bodies by path, without the query; the others are missing.
    pub fn with(bodies: HashMap<String, Vec<u8>>, replies: &'static [Reply]) -> Self {
        let shared = bodies.into_iter().map(|(path, body)| (path, Arc::new(body)));
        let bodies: HashMap<String, Arc<Vec<u8>>> = shared.collect();
        Self::start(move |path| bodies.get(path).cloned(), replies)
    }

    fn start(body: impl Fn(&str) -> Option<Arc<Vec<u8>>> + Send + 'static, replies: &'static [Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let together = Arc::new(Barrier::new(TOGETHER));
        // The threads end with the process.
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let request = read(&stream);
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                let (range, version) = (range(&request), if_range(&request));
                seen.lock().unwrap().push(request);
                let (reply, file) = match body(path.split('?').next().unwrap_or_default()) {
                    Some(file) => (replies[number.min(replies.len() - 1)], file),
                    None => (Reply::Status(404), Arc::default()),
                };
                let together = together.clone();
                // The client may disconnect early.
                thread::spawn(move || {
                    drop(answer(
                        stream,
                        &file,
                        range,
                        reply,
                        &path,
                        &together,
                        version.as_deref(),
                    ))
                });
            }
        });
        Self {
            hub: Hub {
                token: Some("secret".into()),
                retry_delay: Duration::from_millis(1),
                ollama: endpoint.clone(),
                ..Hub::at(&endpoint)
            },
            requests,
        }
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> String {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    while !request.ends_with("\r\n\r\n") && lines.read_line(&mut request).is_ok_and(|count| count > 0) {}
    request
}

/// The first and the last requested byte.
fn range(request: &str) -> Option<(usize, Option<usize>)> {
    let lower = request.to_lowercase();
    let range = lower.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (from, to) = range.split_once('-')?;
    Some((from.parse().ok()?, to.trim().parse().ok()))
}

/// The version that the range must be of.
fn if_range(request: &str) -> Option<String> {
    let mut headers = request.lines().filter_map(|line| line.split_once(": "));
    let actual = headers.find(|(name, _)| name.eq_ignore_ascii_case("if-range"));
    actual.map(|(_, version)| version.trim().to_owned())
}

fn answer(
    stream: TcpStream,
    file: &[u8],
    range: Option<(usize, Option<usize>)>,
    reply: Reply,
    path: &str,
    together: &Barrier,
    version: Option<&str>,
) -> std::io::Result<()> {
    if let (Reply::Versioned(header, bytes), Some(version)) = (reply, version)
        && header.split_once(": ").is_none_or(|(_, own)| own != version)
    {
        let head = format!(
            "{header}\r\nDate: Sat, 28 Nov 2026 10:00:00 GMT\r\nContent-Length: {}",
            file.len()
        );
        write!(&stream, "HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n")?;
        return (&stream).write_all(&file[..bytes.min(file.len())]);
    }
    let from = range.map_or(0, |(from, _)| from.min(file.len()));
    let to = range
        .and_then(|(_, to)| to)
        .map_or(file.len(), |to| (to + 1).min(file.len()));
    let part = &file[from..to.max(from)];
    let send = |status: &str, headers: &str, body: &[u8], sent: usize| {
        write!(
            &stream,
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        (&stream).write_all(&body[..sent])
    };
    let tagged = |body: &[u8], sent: usize, from: usize, total: usize, etag: &str| match range {
        Some(_) => {
            let last = (from + part.len()).min(file.len()).saturating_sub(1);
            let headers = format!("{etag}Content-Range: bytes {from}-{last}/{total}\r\n");
            send("206 Partial Content", &headers, body, sent)
        }
        None => send("200 OK", etag, body, sent),
    };
    let ranged = |body: &[u8], sent: usize, from: usize| tagged(body, sent, from, file.len(), "");
    match reply {
        Reply::Good => ranged(part, part.len(), from),
        Reply::Tagged(etag) => tagged(part, part.len(), from, file.len(), &format!("ETag: {etag}\r\n")),
        Reply::Versioned(header, bytes) => {
            let headers = format!("{header}\r\nDate: Sat, 28 Nov 2026 10:00:00 GMT\r\n");
            tagged(part, bytes.min(part.len()), from, file.len(), &headers)
        }
        Reply::Broken(bytes) => ranged(part, bytes.min(part.len()), from),
        Reply::Stalled(bytes) => {
            ranged(part, bytes.min(part.len()), from)?;
            loop {
                thread::park();
            }
        }
        Reply::Dribble => {
            ranged(part, 0, from)?;
            for byte in part {
                (&stream).write_all(&[*byte])?;
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        Reply::Together => {
            ranged(part, part.len() / 2, from)?;
            together.wait();
            (&stream).write_all(&part[part.len() / 2..])
        }
        Reply::LongRange => ranged(&[part, b"more"].concat(), part.len() + 4, from),
        Reply::OtherTotal => tagged(part, part.len(), from, file.len() + 1, ""),
        Reply::Other => ranged(&vec![7; part.len()], part.len(), from),
        Reply::OtherRange => ranged(part, part.len(), from + 1),
        Reply::NoRanges => send("200 OK", "", file, file.len()),
        Reply::NoRange => send("416 Range Not Satisfiable", "", b"", 0),
        Reply::Long => {
            let long = [file, b"more"].concat();
            send("200 OK", "", &long, long.len())
        }
        Reply::LongUnsized => {
            (&stream).write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            (&stream).write_all(&[file, b"more"].concat())
        }
        Reply::Portal => {
            let page = b"<!doctype html><title>Welcome to the hotel</title>";
            send("200 OK", "Content-Type: text/html; charset=utf-8\r\n", page, page.len())
        }
        Reply::Disguised => {
            let mut page = b"<!doctype html><title>Welcome to the hotel</title>".to_vec();
            page.resize(file.len(), b' ');
            tagged(&page[from..to.max(from)], to.saturating_sub(from), from, file.len(), "")
        }
        Reply::Garbage => send("200 OK", "", b"[{", 2),
        Reply::Circle => send("302 Found", &format!("Location: {path}\r\n"), b"", 0),
        Reply::Redirect(to) => send("302 Found", &format!("Location: {to}\r\n"), b"", 0),
        Reply::Status(code) => send(&format!("{code} No"), "", b"", 0),
        Reply::Busy(seconds) => send("429 Too Many Requests", &format!("Retry-After: {seconds}\r\n"), b"", 0),
    }
}

/// The bodies of a repository with these files: its description, and the files themselves.
pub fn repository(id: &str, files: &[(&str, Vec<u8>)]) -> HashMap<String, Vec<u8>> {
    tagged_repository(id, &["gguf", "license:mit"], files)
}

/// The same with these tags.
pub fn tagged_repository(id: &str, tags: &[&str], files: &[(&str, Vec<u8>)]) -> HashMap<String, Vec<u8>> {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let siblings: Vec<String> = files
        .iter()
        .map(|(name, bytes)| {
            let hash = hex(Sha256::digest(bytes));
            let size = bytes.len();
            // The hub publishes hashes of large files only.
            if name.ends_with(".json") {
                return format!(r#"{{"rfilename": "{name}", "size": {size}, "blobId": "b6"}}"#);
            }
            // Xet repositories keep the same fields beside their own.
            format!(
                r#"{{"rfilename": "{name}", "size": {size}, "blobId": "b6", "xetHash": "x",
                "lfs": {{"sha256": "{hash}", "size": {size}, "pointerSize": 135}}}}"#
            )
        })
        .collect();
    let description = format!(
        r#"{{"_id": "66", "id": "{id}", "sha": "{commit}", "gated": false, "tags": {},
        "siblings": [{}]}}"#,
        serde_json::to_string(tags).unwrap(),
        siblings.join(",")
    );
    let mut bodies = HashMap::from([(format!("/api/models/{id}/revision/main"), description.into_bytes())]);
    for (name, bytes) in files {
        bodies.insert(format!("/{id}/resolve/{commit}/{name}"), bytes.clone());
    }
    bodies
}
