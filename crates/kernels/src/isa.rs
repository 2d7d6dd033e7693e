//! Instruction set (ISA): detected once; `HEARTH_ISA` names another.

use std::sync::OnceLock;

/// Environment variable that names the instruction set to use.
const VARIABLE: &str = "HEARTH_ISA";

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
            requested.or_else(best).unwrap_or(Isa::of(Level::Scalar))
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
        let wanted = name.replace('-', "+");
        let found = available.iter().find(|isa| isa.name() == wanted);
        found.copied().ok_or_else(|| IsaError {
            requested: name.to_owned(),
            available: available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Its name in `HEARTH_ISA`: a set of features, joined by `+`.
    pub fn name(self) -> &'static str {
        match (self.level, self.bf16) {
            (Level::Scalar, _) => "scalar",
            (Level::Avx2, _) => "avx2",
            (Level::Avx512, false) => "avx512",
            (Level::Avx512, true) => "avx512+bf16",
            (Level::Neon, _) => "neon",
            (Level::NeonDot, _) => "neon+dot",
        }
    }

    /// Its name in the user interface.
    pub fn label(self) -> &'static str {
        match self.level {
            Level::Scalar => "scalar",
            Level::Avx2 => "AVX2",
            Level::Avx512 => "AVX-512 VNNI",
            Level::Neon => "NEON",
            Level::NeonDot => "NEON with dot products",
        }
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

    /// Fails if the requested set is not available, and on ARM if NEON is not detected.
    #[test]
    fn requested_isa_is_used() {
        let (best, requested) = (Isa::best(), Isa::requested().expect("it is available"));
        match requested {
            None => assert!(best.level() >= Level::Neon || !cfg!(target_arch = "aarch64")),
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
        let foreign = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
        assert!(Isa::named(foreign).is_err());
    }
}
