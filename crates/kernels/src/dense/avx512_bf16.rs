//! The sums of one tile where the chip multiplies pairs of bf16: `vdpbf16ps`.

use super::factor::Factor;
use super::target::Place;
use super::tile::Parts;
use super::{TALL, WIDE};
use crate::lanes::{Avx512, WIDTH};
use std::arch::x86_64::*;

/// As [`super::tile::tile`].
///
/// # Safety
/// As there; and the machine has AVX512_BF16 besides what [`Avx512`] says, and a factor is a pair.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
pub(super) unsafe fn tile<E: Factor>(parts: &Parts<E>, place: &Place) {
    // SAFETY: the caller's word.
    unsafe {
        match place.width() > WIDTH {
            true => part::<E, 2>(parts, place),
            false => part::<E, 1>(parts, place),
        }
    }
}

/// The sums of `C` vectors of columns.
///
/// # Safety
/// As [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
unsafe fn part<E: Factor, const C: usize>(parts: &Parts<E>, place: &Place) {
    let mut sums = [[_mm512_setzero_ps(); C]; TALL];
    for (tall, wide) in parts {
        let (tall, wide) = (
            bytemuck::cast_slice::<E, i32>(tall),
            bytemuck::cast_slice::<E, i32>(wide),
        );
        for (tall, wide) in tall.as_chunks::<TALL>().0.iter().zip(wide.as_chunks::<WIDE>().0) {
            // SAFETY: 32 pairs are two vectors, and a vector of pairs is one of bf16.
            let right: [__m512bh; C] = std::array::from_fn(|c| unsafe {
                std::mem::transmute(_mm512_loadu_si512(wide.as_ptr().add(c * WIDTH).cast()))
            });
            for r in 0..TALL {
                // SAFETY: as above.
                let left: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(tall[r])) };
                for c in 0..C {
                    sums[r][c] = _mm512_dpbf16_ps(sums[r][c], left, right[c]);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's word.
            unsafe { place.write(Avx512::new(), r, c, *sum) };
        }
    }
}
