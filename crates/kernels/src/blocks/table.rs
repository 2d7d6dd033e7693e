//! The table of formats: to add one, write its file and its row.

/// Passes all formats to the macro `$callback`: unquantized ones first, then by bits per weight
/// within a family. A row is
///
/// ```text
/// NAME: KIND TYPE in MODULE, GGUF type id, file type, fallback;
/// ```
///
/// with the name in GGUF, the kind `float` or `block`, the storage type (a
/// [`Float`](super::Float) or a [`Block`](super::Block)), the module of `blocks` that has this type
/// and its decoding on a GPU, GGUF's id of the tensor type, the value of `general.file_type` of a
/// file of this format, and the format for rows that are not whole blocks.
macro_rules! quants {
    ($callback:ident) => {
        $callback! {
            F32: float F32 in floats::single, 0, 0, F32;
            F16: float Fp16 in floats::half_float, 1, 1, F16;
            BF16: float Bf16 in floats::bfloat, 30, 32, BF16;
            Q4_0: block Q4_0 in q4_0, 2, 2, F16;
            Q4_1: block Q4_1 in q4_1, 3, 3, F16;
            Q5_0: block Q5_0 in q5_0, 6, 8, F16;
            Q5_1: block Q5_1 in q5_1, 7, 9, F16;
            Q8_0: block Q8_0 in q8_0, 8, 7, F16;
            Q2_K: block Q2K in q2_k, 10, 10, Q4_0;
            Q3_K: block Q3K in q3_k, 11, 11, Q4_0;
            Q4_K: block Q4K in q4_k, 12, 14, Q5_0;
            Q5_K: block Q5K in q5_k, 13, 16, Q5_1;
            Q6_K: block Q6K in q6_k, 14, 18, Q8_0;
            IQ4_XS: block Iq4Xs in iq4_xs, 23, 30, IQ4_NL;
            IQ4_NL: block Iq4Nl in iq4_nl, 20, 25, F16;
            MXFP4: block Mxfp4 in mxfp4, 39, 38, F16;
            NVFP4: block Nvfp4 in nvfp4, 40, 39, MXFP4;
        }
    };
}
pub(crate) use quants;
