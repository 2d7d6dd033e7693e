//! The builds of Hearth in one folder. Each executable contains only some GPU backends.

use super::probe::this_program;
use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

/// The name of each build, and the name of its executable.
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

/// The name of this build, derived from the name of its executable.
pub fn own() -> &'static str {
    let program = this_program().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default();
    let build = BUILDS.iter().find(|(_, file)| stem == *file);
    build.map_or(PORTABLE, |(name, _)| name)
}

/// The installed builds, in a fixed order: this one, and those in the same folder.
pub fn all() -> Vec<Build> {
    let Some(program) = this_program() else {
        return Vec::new();
    };
    let folder = program.parent().map(PathBuf::from).unwrap_or_default();
    let own = own();
    let builds = BUILDS.iter().map(|(name, file)| Build {
        name,
        program: if *name == own {
            program.clone()
        } else {
            folder.join(format!("{file}{EXE_SUFFIX}"))
        },
    });
    builds
        .filter(|build| build.name == own || build.program.is_file())
        .collect()
}

/// The executable of a build. `None` if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let build = all().into_iter().find(|build| build.name == name);
    build.map(|build| build.program)
}

/// Whether Hearth has a build with this name, installed or not.
pub fn is_known(name: &str) -> bool {
    BUILDS.iter().any(|(build, _)| *build == name)
}
