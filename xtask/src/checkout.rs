//! The settings of this checkout for cargo: one build folder for all checkouts on a machine.
//!
//! `.cargo/config.toml` includes `.cargo/checkout.toml`, which this module writes and git ignores.
//! It names the build folder, where cargo keeps everything but finished programs, and the compiler
//! wrapper `.cargo/rustc`, whose path keeps the files of two checkouts apart. The wrapper is a link
//! to `env`, which runs its arguments; a script of `sh` would drop variables such as
//! `CARGO_BIN_EXE_fake-worker`. Finished programs are in the checkout's own `target`. See
//! `docs/decisions/0027-shared-build-folder.md`.

use crate::cache;
use crate::process::Outcome;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Variables with which a user chooses cargo's folders; if one is set, nothing is shared.
const FOLDER_VARIABLES: [&str; 3] = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// Makes a checkout share the build folder, unless the system cannot or the user has chosen
/// another.
///
/// # Errors
/// If the settings cannot be written.
pub fn share_build_folder(checkout: &Path) -> Outcome {
    let cargo = checkout.join(".cargo");
    let file = cargo.join("checkout.toml");
    let is_chosen = FOLDER_VARIABLES.iter().any(|name| env::var_os(name).is_some());
    // Without the wrapper (Windows, or a copy without links), checkouts must not share a folder.
    let has_wrapper = cfg!(unix) && cargo.join("rustc").read_link().is_ok();
    let Some(folder) = cache::folder().filter(|_| has_wrapper && !is_chosen) else {
        // If it stayed, cargo would still build in the shared folder.
        return match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("{} could not be removed ({error}).", file.display()))
            }
            _ => Ok(()),
        };
    };
    let text = settings(&folder.join("build"));
    if fs::read_to_string(&file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(&file, text).map_err(|error| format!("{} could not be written ({error}).", file.display()))
}

/// The text of the settings.
fn settings(folder: &Path) -> String {
    // A JSON string is a TOML string.
    let folder = serde_json::Value::from(folder.to_string_lossy()).to_string();
    format!(
        "# Written by each `cargo xtask`. To build in another folder, set CARGO_TARGET_DIR.\n\
         [build]\nbuild-dir = {folder}\nrustc-workspace-wrapper = \".cargo/rustc\"\n"
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cargo::cargo;
    use crate::paths;
    use std::fs::File;
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    /// A checkout of a small workspace, which builds in `build`. Its files are `age` old.
    fn checkout(folder: &Path, says: &str, build: &Path, age: Duration) {
        let files = [
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"library\", \"program\"]\nresolver = \"3\"\n".to_owned(),
            ),
            ("Cargo.lock", LOCK.to_owned()),
            ("library/Cargo.toml", manifest("library", "")),
            (
                "library/src/lib.rs",
                format!("pub fn says() -> &'static str {{ \"{says}\" }}\n"),
            ),
            (
                "program/Cargo.toml",
                manifest("program", "library = { path = \"../library\" }\n"),
            ),
            (
                "program/src/main.rs",
                "fn main() { println!(\"{}\", library::says()); }\n".to_owned(),
            ),
            (".cargo/config.toml", settings(build)),
        ];
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, text).expect("a file");
            let file = File::options().write(true).open(&path).expect("a file");
            file.set_modified(SystemTime::now() - age).expect("a time");
        }
        let wrapper = paths::root().join(".cargo").join("rustc");
        let program = fs::read_link(wrapper).expect("a link");
        std::os::unix::fs::symlink(program, folder.join(".cargo").join("rustc")).expect("the wrapper");
    }

    const LOCK: &str = "version = 4\n[[package]]\nname = \"library\"\nversion = \"0.0.0\"\n\
                        [[package]]\nname = \"program\"\nversion = \"0.0.0\"\ndependencies = [\"library\"]\n";

    fn manifest(name: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}")
    }

    /// Builds a checkout.
    fn build(folder: &Path) {
        let mut command = cargo(&["build", "--release", "--locked", "--offline"]);
        for name in FOLDER_VARIABLES {
            command.env_remove(name);
        }
        let output = command.current_dir(folder).output().expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The output of the program in a checkout's own target folder.
    fn says(folder: &Path) -> String {
        let output = Command::new(folder.join("target/release/program"))
            .output()
            .expect("the program");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn each_checkout_runs_its_own_program_regardless_of_age_and_build_order() {
        let folder = env::temp_dir().join(format!("hearth-checkouts-{}", std::process::id()));
        let path = |name: &str| -> PathBuf { folder.join(name) };
        checkout(&path("new"), "new", &path("build"), Duration::ZERO);
        checkout(&path("old"), "old", &path("build"), Duration::from_secs(86_400));
        build(&path("new"));
        build(&path("old"));
        assert_eq!(
            (says(&path("new")).as_str(), says(&path("old")).as_str()),
            ("new", "old")
        );
        build(&path("new"));
        assert_eq!(
            (says(&path("new")).as_str(), says(&path("old")).as_str()),
            ("new", "old")
        );
        let intermediate = path("new").join("target/release/deps");
        let files = fs::read_dir(&intermediate).map_or(0, Iterator::count);
        assert_eq!(files, 0, "{} is not shared", intermediate.display());
        fs::remove_dir_all(folder).expect("the folder of the test");
    }
}
