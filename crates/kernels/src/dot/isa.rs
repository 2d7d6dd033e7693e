//! Which vector instructions are used: found once, and lowered on request.

use std::sync::OnceLock;

use super::simd::Kernel;

/// Vector instructions that this machine has.
///
/// A value exists only for instructions that were found, so that code may use them on its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa {
    level: Level,
    /// Products of bf16, beside what the level says.
    bf16: bool,
}

/// A family of vector instructions; a later one is preferred where the machine has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None: plain code, the specification of all others.
    Scalar,
    /// x86-64: AVX2, FMA and F16C.
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ and VL with VNNI, besides what [`Level::Avx2`] says.
    Avx512,
    /// ARM64 as every such machine has it.
    Neon,
    /// ARM64 with products of four bytes.
    NeonDot,
}

impl Level {
    /// Every level.
    const ALL: [Level; 5] = [Level::Scalar, Level::Avx2, Level::Avx512, Level::Neon, Level::NeonDot];

    /// The name by which `HEARTH_ISA` asks for the level.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
            Level::NeonDot => "neon-dot",
        }
    }

    /// Whether the machine can run the level.
    fn is_here(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_here()
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
            #[allow(unreachable_patterns)] // Which levels are left depends on the target.
            _ => false,
        }
    }
}

/// Whether the machine multiplies bf16 besides all that [`Level::Avx512`] says.
fn bf16_is_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    return Level::Avx512.is_here() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

impl Isa {
    /// The best instructions of this machine, or the best that are not beyond what the environment variable
    /// `HEARTH_ISA` names (`scalar`, `avx2`, `avx512`, `neon`, `neon-dot`). Products of bf16 are beyond each of them. Found at
    /// the first call.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let asked = std::env::var("HEARTH_ISA").unwrap_or_default();
            let limit = Level::ALL.into_iter().find(|level| level.name() == asked);
            let allowed = |isa: &Isa| limit.is_none_or(|limit| isa.level <= limit && !isa.bf16);
            Self::available()
                .into_iter()
                .filter(allowed)
                .max()
                .unwrap_or(Isa::of(Level::Scalar))
        })
    }

    /// All that this machine can run, [`Level::Scalar`] first.
    pub fn available() -> Vec<Self> {
        let levels = Level::ALL.into_iter().filter(|level| level.is_here());
        let mut all: Vec<Isa> = levels.map(Isa::of).collect();
        if bf16_is_here() {
            all.push(Isa {
                level: Level::Avx512,
                bf16: true,
            });
        }
        all
    }

    /// A level alone.
    fn of(level: Level) -> Self {
        Self { level, bf16: false }
    }

    /// Which instructions these are.
    pub fn level(self) -> Level {
        self.level
    }

    /// Whether they multiply bf16: AVX512_BF16.
    pub fn multiplies_bf16(self) -> bool {
        self.bf16
    }

    /// Runs a kernel on these instructions.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.level {
            Level::Scalar => kernel.scalar(),
            // SAFETY: an `Isa` is made only for instructions that were found on this machine.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::avx2::run(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { super::avx512::run(kernel) },
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Level::Neon => super::neon::run(kernel),
            // SAFETY: as above.
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Level::NeonDot => unsafe { super::neon::run_with_dot(kernel) },
            #[allow(unreachable_patterns)] // Which levels are left depends on the target.
            _ => kernel.scalar(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever runs the tests for a level gets that one or hears of it, and on ARM is never left without NEON.
    #[test]
    fn tests_run_on_the_level_that_they_are_run_for() {
        let (best, asked) = (Isa::best().level(), std::env::var("HEARTH_ISA").unwrap_or_default());
        if asked.is_empty() {
            assert!(best >= Level::Neon || !cfg!(target_arch = "aarch64"));
        } else {
            assert_eq!(best.name(), asked, "this machine offers {:?}", Isa::available());
        }
    }
}
