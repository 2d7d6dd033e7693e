//! Finds test files that no executable compiles.
//!
//! The integration tests of a package are one executable, `tests/it/main.rs`, which names their
//! files. A file that it does not name is compiled into nothing, and its tests are lost without a
//! word.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Asserts that each Rust file in the folder `tests` of a package is part of one of its targets.
/// Called with `env!("CARGO_MANIFEST_DIR")` by a test of the package.
///
/// # Panics
/// If a file is part of none, or a file cannot be read.
pub fn assert_all_compiled(package: impl AsRef<Path>) {
    let left = left_out(package.as_ref());
    assert!(
        left.is_empty(),
        "named by no `mod` of an executable, so never compiled: {left:?}"
    );
}

/// The Rust files in `tests` that no target of the package reaches.
fn left_out(package: &Path) -> Vec<PathBuf> {
    let tests = package.join("tests");
    let mut files = BTreeSet::new();
    collect(&tests, &mut files);
    let manifest = read(&package.join("Cargo.toml"));
    let is_root = |file: &&PathBuf| {
        let beside = file.parent() == Some(&tests);
        let main = file.file_name().is_some_and(|name| name == "main.rs")
            && file.parent().and_then(Path::parent) == Some(&tests);
        let inside = file.strip_prefix(package).unwrap_or(file);
        let named = format!("\"{}\"", inside.to_string_lossy().replace('\\', "/"));
        beside || main || manifest.contains(&named)
    };
    let mut next: Vec<(PathBuf, bool)> = files.iter().filter(is_root).map(|file| (file.clone(), true)).collect();
    assert!(!next.is_empty(), "no tests in {}", tests.display());
    let mut reached = BTreeSet::new();
    while let Some((file, owns_folder)) = next.pop() {
        if reached.insert(file.clone()) {
            next.extend(modules(&file, owns_folder));
        }
    }
    files.difference(&reached).cloned().collect()
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(path);
        }
    }
}

/// The files of the modules that a file declares, and whether their submodules are next to them.
/// `owns_folder` says whether the submodules of the file itself are.
fn modules(file: &Path, owns_folder: bool) -> Vec<(PathBuf, bool)> {
    let beside = file.parent().expect("a file in a folder");
    let folder = if owns_folder {
        beside.to_owned()
    } else {
        file.with_extension("")
    };
    let mut modules = Vec::new();
    let mut path = None;
    for line in read(file).lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("#[path = \"") {
            path = named.strip_suffix("\"]");
            continue;
        }
        let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        let Some(name) = declared.and_then(|rest| rest.strip_suffix(';')) else {
            // Other attributes may stand between a path and its module.
            if !line.starts_with("#[") {
                path = None;
            }
            continue;
        };
        let candidates = match path.take() {
            // As rustc reads it, except in a module in braces, where no test here has one.
            Some(path) => vec![(beside.join(path), true)],
            None => vec![
                (folder.join(format!("{name}.rs")), false),
                (folder.join(name).join("mod.rs"), true),
            ],
        };
        let existing = candidates.into_iter().find(|(file, _)| file.exists());
        let (file, owns) = existing.unwrap_or_else(|| panic!("{}: no file of `mod {name}`", file.display()));
        modules.push((normal(&file), owns));
    }
    modules
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            component => normal.push(component),
        }
    }
    normal
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::left_out;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A package with these files, which is removed when it is dropped.
    struct Package(PathBuf);

    impl Package {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("hearth-test-parts-{}-{name}", std::process::id()));
            for (file, text) in files {
                let file = folder.join(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                fs::write(file, text).expect("a file");
            }
            Self(folder)
        }

        /// The files that are left out, with `/`.
        fn left_out(&self) -> Vec<String> {
            let inside = |path: PathBuf| path.strip_prefix(&self.0).map(Path::to_path_buf).expect("inside");
            let left = left_out(&self.0).into_iter().map(inside);
            left.map(|path| path.to_string_lossy().replace('\\', "/")).collect()
        }
    }

    impl Drop for Package {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_that_nothing_names_are_found() {
        let main = "mod a;\npub mod folder;\n#[path = \"../shared/mod.rs\"]\n#[allow(dead_code)]\nmod shared;\n";
        let package = Package::new(
            "left",
            &[
                ("Cargo.toml", "[[bin]]\npath = \"tests/program/run.rs\"\n"),
                ("tests/alone.rs", ""),
                ("tests/it/main.rs", main),
                ("tests/it/a.rs", "    mod inner;\n"),
                ("tests/it/a/inner.rs", ""),
                ("tests/it/a/lost.rs", ""),
                ("tests/it/b.rs", "// mod c;"),
                ("tests/it/c.rs", ""),
                ("tests/it/folder/mod.rs", "mod one;"),
                ("tests/it/folder/one.rs", "mod two { }"),
                ("tests/it/folder/two.rs", ""),
                ("tests/it/notes.txt", ""),
                ("tests/other/mod.rs", ""),
                ("tests/program/part.rs", ""),
                ("tests/program/run.rs", "mod part;"),
                ("tests/shared/hub.rs", ""),
                ("tests/shared/mod.rs", "pub mod hub;"),
            ],
        );
        let expected = [
            "tests/it/a/lost.rs",
            "tests/it/b.rs",
            "tests/it/c.rs",
            "tests/it/folder/two.rs",
            "tests/other/mod.rs",
        ];
        assert_eq!(package.left_out(), expected);
    }

    #[test]
    fn a_package_whose_files_are_all_named_passes() {
        let files = [
            ("Cargo.toml", ""),
            ("tests/it/main.rs", "mod a;"),
            ("tests/it/a.rs", ""),
        ];
        assert_eq!(Package::new("whole", &files).left_out(), [""; 0]);
    }
}
