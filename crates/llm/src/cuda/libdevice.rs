//! NVIDIA's library of math functions, `libdevice.10.bc`, with which CubeCL links kernels that take
//! a sine or a power of e. It comes with CUDA's toolkit, not with the driver; a copy beside the
//! executable does too.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names a toolkit's folder.
const VARIABLE: &str = "CUDA_PATH";

/// Where CubeCL 0.11 looks if nothing is named (`nvptx/libdevice.rs` in cubecl-llvm).
const ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Whether kernels can be linked with it.
pub fn is_there() -> bool {
    root(env::var_os(VARIABLE)).is_some_and(|root| file(&root).is_file())
}

/// Where it is nowhere else but beside the executable, names that for CubeCL.
///
/// # Safety
///
/// No other thread of the process reads or writes the environment meanwhile: call it first of all.
pub unsafe fn find_beside_executable() {
    let beside = env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.to_owned()));
    if let Some(beside) = beside.filter(|beside| !is_there() && file(beside).is_file()) {
        // SAFETY: as above.
        unsafe { env::set_var(VARIABLE, beside) };
    }
}

fn root(named: Option<OsString>) -> Option<PathBuf> {
    let known = || ROOTS.iter().map(PathBuf::from);
    match named {
        Some(named) => Some(named.into()),
        None => known().find(|root| root.join("nvvm/libdevice").is_dir()),
    }
}

fn file(root: &Path) -> PathBuf {
    root.join("nvvm").join("libdevice").join("libdevice.10.bc")
}
