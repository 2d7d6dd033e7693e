//! Paths as text, for the page.

use crate::{
    library,
    wire::{Problem, ProblemCode},
};
use hearth_protocol::DataReason;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A path as text.
///
/// # Errors
/// The path is not valid UTF-8 (or UTF-16 on Windows). A lossy text would name another file.
pub fn path_text(path: PathBuf) -> Result<String, Problem> {
    path.into_os_string().into_string().map_err(|path| {
        let path = path.display().to_string();
        Problem::new(ProblemCode::BadRequest, DataReason::PathNotText { path })
    })
}

/// Checks that a path is absolute, names no other machine, and exists.
///
/// # Errors
/// It does not. A path of another machine is refused before it is opened: Windows would send the
/// user's credentials.
pub fn check_local(path: &Path) -> Result<(), Problem> {
    let checked = if path.is_relative() || is_on_network(&path_text(path.to_owned())?) {
        Err(io::ErrorKind::InvalidInput.into())
    } else {
        fs::metadata(path).map(drop)
    };
    checked.map_err(|error| library::no_access(path, &error))
}

/// Whether a path names another machine or a device on Windows: `\\server\share`,
/// `\\?\UNC\server\share` or either with `/`, or `\??\UNC\server\share`.
pub(crate) fn is_on_network(path: &str) -> bool {
    if path.starts_with(r"\??\") {
        return true;
    }
    let mut characters = path.chars();
    let is_separator = |c: Option<char>| matches!(c, Some('/' | '\\'));
    is_separator(characters.next()) && is_separator(characters.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_valid_unicode_is_unchanged() {
        assert_eq!(path_text("/ä/ö.gguf".into()).as_deref(), Ok("/ä/ö.gguf"));
    }

    #[test]
    fn a_path_of_another_machine_is_recognized() {
        for path in [
            r"\\server\share\a",
            r"\\?\UNC\server\a",
            "//server/a",
            r"/\server/a",
            r"\\.\pipe\a",
            r"\??\UNC\server\a",
        ] {
            assert!(is_on_network(path), "{path}");
        }
        for path in ["", "/", "/home/a//b", r"C:\a", r"\a", "a//b"] {
            assert!(!is_on_network(path), "{path}");
        }
    }

    #[test]
    fn only_an_absolute_path_that_exists_is_local() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_local(folder.path()), Ok(()));
        let missing = folder.path().join("missing");
        // The last two exist on Linux.
        for path in [missing.as_path(), Path::new("."), Path::new("//")] {
            let problem = check_local(path).unwrap_err();
            assert_eq!(problem.code, ProblemCode::FileUnreadable, "{}", path.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_of_invalid_utf8_is_refused() {
        use std::{ffi::OsString, os::unix::ffi::OsStringExt};
        let path = OsString::from_vec(b"/models/a\xff.gguf".to_vec());
        let problem = path_text(path.into()).unwrap_err();
        assert!(
            problem.code == ProblemCode::BadRequest && problem.to_string().contains("Rename the file"),
            "{problem}"
        );
    }
}
