//! [`Lanes`] in scalar code: the specification, and the fallback for targets whose intrinsics are
//! not used.

use super::token::{Kernel, Token};
use super::{Lanes, WIDTH};
use half::f16;

/// Scalar lanes, available on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Plain;

impl Token for Plain {
    type Lanes = Self;

    fn detect() -> Option<Self> {
        Some(Self)
    }

    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    fn kernel<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.scalar()
    }

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }
}

type Floats = [f32; WIDTH];

/// Applies `f` to corresponding lanes.
#[inline(always)]
fn pairwise(a: Floats, b: Floats, f: impl Fn(f32, f32) -> f32) -> Floats {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Combines the halves of a vector until one lane is left, as SIMD reductions do.
#[inline(always)]
fn fold(mut x: Floats, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = WIDTH;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            x[i] = f(x[i], x[i + width]);
        }
    }
    x[0]
}

impl Lanes for Plain {
    type Floats = Floats;
    type Ints = [i32; WIDTH];
    type Pairs = [[i16; 2]; WIDTH];

    const REGISTERS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Floats {
        [x; WIDTH]
    }

    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Floats {
        *x
    }

    #[inline(always)]
    fn store(self, x: Floats, out: &mut [f32; WIDTH]) {
        *out = x;
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Floats {
        x.map(|bits| f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn load_bf16(self, x: &[u16; WIDTH]) -> Floats {
        x.map(crate::bf16_slices::widen)
    }

    #[inline(always)]
    fn store_f16(self, x: Floats, out: &mut [u16; WIDTH]) {
        *out = x.map(|x| f16::from_f32(x).to_bits());
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Floats {
        x.map(f32::from)
    }

    #[inline(always)]
    fn store_i8(self, x: Floats, out: &mut [i8; WIDTH]) {
        *out = x.map(|x| x as i8);
    }

    #[inline(always)]
    fn store_i16(self, x: Floats, out: &mut [i16; WIDTH]) {
        *out = self.round(x).map(|x| x as i16);
    }

    #[inline(always)]
    fn load_i8_pairs(self, x: &[[i8; 2]; WIDTH]) -> [[i16; 2]; WIDTH] {
        x.map(|pair| pair.map(i16::from))
    }

    #[inline(always)]
    fn splat_i16_pair(self, x: [i16; 2]) -> [[i16; 2]; WIDTH] {
        [x; WIDTH]
    }

    #[inline(always)]
    fn zero_i32(self) -> [i32; WIDTH] {
        [0; WIDTH]
    }

    #[inline(always)]
    fn dot_i16_add(self, a: [[i16; 2]; WIDTH], b: [[i16; 2]; WIDTH], c: [i32; WIDTH]) -> [i32; WIDTH] {
        let product = |a: i16, b: i16| i32::from(a) * i32::from(b);
        std::array::from_fn(|i| {
            let products = product(a[i][0], b[i][0]).wrapping_add(product(a[i][1], b[i][1]));
            products.wrapping_add(c[i])
        })
    }

    #[inline(always)]
    fn cvt_i32_f32(self, x: [i32; WIDTH]) -> Floats {
        x.map(|x| x as f32)
    }

    #[inline(always)]
    fn load_i8_as_i32(self, x: &[u8; WIDTH]) -> [i32; WIDTH] {
        x.map(|x| i32::from(x as i8))
    }

    #[inline(always)]
    fn shl_i32(self, a: [i32; WIDTH], by: u32) -> [i32; WIDTH] {
        a.map(|a| a << by)
    }

    #[inline(always)]
    fn shr_and_i32(self, a: [i32; WIDTH], by: u32, mask: i32) -> [i32; WIDTH] {
        a.map(|a| (a as u32 >> by) as i32 & mask)
    }

    #[inline(always)]
    fn or_i32(self, a: [i32; WIDTH], b: [i32; WIDTH]) -> [i32; WIDTH] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn add_scalar_i32(self, a: [i32; WIDTH], b: i32) -> [i32; WIDTH] {
        a.map(|a| a.wrapping_add(b))
    }

    #[inline(always)]
    fn reinterpret_i32_f32(self, a: [i32; WIDTH]) -> Floats {
        a.map(|a| f32::from_bits(a as u32))
    }

    #[inline(always)]
    fn add(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: Floats, b: Floats, c: Floats) -> Floats {
        std::array::from_fn(|i| self.fma_scalar(a[i], b[i], c[i]))
    }

    #[inline(always)]
    fn fma_scalar(self, a: f32, b: f32, c: f32) -> f32 {
        // Fused only on targets where it is one instruction; on others it would be a library call.
        if cfg!(target_arch = "aarch64") {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }

    #[inline(always)]
    fn max(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: Floats, b: Floats) -> Floats {
        pairwise(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn round(self, x: Floats) -> Floats {
        // Adding 1.5 * 2^23 leaves no bits below one; the sum rounds ties to even.
        const MAGIC: f32 = 12_582_912.0;
        x.map(|x| (x + MAGIC) - MAGIC)
    }

    #[inline(always)]
    fn scalef(self, x: Floats, n: Floats) -> Floats {
        pairwise(x, n, |x, n| x * f32::from_bits(((n as i32 + 127) << 23) as u32))
    }

    #[inline(always)]
    fn reduce_add(self, x: Floats) -> f32 {
        fold(x, |a, b| a + b)
    }

    #[inline(always)]
    fn reduce_max(self, x: Floats) -> f32 {
        fold(x, f32::max)
    }
}
