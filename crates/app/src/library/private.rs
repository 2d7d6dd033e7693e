//! Folders that only their user may read or write.

mod windows;

use std::{ffi::OsStr, fs, io, path::Path};

/// What Hearth puts into its data folder.
const OWN: [&str; 10] = [
    "models",
    "datasets",
    "runs",
    "kept",
    "cache",
    "window.json",
    "hearth-coming",
    // Of systems, in any folder.
    ".DS_Store",
    "desktop.ini",
    "lost+found",
];

fn is_own(name: &OsStr) -> bool {
    let is_store = |name: &str| name == "hearth.lock" || name == "hearth-backups" || name.starts_with("hearth.db");
    name.to_str()
        .is_some_and(|name| OWN.contains(&name) || is_store(name) || name.starts_with("hearth-set-aside-"))
}

/// Makes a data folder if it is not there, and takes the rights of other users to it and to what is in it, also where it existed before. A
/// folder that has other things in it than Hearth's keeps its rights.
///
/// On Windows a folder inherits the access list of its parent: within a user's profile that names the user, administrators and the system.
/// A folder elsewhere gets such a list of its own.
///
/// # Errors
/// The folder is not there and cannot be made.
pub fn data_folder(folder: &Path) -> io::Result<()> {
    make(folder)?;
    let entries: Vec<_> = fs::read_dir(folder)?.flatten().collect();
    if !entries.iter().all(|entry| is_own(&entry.file_name())) {
        tracing::info!(folder = %folder.display(), "the data folder has other things in it, and its rights stay as they are");
        return Ok(());
    }
    let told = |error: io::Error| {
        tracing::warn!(folder = %folder.display(), %error, "others on this machine may be able to read Hearth's data");
    };
    if cfg!(windows) {
        windows::restrict(folder).unwrap_or_else(told);
    }
    tighten(folder, OTHERS).unwrap_or_else(told);
    for entry in entries {
        tighten_all(&entry.path()).unwrap_or_else(told);
    }
    Ok(())
}

/// Makes a file if it is not there, for its user alone.
///
/// # Errors
/// It cannot be made.
pub fn file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    // Some file systems know no rights.
    if let Err(error) = tighten(path, OTHERS) {
        tracing::warn!(path = %path.display(), %error, "others on this machine may be able to read a file");
    }
    Ok(())
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

/// Whether other users cannot put files into a folder, or exchange those that are there. Takes the group's right to write, where the folder is
/// this user's. A folder that does not exist is closed.
pub fn is_closed_to_others(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // SAFETY: it reads a number of the process.
        let user = unsafe { libc::geteuid() };
        match fs::metadata(folder) {
            Ok(it) if it.uid() != user => false,
            // What any user could write to may hold what another put there. A group is often the user's own.
            Ok(it) if it.mode() & OTHERS_WRITE & !GROUP != 0 => false,
            Ok(it) => it.mode() & OTHERS_WRITE == 0 || tighten(folder, OTHERS_WRITE).is_ok(),
            Err(_) => true,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        true
    }
}

/// Tightens a file, or a folder and all in it. Links are left alone, also files with several names: what they lead to need not be Hearth's.
fn tighten_all(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() || (metadata.is_file() && has_other_names(&metadata)) {
        return Ok(());
    }
    // First, so that no other user can exchange what is in it meanwhile.
    tighten(path, OTHERS)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            tighten_all(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn has_other_names(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &fs::Metadata) -> bool {
    false
}

/// All rights of others, and their right to write.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const GROUP: u32 = 0o070;

/// Takes rights from other users.
#[cfg(unix)]
fn tighten(path: &Path, rights: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & rights == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & !rights);
    fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn tighten(_: &Path, _: u32) -> io::Result<()> {
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
        let (store, script) = (old.join("hearth.db-wal"), old.join("runs/run.sh"));
        let (outside, shared) = (folder.path().join("outside"), folder.path().join("shared.gguf"));
        for file in [&file, &store, &script, &outside, &shared] {
            fs::write(file, "text").unwrap();
            set_mode(file, 0o664);
        }
        set_mode(&script, 0o755);
        symlink(&outside, old.join("models")).unwrap();
        fs::hard_link(&shared, old.join("runs/base.gguf")).unwrap();
        for folder in [old.clone(), old.join("runs"), old.join("runs/3")] {
            set_mode(&folder, 0o755);
        }
        data_folder(&old).unwrap();
        for folder in [old.clone(), old.join("runs"), old.join("runs/3"), script] {
            assert_eq!(mode(&folder), 0o700, "{folder:?}");
        }
        assert_eq!((mode(&file), mode(&store)), (0o600, 0o600));
        assert_eq!(
            (mode(&outside), mode(&shared)),
            (0o664, 0o664),
            "neither is Hearth's alone"
        );
    }

    #[test]
    fn a_folder_with_other_things_in_it_keeps_its_rights() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("runs")).unwrap();
        fs::write(home.path().join("hearth.db"), "").unwrap();
        fs::create_dir(home.path().join("models-of-others")).unwrap();
        for folder in [home.path().to_owned(), home.path().join("runs")] {
            set_mode(&folder, 0o755);
        }
        data_folder(home.path()).unwrap();
        assert_eq!((mode(home.path()), mode(&home.path().join("runs"))), (0o755, 0o755));
    }

    #[test]
    fn others_are_kept_from_writing_to_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        for (rights, is_closed) in [
            (0o700, true),
            (0o755, true),
            (0o775, true),
            (0o757, false),
            (0o1777, false),
        ] {
            set_mode(folder.path(), rights);
            assert_eq!(is_closed_to_others(folder.path()), is_closed, "{rights:o}");
        }
        set_mode(folder.path(), 0o775);
        assert!(is_closed_to_others(folder.path()) && mode(folder.path()) == 0o755);
        assert!(is_closed_to_others(&folder.path().join("nothing")));
        // SAFETY: it reads a number of the process.
        if unsafe { libc::geteuid() } != 0 {
            assert!(!is_closed_to_others(Path::new("/")), "another user's");
        }
    }
}
