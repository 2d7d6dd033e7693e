//! Common layout of Q2_K and Q3_K: two bits of each code; 32 bytes hold four groups, one per pair
//! of bits.

use super::block::{CHUNK, GROUP};
use crate::gemv::Simd;

/// Unpacks the two bits of each code of group `g`.
pub(super) fn group(packed: &[u8; CHUNK / 4], g: usize) -> [u8; GROUP] {
    let bytes = &packed[GROUP * (g / 4)..][..GROUP];
    std::array::from_fn(|i| bytes[i] >> (2 * (g % 4)) & 3)
}

/// Inverse of [`group`] for all eight groups; stores only the low two bits of each code.
pub(super) fn pack(codes: &[u8; CHUNK]) -> [u8; CHUNK / 4] {
    std::array::from_fn(|at| {
        let first = CHUNK / 2 * (at / GROUP) + at % GROUP;
        (0..4).fold(0, |byte, g| byte | (codes[first + GROUP * g] & 3) << (2 * g))
    })
}

/// Unpacks the two bits of each code of groups `2 pair` and `2 pair + 1`.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, packed: &[u8; CHUNK / 4], pair: usize) -> S::Bytes {
    let packed: &[[u8; GROUP]; 2] = bytemuck::cast_ref(packed);
    let by = 4 * (pair as u8 % 2);
    s.and(s.shift_right(s.twice(&packed[pair / 2]), [by, by, by + 2, by + 2]), 3)
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(super) mod gpu {
    use crate::gpu::bytes::byte;
    use cubecl::prelude::*;

    /// The two bits of weight `i` of those at `at`; see [`group`](super::group).
    #[cube]
    pub(crate) fn two_bits(words: &[u32], at: usize, i: usize) -> u32 {
        (byte(words, at + 32 * (i / 128) + i % 32) >> (2u32 * ((i / 32) % 4) as u32)) & 3u32
    }
}
