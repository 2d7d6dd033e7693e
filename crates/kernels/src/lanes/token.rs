//! Tokens: proofs that the CPU has the instructions of a set.
//!
//! The features of a set are listed once, where its token is defined. Detection checks this list
//! and functions enable it, so the two cannot differ.

use super::{Lanes, Simd};

/// A kernel with a scalar form, which specifies it, and a SIMD form.
pub(crate) trait Kernel {
    /// The result of the kernel.
    type Output;

    /// Scalar specification.
    fn scalar(self) -> Self::Output;

    /// SIMD form; must be marked `#[inline(always)]`.
    fn simd<S: Simd>(self, s: S) -> Self::Output;
}

/// Proof that the CPU has the instructions of a set. A value exists only after detection.
pub(crate) trait Token: Copy {
    /// The lanes on this instruction set.
    type Lanes: Lanes + Token;

    /// The token, if the CPU has the instructions.
    fn detect() -> Option<Self>;

    /// Runs `f`, which must be inlined, with the instructions enabled.
    fn run<R>(self, f: impl FnOnce() -> R) -> R;

    /// Runs a kernel.
    fn kernel<K: Kernel>(self, kernel: K) -> K::Output;

    /// The token of the lanes.
    fn lanes(self) -> Self::Lanes;
}

/// Implements [`Token`] from a list of features, and defines a macro that enables them in a
/// function. Such functions call each other, and intrinsics without pointers, safely; the token's
/// methods call them from elsewhere.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
macro_rules! token {
    ($d:tt $token:ty: $lanes:ty, $enabled:ident, $detected:ident!, $($feature:tt)+) => {
        #[allow(unused_macros)] // Not every set has functions of its own.
        macro_rules! $enabled {
            ($d($d function:tt)*) => {
                #[target_feature($(enable = $feature),+)]
                $d($d function)*
            };
        }
        #[allow(unused_imports)] // As above.
        pub(crate) use $enabled;

        impl $crate::lanes::Token for $token {
            type Lanes = $lanes;

            fn detect() -> Option<Self> {
                ($(std::arch::$detected!($feature))&&+).then_some(Self(()))
            }

            #[inline(always)]
            #[allow(unused_unsafe)] // Where every CPU of the target has the instructions.
            fn run<R>(self, f: impl FnOnce() -> R) -> R {
                $enabled! {
                    // Gives each caller its own copy, next to the kernel whose closures it inlines.
                    #[inline]
                    fn enabled<R>(f: impl FnOnce() -> R) -> R {
                        f()
                    }
                }
                // SAFETY: the token exists only if the CPU has the instructions.
                unsafe { enabled(f) }
            }

            #[inline(always)]
            fn kernel<K: $crate::lanes::Kernel>(self, kernel: K) -> K::Output {
                self.run(#[inline(always)] move || kernel.simd(self))
            }

            #[inline(always)]
            fn lanes(self) -> $lanes {
                <$lanes>::from(self)
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(super) use token;

/// Implements [`Token`] for a token that wraps another and adds instructions which kernels run by
/// [`Token::run`] do not use: it delegates to the wrapped token.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
macro_rules! token_over {
    ($token:ty: $base:ty, $detected:expr) => {
        impl $crate::lanes::Token for $token {
            type Lanes = <$base as $crate::lanes::Token>::Lanes;

            fn detect() -> Option<Self> {
                <$base>::detect().filter(|_| $detected).map(Self)
            }

            #[inline(always)]
            fn run<R>(self, f: impl FnOnce() -> R) -> R {
                self.0.run(f)
            }

            #[inline(always)]
            fn kernel<K: $crate::lanes::Kernel>(self, kernel: K) -> K::Output {
                self.0.kernel(kernel)
            }

            #[inline(always)]
            fn lanes(self) -> Self::Lanes {
                self.0.lanes()
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(super) use token_over;

/// Methods of a token whose bodies run with its instructions enabled. They take the token as their
/// first argument, which the list omits.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
macro_rules! methods {
    ($enabled:ident; $(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? $body:block
    )*) => {$(
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name(self, $($arg: $ty),*) $(-> $out)? {
            $enabled! {
                #[inline]
                fn enabled($($arg: $ty),*) $(-> $out)? $body
            }
            // SAFETY: `self` exists only if the CPU has the instructions.
            unsafe { enabled($($arg),*) }
        }
    )*};
}
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use methods;
