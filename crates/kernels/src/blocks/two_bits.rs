//! Common layout of Q2_K and Q3_K: two bits of each code; 32 bytes hold four groups, one per pair
//! of bits.

use super::block::{GROUP, QK_K};
use crate::gemv::Simd;

/// Unpacks the two bits of each code of group `g`.
pub(super) fn group(packed: &[u8; QK_K / 4], g: usize) -> [u8; GROUP] {
    let bytes = &packed[GROUP * (g / 4)..][..GROUP];
    std::array::from_fn(|i| bytes[i] >> (2 * (g % 4)) & 3)
}

/// Inverse of [`group`] for all eight groups; stores only the low two bits of each code.
pub(super) fn pack(codes: &[u8; QK_K]) -> [u8; QK_K / 4] {
    std::array::from_fn(|index| {
        let first = QK_K / 2 * (index / GROUP) + index % GROUP;
        (0..4).fold(0, |byte, g| byte | (codes[first + GROUP * g] & 3) << (2 * g))
    })
}

/// Unpacks the two bits of each code of groups `2 pair` and `2 pair + 1`.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, packed: &[u8; QK_K / 4], pair: usize) -> S::Bytes {
    let packed: &[[u8; GROUP]; 2] = bytemuck::cast_ref(packed);
    let shift = 4 * (pair as u8 % 2);
    s.and(
        s.shift_right(
            s.load_half_twice(&packed[pair / 2]),
            [shift, shift, shift + 2, shift + 2],
        ),
        3,
    )
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(super) mod gpu {
    use crate::gpu::bytes::load_u8;
    use cubecl::prelude::*;

    /// The two bits of weight `i` of the block whose codes begin at byte `codes`; see
    /// [`group`](super::group).
    #[cube]
    pub(crate) fn two_bits(words: &[u32], codes: usize, i: usize) -> u32 {
        (load_u8(words, codes + 32 * (i / 128) + i % 32) >> (2u32 * ((i / 32) % 4) as u32)) & 3u32
    }
}
