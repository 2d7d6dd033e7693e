//! Opening and reading of regular files only.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Opens a regular file for reading. Refuses folders, pipes, sockets and devices without blocking
/// on them.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    // Opening some devices has side effects.
    require_regular(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Does not block if the path has become a pipe since.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    require_regular(&metadata)?;
    Ok((file, metadata))
}

fn require_regular(metadata: &Metadata) -> Result<()> {
    if metadata.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is a pipe, a socket or a device, not a file",
        ));
    }
    Ok(())
}

/// Reads a whole regular file of at most `max_bytes` bytes.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is larger.
pub fn read_regular(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    let too_large = || {
        Error::new(
            ErrorKind::FileTooLarge,
            format!("it is larger than {max_bytes} bytes, the limit for such files"),
        )
    };
    if metadata.len() > max_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow during the read.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        Err(too_large())
    } else {
        Ok(bytes)
    }
}

/// Fills `bytes` from offset `start` of a file. Neither uses nor changes the file's position.
///
/// # Errors
/// If reading fails or the file is too short.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

/// Fills `bytes` from offset `start` of a file. Changes the file's position.
///
/// # Errors
/// If reading fails or the file is too short.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_read(bytes, start) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes = &mut bytes[count..];
                start += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
