//! A model from a hub.

use super::pace::Pace;
use crate::table;
use hearth_app::library::{self, Hub, Progress, catalog::Entry, hub::Ranges};
use hearth_formats::hex;
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

/// Bytes of a part of [`body`]: of the part that has arrived already, and of each range.
const PART: usize = 100_000;
/// Bytes that the server sends at a time.
const PIECE: usize = PART / 2;
/// Ranges at a time.
const PARALLEL: usize = 4;

/// The file's contents: eight parts.
fn body() -> Vec<u8> {
    (0..200_000_u32)
        .flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

fn target(folder: &Path) -> PathBuf {
    folder.join("work/models/model.gguf")
}

/// A partial download exists.
pub fn prepare(folder: &Path) {
    let partial = target(folder).with_file_name("model.gguf.partial");
    fs::create_dir_all(partial.parent().expect("a folder")).expect("it is made");
    fs::write(partial, &body()[..PART]).expect("it is written");
}

pub fn download(folder: &Path) -> Result<(), String> {
    download_as(folder, Ranges::default(), Pace::new(1, 1))
}

pub fn download_in_ranges(folder: &Path) -> Result<(), String> {
    let ranges = Ranges {
        min_file_size: 0,
        size: PART as u64,
        parallel: PARALLEL,
    };
    download_as(folder, ranges, Pace::new(body().len() / PART - 1, PARALLEL))
}

fn download_as(folder: &Path, ranges: Ranges, pace: Pace) -> Result<(), String> {
    let body = body();
    let sha256 = hex(Sha256::digest(&body));
    let entry = Entry {
        id: "model".into(),
        name: "A model".into(),
        license: String::new(),
        repository: "owner/name".into(),
        revision: "main".into(),
        file: "model.gguf".into(),
        size: body.len() as u64,
        sha256: Some(sha256),
        system_prompt: None,
        sampling: None,
        titles: true,
        first_run: true,
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hub = Hub {
        retry_delay: Duration::ZERO,
        ranges,
        ..Hub::at(&format!("http://{}", listener.local_addr().expect("an address")))
    };
    // A second try requests what the first one left.
    let pace = table::is_child().then(|| Arc::new(pace));
    let seen = pace.clone();
    // The threads end with the process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (body, pace) = (body.clone(), pace.clone());
            thread::spawn(move || answer(stream, &body, pace.as_deref()));
        }
    });
    let target = target(folder);
    let whole = library::download(
        &hub,
        &entry.remote(&hub).expect("a hash"),
        target.parent().expect("a folder"),
        &mut |progress| {
            if let (Some(pace), Progress::Loading { done, .. }) = (&seen, progress) {
                pace.written(done);
            }
            ControlFlow::Continue(())
        },
    );
    whole.map(drop).map_err(|error| error.to_string())
}

/// Responds to a request with its range.
fn answer(mut stream: TcpStream, body: &[u8], pace: Option<&Pace>) {
    let lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let range = head.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (from, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, last.parse().unwrap_or(body.len() - 1)))
    });
    let (status, from, last) = match range {
        Some((from, last)) => ("206 Partial Content", from, last),
        None => ("200 OK", 0, body.len() - 1),
    };
    let part: &[u8] = &body[from..=last];
    let range = range.map_or_else(String::new, |_| {
        format!("content-range: bytes {from}-{last}/{}\r\n", body.len())
    });
    let head = format!(
        "HTTP/1.1 {status}\r\n{range}content-length: {}\r\nconnection: close\r\n\r\n",
        part.len()
    );
    // The client may have ended the connection.
    let mut sent = stream.write_all(head.as_bytes());
    let mut at = from;
    for piece in part.chunks(PIECE) {
        if let Some(pace) = pace {
            pace.wait(from, piece.len(), at + piece.len() > last);
        }
        at += piece.len();
        sent = sent.and_then(|()| stream.write_all(piece));
    }
}

pub fn check(folder: &Path, done: bool) {
    let target = target(folder);
    assert!(target.exists() || !done);
    if target.exists() {
        assert!(
            fs::read(&target).expect("a file") == body(),
            "a file in place is complete"
        );
    }
    if done {
        let names = fs::read_dir(target.parent().expect("a folder")).expect("it is read");
        let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
        assert!(
            names.iter().all(|name| !name.to_string_lossy().contains("partial")),
            "{names:?}"
        );
    }
}
