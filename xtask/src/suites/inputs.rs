//! The files that a suite depends on.

use super::table::{SUITES, Suite};
use crate::cargo::cargo;
use crate::process::{Outcome, read};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files that a suite depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Files whose path from the repository's root begins so.
    Under(&'static str),
    /// A package of the workspace and those that it depends on.
    Package(&'static str),
    /// The fixtures of `tests/`.
    Fixtures,
    /// Pages for people, and other files that no program or test depends on, except for the tests
    /// that read pages.
    Pages,
}

/// Folders of what no program depends on.
const PAGES: [&str; 3] = ["docs/", ".github/", "LICENSE"];

/// Folders of a package that its dependents are not built from.
const ONLY_OF_TESTS: [&str; 4] = ["tests/", "benches/", "examples/", "corpus/"];

/// Which files each suite depends on.
#[derive(Debug)]
pub struct Inputs {
    /// Folder of each package, ending in `/`, and the names of all that its tests are built from.
    packages: BTreeMap<String, (String, BTreeSet<String>)>,
}

impl Inputs {
    /// Reads the workspace's packages.
    ///
    /// # Errors
    /// If cargo cannot describe the workspace.
    pub fn read() -> Outcome<Self> {
        let text = read(&mut cargo(&[
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ]))
        .ok_or("`cargo metadata` failed.")?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let metadata: Metadata = serde_json::from_str(text).map_err(|error| format!("cargo metadata: {error}"))?;
        let folder = |package: &Package| {
            let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
            let relative = folder.strip_prefix(&metadata.workspace_root).unwrap_or(folder);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            format!("{}/", parts.join("/"))
        };
        let local = |package: &Package, dev: bool| -> Vec<String> {
            let local = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.path.is_some());
            let wanted = local.filter(|dependency| dev || dependency.kind.as_deref() != Some("dev"));
            wanted.map(|dependency| dependency.name.clone()).collect()
        };
        let programs: BTreeMap<&str, Vec<String>> = metadata
            .packages
            .iter()
            .map(|package| (package.name.as_str(), local(package, false)))
            .collect();
        let packages = metadata.packages.iter().map(|package| {
            let mut all = BTreeSet::new();
            // Only the tests' own package builds what only tests depend on.
            for name in local(package, true) {
                closure(&name, &programs, &mut all);
            }
            (package.name.clone(), (folder(package), all))
        });
        Ok(Self {
            packages: packages.collect(),
        })
    }

    /// Whether a suite depends on this file. A file that no suite names belongs to all.
    pub fn contains(&self, suite: &Suite, path: &str) -> bool {
        self.named(suite, path) || !SUITES.iter().any(|suite| self.named(suite, path))
    }

    fn named(&self, suite: &Suite, path: &str) -> bool {
        // A run compares the lists with what it finds, and records no pass if they differ.
        if path.starts_with("tests/cases/") {
            return suite.name == "pages";
        }
        let page = is_page(path);
        suite.paths.iter().any(|paths| match paths {
            Paths::Under(prefix) => path == *prefix || (!page && path.starts_with(prefix)),
            Paths::Pages => page,
            Paths::Fixtures => !page && path.starts_with("tests/fixtures/"),
            Paths::Package(name) => !page && self.in_package(name, path),
        })
    }

    fn in_package(&self, name: &str, path: &str) -> bool {
        let Some((folder, all)) = self.packages.get(name) else {
            return false;
        };
        // The end-to-end tests' fixtures have a separate entry.
        if path.starts_with("tests/fixtures/") {
            return false;
        }
        let built = |name: &String| {
            let inside = path.strip_prefix(self.packages[name].0.as_str());
            inside.is_some_and(|inside| !ONLY_OF_TESTS.iter().any(|folder| inside.starts_with(folder)))
        };
        path.starts_with(folder.as_str()) || all.iter().any(built)
    }
}

/// Whether this file is a page for people, or of what no program depends on.
pub fn is_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let markdown = name.ends_with(".md") && (name == path || name == "README.md");
    let of_a_test = path.starts_with("tests/fixtures/") || path.starts_with("assets/");
    let python = path.starts_with("bench/") && !path.starts_with("bench/src/") && path.ends_with(".py");
    (markdown && !of_a_test) || python || PAGES.iter().any(|prefix| path.starts_with(prefix))
}

/// Adds a package and all it depends on.
fn closure(name: &str, direct: &BTreeMap<&str, Vec<String>>, all: &mut BTreeSet<String>) {
    if direct.contains_key(name) && all.insert(name.to_owned()) {
        for dependency in &direct[name] {
            closure(dependency, direct, all);
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or nothing.
    kind: Option<String>,
    path: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(path: &str) -> Vec<&'static str> {
        let inputs = Inputs::read().expect("this workspace");
        let chosen = SUITES.iter().filter(|suite| inputs.contains(suite, path));
        chosen.map(|suite| suite.name).collect()
    }

    #[test]
    fn paths_select_suites() {
        assert_eq!(suites("docs/ARCHITECTURE.md"), ["pages"]);
        assert_eq!(suites("crates/kernels/README.md"), ["pages"]);
        assert_eq!(suites("ui/src/App.svelte"), ["desktop", "window", "ui", "axe"]);
        let protocol = suites("crates/protocol/src/lib.rs");
        for suite in ["protocol", "engine", "app", "programs", "window", "fuzz"] {
            assert!(protocol.contains(&suite), "{suite}: {protocol:?}");
        }
        for suite in ["kernels", "llm", "formats", "gpu", "axe"] {
            assert!(!protocol.contains(&suite), "{suite}: {protocol:?}");
        }
        let kernels = suites("crates/kernels/src/gpu/mod.rs");
        for suite in ["kernels", "llm", "train", "engine", "gpu", "levels", "assertions"] {
            assert!(kernels.contains(&suite), "{suite}: {kernels:?}");
        }
    }

    #[test]
    fn a_file_that_no_suite_names_selects_all() {
        for path in [
            "Cargo.lock",
            "xtask/src/main.rs",
            ".cargo/config.toml",
            "new/file",
            "clippy.toml",
        ] {
            assert_eq!(suites(path).len(), SUITES.len(), "{path}");
        }
    }

    #[test]
    fn every_package_has_a_suite_but_xtask() {
        let inputs = Inputs::read().expect("this workspace");
        for name in inputs.packages.keys().filter(|name| *name != "xtask") {
            let named = SUITES.iter().flat_map(|suite| suite.tests);
            assert!(
                named.filter(|tests| tests.package == name).count() > 0,
                "{name} has no suite"
            );
        }
    }
}
