//! CI's work tree, kept between runs in the cache folder and updated to each commit.
//!
//! `.ci/run` starts in a fresh clone, where every file is new, so cargo would compile every package
//! of the workspace. In a kept tree git rewrites only files that differ, and cargo, npm and Vite
//! rebuild what depends on them. Files that git ignores stay; a commit that changes which files are
//! ignored or how they are made therefore starts from an empty tree.

use crate::cargo::cargo_in;
use crate::lock;
use crate::paths;
use crate::process::{Outcome, capture, read, run, shown};
use crate::{cache, checkout};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that `.ci/run` sets where the home folder outlives the checkout.
const WANTED: &str = "HEARTH_KEPT_TREE";

/// Environment variable of the run inside the kept tree.
const INSIDE: &str = "HEARTH_INSIDE_KEPT_TREE";

/// Folders of files that say what git ignores, or how ignored files are made.
const MAKER_FOLDERS: [&str; 6] = [
    ".cargo/",
    ".ci/",
    "src-tauri/capabilities/",
    "ui/project.inlang/",
    "ui/scripts/",
    "xtask/",
];

/// Names of such files elsewhere.
const MAKER_FILES: [&str; 9] = [
    ".gitignore",
    "build.rs",
    "Cargo.lock",
    "Cargo.toml",
    "package-lock.json",
    "package.json",
    "svelte.config.js",
    "tauri.conf.json",
    "vite.config.ts",
];

/// Whether this run is inside CI's kept tree, which no other process writes.
pub fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// The folder of the kept tree, if this run should continue there.
pub fn wanted() -> Option<PathBuf> {
    let is_wanted = env::var_os(WANTED).is_some_and(|value| value == "1") && !is_inside();
    let folder = cache::folder().filter(|_| is_wanted)?;
    Some(folder.join("ci"))
}

/// Updates the kept tree to this checkout's commit and runs `cargo xtask test` there. The caller
/// holds the run lock.
///
/// # Errors
/// If the checkout has changes that are not committed, git fails, or the run fails.
pub fn run_in(tree: &Path, words: &[String]) -> Outcome {
    let mut status = Command::new("git");
    let changes = capture(
        "Reading the commit",
        status.args(["status", "--porcelain"]).current_dir(paths::root()),
    )?;
    if !changes.ok {
        return Err(format!(
            "{WANTED}=1 requires a git checkout: {}",
            changes.last_stderr_line()
        ));
    }
    if !changes.stdout.is_empty() {
        return Err(format!(
            "{WANTED}=1 tests a commit, but this checkout has other changes: commit them."
        ));
    }
    let empty = words.iter().any(|word| word == "--complete");
    // A run in the tree continues if the process that started it was killed: wait for it.
    let inside = lock::take_inside()?;
    update(&paths::root(), tree, empty)?;
    // Before xtask is built there, so that it is built once.
    checkout::share_build_folder(tree)?;
    drop(inside);
    let mut command = cargo_in(tree, &["xtask", "test"]);
    command
        .args(words)
        .env(INSIDE, "1")
        // If the user has set it, files of this checkout and of the tree would mix.
        .env_remove("CARGO_TARGET_DIR");
    let status = command
        .status()
        .map_err(|error| format!("`{}` could not be started ({error}).", shown(&command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "The run in {0} failed ({status}). Its report is in {0}/target/test-report.",
            tree.display()
        ))
    }
}

/// Updates `tree` to the commit of the checkout `from`. The tree is cloned again if `empty` is set,
/// if it is missing or broken, or if the way in which ignored files are made has changed.
fn update(from: &Path, tree: &Path, empty: bool) -> Outcome {
    let git = |folder: &Path| {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder);
        command
    };
    let commit = read(git(from).args(["rev-parse", "HEAD"])).ok_or("This is not a git checkout.")?;
    let is_fetched = tree.join(".git").is_dir()
        && read(git(tree).args(["fetch", "--quiet", "--no-tags"]).arg(from).arg("HEAD")).is_some();
    let changed = read(git(tree).args(["diff", "--name-only", "--no-renames", "HEAD", &commit])).filter(|_| is_fetched);
    let makers_changed = changed.as_deref().is_none_or(|paths| paths.lines().any(is_maker));
    if empty || makers_changed {
        println!("CI's work tree {} is made anew.", tree.display());
        if tree.exists() {
            fs::remove_dir_all(tree).map_err(|error| format!("{} could not be removed ({error}).", tree.display()))?;
        }
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--no-checkout"]).arg(from).arg(tree);
        run("Cloning into CI's work tree", &mut clone)?;
    }
    run(
        "Updating CI's work tree",
        git(tree).args(["checkout", "--quiet", "--force", "--detach", &commit]),
    )?;
    run(
        "Removing files that are not of this commit",
        git(tree).args(["clean", "-ffdq"]),
    )?;
    // The page's build compares times, which a deleted source does not change.
    let page = tree.join("ui").join("dist");
    let is_stale = changed.is_none_or(|paths| paths.lines().any(|path| path.starts_with("ui/")));
    if is_stale && page.exists() {
        fs::remove_dir_all(&page).map_err(|error| format!("{} could not be removed ({error}).", page.display()))
    } else {
        Ok(())
    }
}

/// Whether a changed file may change which files are ignored, or how they are made.
fn is_maker(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    MAKER_FOLDERS.iter().any(|folder| path.starts_with(folder)) || MAKER_FILES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an empty repository in a new folder.
    fn repository(folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        git(folder, &["init", "--quiet"]);
        git(folder, &["config", "user.email", "test@example.org"]);
        git(folder, &["config", "user.name", "Test"]);
    }

    fn git(folder: &Path, arguments: &[&str]) {
        let output = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(arguments)
            .output()
            .expect("git");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn commit(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file");
        }
        git(folder, &["add", "--all"]);
        git(folder, &["commit", "--quiet", "--message", "a change"]);
    }

    #[test]
    fn only_changed_files_are_rewritten_and_ignored_files_stay_until_makers_change() {
        let folder = env::temp_dir().join(format!("hearth-kept-{}", std::process::id()));
        let (from, tree) = (folder.join("from"), folder.join("tree"));
        repository(&from);
        commit(&from, &[(".gitignore", "built\n"), ("a", "1"), ("b", "1")]);
        update(&from, &tree, false).expect("a clone");
        let modified = |name: &str| {
            fs::metadata(tree.join(name))
                .and_then(|file| file.modified())
                .expect("a file")
        };
        fs::write(tree.join("built"), "of an earlier run").expect("a file");
        fs::write(tree.join("stray"), "of a killed run").expect("a file");
        let (a, b) = (modified("a"), modified("b"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        commit(&from, &[("b", "2")]);
        update(&from, &tree, false).expect("an update");
        assert_eq!(fs::read_to_string(tree.join("b")).expect("a file"), "2");
        assert!(modified("a") == a && modified("b") > b);
        assert!(tree.join("built").exists() && !tree.join("stray").exists());
        commit(&from, &[(".gitignore", "built\nother\n")]);
        update(&from, &tree, false).expect("an update");
        assert!(
            !tree.join("built").exists(),
            "an ignored file survived a change of .gitignore"
        );
        fs::write(tree.join("built"), "again").expect("a file");
        update(&from, &tree, true).expect("an update");
        assert!(!tree.join("built").exists(), "an ignored file survived a complete run");
        // A killed run may leave an incomplete tree.
        fs::remove_dir_all(tree.join(".git").join("objects")).expect("removed");
        update(&from, &tree, false).expect("an update");
        assert_eq!(fs::read_to_string(tree.join("b")).expect("a file"), "2");
        fs::remove_dir_all(folder).expect("the folder of the test");
    }

    #[test]
    fn makers_of_ignored_files_are_known() {
        for path in [
            "ui/.gitignore",
            "src-tauri/build.rs",
            "Cargo.lock",
            "xtask/src/ui.rs",
            "ui/package-lock.json",
        ] {
            assert!(is_maker(path), "{path}");
        }
        for path in ["crates/llm/src/lib.rs", "ui/src/App.svelte", "docs/build.md"] {
            assert!(!is_maker(path), "{path}");
        }
    }
}
