//! The files of this checkout, with their contents' hashes, as git sees them.

use crate::paths;
use crate::process::Outcome;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Number of commits that count as the change if there is no record of an earlier run.
const RECENT: usize = 20;

/// The tested files: tracked files with their present contents, and new ones that git does not
/// ignore.
#[derive(Debug, Default)]
pub struct Tree {
    /// Path and content hash of each file, sorted by path.
    pub files: Vec<(String, String)>,
    /// The commit that the files are based on.
    pub commit: String,
    /// Number of its ancestors.
    pub count: usize,
}

/// Runs git in the checkout.
fn git(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(paths::root());
    command
}

/// Output of git in the checkout.
///
/// # Errors
/// If git cannot be started or fails.
pub fn git_output(arguments: &[&str]) -> Outcome<String> {
    output(&mut git(arguments))
}

fn output(command: &mut Command) -> Outcome<String> {
    let shown = crate::process::shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{shown}` could not be started ({error})."))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "`{shown}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

impl Tree {
    /// Reads the checkout.
    ///
    /// # Errors
    /// If this is not a git checkout.
    pub fn read() -> Outcome<Self> {
        let commit = output(&mut git(&["rev-parse", "HEAD"]))?.trim().to_owned();
        let count = output(&mut git(&["rev-list", "--count", "HEAD"]))?
            .trim()
            .parse()
            .unwrap_or(0);
        // The changes are added to a copy of the index, and their objects to a temporary folder, so
        // that the repository does not change.
        let index = output(&mut git(&[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "index",
        ]))?;
        let folder = std::env::temp_dir().join(format!("hearth-index-{}", std::process::id()));
        let copy = folder.join("index");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::copy(index.trim(), &copy))
            .map_err(|error| format!("{}: {error}", copy.display()))?;
        let objects = output(&mut git(&[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "objects",
        ]))?;
        let on_copy = |arguments: &[&str]| {
            let mut command = git(arguments);
            command
                .env("GIT_INDEX_FILE", &copy)
                .env("GIT_OBJECT_DIRECTORY", &folder)
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.trim());
            output(&mut command)
        };
        let listed = on_copy(&["add", "--all"]).and_then(|_| on_copy(&["ls-files", "--stage", "-z"]));
        // Leaving a temporary folder behind is harmless.
        let _ = fs::remove_dir_all(&folder);
        Ok(Self {
            files: rows(&listed?, IN_INDEX),
            commit,
            count,
        })
    }

    /// Paths that differ from the commit `base`, both ways.
    ///
    /// # Errors
    /// If there is no such commit.
    pub fn changed_since(&self, base: &str) -> Outcome<Vec<String>> {
        let then = rows(&output(&mut git(&["ls-tree", "-r", "-z", base]))?, IN_TREE);
        Ok(differences(&then, &self.files))
    }

    /// Paths changed by recent commits and since the last one; all if there are fewer commits, as
    /// in a shallow clone.
    pub fn changed_recently(&self) -> Vec<String> {
        let changed = self.changed_since(&format!("{}~{RECENT}", self.commit));
        changed.unwrap_or_else(|_| self.files.iter().map(|(path, _)| path.clone()).collect())
    }

    /// A hash of `extra` and of the paths and contents of all files for which `includes` holds.
    ///
    /// # Errors
    /// If git cannot be run.
    pub fn hash(&self, extra: &str, includes: impl Fn(&str) -> bool) -> Outcome<String> {
        let mut child = git(&["hash-object", "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`git hash-object` could not be started ({error})."))?;
        let mut text = format!("{extra}\n");
        for (path, hash) in self.files.iter().filter(|(path, _)| includes(path)) {
            text += &format!("{hash} {path}\n");
        }
        let write_result = child.stdin.take().map(|mut pipe| pipe.write_all(text.as_bytes()));
        let output = child.wait_with_output();
        match (write_result, output) {
            (Some(Ok(())), Ok(output)) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            _ => Err("`git hash-object` failed.".to_owned()),
        }
    }
}

/// Index of the hash in a row of `git ls-files --stage` (`MODE HASH STAGE\tPATH`).
const IN_INDEX: usize = 1;

/// Index of the hash in a row of `git ls-tree` (`MODE TYPE HASH\tPATH`).
const IN_TREE: usize = 2;

/// Path and hash of each row of a listing, sorted by path. Rows end in NUL, and the mode is part of
/// the hash.
fn rows(listed: &str, hash_index: usize) -> Vec<(String, String)> {
    let row = |row: &str| {
        let (fields, path) = row.split_once('\t')?;
        let mode = fields.split_whitespace().next()?;
        let hash = fields.split_whitespace().nth(hash_index)?;
        Some((path.to_owned(), format!("{mode} {hash}")))
    };
    let mut rows: Vec<_> = listed.split('\0').filter_map(row).collect();
    rows.sort();
    rows
}

/// Paths that only one of two sorted lists has, or whose hashes differ.
fn differences(then: &[(String, String)], now: &[(String, String)]) -> Vec<String> {
    let only = |rows: &[(String, String)], others: &[(String, String)]| {
        let unmatched = rows.iter().filter(|row| others.binary_search(row).is_err());
        unmatched.map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    let mut paths = only(then, now);
    paths.extend(only(now, then));
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_and_a_commit_list_the_same_rows() {
        let index = rows("100644 aa 0\tb c.rs\x00100755 bb 0\ta.sh\x00", IN_INDEX);
        let commit = rows("100755 blob bb\ta.sh\x00100644 blob aa\tb c.rs\x00", IN_TREE);
        assert_eq!(index, commit);
        assert_eq!(index[1], ("b c.rs".to_owned(), "100644 aa".to_owned()));
    }

    #[test]
    fn added_removed_changed_files_and_modes_are_differences() {
        let rows = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
            rows.iter()
                .map(|&(path, hash)| (path.to_owned(), hash.to_owned()))
                .collect()
        };
        let then = rows(&[("changed", "1"), ("mode", "100644 1"), ("removed", "1"), ("same", "1")]);
        let now = rows(&[("added", "1"), ("changed", "2"), ("mode", "100755 1"), ("same", "1")]);
        assert_eq!(differences(&then, &now), ["added", "changed", "mode", "removed"]);
    }

    #[test]
    fn the_checkout_is_read_and_hashed() {
        let tree = Tree::read().expect("a checkout");
        assert!(tree.files.iter().any(|(path, _)| path == "xtask/src/main.rs"));
        let hash = |extra: &str, prefix: &str| tree.hash(extra, |path| path.starts_with(prefix)).expect("git");
        assert_eq!(hash("", "xtask"), hash("", "xtask"));
        assert_ne!(hash("", "xtask"), hash("", "crates"));
        assert_ne!(hash("", "xtask"), hash("another compiler", "xtask"));
    }
}
