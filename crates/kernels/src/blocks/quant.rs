//! The formats, and dispatch to their types.

use std::fmt;

use super::{Block, BlockError, Float, GROUP, quants};

/// Declares [`Quant`] and `with_format!` from the table.
macro_rules! declare {
    ($($name:ident: $kind:ident $Type:ident in $($module:ident)::+, $gguf:literal, $file:literal, $next:ident;)*) => {
        /// Storage format of a matrix's weights.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, missing_docs)] // GGUF's own names; each format is documented in its file.
        pub enum Quant {
            $($name,)*
        }

        impl Quant {
            /// Every format, in the order of the table.
            pub const ALL: [Quant; [$($gguf),*].len()] = [$(Quant::$name,)*];

            /// The format's name in GGUF, such as `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Quant::$name => stringify!($name),)*
                }
            }

            /// GGUF's id of the tensor type.
            pub const fn gguf_id(self) -> u32 {
                match self {
                    $(Quant::$name => $gguf,)*
                }
            }

            /// The value of `general.file_type` of a file whose matrices have this format.
            pub const fn file_type(self) -> u32 {
                match self {
                    $(Quant::$name => $file,)*
                }
            }

            /// The next format to try for rows that are not whole blocks of this one; the format
            /// itself if its rows may have any length.
            pub const fn fallback(self) -> Self {
                match self {
                    $(Quant::$name => Quant::$next,)*
                }
            }

            /// Returns `true` if weights are unquantized; their activations are then not quantized
            /// either.
            pub const fn is_float(self) -> bool {
                match self {
                    $(Quant::$name => is_float!($kind),)*
                }
            }
        }

        /// Runs one of two bodies with the storage type of a [`Quant`]: a [`Float`] or a [`Block`].
        macro_rules! with_format {
            ($quant:expr, float $F:ident => $float:expr, block $B:ident => $block:expr) => {{
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
                    $($crate::blocks::Quant::$name => $kind!($crate::blocks::$Type),)*
                }
            }};
        }
    };
}

/// `true` if the kind of a format in the table is `float`.
macro_rules! is_float {
    (float) => {
        true
    };
    (block) => {
        false
    };
}

quants!(declare);
pub(crate) use with_format;

impl Quant {
    /// The format called `name`, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|quant| quant.name().eq_ignore_ascii_case(name))
    }

    /// The format of a tensor type of GGUF. `None` means an unknown type, or an unsupported one.
    pub fn from_gguf_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|quant| quant.gguf_id() == id)
    }

    /// This format, or its first fallback of which rows of this length are whole blocks.
    pub fn for_rows_of(self, cols: u64) -> Self {
        let mut quant = self;
        while !cols.is_multiple_of(quant.block_elements() as u64) {
            quant = quant.fallback();
        }
        quant
    }

    /// Weights per block: 1, 32, 64 or 256.
    pub const fn block_elements(self) -> usize {
        with_format!(self, float _F => 1, block B => B::GROUPS * GROUP)
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
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

    /// Scalar specification of dequantization; `src` holds `dst.len()` weights.
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
            }
        );
    }

    /// Quantizes the weights `src` to `dst`, block by block. K-quants, IQ4_XS and IQ4_NL search for
    /// scales of small error; the others compute the scales of ggml's reference from the largest
    /// weights of a block.
    ///
    /// # Errors
    /// If `dst` does not hold exactly `src.len()` weights; or, in a quantized format, if a weight
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
            }
        );
        Ok(())
    }

    /// Returns `true` if a scale (in an unquantized format: a weight) of the blocks in `bytes` is
    /// NaN or infinite. Bytes after the last whole block are ignored.
    pub fn has_bad_scale(self, bytes: &[u8]) -> bool {
        let whole = &bytes[..bytes.len() - bytes.len() % self.block_bytes()];
        with_format!(self,
            // Without an early exit, the loop is vectorized.
            float F => bytemuck::cast_slice::<u8, F>(whole)
                .iter()
                .fold(false, |bad, weight| bad | !Float::is_finite(*weight)),
            block B => bytemuck::cast_slice::<u8, B>(whole).iter().any(Block::has_bad_scale)
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

    #[test]
    fn rows_of_any_length_have_a_format() {
        assert_eq!(Quant::Q4_K.for_rows_of(512), Quant::Q4_K);
        assert_eq!(Quant::Q4_K.for_rows_of(576), Quant::Q5_0);
        assert_eq!(Quant::NVFP4.for_rows_of(96), Quant::MXFP4);
        assert_eq!(Quant::Q4_K.for_rows_of(7), Quant::F16);
        for quant in Quant::ALL {
            assert_eq!(7 % quant.for_rows_of(7).block_elements(), 0, "{quant}");
        }
    }
}
