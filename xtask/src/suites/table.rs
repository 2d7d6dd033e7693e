//! The table of suites.

use super::inputs::Paths;

/// Number of parts of a suite that is split.
pub const PARTS: usize = 4;

/// The stage of a run that executes a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Vitest: unit tests and a browser.
    Ui,
    /// nextest.
    Rust,
    /// nextest, of code built with debug assertions.
    Assertions,
    /// libFuzzer.
    Fuzz,
}

/// Tests that are selected together.
#[derive(Debug)]
pub struct Suite {
    /// Its name. The environment variable of a split suite is named after it (`HEARTH_PART_GPU`).
    pub name: &'static str,
    /// [`PARTS`], or 1.
    pub parts: usize,
    pub stage: Stage,
    /// Its tests that nextest runs.
    pub tests: &'static [Tests],
    /// The files that it depends on.
    pub paths: &'static [Paths],
}

/// Tests of one package.
#[derive(Debug)]
pub struct Tests {
    pub package: &'static str,
    /// Its executables; empty for all.
    pub only: &'static [&'static str],
    /// Executables that belong to other suites.
    pub except: &'static [&'static str],
    /// Part of the tests' names; empty for all.
    pub named: &'static str,
}

impl Tests {
    const fn new(package: &'static str) -> Self {
        Self {
            package,
            only: &[],
            except: &[],
            named: "",
        }
    }

    const fn only(mut self, executables: &'static [&'static str]) -> Self {
        self.only = executables;
        self
    }

    const fn except(mut self, executables: &'static [&'static str]) -> Self {
        self.except = executables;
        self
    }

    const fn named(mut self, part: &'static str) -> Self {
        self.named = part;
        self
    }

    /// A filter expression of nextest.
    pub fn filter(&self) -> String {
        let binary = |name: &&str| format!("binary(={name})");
        let mut filter = format!("package(={})", self.package);
        if !self.only.is_empty() {
            let any: Vec<String> = self.only.iter().map(binary).collect();
            filter += &format!(" & ({})", any.join(" | "));
        }
        for name in self.except {
            filter += &format!(" - binary(={name})");
        }
        if !self.named.is_empty() {
            filter += &format!(" & test({})", self.named);
        }
        format!("({filter})")
    }

    /// Whether a test belongs here: `executable` is `PACKAGE`, `PACKAGE::TEST` or
    /// `PACKAGE::KIND/NAME`, as nextest writes it.
    pub fn contains(&self, executable: &str, test: &str) -> bool {
        let (package, name) = executable.split_once("::").unwrap_or((executable, ""));
        let name = name.rsplit('/').next().unwrap_or(name);
        package == self.package
            && (self.only.is_empty() || self.only.contains(&name))
            && !self.except.contains(&name)
            && test.contains(self.named)
    }
}

/// A suite of all tests of a package, except for some executables.
const fn package(name: &'static str, tests: &'static [Tests], paths: &'static [Paths]) -> Suite {
    Suite {
        name,
        parts: 1,
        stage: Stage::Rust,
        tests,
        paths,
    }
}

/// Every suite. An executable that a suite excludes belongs to another one: a test checks that.
pub const SUITES: &[Suite] = &[
    // Tests that compare code with a page.
    package(
        "pages",
        &[
            Tests::new("hearth-kernels").named("quants_page::"),
            Tests::new("hearth-formats").named("readme"),
            Tests::new("hearth-formats").named("models_page::"),
        ],
        &[Paths::Pages],
    ),
    package(
        "kernels",
        &[Tests::new("hearth-kernels")],
        &[Paths::Package("hearth-kernels")],
    ),
    package(
        "formats",
        &[Tests::new("hearth-formats")],
        &[
            Paths::Package("hearth-formats"),
            Paths::Fixtures,
            Paths::Under("assets/datasets/"),
        ],
    ),
    package(
        "llm",
        &[Tests::new("hearth-llm").except(&["gpu"])],
        &[
            Paths::Package("hearth-llm"),
            Paths::Fixtures,
            Paths::Under("crates/engine/src/check/"),
        ],
    ),
    package(
        "train",
        &[Tests::new("hearth-train")],
        &[
            Paths::Package("hearth-train"),
            Paths::Fixtures,
            Paths::Under("crates/llm/tests/"),
        ],
    ),
    package(
        "engine",
        &[Tests::new("hearth-engine").except(&["gpu", "kills", "cache_kills"])],
        &[
            Paths::Package("hearth-engine"),
            Paths::Fixtures,
            Paths::Under("assets/"),
        ],
    ),
    package(
        "protocol",
        &[Tests::new("hearth-protocol")],
        &[Paths::Package("hearth-protocol")],
    ),
    package(
        "app",
        &[Tests::new("hearth-app").except(&["kills"])],
        &[
            Paths::Package("hearth-app"),
            Paths::Fixtures,
            Paths::Under("assets/"),
            Paths::Under("crates/engine/tests/"),
            Paths::Under("crates/protocol/tests/"),
            Paths::Under("models/catalog.toml"),
            Paths::Under("src-tauri/"),
            Paths::Under("ui/src/lib/host/"),
        ],
    ),
    package(
        "cli",
        &[Tests::new("hearth-cli")],
        &[
            Paths::Under("models/catalog.toml"),
            Paths::Package("hearth-cli"),
            Paths::Fixtures,
            Paths::Under("assets/"),
            Paths::Under("ui/src/lib/host/"),
        ],
    ),
    package(
        "replay",
        &[Tests::new("hearth-fuzz")],
        &[Paths::Package("hearth-fuzz"), Paths::Fixtures, Paths::Under("assets/")],
    ),
    package(
        "bench",
        &[Tests::new("hearth-bench")],
        &[Paths::Package("hearth-bench")],
    ),
    package(
        "desktop",
        &[Tests::new("hearth-desktop"), Tests::new("hearth-test-parts")],
        &[
            Paths::Package("hearth-desktop"),
            Paths::Package("hearth-test-parts"),
            Paths::Under("ui/"),
        ],
    ),
    package(
        "programs",
        &[Tests::new("hearth-tests").except(&["gpu", "window"])],
        &[
            Paths::Package("hearth-tests"),
            Paths::Package("hearth-cli"),
            Paths::Fixtures,
            Paths::Under("assets/"),
            Paths::Under("crates/formats/tests/"),
            Paths::Under("models/catalog.toml"),
        ],
    ),
    package(
        "window",
        &[Tests::new("hearth-tests").only(&["window"])],
        &[
            Paths::Package("hearth-tests"),
            Paths::Package("hearth-cli"),
            Paths::Package("hearth-desktop"),
            Paths::Fixtures,
            Paths::Under("assets/"),
            Paths::Under("crates/app/tests/"),
            Paths::Under("crates/protocol/tests/"),
            Paths::Under("models/catalog.toml"),
            Paths::Under("ui/"),
        ],
    ),
    Suite {
        name: "gpu",
        parts: PARTS,
        stage: Stage::Rust,
        tests: &[
            Tests::new("hearth-tests").only(&["gpu"]),
            Tests::new("hearth-llm").only(&["gpu"]),
            Tests::new("hearth-engine").only(&["gpu"]),
        ],
        paths: &[
            Paths::Under("crates/kernels/src/"),
            Paths::Under("crates/kernels/Cargo.toml"),
            Paths::Under("crates/llm/src/"),
            Paths::Under("crates/llm/Cargo.toml"),
            Paths::Under("crates/llm/tests/gpu/"),
            Paths::Under("crates/llm/tests/shared/"),
            Paths::Under("crates/engine/src/check/"),
            Paths::Under("crates/engine/Cargo.toml"),
            Paths::Under("crates/engine/tests/gpu"),
            Paths::Under("tests/src/"),
            Paths::Under("tests/Cargo.toml"),
            Paths::Under("tests/tests/gpu/"),
            Paths::Fixtures,
        ],
    },
    Suite {
        name: "faults",
        parts: PARTS,
        stage: Stage::Rust,
        tests: &[
            Tests::new("hearth-engine").only(&["kills", "cache_kills"]),
            Tests::new("hearth-app").only(&["kills"]),
        ],
        paths: &[
            Paths::Under("crates/formats/src/durable"),
            Paths::Under("crates/llm/src/"),
            Paths::Under("crates/train/src/"),
            Paths::Under("crates/engine/src/"),
            Paths::Under("crates/engine/tests/"),
            Paths::Under("crates/engine/Cargo.toml"),
            Paths::Under("crates/app/src/"),
            Paths::Under("crates/app/tests/"),
            Paths::Under("crates/app/Cargo.toml"),
        ],
    },
    Suite {
        name: "levels",
        parts: PARTS,
        stage: Stage::Rust,
        tests: &[
            Tests::new("hearth-kernels").named("levels::"),
            Tests::new("hearth-kernels").named("batch_invariance::"),
            Tests::new("hearth-llm").named("batch_invariance::"),
        ],
        paths: &[
            Paths::Under("crates/kernels/"),
            Paths::Under("crates/llm/src/"),
            Paths::Under("crates/llm/tests/"),
            Paths::Under("crates/llm/Cargo.toml"),
            Paths::Under("crates/engine/src/check/"),
        ],
    },
    // Changes of what differs between families run all of them; the suite `window` has the rest of
    // the window's files.
    Suite {
        name: "families",
        parts: PARTS,
        stage: Stage::Rust,
        tests: &[Tests::new("hearth-tests").only(&["window"]).named("window_families::")],
        paths: &[
            Paths::Under("crates/formats/src/adapter/"),
            Paths::Under("crates/formats/src/shape/"),
            Paths::Under("crates/llm/src/arch/"),
            Paths::Under("tests/fixtures/models/"),
            Paths::Under("tests/tests/window/families.rs"),
            Paths::Under("tests/tests/window/window_families.rs"),
        ],
    },
    Suite {
        name: "assertions",
        parts: 1,
        stage: Stage::Assertions,
        tests: &[],
        paths: &[
            Paths::Package("hearth-kernels"),
            Paths::Package("hearth-llm"),
            Paths::Under("crates/engine/src/check/"),
            Paths::Fixtures,
        ],
    },
    Suite {
        name: "ui",
        parts: 1,
        stage: Stage::Ui,
        tests: &[],
        paths: &[
            Paths::Under("ui/"),
            Paths::Under("crates/protocol/src/messages"),
            Paths::Under("docs/QUANTS.md"),
            Paths::Under("models/catalog.toml"),
        ],
    },
    Suite {
        name: "axe",
        parts: PARTS,
        stage: Stage::Ui,
        tests: &[],
        paths: &[Paths::Under("ui/")],
    },
    Suite {
        name: "fuzz",
        parts: PARTS,
        stage: Stage::Fuzz,
        tests: &[],
        paths: &[
            Paths::Package("hearth-fuzz"),
            Paths::Fixtures,
            Paths::Under("assets/datasets/"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_names_select_the_same_tests() {
        let tests = Tests::new("p").only(&["a", "b"]).named("x::");
        assert_eq!(tests.filter(), "(package(=p) & (binary(=a) | binary(=b)) & test(x::))");
        assert!(tests.contains("p::a", "x::one") && tests.contains("p::bin/b", "y::x::two"));
        assert!(!tests.contains("p::c", "x::one") && !tests.contains("p", "x::one"));
        assert!(!tests.contains("p::a", "one") && !tests.contains("q::a", "x::one"));
        let others = Tests::new("p").except(&["a"]);
        assert_eq!(others.filter(), "(package(=p) - binary(=a))");
        assert!(others.contains("p", "one") && !others.contains("p::a", "one"));
    }

    #[test]
    fn executables_excluded_from_a_suite_belong_to_another() {
        for tests in SUITES.iter().flat_map(|suite| suite.tests) {
            for name in tests.except {
                let executable = format!("{}::{name}", tests.package);
                let owners = SUITES.iter().flat_map(|suite| suite.tests);
                assert!(
                    owners.filter(|owner| owner.contains(&executable, "")).count() > 0,
                    "{executable}"
                );
            }
        }
    }
}
