//! Vectors of sixteen floats and of 64 bytes, on every instruction set.
//!
//! A kernel is written once, generic over [`Lanes`]; `on_lanes!` turns it into a function that
//! dispatches on an [`Isa`](crate::Isa). A value that implements [`Lanes`] is a [`Token`]: proof
//! that the CPU has the instructions, so its methods are safe to call. [`Plain`] is the scalar
//! specification. The other instruction sets have one file each, and a row of the table in
//! `isa.rs`.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
mod exp;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon_i8mm;
mod operand;
mod plain;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod register;
mod simd;
mod token;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx_vnni::{AvxVnni, avx_vnni, dpbusd};
#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::{Avx2, avx2};
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512, Avx512Bf16, avx512, avx512_bf16, reduce_add_16};
pub(crate) use exp::{accurate_tanh, exp, sigmoid, tanh};
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use neon::{Neon, neon_dot};
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use neon_i8mm::{NeonI8mm, neon_i8mm};
#[cfg(target_arch = "x86_64")]
pub(crate) use operand::opaque;
pub(crate) use operand::operands;
pub(crate) use plain::Plain;
#[cfg(target_arch = "x86_64")]
pub(crate) use register::cast;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use register::{load, store};
pub(crate) use simd::Simd;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use token::methods;
pub(crate) use token::{Kernel, Token};

/// Floats per vector.
pub(crate) const WIDTH: usize = 16;

/// Vectors of 16 floats, for any register width.
pub(crate) trait Lanes: Copy {
    /// 16 f32.
    type Floats: Copy;
    /// 16 i32.
    type Ints: Copy;
    /// 16 pairs of i16.
    type Pairs: Copy;

    /// Number of vectors that fit in registers.
    const REGISTERS: usize;
    /// `true` if an arithmetic instruction can load an operand and broadcast it.
    const EMBEDS_BROADCASTS: bool = false;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::Floats;
    /// Loads 16 f32.
    fn load(self, x: &[f32; WIDTH]) -> Self::Floats;
    /// Stores 16 f32.
    fn store(self, x: Self::Floats, out: &mut [f32; WIDTH]);
    /// Loads 16 f16 as f32, exactly.
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// Loads 16 bf16 as f32, exactly.
    fn load_bf16(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// Stores the nearest f16, ties to even.
    fn store_f16(self, x: Self::Floats, out: &mut [u16; WIDTH]);
    /// Loads 16 i8 as f32.
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::Floats;
    /// Stores integers from -128 to 127 as i8.
    fn store_i8(self, x: Self::Floats, out: &mut [i8; WIDTH]);
    /// Stores lanes from -32768 to 32767 as the nearest i16, ties to even.
    fn store_i16(self, x: Self::Floats, out: &mut [i16; WIDTH]);
    /// Loads 16 pairs of i8 as pairs of i16.
    fn load_i8_pairs(self, x: &[[i8; 2]; WIDTH]) -> Self::Pairs;
    /// A pair in every lane.
    fn splat_i16_pair(self, x: [i16; 2]) -> Self::Pairs;
    /// Zero in every lane.
    fn zero_i32(self) -> Self::Ints;
    /// `c` plus the dot product of the pairs of `a` and `b`, wrapping at 32 bits: x86's `vpdpwssd`.
    fn dot_i16_add(self, a: Self::Pairs, b: Self::Pairs, c: Self::Ints) -> Self::Ints;
    /// Converts integers to the nearest f32.
    fn cvt_i32_f32(self, x: Self::Ints) -> Self::Floats;
    /// Loads 16 bytes as i8 and sign-extends them.
    fn load_i8_as_i32(self, x: &[u8; WIDTH]) -> Self::Ints;
    /// `a << by`, for `by` below 32.
    fn shl_i32(self, a: Self::Ints, by: u32) -> Self::Ints;
    /// `a >> by & mask` with a logical shift, for `by` below 32.
    fn shr_and_i32(self, a: Self::Ints, by: u32, mask: i32) -> Self::Ints;
    /// `a | b`.
    fn or_i32(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// `a + b` in every lane, wrapping.
    fn add_scalar_i32(self, a: Self::Ints, b: i32) -> Self::Ints;
    /// The f32 with the bits of each lane.
    fn reinterpret_i32_f32(self, a: Self::Ints) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once if the CPU has the instruction.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// [`Lanes::fma`] of one lane, bit-identical.
    fn fma_scalar(self, a: f32, b: f32, c: f32) -> f32;
    /// Lane-wise maximum; `b` if either is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Lane-wise minimum; `b` if either is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The nearest integer, ties to even, for lanes below 2^22.
    fn round(self, x: Self::Floats) -> Self::Floats;
    /// `x * 2^n` for integer `n` from -126 to 127.
    fn scalef(self, x: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// The sum of all lanes.
    fn reduce_add(self, x: Self::Floats) -> f32;
    /// The sum of all lanes of each vector; not bit-identical to [`Lanes::reduce_add`].
    #[inline(always)]
    fn reduce_add_each(self, x: &[Self::Floats; WIDTH]) -> [f32; WIDTH] {
        let mut sums = [0.0; WIDTH];
        for i in 0..WIDTH {
            sums[i] = self.reduce_add(x[i]);
        }
        sums
    }
    /// Transposes 16 vectors.
    #[inline(always)]
    fn transpose(self, x: [Self::Floats; WIDTH]) -> [Self::Floats; WIDTH] {
        let mut rows = [[0.0; WIDTH]; WIDTH];
        for r in 0..WIDTH {
            self.store(x[r], &mut rows[r]);
        }
        std::array::from_fn(|c| self.load(&std::array::from_fn(|r| rows[r][c])))
    }
    /// The maximum of all lanes.
    fn reduce_max(self, x: Self::Floats) -> f32;
}

/// Prefetches the vector `elements` after this one into L2, on x86-64 only: with this much
/// arithmetic between two reads, the hardware prefetcher does not run far enough ahead. The target
/// is L2 because L1 can track fewer outstanding misses.
#[inline(always)]
pub(crate) fn prefetch<E>(vector: &[E; WIDTH], elements: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let address = vector.as_ptr().wrapping_add(elements);
        // SAFETY: every x86-64 CPU has the instruction, and a prefetch may take any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (vector, elements);
}

/// Prefetches the cache line of an address into L1, on x86-64 only.
#[inline(always)]
pub(crate) fn prefetch_l1<E>(address: *const E) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: as in `prefetch`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Turns a function generic over its lanes into one that takes an [`Isa`](crate::Isa) as its first
/// argument.
///
/// `fn name<L>(lanes; arguments)`; further generics are given in brackets, once with bounds and
/// once by name. The body is inlined into one function per level, in which the instructions are
/// enabled.
macro_rules! on_lanes {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$L:ident> $([$($generics:tt)*][$($names:tt)*])?
     ($lanes:ident; $($arg:ident : $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$($generics)*>)? (isa: $crate::isa::Isa, $($arg: $ty),*) $(-> $out)? {
            #[inline(always)]
            fn body<$L: $crate::lanes::Lanes, $($($generics)*)?>($lanes: $L, $($arg: $ty),*) $(-> $out)? $body

            // One instance per type of lanes, which several sets may share: the compiler inlines
            // the closures of the body only if they are used once.
            fn enabled<$L: $crate::lanes::Lanes + $crate::lanes::Token, $($($generics)*)?>(
                $lanes: $L,
                $($arg: $ty),*
            ) $(-> $out)? {
                $crate::lanes::Token::run(
                    $lanes,
                    #[inline(always)]
                    move || body::<$L, $($($names)*)?>($lanes, $($arg),*),
                )
            }

            $crate::isa::on_set!(isa, token => {
                enabled::<_, $($($names)*)?>($crate::lanes::Token::lanes(token), $($arg),*)
            })
        }
    };
}
pub(crate) use on_lanes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    on_lanes! {
        fn transposed<L>(l; x: &[[f32; WIDTH]; WIDTH]) -> [[f32; WIDTH]; WIDTH] {
            let columns = l.transpose(std::array::from_fn(|r| l.load(&x[r])));
            let mut out = [[0.0; WIDTH]; WIDTH];
            (0..WIDTH).for_each(|c| l.store(columns[c], &mut out[c]));
            out
        }
    }

    #[test]
    fn transposing_exchanges_rows_and_columns() {
        let x = std::array::from_fn(|r| std::array::from_fn(|c| (r * WIDTH + c) as f32));
        let expected = std::array::from_fn(|c| std::array::from_fn(|r| (r * WIDTH + c) as f32));
        for isa in Isa::available() {
            assert_eq!(transposed(isa, &x), expected, "{isa:?}");
        }
    }
}
