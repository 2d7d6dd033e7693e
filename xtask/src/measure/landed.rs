//! Executables of earlier commits, saved in the cache folder for `cargo xtask pairs`: in `landed`
//! for the last commits that passed CI on this machine, in `built` for the commits that `--base`
//! named. The latter are built in the work tree `base`.

use crate::cargo::{PROGRAMS, cargo_in};
use crate::process::{Outcome, read, run};
use crate::{cache, checkout, paths};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Maximum number of executables kept in each folder.
const MAX_KEPT: usize = 3;

/// A folder of the cache. Kept executables are in `COMMIT/hearth`.
fn folder(name: &str) -> Outcome<PathBuf> {
    let cache = cache::folder().ok_or("This system names no cache folder.")?;
    Ok(cache.join(name))
}

fn executable(folder: &Path) -> PathBuf {
    folder.join("hearth").with_extension(env::consts::EXE_EXTENSION)
}

/// Keeps the build of a commit that passed CI, and removes the oldest beyond [`MAX_KEPT`].
///
/// # Errors
/// If it cannot be copied.
pub fn keep(commit: &str, program: &Path) -> Outcome {
    keep_in(&folder("landed")?, commit, program).map(drop)
}

fn keep_in(folder: &Path, commit: &str, program: &Path) -> Outcome<PathBuf> {
    let commit_folder = folder.join(commit);
    let failed = |error: std::io::Error| format!("{} could not be written ({error}).", commit_folder.display());
    fs::create_dir_all(&commit_folder).map_err(failed)?;
    let (executable_path, part) = (executable(&commit_folder), commit_folder.join("part"));
    // An interrupted copy must not pass for the executable. Some systems copy the time as well.
    fs::copy(program, &part).map_err(failed)?;
    let file = fs::File::options().write(true).open(&part);
    file.and_then(|file| file.set_modified(SystemTime::now()))
        .map_err(failed)?;
    fs::rename(&part, &executable_path).map_err(failed)?;
    for old in newest_first(folder).into_iter().skip(MAX_KEPT) {
        // A folder that cannot be removed only takes space.
        let _ = fs::remove_dir_all(old);
    }
    Ok(executable_path)
}

/// Folders of kept executables, the newest first.
fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let dated = entries.filter_map(|entry| {
        let file = fs::metadata(executable(&entry.path())).ok()?;
        Some((file.modified().ok()?, entry.path()))
    });
    let mut dated: Vec<_> = dated.collect();
    dated.sort();
    dated.into_iter().rev().map(|(_, path)| path).collect()
}

/// The executable of the last commit that passed CI and is not the unchanged checkout.
///
/// # Errors
/// If there is none.
pub fn last() -> Outcome<PathBuf> {
    let head = commit("HEAD")?;
    let changes = read(git(&paths::root()).args(["status", "--porcelain"])).unwrap_or_default();
    let is_checkout =
        |folder: &PathBuf| changes.is_empty() && folder.file_name().is_some_and(|name| name == head.as_str());
    let mut kept = newest_first(&folder("landed")?).into_iter();
    let newest = kept.find(|folder| !is_checkout(folder));
    newest.map(|folder| executable(&folder)).ok_or_else(|| {
        "No other commit has passed CI on this machine: name two executables, or a commit with --base COMMIT.".into()
    })
}

/// The executable of a commit: a saved one, or built in a separate work tree.
///
/// # Errors
/// If there is no such commit, or it cannot be built.
pub fn of_commit(name: &str) -> Outcome<PathBuf> {
    let (commit, built) = (commit(name)?, folder("built")?);
    for folder in [folder("landed")?, built.clone()] {
        let kept = executable(&folder.join(&commit));
        if kept.is_file() {
            return Ok(kept);
        }
    }
    let tree = folder("base")?;
    if tree.exists() {
        // It may be of another clone.
        fs::remove_dir_all(&tree).map_err(|error| format!("{} could not be removed ({error}).", tree.display()))?;
    }
    // Programs are built in the shared folder, so a new tree costs little.
    let mut add = git(&paths::root());
    add.args(["worktree", "add", "--quiet", "--force", "--detach"]);
    run(
        &format!("Checking {name} out in {}", tree.display()),
        add.arg(&tree).arg(&commit),
    )?;
    checkout::share_build_folder(&tree)?;
    let target = tree.join("target");
    build(&tree, name, Some(&target))?;
    keep_in(&built, &commit, &executable(&target.join("release")))
}

/// Builds the executable of this checkout.
///
/// # Errors
/// If it cannot be built.
pub fn of_checkout() -> Outcome<PathBuf> {
    build(&paths::root(), "this checkout", None)?;
    Ok(paths::executable("hearth"))
}

fn build(tree: &Path, name: &str, target: Option<&Path>) -> Outcome {
    let mut cargo = cargo_in(tree, &["build", "--bin", "hearth"]);
    cargo.args(PROGRAMS.iter().filter(|word| !["--lib", "--bins"].contains(word)));
    if let Some(target) = target {
        cargo.env("CARGO_TARGET_DIR", target);
    }
    run(&format!("Building hearth of {name}"), &mut cargo)
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder);
    git
}

fn commit(name: &str) -> Outcome<String> {
    let revision = format!("{name}^{{commit}}");
    read(git(&paths::root()).args(["rev-parse", "--verify", "--quiet", &revision]))
        .ok_or_else(|| format!("There is no commit {name} here. A shallow clone gets it by `git fetch --unshallow`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_executables_are_kept() {
        let folder = env::temp_dir().join(format!("hearth-landed-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join("program");
        for number in 0..5 {
            fs::write(&program, format!("build {number}")).expect("a file");
            keep_in(&folder, &format!("commit{number}"), &program).expect("a copy");
            // Times of files have a resolution.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let kept = newest_first(&folder);
        let names: Vec<_> = kept.iter().filter_map(|folder| folder.file_name()?.to_str()).collect();
        assert_eq!(names, ["commit4", "commit3", "commit2"]);
        assert_eq!(fs::read_to_string(executable(&kept[0])).expect("a file"), "build 4");
        fs::remove_dir_all(folder).expect("the folder of the test");
    }
}
