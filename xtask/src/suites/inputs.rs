//! The files that a suite depends on.

use super::table::{SUITES, Suite};
use crate::cargo::cargo;
use crate::process::{Outcome, read};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A set of files that a suite depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Files whose path from the repository's root has this prefix.
    Under(&'static str),
    /// A package of the workspace and those that it depends on.
    Package(&'static str),
    /// The fixtures of `tests/`.
    Fixtures,
    /// Files that no program is built from: documentation, licenses, CI, scripts of `bench/`.
    Pages,
}

/// Path prefixes of files that no program is built from.
const UNBUILT_PREFIXES: [&str; 3] = ["docs/", ".github/", "LICENSE"];

/// Folders of a package that are not compiled into its dependents.
const NOT_IN_DEPENDENTS: [&str; 4] = ["tests/", "benches/", "examples/", "corpus/"];

/// The packages of the workspace and their dependencies.
#[derive(Debug)]
pub struct Inputs {
    packages: BTreeMap<String, PackageFiles>,
}

/// A package of the workspace.
#[derive(Debug)]
struct PackageFiles {
    /// Path with a final `/`.
    folder: String,
    /// Workspace packages that its tests link, transitively.
    dependencies: BTreeSet<String>,
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
        let normal_dependencies: BTreeMap<&str, Vec<String>> = metadata
            .packages
            .iter()
            .map(|package| {
                let normal = package.path_dependencies().filter(|dependency| !dependency.is_dev());
                (
                    package.name.as_str(),
                    normal.map(|dependency| dependency.name.clone()).collect(),
                )
            })
            .collect();
        let packages = metadata.packages.iter().map(|package| {
            let mut dependencies = BTreeSet::new();
            // Dev-dependencies count for the package's own tests only, so the walk follows no
            // dev-dependency of a dependency.
            for dependency in package.path_dependencies() {
                add_transitive_dependencies(&dependency.name, &normal_dependencies, &mut dependencies);
            }
            let files = PackageFiles {
                folder: folder(package),
                dependencies,
            };
            (package.name.clone(), files)
        });
        Ok(Self {
            packages: packages.collect(),
        })
    }

    /// Whether a suite depends on a file. Every suite depends on a file that no suite lists.
    pub fn contains(&self, suite: &Suite, path: &str) -> bool {
        self.lists(suite, path) || !SUITES.iter().any(|suite| self.lists(suite, path))
    }

    fn lists(&self, suite: &Suite, path: &str) -> bool {
        // Lists of test cases. Every run compares them with the cases that it finds, so only
        // `pages` has to depend on them.
        if path.starts_with("tests/cases/") {
            return suite.name == "pages";
        }
        let is_page = is_unbuilt(path);
        suite.paths.iter().any(|paths| match paths {
            Paths::Under(prefix) => path == *prefix || (!is_page && path.starts_with(prefix)),
            Paths::Pages => is_page,
            Paths::Fixtures => !is_page && path.starts_with("tests/fixtures/"),
            Paths::Package(name) => !is_page && self.package_includes(name, path),
        })
    }

    fn package_includes(&self, name: &str, path: &str) -> bool {
        let Some(package) = self.packages.get(name) else {
            return false;
        };
        // Fixtures have a separate set: `Fixtures`.
        if path.starts_with("tests/fixtures/") {
            return false;
        }
        let is_compiled_in = |name: &String| {
            let relative = path.strip_prefix(self.packages[name].folder.as_str());
            relative.is_some_and(|relative| !NOT_IN_DEPENDENTS.iter().any(|folder| relative.starts_with(folder)))
        };
        path.starts_with(package.folder.as_str()) || package.dependencies.iter().any(is_compiled_in)
    }
}

/// Whether no program is built from a file.
pub fn is_unbuilt(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_page = name.ends_with(".md") && (name == path || name == "README.md");
    let is_test_data = path.starts_with("tests/fixtures/") || path.starts_with("assets/");
    let is_bench_script = path.starts_with("bench/") && !path.starts_with("bench/src/") && path.ends_with(".py");
    (is_page && !is_test_data) || is_bench_script || UNBUILT_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

/// Adds a package and all its dependencies.
fn add_transitive_dependencies(name: &str, direct: &BTreeMap<&str, Vec<String>>, all: &mut BTreeSet<String>) {
    if direct.contains_key(name) && all.insert(name.to_owned()) {
        for dependency in &direct[name] {
            add_transitive_dependencies(dependency, direct, all);
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

impl Package {
    /// Its dependencies in this workspace.
    fn path_dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|dependency| dependency.path.is_some())
    }
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` means a normal dependency.
    kind: Option<String>,
    path: Option<PathBuf>,
}

impl Dependency {
    fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(path: &str) -> Vec<&'static str> {
        let inputs = Inputs::read().expect("this workspace");
        let selected = SUITES.iter().filter(|suite| inputs.contains(suite, path));
        selected.map(|suite| suite.name).collect()
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
