//! The inputs of a target: its seeds, and what was found and is kept in `fuzz/corpus`.

use crate::{Seed, Target};
use std::path::PathBuf;
use std::{fs, io};

/// Files that were found once, in the order of their names.
///
/// # Errors
/// The folder or a file of it cannot be read.
pub fn kept(target: &Target) -> io::Result<Vec<Seed>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let read = |path: &PathBuf| {
        Ok(Seed {
            name: path.display().to_string(),
            bytes: fs::read(path)?,
        })
    };
    files.iter().map(read).collect()
}

/// Writes seeds and kept files into a folder, from which a fuzzer starts.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(target: &Target, folder: &std::path::Path) -> io::Result<()> {
    for (number, seed) in (target.seeds)().into_iter().chain(kept(target)?).enumerate() {
        fs::write(folder.join(format!("{number:04}")), seed.bytes)?;
    }
    Ok(())
}
