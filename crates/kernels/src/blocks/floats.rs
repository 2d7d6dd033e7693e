//! F32, F16 and BF16: weights stored as they are.

use bytemuck::Pod;
use half::bf16;

use super::block::Half;

/// A weight of its own, little-endian, at any address.
pub trait Float: Pod {
    /// The weight as f32, exactly.
    fn to_f32(self) -> f32;

    /// The stored number nearest to `value`, ties to even.
    fn from_f32(value: f32) -> Self;

    /// Whether it is neither infinite nor NaN.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.to_f32().is_finite()
    }
}

/// A weight in 32 bits.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct F32([u8; 4]);

/// A weight in 16 bits, 10 of them for the fraction.
pub type Fp16 = Half;

/// A weight in 16 bits: the upper half of an f32.
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
