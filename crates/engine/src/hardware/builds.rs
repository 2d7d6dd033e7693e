//! The builds of Hearth in one folder: an executable can contain only some GPU backends.

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

/// The build that always exists: WGSL through wgpu.
const PORTABLE: &str = "portable";

/// An installed build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub name: &'static str,
    /// Its executable.
    pub program: PathBuf,
}

/// This build, by the name of its executable.
pub fn own() -> &'static str {
    let program = this_program().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default();
    let known = BUILDS.iter().find(|(_, file)| stem == *file);
    known.map_or(PORTABLE, |(name, _)| name)
}

/// This build and those beside it, in a fixed order.
pub fn all() -> Vec<Build> {
    let Some(program) = this_program() else {
        return Vec::new();
    };
    let folder = program.parent().map(PathBuf::from).unwrap_or_default();
    let own = own();
    let there = BUILDS.iter().map(|(name, file)| Build {
        name,
        program: if *name == own {
            program.clone()
        } else {
            folder.join(format!("{file}{EXE_SUFFIX}"))
        },
    });
    there
        .filter(|build| build.name == own || build.program.is_file())
        .collect()
}

/// The executable of a build. `None` if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let found = all().into_iter().find(|build| build.name == name);
    found.map(|build| build.program)
}

/// Whether a build of this name exists at all.
pub fn is_known(name: &str) -> bool {
    BUILDS.iter().any(|(known, _)| *known == name)
}
