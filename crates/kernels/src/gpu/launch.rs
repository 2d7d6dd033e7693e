//! Launch helpers: checked buffer arguments and cube counts.

use super::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::CubeCountSelection;
use cubecl::server::Handle;

/// Maximum tokens of the GEMV kernels, in which each unit decodes the weights it uses.
pub(super) const GEMV_TOKENS: usize = 8;

/// The first `elements` words of a buffer as a kernel argument. The length that a kernel reads is
/// the buffer's, which may be longer (CUDA rounds it up): pass sizes instead.
///
/// # Errors
/// Returns an error if the buffer is shorter or too large for a kernel to address.
pub(super) fn buffer_arg(handle: &Handle, what: &'static str, elements: usize) -> Result<BufferArg, GpuError> {
    check_size(handle, what, elements as u64 * 4)?;
    // SAFETY: the buffer holds that many words, and any word is valid for a kernel.
    Ok(unsafe { BufferArg::from_raw_parts(handle.clone(), elements) })
}

/// A matrix as a kernel argument.
///
/// # Errors
/// Returns an error if the buffer is too short for the shape or too large.
pub(super) fn matrix_arg(matrix: &Floats, what: &'static str) -> Result<BufferArg, GpuError> {
    let elements = matrix.rows.checked_mul(matrix.cols).unwrap_or(usize::MAX / 4);
    buffer_arg(&matrix.handle, what, elements)
}

/// Checks that a buffer holds `needed` bytes, and that a kernel's 32-bit addresses cover them.
pub(super) fn check_size(buffer: &Handle, what: &'static str, needed: u64) -> Result<(), GpuError> {
    let found = buffer.size_in_used();
    if needed > u64::from(u32::MAX) {
        Err(GpuError::Large { what, needed })
    } else if found < needed {
        Err(GpuError::Short { what, needed, found })
    } else {
        Ok(())
    }
}

/// Checks that a size is the expected one.
pub(super) fn check_equal(what: &'static str, found: usize, expected: usize) -> Result<(), GpuError> {
    if found == expected {
        Ok(())
    } else {
        Err(GpuError::Size { what, found, expected })
    }
}

/// At least `count` cubes, spread over three dimensions so that none exceeds the device's limit.
/// Kernels must terminate surplus cubes by checking `CUBE_POS`.
pub(super) fn cube_count(client: &Client, count: usize) -> Result<CubeCount, GpuError> {
    match u32::try_from(count) {
        Ok(count) => Ok(CubeCountSelection::new(client, count).cube_count()),
        Err(_) => Err(GpuError::Large {
            what: "work of a kernel",
            needed: count as u64,
        }),
    }
}
