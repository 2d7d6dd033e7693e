//! What every launch needs: buffers that were measured, and cubes enough.

use super::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::CubeCountSelection;
use cubecl::server::Handle;

/// `elements` words at the start of a buffer, as a kernel's argument.
///
/// # Errors
/// Where the buffer has fewer, or there are more than a kernel can count.
pub(super) fn argument(handle: &Handle, what: &'static str, elements: usize) -> Result<BufferArg, GpuError> {
    measured(handle, what, elements as u64 * 4)?;
    // SAFETY: the buffer holds that many, and kernels see what is in it as words, of which any is valid.
    Ok(unsafe { BufferArg::from_raw_parts(handle.clone(), elements) })
}

/// A matrix as a kernel's argument.
///
/// # Errors
/// Where its buffer is too short for its shape, or it is too large.
pub(super) fn matrix(matrix: &Floats, what: &'static str) -> Result<BufferArg, GpuError> {
    let elements = matrix.rows.checked_mul(matrix.cols).unwrap_or(usize::MAX / 4);
    argument(&matrix.handle, what, elements)
}

/// Sees that a buffer holds as much as its shape says, and that a kernel, which counts in 32 bits, can address it.
pub(super) fn measured(buffer: &Handle, what: &'static str, needed: u64) -> Result<(), GpuError> {
    let found = buffer.size_in_used();
    if needed > u64::from(u32::MAX) {
        Err(GpuError::Large { what, needed })
    } else if found < needed {
        Err(GpuError::Short { what, needed, found })
    } else {
        Ok(())
    }
}

/// Sees that a size is the one that fits.
pub(super) fn same(what: &'static str, found: usize, expected: usize) -> Result<(), GpuError> {
    match found == expected {
        true => Ok(()),
        false => Err(GpuError::Size { what, found, expected }),
    }
}

/// At least `count` cubes, spread over three dimensions so that none passes the device's limit. There may be more, which have
/// to find that `CUBE_POS` is too large for them.
pub(super) fn cubes(client: &Client, count: usize) -> Result<CubeCount, GpuError> {
    match u32::try_from(count) {
        Ok(count) => Ok(CubeCountSelection::new(client, count).cube_count()),
        Err(_) => Err(GpuError::Large {
            what: "work of a kernel",
            needed: count as u64,
        }),
    }
}
