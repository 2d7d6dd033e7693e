//! Folders for their user alone.

use std::{fs, io, path::Path};

/// What Hearth puts into its data folder, by the beginnings of the names. A person may have put other things beside it.
const OWN: [&str; 7] = ["hearth", "models", "datasets", "runs", "kept", "cache", "window.json"];

/// Makes a data folder if it is not there, and lets nobody but its user read it or what Hearth has in it, whatever they were before.
///
/// On Windows a folder takes its access list from the one it is in: within a user's profile that names the user, administrators and the
/// system.
///
/// # Errors
/// The folder is not there and cannot be made.
pub fn data_folder(folder: &Path) -> io::Result<()> {
    make(folder)?;
    let all_is_told = |error: io::Error| {
        tracing::warn!(folder = %folder.display(), %error, "others on this machine may be able to read Hearth's data");
    };
    tighten(folder).unwrap_or_else(all_is_told);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if OWN
            .iter()
            .any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()))
        {
            tighten_all(&entry.path()).unwrap_or_else(all_is_told);
        }
    }
    Ok(())
}

/// Makes a file if it is not there, for its user alone.
///
/// # Errors
/// It cannot be made.
pub fn file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    tighten(path)
}

/// Makes a folder, and those that it is in, for their user alone. One that is there stays as it is.
///
/// # Errors
/// It cannot be made.
pub fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Whether somebody else could put files into a folder, or exchange those that are there: it is another user's, or the rights of others
/// allow it. One that is not there is nobody's.
pub fn is_open_to_others(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        const OTHERS_WRITE: u32 = 0o022;
        // SAFETY: it reads a number of the process.
        let user = unsafe { libc::geteuid() };
        fs::metadata(folder).is_ok_and(|it| it.mode() & OTHERS_WRITE != 0 || it.uid() != user)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        false
    }
}

/// Tightens a file, or a folder and all in it. Links are left alone: what they lead to need not be Hearth's.
fn tighten_all(path: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        return Ok(());
    }
    // First, so that nobody can exchange what is in it meanwhile.
    tighten(path)?;
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            tighten_all(&entry?.path())?;
        }
    }
    Ok(())
}

/// Takes all rights from everybody else.
#[cfg(unix)]
fn tighten(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS: u32 = 0o077;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & OTHERS == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & !OTHERS);
    fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_data_folder_and_what_hearth_has_in_it_are_for_their_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new/data");
        data_folder(&new).unwrap();
        assert_eq!((mode(&new), mode(new.parent().unwrap())), (0o700, 0o700));

        let old = folder.path().join("old");
        let file = old.join("runs/3/adapter.safetensors");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let (store, script, other) = (
            old.join("hearth.db-wal"),
            old.join("runs/run.sh"),
            old.join("photo.jpg"),
        );
        let outside = folder.path().join("outside");
        for file in [&file, &store, &script, &other, &outside] {
            fs::write(file, "text").unwrap();
            set_mode(file, 0o664);
        }
        set_mode(&script, 0o755);
        symlink(&outside, old.join("models")).unwrap();
        for folder in [old.clone(), old.join("runs"), old.join("runs/3")] {
            set_mode(&folder, 0o755);
        }
        data_folder(&old).unwrap();
        for folder in [old.clone(), old.join("runs"), old.join("runs/3"), script] {
            assert_eq!(mode(&folder), 0o700, "{folder:?}");
        }
        assert_eq!((mode(&file), mode(&store)), (0o600, 0o600));
        assert_eq!((mode(&other), mode(&outside)), (0o664, 0o664), "neither is Hearth's");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for (rights, open) in [(0o700, false), (0o755, false), (0o775, true), (0o757, true)] {
            set_mode(folder.path(), rights);
            assert_eq!(is_open_to_others(folder.path()), open, "{rights:o}");
        }
        assert!(!is_open_to_others(&folder.path().join("nothing")));
    }
}
