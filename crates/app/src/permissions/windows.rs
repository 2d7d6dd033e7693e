//! Access control lists on Windows, set with `icacls`. Compiled everywhere, run on Windows only.
//! <https://learn.microsoft.com/windows-server/administration/windows-commands/icacls>

use hearth_protocol::hidden_command;
use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Grants full access to Local System, as a profile does. Accounts are given by identifier, because
/// their names depend on the language of Windows.
const SYSTEM: &str = "*S-1-5-18:(OI)(CI)F";

/// Grants full access to the administrators.
const ADMINISTRATORS: &str = "*S-1-5-32-544:(OI)(CI)F";

/// Sets an inheritable access control list for the user, the system and administrators on a folder
/// outside the user's profile. A folder within the profile inherits such a list already.
///
/// # Errors
/// The user's name is unknown, or `icacls` fails.
pub(super) fn restrict(folder: &Path) -> io::Result<()> {
    let profile = env::var_os("USERPROFILE").map(PathBuf::from);
    if profile.is_some_and(|profile| folder.starts_with(profile)) {
        return Ok(());
    }
    let user = user(env::var_os("USERDOMAIN"), env::var_os("USERNAME"))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the user's name is unknown"))?;
    let output = command(folder, user).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// `DOMAIN\NAME`, the form that `icacls` expects.
fn user(domain: Option<OsString>, name: Option<OsString>) -> Option<OsString> {
    let mut user = OsString::new();
    if let Some(domain) = domain {
        user.push(domain);
        user.push("\\");
    }
    user.push(name.filter(|name| !name.is_empty())?);
    Some(user)
}

/// The `icacls` command that replaces a folder's access control list.
fn command(folder: &Path, mut user: OsString) -> Command {
    user.push(":(OI)(CI)F");
    // With its full path, so that no other program of this name runs.
    let root = env::var_os("SystemRoot").unwrap_or_else(|| "C:\\Windows".into());
    let mut command = hidden_command(Path::new(&root).join("System32").join("icacls.exe"));
    command
        .arg(folder)
        .args(["/inheritance:r", "/grant:r"])
        .arg(user)
        .args([SYSTEM, ADMINISTRATORS])
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_with_the_domain() {
        let name = |text: &str| Some(OsString::from(text));
        assert_eq!(user(name("DESK"), name("ann")), name("DESK\\ann"));
        assert_eq!(user(None, name("ann")), name("ann"));
        assert_eq!(user(name("DESK"), None), None);
    }

    #[cfg(windows)]
    #[test]
    fn a_data_folder_outside_of_a_profile_is_for_its_user_alone() {
        // Temporary folders are within the profile.
        let root = env::var_os("SystemDrive").map(|drive| PathBuf::from(drive).join("\\"));
        let folder = tempfile::tempdir_in(root.unwrap()).unwrap();
        std::fs::write(folder.path().join("window.json"), "{}").unwrap();
        super::super::restrict_data_folder(folder.path()).unwrap();
        for path in [folder.path().to_owned(), folder.path().join("window.json")] {
            let output = Command::new("icacls").arg(&path).output().unwrap();
            let list = String::from_utf8_lossy(&output.stdout).into_owned();
            // One line per account with access.
            assert_eq!(list.matches(":(").count(), 3, "{list}");
            assert!(!list.contains("Users"), "{list}");
        }
    }
}
