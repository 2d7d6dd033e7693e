//! Permissions of the data folder and its files: only their user has access.

mod windows;

use crate::data_folder::is_hearth_entry;
use std::{fs, io, path::Path};

/// Creates the data folder if missing, and removes other users' permissions from it and its
/// contents. A folder with other entries than Hearth's keeps its permissions.
///
/// On Windows a folder inherits its parent's access control list, which within a user's profile
/// names the user, administrators and the system. Another folder gets such a list.
///
/// # Errors
/// The folder cannot be created or read.
pub fn restrict_data_folder(folder: &Path) -> io::Result<()> {
    create_private_folder(folder)?;
    let entries: Vec<_> = fs::read_dir(folder)?.flatten().collect();
    if !entries.iter().all(|entry| is_hearth_entry(&entry.file_name())) {
        tracing::info!(folder = %folder.display(), "the data folder has other entries, so its permissions stay");
        return Ok(());
    }
    let warn = |error: io::Error| {
        tracing::warn!(folder = %folder.display(), %error, "other users may be able to read Hearth's data");
    };
    if cfg!(windows) {
        windows::restrict(folder).unwrap_or_else(warn);
    }
    remove_permissions(folder, OTHERS).unwrap_or_else(warn);
    for entry in entries {
        remove_permissions_recursively(&entry.path()).unwrap_or_else(warn);
    }
    Ok(())
}

/// Creates a file if missing, accessible to its user only.
///
/// # Errors
/// It cannot be created.
pub fn create_private_file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    // Some file systems have no permissions.
    if let Err(error) = remove_permissions(path, OTHERS) {
        tracing::warn!(path = %path.display(), %error, "other users may be able to read a file");
    }
    Ok(())
}

/// Creates a folder and its missing parents, accessible to their user only. An existing folder
/// stays unchanged.
///
/// # Errors
/// It cannot be created.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns whether other users cannot add or replace files in a folder. Removes the group's write
/// permission first if the folder belongs to this user. A missing folder counts as closed.
pub fn is_closed_to_others(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // SAFETY: the call has no preconditions.
        let user = unsafe { libc::geteuid() };
        match fs::metadata(folder) {
            Ok(metadata) if metadata.uid() != user => false,
            // Other users may have written files to a world-writable folder already. A group often
            // contains only the user.
            Ok(metadata) if metadata.mode() & OTHERS_WRITE & !GROUP != 0 => false,
            Ok(metadata) => metadata.mode() & OTHERS_WRITE == 0 || remove_permissions(folder, OTHERS_WRITE).is_ok(),
            Err(_) => true,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        true
    }
}

/// Removes other users' permissions from a file, or a folder and its contents. Symbolic links and
/// files with hard links are skipped: their targets may not be Hearth's.
fn remove_permissions_recursively(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() || (metadata.is_file() && has_hard_links(&metadata)) {
        return Ok(());
    }
    // Before its contents, so that no other user can replace them meanwhile.
    remove_permissions(path, OTHERS)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            remove_permissions_recursively(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn has_hard_links(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_hard_links(_: &fs::Metadata) -> bool {
    false
}

/// All permissions of group and others.
const OTHERS: u32 = 0o077;
/// The write permissions of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// All permissions of the group.
const GROUP: u32 = 0o070;

/// Removes the permission bits `bits` of a file or folder.
#[cfg(unix)]
fn remove_permissions(path: &Path, bits: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & bits == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & !bits);
    fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn remove_permissions(_: &Path, _: u32) -> io::Result<()> {
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
    fn a_data_folder_and_its_contents_are_accessible_to_their_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new/data");
        restrict_data_folder(&new).unwrap();
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
        restrict_data_folder(&old).unwrap();
        for folder in [old.clone(), old.join("runs"), old.join("runs/3"), script] {
            assert_eq!(mode(&folder), 0o700, "{folder:?}");
        }
        assert_eq!((mode(&file), mode(&store)), (0o600, 0o600));
        assert_eq!(
            (mode(&outside), mode(&shared)),
            (0o664, 0o664),
            "link targets are skipped"
        );
    }

    #[test]
    fn a_folder_with_other_entries_keeps_its_permissions() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("runs")).unwrap();
        fs::write(home.path().join("hearth.db"), "").unwrap();
        fs::create_dir(home.path().join("models-of-others")).unwrap();
        for folder in [home.path().to_owned(), home.path().join("runs")] {
            set_mode(&folder, 0o755);
        }
        restrict_data_folder(home.path()).unwrap();
        assert_eq!((mode(home.path()), mode(&home.path().join("runs"))), (0o755, 0o755));
    }

    #[test]
    fn other_users_cannot_write_to_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        for (mode_bits, is_closed) in [
            (0o700, true),
            (0o755, true),
            (0o775, true),
            (0o757, false),
            (0o1777, false),
        ] {
            set_mode(folder.path(), mode_bits);
            assert_eq!(is_closed_to_others(folder.path()), is_closed, "{mode_bits:o}");
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
