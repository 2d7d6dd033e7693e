//! Reads the values of an adapter in buffers of bounded size and checks them.

use super::{AdapterProblem, LoraTensors, ModuleName};
use half::{bf16, f16};
use std::borrow::Cow;

/// Whether values are retained after they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Values are retained.
    Load,
    /// Values are dropped, so that the values of one target are in memory at a time.
    Check,
}

impl ReadMode {
    /// Refuses a module with invalid values. With [`ReadMode::Check`] the returned matrices are
    /// empty.
    pub fn checked(self, target: ModuleName, mut lora: LoraTensors) -> Result<LoraTensors, AdapterProblem> {
        if let Some(problem) = lora.problem(true) {
            return Err(AdapterProblem::target(target, problem));
        }
        if self == Self::Check {
            lora.a = Vec::new();
            lora.b = Vec::new();
        }
        Ok(lora)
    }
}

/// A float type, stored little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F16,
    Bf16,
}

/// Bytes read at once.
const READ_SIZE: usize = 1 << 20;

/// Decodes `len` bytes of floats; `read` takes a start and a length.
pub(super) fn floats<'a, E>(
    float: Float,
    len: usize,
    mut read: impl FnMut(usize, usize) -> Result<Cow<'a, [u8]>, E>,
) -> Result<Vec<f32>, E> {
    let mut values = Vec::new();
    for start in (0..len).step_by(READ_SIZE) {
        let bytes = read(start, READ_SIZE.min(len - start))?;
        match float {
            Float::F32 => decode(&mut values, &bytes, f32::from_le_bytes),
            Float::F16 => decode(&mut values, &bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Float::Bf16 => decode(&mut values, &bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        }
    }
    Ok(values)
}

/// Appends values of `N` bytes each, converted by `convert`.
fn decode<const N: usize>(values: &mut Vec<f32>, bytes: &[u8], convert: impl Fn([u8; N]) -> f32) {
    let (chunks, _) = bytes.as_chunks::<N>();
    values.extend(chunks.iter().map(|&bytes| convert(bytes)));
}
