//! AVX-VNNI: AVX2 with `vpdpbusd`.
//!
//! The feature `avx-vnni-on-avx512` selects the 256-bit `vpdpbusd` of AVX-512 VNNI instead, which
//! computes the same and has another encoding, to test the kernels on machines without AVX-VNNI.

use super::Avx2;
use super::token::token_over;
use std::arch::x86_64::*;

/// [`Avx2`], and proof that the CPU has AVX-VNNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AvxVnni(Avx2);

/// Enables the instructions of [`AvxVnni`] in a function.
macro_rules! avx_vnni {
    ($($function:tt)*) => {
        $crate::lanes::avx2! {
            #[cfg_attr(not(feature = "avx-vnni-on-avx512"), target_feature(enable = "avxvnni"))]
            #[cfg_attr(feature = "avx-vnni-on-avx512", target_feature(enable = "avx512vnni,avx512vl"))]
            $($function)*
        }
    };
}
pub(crate) use avx_vnni;

#[cfg(not(feature = "avx-vnni-on-avx512"))]
token_over!(AvxVnni: Avx2, is_x86_feature_detected!("avxvnni"));
#[cfg(feature = "avx-vnni-on-avx512")]
token_over!(AvxVnni: Avx2, is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl"));

avx_vnni! {
    /// Adds the products of four unsigned with four signed bytes to each of eight sums.
    #[inline]
    pub(crate) fn dpbusd(sums: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        #[cfg(not(feature = "avx-vnni-on-avx512"))]
        return _mm256_dpbusd_avx_epi32(sums, unsigned, signed);
        #[cfg(feature = "avx-vnni-on-avx512")]
        return _mm256_dpbusd_epi32(sums, unsigned, signed);
    }
}
