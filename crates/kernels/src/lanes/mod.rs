//! Vectors of sixteen floats and of 64 bytes, on every instruction set.
//!
//! A kernel is written once, generic over [`Lanes`]; `on_lanes!` turns it into a function that
//! dispatches on an [`Isa`](crate::Isa). A value that implements [`Lanes`] is a [`Token`]: proof
//! that the CPU has the instructions, so its methods are safe to call. [`Plain`] is the scalar
//! specification. The others have one file each, and a row of the table in `isa.rs`.

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
pub(crate) use avx_vnni::{AvxVnni, avx_vnni, dot_bytes};
#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::{Avx2, avx2};
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512, Avx512Bf16, avx512, avx512_bf16, sums_of};
pub(crate) use exp::{exp, sigmoid, tanh};
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
    /// 16 floats.
    type Floats: Copy;
    /// 16 i32.
    type Words: Copy;
    /// 16 pairs of i16.
    type Pairs: Copy;

    /// Number of vectors that fit in registers.
    const REGISTERS: usize;
    /// Whether arithmetic can load an operand and broadcast it in one instruction.
    const EMBEDS_BROADCASTS: bool = false;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::Floats;
    /// Loads 16 floats.
    fn load(self, x: &[f32; WIDTH]) -> Self::Floats;
    /// Stores 16 floats.
    fn store(self, x: Self::Floats, out: &mut [f32; WIDTH]);
    /// Loads 16 f16, exactly.
    fn load_half(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// Loads 16 bf16, exactly.
    fn load_bf16(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// Stores the nearest f16, ties to even.
    fn store_half(self, x: Self::Floats, out: &mut [u16; WIDTH]);
    /// Loads 16 i8 as floats.
    fn load_bytes(self, x: &[i8; WIDTH]) -> Self::Floats;
    /// Stores integers from -128 to 127 as i8.
    fn store_bytes(self, x: Self::Floats, out: &mut [i8; WIDTH]);
    /// Stores lanes from -32768 to 32767 as the nearest i16, ties to even.
    fn store_shorts(self, x: Self::Floats, out: &mut [i16; WIDTH]);
    /// Loads 16 pairs.
    fn load_pairs(self, x: &[[i8; 2]; WIDTH]) -> Self::Pairs;
    /// A pair in every lane.
    fn splat_pair(self, x: [i16; 2]) -> Self::Pairs;
    /// Zero accumulators.
    fn no_sums(self) -> Self::Words;
    /// `c` plus the products of both elements of each pair, wrapping at 32 bits.
    fn mul_pairs_add(self, a: Self::Pairs, b: Self::Pairs, c: Self::Words) -> Self::Words;
    /// Converts to the nearest floats.
    fn floats(self, x: Self::Words) -> Self::Floats;
    /// Loads 16 bytes as i8, with their sign.
    fn load_words(self, x: &[u8; WIDTH]) -> Self::Words;
    /// `a << by`, for `by` below 32.
    fn shift_words_left(self, a: Self::Words, by: u32) -> Self::Words;
    /// `a >> by & mask`, unsigned, for `by` below 32.
    fn word_bits(self, a: Self::Words, by: u32, mask: i32) -> Self::Words;
    /// `a | b`.
    fn or_words(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// `a + b`, wrapping.
    fn add_to_words(self, a: Self::Words, b: i32) -> Self::Words;
    /// The floats of these bits.
    fn floats_of_bits(self, a: Self::Words) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once if the CPU has the instruction.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// [`Lanes::mul_add`] of one lane, bit-identical.
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32;
    /// Lane-wise maximum; `b` if either is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Lane-wise minimum; `b` if either is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The nearest integer, ties to even, for lanes below 2^22.
    fn round(self, x: Self::Floats) -> Self::Floats;
    /// `x * 2^n` for integer `n` from -126 to 127.
    fn times_power_of_two(self, x: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// The sum of all lanes.
    fn sum(self, x: Self::Floats) -> f32;
    /// The sum of all lanes of each vector; not bit-identical to [`Lanes::sum`].
    #[inline(always)]
    fn sums(self, x: &[Self::Floats; WIDTH]) -> [f32; WIDTH] {
        let mut sums = [0.0; WIDTH];
        for i in 0..WIDTH {
            sums[i] = self.sum(x[i]);
        }
        sums
    }
    /// Transposes sixteen vectors.
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
/// arithmetic between two reads, the hardware prefetcher does not run far enough ahead. L1 has
/// fewer outstanding misses.
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

            // Once for each type of lanes, which several sets may share: the compiler inlines the
            // body's closures only if they are used once.
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
