//! NEON with i8mm: dot products, and `smmla`, which multiplies two by eight with eight by two
//! bytes.

use super::Neon;
use super::token::token_over;
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
    /// The token without i8mm.
    #[inline(always)]
    pub(crate) fn dot(self) -> Neon<true> {
        self.0
    }
}

token_over!(NeonI8mm: Neon<true>, is_aarch64_feature_detected!("i8mm"));
