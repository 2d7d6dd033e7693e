//! Software prefetching of weights: its distance, and the cache to which it prefetches.
//!
//! The fastest choice differs between CPUs, and prefetching can even be slower than none
//! (`docs/tried/decode.md`). So each format has its own choice: the value of `HEARTH_PREFETCH`,
//! else the result of [`calibrate`] in this process or an earlier one ([`Prefetch::choose`]), else
//! a default for the CPU. The results of products do not depend on the choice.

mod calibrate;

pub use calibrate::{Calibrated, calibrate};

use crate::blocks::Quant;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that names the choice for all formats.
const VARIABLE: &str = "HEARTH_PREFETCH";
/// Maximum distance in bytes.
const MAX_DISTANCE: u16 = 16 * 1024;

/// The cache to which lines are prefetched: the hint of x86's `prefetch` instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Target {
    /// `prefetcht0`: L1 and all other caches.
    T0,
    /// `prefetcht1`: L2.
    T1,
    /// `prefetchnta`: L1, to be evicted first.
    Nta,
}

impl Target {
    const ALL: [Self; 3] = [Self::T0, Self::T1, Self::Nta];

    fn name(self) -> &'static str {
        match self {
            Self::T0 => "t0",
            Self::T1 => "t1",
            Self::Nta => "nta",
        }
    }
}

/// Software prefetch of the weights in products of a format with one token. Written as `none`, or
/// as target and distance in bytes, such as `t1+1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    target: Target,
    /// Bytes from the weights that are being multiplied to the weights that are prefetched; 0 means
    /// no prefetch.
    distance: u16,
}

impl Prefetch {
    /// No software prefetch.
    pub const NONE: Self = Self::new(Target::T1, 0);

    const fn new(target: Target, distance: u16) -> Self {
        Self { target, distance }
    }

    /// Returns the choice for a format.
    pub fn for_format(quant: Quant) -> Self {
        let requested = *REQUESTED.get_or_init(|| Self::requested().ok().flatten());
        requested.unwrap_or_else(|| Self::chosen(quant).unwrap_or_else(Self::of_cpu))
    }

    /// Returns the choice that [`Prefetch::choose`] set; `None` means the default.
    pub fn chosen(quant: Quant) -> Option<Self> {
        Self::decode(CHOSEN[quant as usize].load(Ordering::Relaxed))
    }

    /// Sets the choice of this process for a format; `None` means the default of the CPU.
    /// `HEARTH_PREFETCH` takes precedence.
    pub fn choose(quant: Quant, choice: Option<Self>) {
        let code = choice.map_or(0, Self::encode);
        CHOSEN[quant as usize].store(code, Ordering::Relaxed);
    }

    /// Returns the value of `HEARTH_PREFETCH`; `None` if it is not set or empty.
    ///
    /// # Errors
    /// If the value is invalid.
    pub fn requested() -> Result<Option<Self>, PrefetchError> {
        match std::env::var_os(VARIABLE) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse().map(Some),
            _ => Ok(None),
        }
    }

    /// The default of this CPU. The default for Intel was measured on Sapphire and Emerald Rapids
    /// only, the default for other CPUs on a Zen 4 only (`docs/tried/decode.md`).
    fn of_cpu() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::isa::is_intel() {
            // One page ahead hides the TLB miss too: the hardware prefetcher stops at the end of a
            // page.
            return Self::new(Target::T1, 4096);
        }
        Self::NONE
    }

    /// Encodes the choice as a number other than 0.
    fn encode(self) -> u32 {
        1 << 31 | (self.target as u32) << 16 | u32::from(self.distance)
    }

    /// Inverse of [`Prefetch::encode`]; `None` for 0.
    fn decode(code: u32) -> Option<Self> {
        let target = *Target::ALL.get((code >> 16 & 0xff) as usize)?;
        (code != 0).then_some(Self::new(target, code as u16))
    }

    /// Prefetches the cache lines of `bytes`, offset by the distance.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn after(self, bytes: &[u8]) {
        use std::arch::x86_64::{_MM_HINT_NTA, _MM_HINT_T0, _MM_HINT_T1};
        if self.distance == 0 {
            return;
        }
        match self.target {
            Target::T0 => prefetch_lines::<_MM_HINT_T0>(bytes, self.distance),
            Target::T1 => prefetch_lines::<_MM_HINT_T1>(bytes, self.distance),
            Target::Nta => prefetch_lines::<_MM_HINT_NTA>(bytes, self.distance),
        }
    }
}

/// Prefetches the cache lines of `bytes`, offset by `distance` bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_lines<const HINT: i32>(bytes: &[u8], distance: u16) {
    for line in bytes.as_chunks::<64>().0 {
        let address = line.as_ptr().wrapping_add(usize::from(distance));
        // SAFETY: every x86-64 CPU has the instruction, and a prefetch may take any address.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(address.cast()) };
    }
}

/// The choices of this process, encoded; 0 means the default.
static CHOSEN: [AtomicU32; Quant::ALL.len()] = [const { AtomicU32::new(0) }; Quant::ALL.len()];
/// The value of `HEARTH_PREFETCH`, read once.
static REQUESTED: OnceLock<Option<Prefetch>> = OnceLock::new();

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.distance {
            0 => f.write_str("none"),
            distance => write!(f, "{}+{distance}", self.target.name()),
        }
    }
}

impl FromStr for Prefetch {
    type Err = PrefetchError;

    fn from_str(name: &str) -> Result<Self, PrefetchError> {
        if name == "none" {
            return Ok(Self::NONE);
        }
        let parts = name.split_once('+').and_then(|(target, distance)| {
            let target = Target::ALL.into_iter().find(|candidate| candidate.name() == target)?;
            let distance = distance
                .parse()
                .ok()
                .filter(|distance| (1..=MAX_DISTANCE).contains(distance))?;
            Some(Self::new(target, distance))
        });
        parts.ok_or_else(|| PrefetchError(name.chars().take(40).collect()))
    }
}

/// `HEARTH_PREFETCH`, or a record, names no [`Prefetch`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{VARIABLE} is \"{0}\", which is not a way to prefetch; possible values: none, or t0, t1 or nta and a distance in \
     bytes up to {MAX_DISTANCE}, such as t1+1024"
)]
pub struct PrefetchError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written() {
        for name in ["none", "t0+512", "t1+1024", "nta+16384"] {
            assert_eq!(name.parse::<Prefetch>().expect(name).to_string(), name);
        }
        for invalid in ["", "t1", "t1+", "t1+0", "t1+16385", "t2+64", "t1+-1", "None"] {
            assert!(invalid.parse::<Prefetch>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn every_choice_survives_its_encoding() {
        for target in Target::ALL {
            for distance in [0, 1, 4096, MAX_DISTANCE] {
                let choice = Prefetch::new(target, distance);
                assert_eq!(Prefetch::decode(choice.encode()), Some(choice));
            }
        }
        assert_eq!(Prefetch::decode(0), None);
    }

    #[test]
    fn a_format_has_its_own_choice() {
        let before = Prefetch::for_format(Quant::Q5_1);
        let choice = Prefetch::new(Target::Nta, 192);
        Prefetch::choose(Quant::Q5_1, Some(choice));
        assert_eq!(Prefetch::chosen(Quant::Q5_1), Some(choice));
        assert_eq!(Prefetch::chosen(Quant::Q5_0), None);
        Prefetch::choose(Quant::Q5_1, None);
        assert_eq!(Prefetch::for_format(Quant::Q5_1), before);
    }
}
