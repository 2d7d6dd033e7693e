//! Instruction sets (ISA): detected once, or selected by `HEARTH_ISA`.

#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512, Avx512Bf16, AvxVnni};
use crate::lanes::{Kernel, Plain, Token};
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use crate::lanes::{Neon, NeonI8mm};
use std::sync::OnceLock;

/// Environment variable that names the instruction set to use.
const VARIABLE: &str = "HEARTH_ISA";

/// A vector instruction set that this machine has.
///
/// A value exists only for detected instructions, so holding one makes it sound to use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Set);

/// Defines the instruction sets, the best last. For each: the targets that have it, its token, its
/// name in `HEARTH_ISA` (features joined by `+`), and its name in the user interface.
macro_rules! sets {
    ($d:tt $($(#[$cfg:meta])? $set:ident($token:ty) $name:literal $label:literal)+) => {
        /// An instruction set, with the proof that the CPU has it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Set {
            $($(#[$cfg])? $set($token),)+
        }

        /// Evaluates an expression with the token of an [`Isa`].
        macro_rules! on_set {
            ($d isa:expr, $d token:ident => $d value:expr) => {
                match $d isa.set() {
                    $($(#[$cfg])? $crate::isa::Set::$set($d token) => $d value,)+
                }
            };
        }

        impl Isa {
            /// All instruction sets that this machine supports, `scalar` first.
            pub fn available() -> Vec<Self> {
                let mut available = Vec::new();
                $($(#[$cfg])? available.extend(<$token>::detect().map(|token| Self(Set::$set(token))));)+
                available
            }

            /// Its name in `HEARTH_ISA`: a set of features, joined by `+`.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($(#[$cfg])? Set::$set(_) => $name,)+
                }
            }

            /// Its name in the user interface.
            pub fn label(self) -> &'static str {
                match self.0 {
                    $($(#[$cfg])? Set::$set(_) => $label,)+
                }
            }
        }
    };
}
sets! {
    $ Scalar(Plain) "scalar" "scalar"
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2) "avx2" "AVX2"
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni) "avx+vnni" "AVX-VNNI"
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512) "avx512" "AVX-512 VNNI"
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512Bf16) "avx512+bf16" "AVX-512 VNNI"
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon(Neon<false>) "neon" "NEON"
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    NeonDot(Neon<true>) "neon+dot" "NEON with dot products"
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    NeonI8mm(NeonI8mm) "neon+i8mm" "NEON with matrix products"
}
pub(crate) use on_set;

/// Returns `true` if the CPU is from Intel. The result is cached, because `cpuid` is slow in
/// virtual machines.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_intel() -> bool {
    static INTEL: OnceLock<bool> = OnceLock::new();
    *INTEL.get_or_init(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
    })
}

/// `HEARTH_ISA` names an instruction set that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{VARIABLE} is \"{requested}\", which is not an instruction set of this machine; possible values: {available}")]
pub struct IsaError {
    requested: String,
    available: String,
}

impl Isa {
    /// The instruction set to use: the one that the environment variable `HEARTH_ISA` names, else
    /// the best of this machine. Detected on the first call. An invalid name is ignored here; see
    /// [`Isa::requested`].
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let best = || Self::available().into_iter().max();
            let requested = Self::requested().ok().flatten();
            requested.or_else(best).unwrap_or(Isa(Set::Scalar(Plain)))
        })
    }

    /// The instruction set that `HEARTH_ISA` names; `None` if it is not set or empty.
    ///
    /// # Errors
    /// If there is none of this name, or this machine lacks it.
    pub fn requested() -> Result<Option<Self>, IsaError> {
        match std::env::var_os(VARIABLE) {
            Some(name) if !name.is_empty() => Self::named(&name.to_string_lossy()).map(Some),
            _ => Ok(None),
        }
    }

    /// The instruction set of this [`Isa::name`], in which `-` may stand for `+`.
    fn named(name: &str) -> Result<Self, IsaError> {
        let available = Self::available();
        let normalized = name.replace('-', "+");
        let isa = available.iter().find(|isa| isa.name() == normalized);
        isa.copied().ok_or_else(|| IsaError {
            requested: name.to_owned(),
            available: available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Its token.
    #[inline(always)]
    pub(crate) fn set(self) -> Set {
        self.0
    }

    /// The token of AVX512_BF16, if it is included.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn bf16(self) -> Option<Avx512Bf16> {
        match self.0 {
            Set::Avx512Bf16(token) => Some(token),
            _ => None,
        }
    }

    /// Returns `true` for scalar code.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(self.0, Set::Scalar(_))
    }

    /// Returns `true` if it has bf16 products and they are faster than f32 products or requested by
    /// `HEARTH_ISA`.
    pub(crate) fn prefers_bf16(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self
            .bf16()
            .is_some_and(|bf16| bf16.is_faster() || matches!(Self::requested(), Ok(Some(_))));
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Runs a kernel with this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        on_set!(self, token => token.kernel(kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the requested set is not available, or on ARM if NEON is not detected.
    #[test]
    fn requested_isa_is_used() {
        let (best, requested) = (Isa::best(), Isa::requested().expect("it is available"));
        match requested {
            None => assert!(best.name() != "scalar" || !cfg!(target_arch = "aarch64")),
            Some(requested) => assert_eq!(best, requested),
        }
    }

    #[test]
    fn names_are_sets_of_features() {
        for isa in Isa::available() {
            assert_eq!(Isa::named(isa.name()), Ok(isa));
            assert_eq!(Isa::named(&isa.name().replace('+', "-")), Ok(isa));
        }
        let error = Isa::named("avx1024").unwrap_err().to_string();
        assert!(error.contains("\"avx1024\"") && error.contains("scalar"), "{error}");
        let other_target = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
        assert!(Isa::named(other_target).is_err());
    }
}
