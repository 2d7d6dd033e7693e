//! Sixteen floats at a time: what the loops of this crate ask of a machine's vectors.
//!
//! A loop is written once, generic over [`Lanes`]; `on_lanes!` makes a function of it that runs on whatever instructions an
//! [`Isa`](crate::Isa) names. A value that implements [`Lanes`] proves that the machine has the instructions, so methods are
//! safe to call; [`Plain`] is the specification of the others.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp;
mod plain;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512, sums_of};
pub(crate) use exp::{exp, sigmoid, tanh};
pub(crate) use plain::Plain;

/// Floats in a vector.
pub(crate) const WIDTH: usize = 16;

/// Vectors of 16 floats, for whatever width the machine has.
pub(crate) trait Lanes: Copy {
    /// 16 floats.
    type Floats: Copy;
    /// 16 whole numbers of 32 bits.
    type Sums: Copy;
    /// 16 pairs of whole numbers of 16 bits.
    type Pairs: Copy;

    /// Vectors that fit in the machine's registers.
    const REGISTERS: usize;
    /// The lanes in the order in which [`Lanes::sums`] adds them: each with its neighbour, each pair with its neighbour, and further so.
    const SUM_ORDER: [usize; WIDTH];

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::Floats;
    /// 16 floats in order.
    fn load(self, x: &[f32; WIDTH]) -> Self::Floats;
    /// Writes the floats in order.
    fn store(self, x: Self::Floats, out: &mut [f32; WIDTH]);
    /// 16 f16, exactly.
    fn load_half(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// 16 bf16, exactly.
    fn load_bf16(self, x: &[u16; WIDTH]) -> Self::Floats;
    /// Writes the nearest f16, ties to even.
    fn store_half(self, x: Self::Floats, out: &mut [u16; WIDTH]);
    /// 16 whole numbers.
    fn load_bytes(self, x: &[i8; WIDTH]) -> Self::Floats;
    /// Writes whole numbers from -128 to 127.
    fn store_bytes(self, x: Self::Floats, out: &mut [i8; WIDTH]);
    /// Writes the nearest whole numbers, ties to even, of lanes from -32768 to 32767.
    fn store_shorts(self, x: Self::Floats, out: &mut [i16; WIDTH]);
    /// 16 pairs in order.
    fn load_pairs(self, x: &[[i8; 2]; WIDTH]) -> Self::Pairs;
    /// A pair in every lane.
    fn splat_pair(self, x: [i16; 2]) -> Self::Pairs;
    /// Sixteen zeros.
    fn no_sums(self) -> Self::Sums;
    /// The products of both numbers of each pair, and `c`. What does not fit in 32 bits is cut off.
    fn mul_pairs_add(self, a: Self::Pairs, b: Self::Pairs, c: Self::Sums) -> Self::Sums;
    /// The nearest floats.
    fn floats(self, x: Self::Sums) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`; rounded once where the machine can.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// [`Lanes::mul_add`] of one lane, to the bit.
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32;
    /// The greater of each pair of lanes; `b` where one of them is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The lesser of each pair of lanes; `b` where one of them is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The nearest whole number, ties to even, of lanes below 2^22.
    fn round(self, x: Self::Floats) -> Self::Floats;
    /// `x * 2^n` for whole `n` from -126 to 127.
    fn times_power_of_two(self, x: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// The sum of all lanes.
    fn sum(self, x: Self::Floats) -> f32;
    /// The sum of all lanes of each vector; not to the bit that of [`Lanes::sum`].
    #[inline(always)]
    fn sums(self, x: &[Self::Floats; WIDTH]) -> [f32; WIDTH] {
        let mut sums = [0.0; WIDTH];
        for i in 0..WIDTH {
            sums[i] = self.sum(x[i]);
        }
        sums
    }
    /// Rows and columns of sixteen vectors exchanged.
    #[inline(always)]
    fn transpose(self, x: [Self::Floats; WIDTH]) -> [Self::Floats; WIDTH] {
        let mut rows = [[0.0; WIDTH]; WIDTH];
        for r in 0..WIDTH {
            self.store(x[r], &mut rows[r]);
        }
        std::array::from_fn(|c| self.load(&std::array::from_fn(|r| rows[r][c])))
    }
    /// The greatest lane.
    fn greatest(self, x: Self::Floats) -> f32;
}

/// An order of lanes in which the neighbours of pairs, of pairs of pairs, ... lie these numbers apart.
const fn sum_order(apart: [usize; 4]) -> [usize; WIDTH] {
    let mut order = [0; WIDTH];
    let mut i = 0;
    while i < WIDTH {
        let mut level = 0;
        while level < apart.len() {
            order[i] += (i >> level & 1) * apart[level];
            level += 1;
        }
        i += 1;
    }
    order
}

/// Has the vector that lies `elements` behind this one brought to the second cache, where there is an instruction for that: with this much
/// arithmetic between two reads, the processor itself does not look as far ahead as memory takes. The first cache can wait for fewer
/// lines at a time.
#[inline(always)]
pub(crate) fn fetch_ahead<E>(vector: &[E; WIDTH], elements: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let there = vector.as_ptr().wrapping_add(elements);
        // SAFETY: every x86-64 has the instruction; it reads nothing that a program could see, and any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(there.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (vector, elements);
}

/// Has the line of an address brought to the first cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn fetch_near<E>(there: *const E) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: as in `fetch_ahead`.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(there.cast()) };
}

/// Makes a function that takes an [`Isa`](crate::Isa) first out of one that is generic over its lanes.
///
/// `fn name<L>(lanes; arguments)`; further generics stand in brackets, once with bounds and once by name. The body is inlined
/// into one function for each level, in which the instructions are enabled.
macro_rules! on_lanes {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$L:ident> $([$($generics:tt)*][$($names:tt)*])?
     ($lanes:ident; $($arg:ident : $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$($generics)*>)? (isa: $crate::dot::Isa, $($arg: $ty),*) $(-> $out)? {
            #[inline(always)]
            fn body<$L: $crate::lanes::Lanes, $($($generics)*)?>($lanes: $L, $($arg: $ty),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
            fn avx512 $(<$($generics)*>)? ($($arg: $ty),*) $(-> $out)? {
                body::<_ $(, $($names)*)?>($crate::lanes::Avx512::new(), $($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2 $(<$($generics)*>)? ($($arg: $ty),*) $(-> $out)? {
                body::<_ $(, $($names)*)?>($crate::lanes::Avx2::new(), $($arg),*)
            }

            #[allow(clippy::match_single_binding)] // On a machine for which there is nothing else, one arm is left.
            match isa.level() {
                // SAFETY: an `Isa` is made only for instructions that were found on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::dot::Level::Avx512 => unsafe { avx512 $(::<$($names)*>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::dot::Level::Avx2 => unsafe { avx2 $(::<$($names)*>)? ($($arg),*) },
                _ => body::<_ $(, $($names)*)?>($crate::lanes::Plain, $($arg),*),
            }
        }
    };
}
pub(crate) use on_lanes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::Isa;

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
