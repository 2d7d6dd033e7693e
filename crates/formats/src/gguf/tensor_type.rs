//! Tensor types: IDs, block sizes, names.

use super::GgufProblem;

/// Declares [`TensorType`] with its IDs, names and sizes from one table.
macro_rules! tensor_types {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal, $elements:literal, $bytes:literal;)*) => {
        /// Data type of a tensor: plain values, or blocks of quantized values.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[allow(non_camel_case_types)]
        pub enum TensorType {
            $($(#[$doc])* $variant = $id,)*
        }

        impl TensorType {
            /// All types in the order of their IDs.
            pub const ALL: &'static [TensorType] = &[$(TensorType::$variant,)*];

            /// The type with this GGUF type ID; `None` if the ID is unknown or was removed.
            pub fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$variant),)* _ => None }
            }

            /// Name as in ggml: `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Elements per block; 1 for plain values.
            pub const fn block_elements(self) -> u64 {
                match self { $(Self::$variant => $elements,)* }
            }

            /// Bytes per block.
            pub const fn block_bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes,)* }
            }
        }
    };
}

tensor_types! {
    /// 32-bit floats.
    F32 = 0, "F32", 1, 4;
    /// 16-bit IEEE floats.
    F16 = 1, "F16", 1, 2;
    /// 4 bits, scale.
    Q4_0 = 2, "Q4_0", 32, 18;
    /// 4 bits, scale and minimum.
    Q4_1 = 3, "Q4_1", 32, 20;
    /// 5 bits, scale.
    Q5_0 = 6, "Q5_0", 32, 22;
    /// 5 bits, scale and minimum.
    Q5_1 = 7, "Q5_1", 32, 24;
    /// 8 bits, scale.
    Q8_0 = 8, "Q8_0", 32, 34;
    /// 8 bits, scale and sum; for activations.
    Q8_1 = 9, "Q8_1", 32, 36;
    /// 2 bits in super-blocks.
    Q2_K = 10, "Q2_K", 256, 84;
    /// 3 bits in super-blocks.
    Q3_K = 11, "Q3_K", 256, 110;
    /// 4 bits in super-blocks.
    Q4_K = 12, "Q4_K", 256, 144;
    /// 5 bits in super-blocks.
    Q5_K = 13, "Q5_K", 256, 176;
    /// 6 bits in super-blocks.
    Q6_K = 14, "Q6_K", 256, 210;
    /// 8 bits in super-blocks; for activations.
    Q8_K = 15, "Q8_K", 256, 292;
    /// About 2.06 bits, by codebook.
    IQ2_XXS = 16, "IQ2_XXS", 256, 66;
    /// About 2.31 bits, by codebook.
    IQ2_XS = 17, "IQ2_XS", 256, 74;
    /// About 3.06 bits, by codebook.
    IQ3_XXS = 18, "IQ3_XXS", 256, 98;
    /// About 1.56 bits, by codebook.
    IQ1_S = 19, "IQ1_S", 256, 50;
    /// 4 bits, non-linear.
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    /// About 3.44 bits, by codebook.
    IQ3_S = 21, "IQ3_S", 256, 110;
    /// About 2.56 bits, by codebook.
    IQ2_S = 22, "IQ2_S", 256, 82;
    /// 4 bits, non-linear, in super-blocks.
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    /// 8-bit integers.
    I8 = 24, "I8", 1, 1;
    /// 16-bit integers.
    I16 = 25, "I16", 1, 2;
    /// 32-bit integers.
    I32 = 26, "I32", 1, 4;
    /// 64-bit integers.
    I64 = 27, "I64", 1, 8;
    /// 64-bit floats.
    F64 = 28, "F64", 1, 8;
    /// About 1.75 bits, by codebook.
    IQ1_M = 29, "IQ1_M", 256, 56;
    /// bfloat16: the upper half of a 32-bit float.
    BF16 = 30, "BF16", 1, 2;
    /// Ternary, packed in base 3.
    TQ1_0 = 34, "TQ1_0", 256, 54;
    /// Ternary, 2 bits per value.
    TQ2_0 = 35, "TQ2_0", 256, 66;
    /// 4-bit floats with a power-of-two scale (microscaling).
    MXFP4 = 39, "MXFP4", 32, 17;
    /// 4-bit floats with four FP8 scales.
    NVFP4 = 40, "NVFP4", 64, 36;
    /// 1 bit, scale.
    Q1_0 = 41, "Q1_0", 128, 18;
    /// 2 bits, scale.
    Q2_0 = 42, "Q2_0", 64, 18;
}

impl TensorType {
    /// The GGUF type ID.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of a tensor of this type and shape (row length first).
    ///
    /// # Errors
    /// If the shape is invalid: the reason, as a part of a sentence.
    pub fn byte_len(self, shape: &[u64]) -> Result<u64, String> {
        let row_len = shape.first().copied().unwrap_or(1);
        if row_len % self.block_elements() != 0 {
            return Err(format!(
                "its rows have {row_len} elements, which is not a multiple of the {} elements in a block of {}",
                self.block_elements(),
                self.name()
            ));
        }
        let elements = shape
            .iter()
            .try_fold(1u64, |product, &dimension| product.checked_mul(dimension));
        elements
            // File offsets are signed.
            .filter(|&elements| i64::try_from(elements).is_ok())
            .and_then(|elements| (elements / self.block_elements()).checked_mul(self.block_bytes()))
            .ok_or_else(|| format!("its shape {shape:?} has too many elements"))
    }

    /// The type of a tensor from its ID in a file. The error distinguishes removed from unknown
    /// IDs.
    pub(super) fn read(id: u32, tensor: &str) -> Result<Self, GgufProblem> {
        Self::from_id(id).ok_or_else(|| {
            let why = match removed_name(id) {
                Some(name) => format!("its type {name} (id {id}) was removed from GGUF"),
                None => format!("its type id {id} is unknown"),
            };
            GgufProblem::tensor(tensor, why)
        })
    }
}

/// The name of a type that was removed from GGUF.
fn removed_name(id: u32) -> Option<&'static str> {
    Some(match id {
        4 => "Q4_2",
        5 => "Q4_3",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        _ => return None,
    })
}

/// The common name of a file's quantization, from its `general.file_type`.
pub(super) fn file_type_name(file_type: u64) -> Option<&'static str> {
    Some(match file_type {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        for &kind in TensorType::ALL {
            assert_eq!(TensorType::from_id(kind.id()), Some(kind));
            assert_eq!(removed_name(kind.id()), None);
        }
        assert_eq!(TensorType::from_id(43), None);
    }

    #[test]
    fn byte_lengths() {
        assert_eq!(TensorType::F32.byte_len(&[3, 5]), Ok(60));
        assert_eq!(TensorType::Q4_1.byte_len(&[576, 2]), Ok(720));
        assert_eq!(TensorType::Q6_K.byte_len(&[512]), Ok(420));
        assert_eq!(TensorType::F16.byte_len(&[4, 0]), Ok(0));
        assert!(TensorType::Q4_K.byte_len(&[128, 2]).is_err());
        assert!(TensorType::F32.byte_len(&[1 << 32, 1 << 32]).is_err());
        assert!(TensorType::I8.byte_len(&[1 << 62, 2]).is_err());
    }
}
