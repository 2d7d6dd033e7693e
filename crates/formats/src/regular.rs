//! Opens files, and nothing that only looks like one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Opens a regular file for reading. A folder, pipe, socket or device is refused, and none of them is waited for.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    // Before it is opened: opening alone has effects on some devices.
    refuse_others(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // It may have become a pipe meanwhile, whose writer would be waited for.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let about = file.metadata()?;
    refuse_others(&about)?;
    Ok((file, about))
}

fn refuse_others(about: &Metadata) -> Result<()> {
    if about.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !about.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is a pipe, a socket or a device, not a file",
        ));
    }
    Ok(())
}

/// Reads a whole regular file of at most `most` bytes.
pub(crate) fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, about) = open_regular(path)?;
    let too_large = || {
        Error::new(
            ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes, which no such file has"),
        )
    };
    if about.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// Fills `bytes` from byte `start` of a file. Does not move, and does not depend on, the file's position.
///
/// # Errors
/// Where reading fails, or the file ends before.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

/// Fills `bytes` from byte `start` of a file. Moves the file's position.
///
/// # Errors
/// Where reading fails, or the file ends before.
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
