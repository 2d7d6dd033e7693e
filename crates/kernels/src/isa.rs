//! Instruction set (ISA): detected once; `HEARTH_ISA` limits it.

use std::sync::OnceLock;

/// A vector instruction set that this machine has.
///
/// A value exists only for detected instructions, so holding one makes it sound to use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa {
    level: Level,
    /// AVX512_BF16, in addition to the level.
    bf16: bool,
}

/// A family of vector instructions, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No vector instructions: scalar code, the specification of all others.
    Scalar,
    /// x86-64: AVX2, FMA and F16C.
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ, VL and VNNI, in addition to [`Level::Avx2`].
    Avx512,
    /// ARM64: NEON, which every ARM64 CPU has.
    Neon,
    /// ARM64: NEON with dot products (`sdot`).
    NeonDot,
}

impl Level {
    /// Every level.
    const ALL: [Level; 5] = [Level::Scalar, Level::Avx2, Level::Avx512, Level::Neon, Level::NeonDot];

    /// The level's name in `HEARTH_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
            Level::NeonDot => "neon-dot",
        }
    }

    /// Whether this machine supports the level.
    fn is_available(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Level::Neon => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Level::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
            #[allow(unreachable_patterns)] // Depends on the target.
            _ => false,
        }
    }
}

/// Whether this machine supports AVX512_BF16 and [`Level::Avx512`].
fn bf16_is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return Level::Avx512.is_available() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

impl Isa {
    /// The best instruction set of this machine, limited to the level that the environment variable
    /// `HEARTH_ISA` names (`scalar`, `avx2`, `avx512`, `neon`, `neon-dot`), without AVX512_BF16 if
    /// it is set. Detected on the first call.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let requested = std::env::var("HEARTH_ISA").unwrap_or_default();
            let limit = Level::ALL.into_iter().find(|level| level.name() == requested);
            let allowed = |isa: &Isa| limit.is_none_or(|limit| isa.level <= limit && !isa.bf16);
            Self::available()
                .into_iter()
                .filter(allowed)
                .max()
                .unwrap_or(Isa::of(Level::Scalar))
        })
    }

    /// All instruction sets that this machine supports, [`Level::Scalar`] first.
    pub fn available() -> Vec<Self> {
        let levels = Level::ALL.into_iter().filter(|level| level.is_available());
        let mut all: Vec<Isa> = levels.map(Isa::of).collect();
        if bf16_is_available() {
            all.push(Isa {
                level: Level::Avx512,
                bf16: true,
            });
        }
        all
    }

    /// A level without AVX512_BF16.
    fn of(level: Level) -> Self {
        Self { level, bf16: false }
    }

    /// The level.
    pub fn level(self) -> Level {
        self.level
    }

    /// Whether AVX512_BF16 is included.
    pub fn multiplies_bf16(self) -> bool {
        self.bf16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the requested level is not available, and on ARM if NEON is not detected.
    #[test]
    fn requested_level_is_used() {
        let (best, requested) = (Isa::best().level(), std::env::var("HEARTH_ISA").unwrap_or_default());
        if requested.is_empty() {
            assert!(best >= Level::Neon || !cfg!(target_arch = "aarch64"));
        } else {
            assert_eq!(best.name(), requested, "available: {:?}", Isa::available());
        }
    }
}
