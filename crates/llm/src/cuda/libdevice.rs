//! NVIDIA's library of math functions, `libdevice.10.bc`, with which CubeCL links kernels that use
//! a sine or an exponential. It comes with the CUDA toolkit, not with the driver; a copy beside the
//! executable is used too.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable with a toolkit's folder.
const VARIABLE: &str = "CUDA_PATH";

/// Where CubeCL 0.11 looks without the variable (`nvptx/libdevice.rs` in cubecl-llvm).
const ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Returns whether the library is found.
pub fn is_available() -> bool {
    root(env::var_os(VARIABLE)).is_some_and(|root| file(&root).is_file())
}

/// Points CubeCL at the copy beside the executable, if the library is nowhere else.
///
/// # Safety
///
/// No other thread may read or write the environment meanwhile: call this first in `main`.
pub unsafe fn find_beside_executable() {
    let beside = env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.to_owned()));
    if let Some(beside) = beside.filter(|beside| !is_available() && file(beside).is_file()) {
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
