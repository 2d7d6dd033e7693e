//! The inputs of a target: its seeds, and the corpus in `fuzz/corpus`.

use crate::{Seed, Target};
use std::path::PathBuf;
use std::{fs, io};

/// The files of a target's corpus, sorted by name.
///
/// # Errors
/// The folder or one of its files cannot be read.
pub fn corpus(target: &Target) -> io::Result<Vec<Seed>> {
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

/// Writes seeds and corpus files into a folder, as the initial inputs of a fuzzer.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(target: &Target, folder: &std::path::Path) -> io::Result<()> {
    for (number, seed) in (target.seeds)().into_iter().chain(corpus(target)?).enumerate() {
        fs::write(folder.join(format!("{number:04}")), seed.bytes)?;
    }
    Ok(())
}
