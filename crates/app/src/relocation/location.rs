//! The location of the data: the base folder, or the folder that a file in the base folder names.
//!
//! The base folder is `HEARTH_DATA` or the system's folder for app data. The file is replaced
//! atomically once the copy in the new folder is complete, so that a start uses either the complete
//! old data or the complete new data.

use crate::{
    store,
    wire::{Problem, ProblemCode},
};
use hearth_formats::durable;
use hearth_protocol::DataReason;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The file, in the base folder.
pub(crate) const MOVED: &str = "hearth-moved.json";

/// The file in a data folder that names the original data folder.
pub(crate) const ORIGIN: &str = "hearth-origin.json";

/// Most bytes of each file.
const MAX_BYTES: u64 = 1 << 16;

/// The content of [`MOVED`]: the location of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The data folder, an absolute path.
    pub data: PathBuf,
    /// The former data folder of the last move, which still has the old data.
    pub former: Option<PathBuf>,
}

/// Content of [`ORIGIN`].
#[derive(Serialize, Deserialize)]
struct Origin {
    folder: PathBuf,
}

/// The data folder of a base folder: that folder itself if nothing was moved, or if the file cannot
/// be read, which [`check`] reports.
pub(crate) fn data_of(base: PathBuf) -> PathBuf {
    match read(&base) {
        Ok(Some(moved)) => moved.data,
        Ok(None) | Err(_) => base,
    }
}

/// Checks that the data of a base folder is in the folder to which it was moved: without it, Hearth
/// would start empty.
///
/// # Errors
/// The file is unreadable, or the folder that it names has no store.
pub(crate) fn check(base: &Path) -> Result<(), Problem> {
    let (path, base_folder) = (base.join(MOVED).display().to_string(), base.display().to_string());
    let reason = match read(base) {
        Ok(None) => return Ok(()),
        Ok(Some(moved)) if moved.data.join(store::FILE).is_file() => return Ok(()),
        Ok(Some(moved)) => DataReason::MovedDataMissing {
            folder: moved.data.display().to_string(),
            path,
            base: base_folder,
        },
        Err(error) => DataReason::MovedDataUnknown {
            path,
            detail: error.to_string(),
            base: base_folder,
        },
    };
    Err(Problem::new(ProblemCode::Store, reason))
}

/// Reads the location to which the data of a base folder was moved. `None` means that it was not
/// moved.
pub(super) fn read(base: &Path) -> io::Result<Option<Moved>> {
    let moved: Option<Moved> = read_file(&base.join(MOVED))?;
    match moved {
        Some(moved) if !moved.data.is_absolute() => Err(io::Error::other("its path is not absolute")),
        moved => Ok(moved),
    }
}

/// Writes the location of the data. If it is the base folder and there is no former folder, the
/// file is removed.
pub(super) fn write(base: &Path, moved: &Moved) -> io::Result<()> {
    if moved.data == base && moved.former.is_none() {
        return durable::remove_file(&base.join(MOVED));
    }
    fs::create_dir_all(base)?;
    write_file(&base.join(MOVED), moved)
}

/// The original folder of the data in `data`. Ids of models depend on it.
pub(crate) fn origin(data: &Path) -> PathBuf {
    match read_file::<Origin>(&data.join(ORIGIN)) {
        Ok(Some(origin)) if origin.folder.is_absolute() => origin.folder,
        _ => data.to_owned(),
    }
}

/// Writes the origin of the data in `data` into `folder`.
pub(super) fn write_origin(data: &Path, folder: &Path) -> io::Result<()> {
    let origin = Origin { folder: origin(data) };
    write_file(&folder.join(ORIGIN), &origin)
}

fn write_file<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    durable::write_file(path, |out| {
        serde_json::to_writer(&mut *out, content)?;
        out.flush()
    })
}

fn read_file<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(Some(serde_json::from_slice(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_folder_leads_to_its_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let (base, data) = (folder.path().join("base"), folder.path().join("data"));
        assert_eq!(data_of(base.clone()), base);
        check(&base).expect("nothing was moved");
        let moved = Moved {
            data: data.clone(),
            former: Some(base.clone()),
        };
        write(&base, &moved).expect("written");
        assert_eq!(data_of(base.clone()), data);
        let missing = check(&base).expect_err("no store there").to_string();
        assert!(missing.contains("Connect the drive"), "{missing}");
        fs::create_dir_all(&data).expect("a folder");
        fs::write(data.join(store::FILE), "").expect("a file");
        check(&base).expect("it is there");
        let back = Moved {
            data: base.clone(),
            former: None,
        };
        write(&base, &back).expect("written");
        assert!(!base.join(MOVED).exists());
    }

    #[test]
    fn a_damaged_file_is_no_reason_to_start_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in ["", "{", "{\"data\": \"relative\", \"former\": null}", "[1]"] {
            fs::write(folder.path().join(MOVED), text).expect("a file");
            assert_eq!(data_of(folder.path().to_owned()), folder.path());
            let damaged = check(folder.path()).expect_err("damaged").to_string();
            assert!(damaged.contains("cannot be read"), "{damaged}");
        }
    }

    #[test]
    fn the_first_folder_is_remembered_over_several_moves() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second, third] = ["1", "2", "3"].map(|name| folder.path().join(name));
        for path in [&first, &second, &third] {
            fs::create_dir(path).expect("a folder");
        }
        write_origin(&first, &second).expect("written");
        write_origin(&second, &third).expect("written");
        assert_eq!(origin(&third), first);
    }
}
