//! Which folder the data is in: the base folder, or the one that a file in the base folder names.
//!
//! The base folder is `HEARTH_DATA` or the system's folder for app data. The file is written by a
//! rename once the data is complete in its new folder, so that a start finds either all of the old
//! data or all of the new.

use crate::{
    store,
    wire::{Problem, ProblemCode},
};
use hearth_formats::durable;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The file, in the base folder.
pub(crate) const MOVED: &str = "hearth-moved.json";

/// The file in a data folder that names the folder in which the data was first.
pub(crate) const ORIGIN: &str = "hearth-origin.json";

/// Most bytes of either file.
const MAX_BYTES: u64 = 1 << 16;

/// Where the data is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The data folder, an absolute path.
    pub data: PathBuf,
    /// The folder that still has the data of before the last move.
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

/// Refuses a base folder whose data is not where it was moved to: Hearth would seem empty.
///
/// # Errors
/// The file is unreadable, or the folder that it names has no store.
pub(crate) fn check(base: &Path) -> Result<(), Problem> {
    let refuse = |what: String| Problem {
        code: ProblemCode::Store,
        message: format!(
            "{what} If that data is gone for good, remove the file {}: Hearth then uses {}.",
            base.join(MOVED).display(),
            base.display()
        ),
    };
    match read(base) {
        Ok(None) => Ok(()),
        Ok(Some(moved)) if moved.data.join(store::FILE).is_file() => Ok(()),
        Ok(Some(moved)) => Err(refuse(format!(
            "Hearth's data was moved to {}, which is not available. Connect the drive that holds it, then start Hearth again.",
            moved.data.display()
        ))),
        Err(error) => Err(refuse(format!(
            "The file that says where Hearth's data is cannot be read: {error}."
        ))),
    }
}

/// Where the data of a base folder was moved to. `None` means that it was not moved.
pub(super) fn read(base: &Path) -> io::Result<Option<Moved>> {
    let moved: Option<Moved> = read_file(&base.join(MOVED))?;
    match moved {
        Some(moved) if !moved.data.is_absolute() => Err(io::Error::other("its path is not absolute")),
        moved => Ok(moved),
    }
}

/// Says where the data is from now on. If that is the base folder and no former folder is left, the
/// file is removed.
pub(super) fn write(base: &Path, moved: &Moved) -> io::Result<()> {
    if moved.data == base && moved.former.is_none() {
        return durable::remove_file(&base.join(MOVED));
    }
    fs::create_dir_all(base)?;
    write_file(&base.join(MOVED), moved)
}

/// The folder in which the data of `data` was first, which ids of models depend on.
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
        let missing = check(&base).expect_err("no store there").message;
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
            let damaged = check(folder.path()).expect_err("damaged").message;
            assert!(damaged.contains("cannot be read"), "{damaged}");
        }
    }

    #[test]
    fn the_first_folder_is_remembered_over_several_moves() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second, third] = ["1", "2", "3"].map(|name| folder.path().join(name));
        for name in [&first, &second, &third] {
            fs::create_dir(name).expect("a folder");
        }
        write_origin(&first, &second).expect("written");
        write_origin(&second, &third).expect("written");
        assert_eq!(origin(&third), first);
    }
}
