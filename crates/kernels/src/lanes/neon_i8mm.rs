//! NEON with i8mm: dot products, and `smmla`, which multiplies two by eight with eight by two
//! bytes.

use super::Neon;
use super::token::{Kernel, Token};
use std::arch::is_aarch64_feature_detected;

/// [`Neon`] with dot products, and proof that the CPU has i8mm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeonI8mm(Neon<true>);

/// Enables the instructions of [`NeonI8mm`] in a function.
macro_rules! neon_i8mm {
    ($($function:tt)*) => {
        $crate::lanes::neon_dot! {
            #[target_feature(enable = "i8mm")]
            $($function)*
        }
    };
}
pub(crate) use neon_i8mm;

impl NeonI8mm {
    /// The instructions without i8mm.
    #[inline(always)]
    pub(crate) fn dot(self) -> Neon<true> {
        self.0
    }
}

impl Token for NeonI8mm {
    type Lanes = Neon<false>;

    fn detect() -> Option<Self> {
        Neon::detect()
            .filter(|_| is_aarch64_feature_detected!("i8mm"))
            .map(Self)
    }

    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        self.0.run(f)
    }

    #[inline(always)]
    fn kernel<K: Kernel>(self, kernel: K) -> K::Output {
        self.0.kernel(kernel)
    }

    #[inline(always)]
    fn lanes(self) -> Neon<false> {
        self.0.lanes()
    }
}
