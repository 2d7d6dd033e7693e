//! Finds libdevice (`libdevice.10.bc`), NVIDIA's library of math functions, which CubeCL links into
//! kernels that use a sine or an exponential. It comes with the CUDA toolkit, not with the driver,
//! so a copy next to the executable is used too.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable with the toolkit's folder.
const CUDA_PATH: &str = "CUDA_PATH";

/// The folders that CubeCL 0.11 searches if `CUDA_PATH` is not set (`nvptx/libdevice.rs` in
/// cubecl-llvm).
const DEFAULT_ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Whether CubeCL finds libdevice.
pub fn is_available() -> bool {
    toolkit_root(env::var_os(CUDA_PATH)).is_some_and(|root| libdevice(&root).is_file())
}

/// Points CubeCL at the copy next to the executable, if CubeCL finds no other.
///
/// # Safety
///
/// No other thread may access the environment during this call. Call it first in `main`.
pub unsafe fn find_beside_executable() {
    let folder = env::current_exe()
        .ok()
        .and_then(|executable| Some(executable.parent()?.to_owned()));
    if let Some(folder) = folder.filter(|folder| !is_available() && libdevice(folder).is_file()) {
        // SAFETY: the caller guarantees that no other thread accesses the environment.
        unsafe { env::set_var(CUDA_PATH, folder) };
    }
}

/// The toolkit's folder: the value of `CUDA_PATH` if it is set, otherwise the first default that
/// has `nvvm/libdevice`.
fn toolkit_root(cuda_path: Option<OsString>) -> Option<PathBuf> {
    match cuda_path {
        Some(path) => Some(path.into()),
        None => DEFAULT_ROOTS
            .iter()
            .map(PathBuf::from)
            .find(|root| root.join("nvvm/libdevice").is_dir()),
    }
}

/// The path of libdevice in a toolkit's folder.
fn libdevice(root: &Path) -> PathBuf {
    root.join("nvvm").join("libdevice").join("libdevice.10.bc")
}
