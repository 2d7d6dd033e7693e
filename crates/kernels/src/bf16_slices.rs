//! Conversion between f32 and bf16 over slices: saved activations in bf16 take half the memory.
//!
//! bf16 is the upper half of an f32. Rounding is to nearest, ties to even.

use crate::isa::Isa;
use crate::lanes::on_lanes;
use crate::shape::{self, ShapeError};
use crate::team;
use bytemuck::Pod;
use half::bf16;
use std::sync::OnceLock;

/// Elements of a work chunk.
const WORK_CHUNK: usize = 16 * 1024;

/// Returns `true` if [`MatmulPrecision::Bf16`](crate::MatmulPrecision::Bf16) is preferable to
/// `F32`: the CPU has bf16 instructions, and they are faster, or `HEARTH_ISA` names them. Without
/// them, `Bf16` is computed with f32 products of rounded factors: the same result up to the order
/// of sums, but slower.
pub fn bf16_is_fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| Isa::best().prefers_bf16())
}

/// The bits of the nearest bf16, ties to even; NaN stays NaN. As ggml's
/// `ggml_compute_fp32_to_bf16`.
#[inline(always)]
pub(crate) fn narrow(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let quiet = bits | 0x0040_0000;
    ((if x.is_nan() { quiet } else { rounded }) >> 16) as u16
}

/// The f32 of these bf16 bits, exactly. As ggml's `ggml_compute_bf16_to_fp32`.
#[inline(always)]
pub(crate) fn widen(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

on_lanes! {
    /// Rounds each element to bf16.
    pub(crate) fn narrow_all<L>(_l; x: &[f32], out: &mut [u16]) {
        for (x, out) in x.iter().zip(out) {
            *out = narrow(*x);
        }
    }
}

on_lanes! {
    /// Widens each bf16 to f32.
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

/// Element type of saved gate and up activations: `f32` or `bf16`.
pub trait SavedElement: sealed::Sealed + Pod + Send + Sync {
    /// Converts from f32, rounding to nearest.
    #[doc(hidden)]
    fn save(isa: Isa, x: &[f32], out: &mut [Self]);
    /// Converts to f32, exactly.
    #[doc(hidden)]
    fn load(isa: Isa, x: &[Self], out: &mut [f32]);
}

impl SavedElement for f32 {
    fn save(_: Isa, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }

    fn load(_: Isa, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }
}

impl SavedElement for bf16 {
    fn save(isa: Isa, x: &[f32], out: &mut [bf16]) {
        narrow_all(isa, x, bytemuck::cast_slice_mut(out));
    }

    fn load(isa: Isa, x: &[bf16], out: &mut [f32]) {
        widen_all(isa, bytemuck::cast_slice(x), out);
    }
}

/// Rounds each element to the nearest bf16, ties to even.
///
/// # Errors
/// If the lengths differ.
pub fn to_bf16(x: &[f32], out: &mut [bf16]) -> Result<(), ShapeError> {
    shape::length("the output in bf16", out.len(), Some(x.len()))?;
    let isa = Isa::best();
    team::run_over(out, WORK_CHUNK, &|work_chunk, out| {
        bf16::save(isa, &x[work_chunk * WORK_CHUNK..][..out.len()], out)
    });
    Ok(())
}

/// Widens each element to f32, exactly.
///
/// # Errors
/// If the lengths differ.
pub fn to_f32(x: &[bf16], out: &mut [f32]) -> Result<(), ShapeError> {
    shape::length("the output in f32", out.len(), Some(x.len()))?;
    let isa = Isa::best();
    team::run_over(out, WORK_CHUNK, &|work_chunk, out| {
        bf16::load(isa, &x[work_chunk * WORK_CHUNK..][..out.len()], out);
    });
    Ok(())
}
