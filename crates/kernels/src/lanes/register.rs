//! Safe unaligned loads and stores.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use bytemuck::{AnyBitPattern, NoUninit};

/// A register, or an array of registers.
///
/// # Safety
/// Every bit pattern is valid, and no byte is padding.
pub(crate) unsafe trait Register: Copy {}

// SAFETY: the elements are registers, and an array has no padding.
unsafe impl<R: Register, const N: usize> Register for [R; N] {}

macro_rules! registers {
    ($($register:ident)*) => {$(
        // SAFETY: plain data.
        unsafe impl Register for $register {}
    )*};
}
#[cfg(target_arch = "x86_64")]
registers!(__m128i __m256 __m256i __m512 __m512i __m512bh);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
registers!(float32x4_t int8x8_t int8x16_t int16x4_t uint8x16_t uint16x4_t);

/// Loads registers from plain data of the same size.
#[inline(always)]
pub(crate) fn load<R: Register, T: NoUninit>(x: &T) -> R {
    const { assert!(size_of::<R>() == size_of::<T>()) };
    // SAFETY: a reference is valid to read, and every bit pattern is a valid register.
    unsafe { std::ptr::from_ref(x).cast::<R>().read_unaligned() }
}

/// Stores registers to plain data of the same size.
#[inline(always)]
pub(crate) fn store<R: Register, T: AnyBitPattern>(x: R, out: &mut T) {
    const { assert!(size_of::<R>() == size_of::<T>()) };
    // SAFETY: a mutable reference is valid to write, and every bit pattern is a valid `T`.
    unsafe { std::ptr::from_mut(out).cast::<R>().write_unaligned(x) };
}

/// Reinterprets the bits as another register type of the same size.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn cast<A: Register, B: Register>(a: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: every bit pattern is a valid register.
    unsafe { std::mem::transmute_copy(&a) }
}
