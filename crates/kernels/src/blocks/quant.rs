//! The formats, and dispatch to their types.

use std::fmt;

use super::{Block, BlockError, Float, GROUP};

/// Storage format of a matrix's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, missing_docs)] // GGUF's own names; each format is documented in its file beside this one.
pub enum Quant {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_XS,
    IQ4_NL,
}

/// Runs one of two bodies with the storage type of a [`Quant`]: a [`Float`] or a [`Block`].
macro_rules! with_format {
    ($quant:expr, float $F:ident => $float:expr, block $B:ident => $block:expr $(,)?) => {{
        use $crate::blocks as b;
        macro_rules! float {
            ($T:ty) => {{
                type $F = $T;
                $float
            }};
        }
        macro_rules! block {
            ($T:ty) => {{
                type $B = $T;
                $block
            }};
        }
        match $quant {
            b::Quant::F32 => float!(b::F32),
            b::Quant::F16 => float!(b::Fp16),
            b::Quant::BF16 => float!(b::Bf16),
            b::Quant::Q4_0 => block!(b::Q4_0),
            b::Quant::Q4_1 => block!(b::Q4_1),
            b::Quant::Q5_0 => block!(b::Q5_0),
            b::Quant::Q5_1 => block!(b::Q5_1),
            b::Quant::Q8_0 => block!(b::Q8_0),
            b::Quant::Q2_K => block!(b::Q2K),
            b::Quant::Q3_K => block!(b::Q3K),
            b::Quant::Q4_K => block!(b::Q4K),
            b::Quant::Q5_K => block!(b::Q5K),
            b::Quant::Q6_K => block!(b::Q6K),
            b::Quant::IQ4_XS => block!(b::Iq4Xs),
            b::Quant::IQ4_NL => block!(b::Iq4Nl),
        }
    }};
}
pub(crate) use with_format;

impl Quant {
    /// Every format: unquantised ones first, then by bits per weight within a family.
    pub const ALL: [Quant; 15] = [
        Quant::F32,
        Quant::F16,
        Quant::BF16,
        Quant::Q4_0,
        Quant::Q4_1,
        Quant::Q5_0,
        Quant::Q5_1,
        Quant::Q8_0,
        Quant::Q2_K,
        Quant::Q3_K,
        Quant::Q4_K,
        Quant::Q5_K,
        Quant::Q6_K,
        Quant::IQ4_XS,
        Quant::IQ4_NL,
    ];

    /// The format's name as files and people write it, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        match self {
            Quant::F32 => "F32",
            Quant::F16 => "F16",
            Quant::BF16 => "BF16",
            Quant::Q4_0 => "Q4_0",
            Quant::Q4_1 => "Q4_1",
            Quant::Q5_0 => "Q5_0",
            Quant::Q5_1 => "Q5_1",
            Quant::Q8_0 => "Q8_0",
            Quant::Q2_K => "Q2_K",
            Quant::Q3_K => "Q3_K",
            Quant::Q4_K => "Q4_K",
            Quant::Q5_K => "Q5_K",
            Quant::Q6_K => "Q6_K",
            Quant::IQ4_XS => "IQ4_XS",
            Quant::IQ4_NL => "IQ4_NL",
        }
    }

    /// The format called `name`, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|quant| quant.name().eq_ignore_ascii_case(name))
    }

    /// Whether weights are unquantised, so that activations are not quantised to int8 either.
    pub fn is_float(self) -> bool {
        matches!(self, Quant::F32 | Quant::F16 | Quant::BF16)
    }

    /// Weights per block: 1, 32 or 256.
    pub fn block_elements(self) -> usize {
        with_format!(self, float _F => 1, block B => B::GROUPS * GROUP)
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        with_format!(self, float F => size_of::<F>(), block B => size_of::<B>())
    }

    /// Bytes of a row of `cols` weights. `None` means not a whole number of blocks, or an overflow.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        if cols.is_multiple_of(self.block_elements()) {
            (cols / self.block_elements()).checked_mul(self.block_bytes())
        } else {
            None
        }
    }

    /// Checks that `bytes` has exactly the size of `weights` weights.
    ///
    /// # Errors
    /// If `weights` is not a whole number of blocks, or the number of bytes does not match.
    pub fn check(self, bytes: &[u8], weights: usize) -> Result<(), BlockError> {
        match self.row_bytes(weights) {
            None => Err(BlockError::PartialBlock { quant: self, weights }),
            Some(expected) if expected != bytes.len() => Err(BlockError::Bytes {
                quant: self,
                weights,
                expected,
                found: bytes.len(),
            }),
            Some(_) => Ok(()),
        }
    }

    /// Scalar specification of dequantisation; `src` holds `dst.len()` weights.
    pub(crate) fn dequantize_scalar(self, src: &[u8], dst: &mut [f32]) {
        with_format!(self,
            float F => {
                for (weight, out) in bytemuck::cast_slice::<u8, F>(src).iter().zip(dst) {
                    *out = Float::to_f32(*weight);
                }
            },
            block B => {
                let out = dst.chunks_exact_mut(B::GROUPS * GROUP);
                for (block, out) in bytemuck::cast_slice::<u8, B>(src).iter().zip(out) {
                    block.dequantize(out);
                }
            },
        );
    }

    /// Quantises the weights `src` to `dst`, block by block, with the scales of least error.
    ///
    /// # Errors
    /// If `dst` does not hold exactly `src.len()` weights; or, in a quantised format, if a weight
    /// is NaN, infinite or too large for the scales: `dst` is then partly written.
    pub fn quantize_row(self, src: &[f32], dst: &mut [u8]) -> Result<(), BlockError> {
        self.check(dst, src.len())?;
        with_format!(self,
            float F => {
                for (weight, out) in src.iter().zip(bytemuck::cast_slice_mut::<u8, F>(dst)) {
                    *out = Float::from_f32(*weight);
                }
            },
            block B => {
                let weights = B::GROUPS * GROUP;
                let blocks = src.chunks_exact(weights).zip(bytemuck::cast_slice_mut::<u8, B>(dst));
                for (i, (x, out)) in blocks.enumerate() {
                    *out = B::quantize(x);
                    if !x.iter().all(|x| x.is_finite()) || out.has_bad_scale() {
                        return Err(BlockError::NotStorable { quant: self, at: i * weights });
                    }
                }
            },
        );
        Ok(())
    }

    /// Whether a scale (in an unquantised format: a weight) of the blocks in `bytes` is NaN or
    /// infinite. Bytes after the last whole block are ignored.
    pub fn has_bad_scale(self, bytes: &[u8]) -> bool {
        let whole = &bytes[..bytes.len() - bytes.len() % self.block_bytes()];
        with_format!(self,
            // Without an early exit, the loop is vectorised.
            float F => bytemuck::cast_slice::<u8, F>(whole)
                .iter()
                .fold(false, |bad, weight| bad | !Float::is_finite(*weight)),
            block B => bytemuck::cast_slice::<u8, B>(whole).iter().any(Block::has_bad_scale),
        )
    }
}

impl fmt::Display for Quant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Quant;

    /// Code that iterates over all formats uses this list: a new format does not compile here until
    /// it has an index.
    #[test]
    fn all_lists_every_format() {
        const COUNT: usize = 15;
        let number = |quant| match quant {
            Quant::F32 => 0,
            Quant::F16 => 1,
            Quant::BF16 => 2,
            Quant::Q4_0 => 3,
            Quant::Q4_1 => 4,
            Quant::Q5_0 => 5,
            Quant::Q5_1 => 6,
            Quant::Q8_0 => 7,
            Quant::Q2_K => 8,
            Quant::Q3_K => 9,
            Quant::Q4_K => 10,
            Quant::Q5_K => 11,
            Quant::Q6_K => 12,
            Quant::IQ4_XS => 13,
            Quant::IQ4_NL => COUNT - 1,
        };
        let mut numbers = Quant::ALL.map(number);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..COUNT), "{numbers:?}");
    }
}
