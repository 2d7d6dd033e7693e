//! Text files for messages: reading within a size limit, and decoding.

use crate::{
    App,
    wire::{MAX_FILE, Problem, ProblemCode, TextFile},
};
use hearth_protocol::DataReason;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

impl App {
    /// Reads a file for a message: UTF-8, or UTF-16 with a byte order mark.
    pub async fn read_text_file(&self, path: PathBuf) -> Result<TextFile, Problem> {
        self.shared.blocking(move |_| read(&path)).await
    }
}

fn read(path: &Path) -> Result<TextFile, Problem> {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let unreadable = |error: std::io::Error| {
        let (path, detail) = (path.display().to_string(), error.to_string());
        Problem::new(ProblemCode::FileUnreadable, DataReason::FileUnreadable { path, detail })
    };
    // Reading from a pipe or a device may never end.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return refuse(DataReason::TextNotAFile { name });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() > MAX_FILE {
        let limit_mib = (MAX_FILE >> 20) as u64;
        return refuse(DataReason::TextTooLarge { name, limit_mib });
    }
    match decode(&bytes) {
        Some(text) if text.len() <= MAX_FILE => Ok(TextFile { name, text }),
        _ => refuse(DataReason::TextBinary { name }),
    }
}

/// The text of a file. `None` if it is binary.
fn decode(bytes: &[u8]) -> Option<String> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, rest @ ..] => str::from_utf8(rest).ok()?.to_owned(),
        _ => str::from_utf8(bytes).ok()?.to_owned(),
    };
    (!text.contains('\0')).then_some(text)
}

/// Decodes UTF-16. `to_unit` determines the byte order.
fn utf16(bytes: &[u8], to_unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| to_unit(*pair)).collect();
    rest.is_empty().then(|| String::from_utf16(&units).ok())?
}

fn refuse<T>(reason: DataReason) -> Result<T, Problem> {
    Err(Problem::new(ProblemCode::DataInvalid, reason))
}

#[cfg(test)]
mod tests {
    use super::{decode, read};
    use crate::wire::MAX_FILE;

    #[test]
    fn utf8_and_utf16_are_decoded_and_binary_data_is_refused() {
        assert_eq!(decode("Grüße".as_bytes()).as_deref(), Some("Grüße"));
        assert_eq!(decode(b"\xef\xbb\xbfx").as_deref(), Some("x"));
        assert_eq!(decode(b"\xff\xfeA\0\x3d\xd8\x00\xde").as_deref(), Some("A\u{1f600}"));
        assert_eq!(decode(b"\xfe\xff\0A").as_deref(), Some("A"));
        assert_eq!(decode(b"\xff\xfeA\0\x3d\xd8"), None, "half a surrogate pair");
        assert_eq!(decode(b"\xff\xfeA"), None, "half a code unit");
        assert_eq!(decode(b"MZ\0\0"), None);
        assert_eq!(decode(b"\xe4"), None);
    }

    #[test]
    fn only_regular_files_up_to_the_size_limit_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "# A").expect("a file");
        let file = read(&path).expect("a text");
        assert_eq!((file.name.as_str(), file.text.as_str()), ("notes.md", "# A"));
        std::fs::write(&path, vec![b'a'; MAX_FILE + 1]).expect("a file");
        assert!(read(&path).expect_err("too large").to_string().contains("4 MiB"));
        assert!(
            read(folder.path())
                .expect_err("a folder")
                .to_string()
                .contains("not a file")
        );
        assert!(read(&folder.path().join("none")).is_err());
    }
}
