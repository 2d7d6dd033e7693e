//! GGUF headers with false or excessive sizes.

use crate::memory::{self, peak};
use crate::raw::Raw;
use hearth_formats::gguf::{GgufFile, GgufHeader, GgufWriter, Metadata, Value};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const GIB: u64 = 1 << 30;

/// Peak memory of the largest valid header: 128 MiB, twice that while a vector grows, and the
/// string offsets.
const MAX_HEADER_MEMORY: usize = 600 << 20;

/// Memory allowed for a header that is refused early.
const MAX_EARLY_MEMORY: usize = 1 << 20;

/// Creates a sparse file with this start and length.
fn sparse(folder: &Path, name: &str, raw: &Raw, len: u64) -> PathBuf {
    let path = folder.join(name);
    let mut file = File::create(&path).unwrap();
    file.write_all(&raw.0).unwrap();
    file.set_len(len).unwrap();
    path
}

/// A hostile header: description, start, file length, expected message, memory limit.
type Case = (&'static str, Raw, u64, &'static str, usize);

fn array_cases() -> Vec<Case> {
    vec![
        (
            "an array of 256 GiB",
            Raw::header(0, 1).array("a", 0, 256 * GIB),
            257 * GIB,
            "'a': more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "an array of numbers that would overflow",
            Raw::header(0, 1).array("a", 12, u64::MAX / 4),
            257 * GIB,
            "cut off",
            MAX_EARLY_MEMORY,
        ),
        (
            "an array of 2^34 empty strings",
            Raw::header(0, 1).array("a", 8, 1 << 34),
            257 * GIB,
            "'a': more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "an array of empty strings up to the limit",
            Raw::header(0, 3).array("a", 8, 15 << 20),
            257 * GIB,
            "invalid",
            MAX_HEADER_MEMORY,
        ),
        (
            "arrays that are together beyond the limit",
            Raw::header(0, 3).array("a", 0, 100 << 20),
            257 * GIB,
            "invalid",
            MAX_HEADER_MEMORY,
        ),
    ]
}

fn string_and_count_cases() -> Vec<Case> {
    let tensor = |name: u64| Raw::header(1, 0).u64(name);
    let one_dimension = |len: u64| {
        let table = Raw::header(1, 0).text("t").u32(1).u64(len).u32(24).u64(0);
        table.u64(0)
    };
    vec![
        (
            "a key of 1 GiB",
            Raw::header(0, 1).u64(GIB),
            2 * GIB,
            "a metadata key: more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "a text of 1 GiB",
            Raw::header(0, 1).text("general.name").u32(8).u64(GIB),
            2 * GIB,
            "'general.name': more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "a text of 1 GiB in an array",
            Raw::header(0, 1).array("a", 8, 1).u64(GIB),
            2 * GIB,
            "'a': more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "a tensor's name of 1 GiB",
            tensor(GIB),
            2 * GIB,
            "the name of tensor 1 of 1: more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "2^30 keys",
            Raw::header(0, GIB),
            257 * GIB,
            "its metadata keys: more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "2^20 keys",
            Raw::header(0, 1 << 20),
            GIB,
            "its metadata keys: more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "2^20 tensors",
            Raw::header(1 << 20, 0),
            GIB,
            "its tensor table: more than any known model has",
            MAX_EARLY_MEMORY,
        ),
        (
            "a tensor as long as the file",
            one_dimension(257 * GIB),
            257 * GIB,
            "beyond the end of the file",
            MAX_EARLY_MEMORY,
        ),
        (
            "arrays of arrays, 100,000 deep",
            (0..100_000).fold(Raw::header(0, 1).array("a", 9, 1), |raw, _| raw.u32(9).u64(1)),
            GIB,
            "array of arrays",
            MAX_EARLY_MEMORY,
        ),
    ]
}

#[test]
fn a_header_that_claims_more_than_any_model_is_refused_in_little_memory() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    for (name, raw, len, expected, max_bytes) in array_cases().into_iter().chain(string_and_count_cases()) {
        // Requires sparse files.
        #[cfg(unix)]
        {
            let path = sparse(folder.path(), "hostile.gguf", &raw, len);
            let (result, bytes) = peak(|| GgufFile::open(&path));
            let error = result.map(drop).expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert!(bytes < max_bytes, "{name}: took {bytes} bytes");
        }
        let from_stream = || GgufHeader::from_reader(raw.0.as_slice().chain(std::io::repeat(0)), len);
        let (result, bytes) = peak(from_stream);
        let error = result.map(drop).expect_err(name).to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(bytes < max_bytes, "{name}: took {bytes} bytes");
    }
}

/// A file may be truncated after its length was queried.
#[test]
fn a_file_truncated_while_its_header_is_read_is_an_error() {
    let _alone = memory::alone();
    let mut metadata: Metadata = [("general.architecture", "llama")].into_iter().collect();
    metadata.insert("a.numbers", (0..50_000u32).collect::<Vec<_>>());
    let texts: hearth_formats::gguf::Strings = (0..20_000).map(|n| format!("text {n}")).collect();
    metadata.insert("a.texts", texts);
    metadata.insert("a.long", "x".repeat(100_000));
    let whole = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
    let read = |len: usize| GgufHeader::from_reader(&whole[..len], whole.len() as u64);
    assert_eq!(read(whole.len()).unwrap().metadata().len(), 4);
    for len in (0..whole.len() - 64).step_by(997).chain([3, 4, 8, 23, 24]) {
        let error = read(len).expect_err("cut").to_string();
        let expected = if len < 4 {
            "not a GGUF file"
        } else {
            "the file is cut off"
        };
        assert!(error.contains(expected), "{len}: {error}");
    }
}

/// A reader that returns a few bytes at a time, like pipes and some network drives.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        if self.1 == 3 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let count = self.1.min(out.len()).min(self.0.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn short_reads_do_not_change_the_header() {
    let _alone = memory::alone();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let bytes = fs::read(fixture).unwrap();
    let expected = GgufHeader::from_reader(bytes.as_slice(), bytes.len() as u64).unwrap();
    let actual = GgufHeader::from_reader(Trickle(&bytes, 0), bytes.len() as u64).unwrap();
    assert!(expected.metadata().iter().eq(actual.metadata().iter()));
    assert!(expected.tensors().eq(actual.tensors()) && expected.tensors().len() > 0);
}

#[test]
fn non_regular_files_are_refused_without_blocking() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path, expected: &str| {
        let error = GgufFile::open(path).expect_err("no file").to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(folder.path(), "it is a folder");
    refused(&folder.path().join("missing.gguf"), "cannot be read");
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        let pipe = folder.path().join("pipe.gguf");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        // Opening a pipe without a writer would block.
        refused(&pipe, "it is a pipe, a socket or a device");
        let device = folder.path().join("device.gguf");
        symlink("/dev/zero", &device).unwrap();
        refused(&device, "it is a pipe, a socket or a device");
        let looping = folder.path().join("loop.gguf");
        symlink(&looping, &looping).unwrap();
        refused(&looping, "cannot be read");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket.gguf")).unwrap();
        refused(&folder.path().join("socket.gguf"), "it is a pipe, a socket or a device");
    }
}

#[test]
fn the_writer_enforces_the_readers_limits() {
    let _alone = memory::alone();
    let refused = |metadata: Metadata, expected: &str| {
        let error = GgufWriter::begin(Vec::new(), &metadata, &[])
            .expect_err("beyond the limits")
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    let single = |key: String, value: Value| [(key, value)].into_iter().collect();
    refused(single("k".repeat(65_536), Value::U8(0)), "the length of a metadata key");
    refused(single("a".to_owned(), Value::from("x".repeat((64 << 20) + 1))), "'a'");
    refused(
        (0..65_537).map(|n| (format!("k{n}"), n)).collect(),
        "the number of its metadata keys",
    );
    refused(single("a".to_owned(), Value::from(vec![0u8; 128 << 20])), "its header");
}
