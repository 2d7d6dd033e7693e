//! The builds of Hearth that lie side by side: one executable can hold only some of the ways to use a GPU.

use super::probe::this_program;
use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

/// A build's name, and its executable's.
const BUILDS: [(&str, &str); 4] = [
    (PORTABLE, "hearth"),
    ("vulkan", "hearth-vulkan"),
    ("cuda", "hearth-cuda"),
    ("rocm", "hearth-rocm"),
];

/// The one that is always there: WGSL, over whatever wgpu finds.
const PORTABLE: &str = "portable";

/// One build that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub name: &'static str,
    /// Its executable.
    pub program: PathBuf,
}

/// This one, by the name of its executable.
pub fn own() -> &'static str {
    let program = this_program().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default();
    let known = BUILDS.iter().find(|(_, file)| stem == *file);
    known.map_or(PORTABLE, |(name, _)| name)
}

/// This one and those that lie beside it, always in one order.
pub fn all() -> Vec<Build> {
    let Some(program) = this_program() else {
        return Vec::new();
    };
    let folder = program.parent().map(PathBuf::from).unwrap_or_default();
    let own = own();
    let there = BUILDS.iter().map(|(name, file)| Build {
        name,
        program: match *name == own {
            true => program.clone(),
            false => folder.join(format!("{file}{EXE_SUFFIX}")),
        },
    });
    there
        .filter(|build| build.name == own || build.program.is_file())
        .collect()
}

/// The program of a build; none where it is not there.
pub fn program(name: &str) -> Option<PathBuf> {
    let found = all().into_iter().find(|build| build.name == name);
    found.map(|build| build.program)
}

/// Whether there is a build of this name anywhere.
pub fn is_known(name: &str) -> bool {
    BUILDS.iter().any(|(known, _)| *known == name)
}
