//! An adapter's numbers, read in pieces and checked.

use super::{AdapterProblem, LoraTensors, TargetName};
use half::{bf16, f16};
use std::borrow::Cow;

/// What becomes of numbers once they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// They are what is wanted.
    Keep,
    /// They are dropped, so that one target's are in memory at a time.
    Check,
}

impl Numbers {
    /// Refuses a target whose numbers are not sound. Only those to keep are still there then.
    pub fn checked(self, target: TargetName, mut lora: LoraTensors) -> Result<LoraTensors, AdapterProblem> {
        if let Some(why) = lora.problem() {
            return Err(AdapterProblem::target(target, why));
        }
        if self == Self::Check {
            lora.a = Vec::new();
            lora.b = Vec::new();
        }
        Ok(lora)
    }
}

/// How a float is stored, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F16,
    Bf16,
}

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Decodes `len` bytes of floats, which `read` gives from a start on.
pub(super) fn floats<'a, E>(
    float: Float,
    len: usize,
    mut read: impl FnMut(usize, usize) -> Result<Cow<'a, [u8]>, E>,
) -> Result<Vec<f32>, E> {
    let mut values = Vec::new();
    for start in (0..len).step_by(PIECE) {
        let bytes = read(start, PIECE.min(len - start))?;
        match float {
            Float::F32 => decode(&mut values, &bytes, f32::from_le_bytes),
            Float::F16 => decode(&mut values, &bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Float::Bf16 => decode(&mut values, &bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        }
    }
    Ok(values)
}

/// Appends numbers of `N` bytes each.
fn decode<const N: usize>(values: &mut Vec<f32>, bytes: &[u8], number: impl Fn([u8; N]) -> f32) {
    let (numbers, _) = bytes.as_chunks::<N>();
    values.extend(numbers.iter().map(|&bytes| number(bytes)));
}
