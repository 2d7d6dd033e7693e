//! f32 to bf16 and back, over slices: what training keeps between a forward and its backward takes half the room.
//!
//! bf16 is the upper half of an f32; a number is rounded to the nearest, ties to even.

use crate::dot::Isa;
use crate::lanes::on_lanes;
use crate::shape::{self, ShapeError};
use crate::team;
use bytemuck::Pod;
use half::bf16;

/// Elements of a chunk of work.
const CHUNK: usize = 16 * 1024;

/// Whether this machine multiplies bf16 itself, so that [`Product::Bf16`](crate::Product::Bf16) is faster than `Exact`. Elsewhere it is
/// made of f32 products of rounded numbers: as right, but slower.
pub fn bf16_is_fast() -> bool {
    Isa::best().multiplies_bf16()
}

/// The bits of the nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn narrow(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let quiet = bits | 0x0040_0000;
    ((if x.is_nan() { quiet } else { rounded }) >> 16) as u16
}

/// The number of a bf16's bits.
#[inline(always)]
pub(crate) fn widen(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

on_lanes! {
    /// Each number rounded.
    pub(crate) fn narrow_all<L>(_l; x: &[f32], out: &mut [u16]) {
        for (x, out) in x.iter().zip(out) {
            *out = narrow(*x);
        }
    }
}

on_lanes! {
    fn widen_all<L>(_l; x: &[u16], out: &mut [f32]) {
        for (x, out) in x.iter().zip(out) {
            *out = widen(*x);
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
}

/// What gate and up are kept as between a forward and its backward: `f32` or `bf16`.
pub trait Kept: sealed::Sealed + Pod + Send + Sync {
    /// Writes numbers as they are kept.
    #[doc(hidden)]
    fn keep(isa: Isa, x: &[f32], out: &mut [Self]);
    /// Writes kept numbers as f32.
    #[doc(hidden)]
    fn give_back(isa: Isa, x: &[Self], out: &mut [f32]);
}

impl Kept for f32 {
    fn keep(_: Isa, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }

    fn give_back(_: Isa, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }
}

impl Kept for bf16 {
    fn keep(isa: Isa, x: &[f32], out: &mut [bf16]) {
        narrow_all(isa, x, bytemuck::cast_slice_mut(out));
    }

    fn give_back(isa: Isa, x: &[bf16], out: &mut [f32]) {
        widen_all(isa, bytemuck::cast_slice(x), out);
    }
}

/// The nearest bf16 of each number, ties to even.
///
/// # Errors
/// Where the two are not of one length.
pub fn to_bf16(x: &[f32], out: &mut [bf16]) -> Result<(), ShapeError> {
    shape::length("numbers in bf16", out.len(), Some(x.len()))?;
    let isa = Isa::best();
    team::run_over(out, CHUNK, &|chunk, out| {
        bf16::keep(isa, &x[chunk * CHUNK..][..out.len()], out)
    });
    Ok(())
}

/// Each number as f32, exactly.
///
/// # Errors
/// Where the two are not of one length.
pub fn to_f32(x: &[bf16], out: &mut [f32]) -> Result<(), ShapeError> {
    shape::length("numbers in f32", out.len(), Some(x.len()))?;
    let isa = Isa::best();
    team::run_over(out, CHUNK, &|chunk, out| {
        bf16::give_back(isa, &x[chunk * CHUNK..][..out.len()], out);
    });
    Ok(())
}
