//! F32, F16 and BF16: unquantized weights.

use bytemuck::Pod;
use half::bf16;

use super::block::Half;

/// An unquantized stored weight: little-endian, unaligned.
pub trait Float: Pod {
    /// The weight as f32, exactly.
    fn to_f32(self) -> f32;

    /// The stored value nearest to `value`, ties to even.
    fn from_f32(value: f32) -> Self;

    /// Returns `true` if the weight is neither infinite nor NaN.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.to_f32().is_finite()
    }
}

/// A stored f32.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct F32([u8; 4]);

/// A stored f16.
pub type Fp16 = Half;

/// A stored bf16: the upper half of an f32.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bf16([u8; 2]);

const _: () = assert!(size_of::<F32>() == 4 && size_of::<Fp16>() == 2 && size_of::<Bf16>() == 2);

impl Float for F32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_le_bytes(self.0)
    }

    fn from_f32(value: f32) -> Self {
        Self(value.to_le_bytes())
    }
}

impl Float for Fp16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.to_f32()
    }

    fn from_f32(value: f32) -> Self {
        Half::from_f32(value)
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        Half::is_finite(self)
    }
}

impl Float for Bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(self.0)) << 16)
    }

    fn from_f32(value: f32) -> Self {
        Self(bf16::from_f32(value).to_bits().to_le_bytes())
    }
}

/// Decodes F32 on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod single {
    pub(crate) mod gpu {
        use crate::gpu::bytes::SEGMENT;
        use crate::gpu::decode::segment_by_weight;
        use cubecl::prelude::*;

        segment_by_weight!();

        #[cube]
        pub(crate) fn weight(words: &[u32], block: usize, _i: usize) -> f32 {
            f32::reinterpret(words[block / 4])
        }
    }
}

/// Decodes F16 on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod half_float {
    pub(crate) mod gpu {
        use crate::gpu::bytes::{SEGMENT, load_f16};
        use crate::gpu::decode::segment_by_weight;
        use cubecl::prelude::*;

        segment_by_weight!();

        #[cube]
        pub(crate) fn weight(words: &[u32], block: usize, _i: usize) -> f32 {
            load_f16(words, block)
        }
    }
}

/// Decodes BF16 on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod bfloat {
    pub(crate) mod gpu {
        use crate::gpu::bytes::{SEGMENT, load_u16};
        use crate::gpu::decode::segment_by_weight;
        use cubecl::prelude::*;

        segment_by_weight!();

        #[cube]
        pub(crate) fn weight(words: &[u32], block: usize, _i: usize) -> f32 {
            f32::reinterpret(load_u16(words, block) << 16u32)
        }
    }
}
