//! Quantization formats against ggml's values, and the quantization error.

use crate::common::{floats, read_floats, relative_error};
use hearth_kernels::blocks::{BlockError, Quant};
use hearth_kernels::isa::Isa;
use proptest::prelude::*;

/// A format's fixture: stored bytes and the weights that ggml dequantizes from them.
fn fixture(quant: Quant) -> (Vec<u8>, Vec<f32>) {
    let path = |end: &str| format!("tests/fixtures/blocks/{quant}.{end}");
    (std::fs::read(path("bytes")).unwrap(), read_floats(&path("f32")))
}

#[test]
fn every_format_dequantizes_as_the_reference() {
    for (quant, isa) in Quant::ALL
        .into_iter()
        .flat_map(|quant| Isa::available().into_iter().map(move |isa| (quant, isa)))
    {
        let (bytes, expected) = fixture(quant);
        let mut weights = vec![0.0; expected.len()];
        quant.dequantize_row_on(isa, &bytes, &mut weights).unwrap();
        assert_eq!(weights, expected, "{quant} on {isa:?}");
    }
}

#[test]
fn formats_without_a_search_quantize_to_the_reference_bytes() {
    let input = read_floats("tests/fixtures/blocks/input.f32");
    let searches = |quant: Quant| quant == Quant::IQ4_NL || quant.block_elements() == 256;
    for quant in Quant::ALL.into_iter().filter(|quant| !searches(*quant)) {
        let (expected, _) = fixture(quant);
        let mut bytes = vec![0; expected.len()];
        quant.quantize_row(&input, &mut bytes).unwrap();
        assert_eq!(bytes, expected, "{quant}");
    }
}

/// Error of llama.cpp's reference quantizers (ggml 0.25.3) on `input.f32`: RMS of the error
/// relative to the RMS of the weights.
const LOSS: &[(Quant, f64)] = &[
    (Quant::Q4_0, 0.117137),
    (Quant::Q4_1, 0.089463),
    (Quant::Q5_0, 0.061831),
    (Quant::Q5_1, 0.044193),
    (Quant::Q8_0, 0.007680),
    (Quant::Q2_K, 0.342445),
    (Quant::Q3_K, 0.181591),
    (Quant::Q4_K, 0.083704),
    (Quant::Q5_K, 0.042724),
    (Quant::Q6_K, 0.023080),
    (Quant::IQ4_XS, 0.100454),
    (Quant::IQ4_NL, 0.098560),
    (Quant::MXFP4, 0.128795),
    (Quant::NVFP4, 0.091955),
];

#[test]
fn the_quantization_error_is_at_most_the_references() {
    let input = read_floats("tests/fixtures/blocks/input.f32");
    for quant in Quant::ALL.into_iter().filter(|quant| !quant.is_float()) {
        let row = LOSS.iter().find(|(format, _)| *format == quant);
        let (_, allowed) = *row.unwrap_or_else(|| panic!("{quant} has no row in LOSS"));
        let loss = relative_error(&quantize_and_dequantize(quant, &input), &input);
        println!("{quant} {loss:.6} of {allowed:.6}");
        assert!(loss <= allowed, "{quant}: {loss} is more than {allowed}");
    }
}

/// Quantizes and dequantizes weights.
fn quantize_and_dequantize(quant: Quant, weights: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; quant.row_bytes(weights.len()).unwrap()];
    quant.quantize_row(weights, &mut bytes).unwrap();
    let mut read = vec![0.0; weights.len()];
    quant.dequantize_row(&bytes, &mut read).unwrap();
    read
}

#[test]
fn every_fp4_scale_has_ggmls_value() {
    // The first weight has code 1, one step of the scale; the other weights are zeros.
    for (quant, codes_offset) in [(Quant::MXFP4, 1), (Quant::NVFP4, 4)] {
        let expected = read_floats(&format!("tests/fixtures/blocks/{quant}.scales"));
        for (bits, expected) in (0..=u8::MAX).zip(expected) {
            let mut block = vec![0; quant.block_bytes()];
            (block[0], block[codes_offset]) = (bits, 1);
            // Files with such scales are refused.
            if quant == Quant::NVFP4 && quant.has_bad_scale(&block) {
                continue;
            }
            for isa in Isa::available() {
                let mut weights = vec![0.0; quant.block_elements()];
                quant.dequantize_row_on(isa, &block, &mut weights).unwrap();
                assert_eq!(weights[0], expected, "{quant}: {bits:#04x} on {isa:?}");
            }
        }
    }
}

/// The block with a tensor's largest weights often has the maximum scale, and merging an adapter
/// may enlarge these weights slightly.
#[test]
fn weights_a_little_beyond_nvfp4s_largest_scale_are_clipped() {
    let mut weights = [1.0; 64];
    for (largest, expected) in [(2688.0, 2688.0), (2700.0, 2688.0), (-2700.0, -2688.0)] {
        weights[7] = largest;
        assert_eq!(quantize_and_dequantize(Quant::NVFP4, &weights)[7], expected);
    }
    weights[7] = 2800.0;
    assert!(Quant::NVFP4.quantize_row(&weights, &mut [0; 36]).is_err());
}

#[test]
fn zeros_stay_zeros() {
    for quant in Quant::ALL {
        assert_eq!(quantize_and_dequantize(quant, &[0.0; 256]), [0.0; 256], "{quant}");
    }
}

#[test]
fn a_constant_row_stays_constant() {
    for (quant, value) in Quant::ALL.into_iter().flat_map(|quant| [(quant, 0.75), (quant, -0.75)]) {
        let read = quantize_and_dequantize(quant, &[value; 256]);
        assert!(
            read.iter().all(|read| (read - value).abs() < 0.01),
            "{quant}: {value} became {}",
            read[0]
        );
    }
}

#[test]
fn bad_scales_are_found() {
    for quant in Quant::ALL {
        let mut bytes = vec![0; quant.row_bytes(512).unwrap()];
        assert!(!quant.has_bad_scale(&bytes), "{quant}");
        // All-ones bits are NaN in every float format and in f16, the format of scales.
        let last = bytes.len() - quant.block_bytes();
        bytes[last..].fill(0xff);
        assert!(quant.has_bad_scale(&bytes), "{quant}");
    }
}

#[test]
fn weights_out_of_a_formats_range_are_errors() {
    for quant in Quant::ALL.into_iter().filter(|quant| !quant.is_float()) {
        for invalid in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            let mut weights = vec![1e-3; 512];
            weights[300] = invalid;
            let error = quant
                .quantize_row(&weights, &mut vec![0; quant.row_bytes(512).unwrap()])
                .unwrap_err();
            let at = 300 / quant.block_elements() * quant.block_elements();
            assert_eq!(error, BlockError::NotStorable { quant, at });
        }
    }
}

#[test]
fn mismatched_sizes_have_clear_messages() {
    assert_eq!(Quant::Q4_K.row_bytes(576), None);
    assert_eq!(Quant::Q4_1.row_bytes(576), Some(360));
    assert_eq!(Quant::F32.row_bytes(usize::MAX), None);
    let error = Quant::Q6_K.dequantize_row(&[], &mut [0.0; 576]).unwrap_err();
    assert_eq!(
        error,
        BlockError::PartialBlock {
            quant: Quant::Q6_K,
            weights: 576
        }
    );
    assert_eq!(
        error.to_string(),
        "a row of 576 weights cannot be Q6_K, which needs a multiple of 256"
    );
    let error = Quant::Q8_0.dequantize_row(&[0; 33], &mut [0.0; 32]).unwrap_err();
    assert_eq!(error.to_string(), "32 weights in Q8_0 take 34 bytes, but 33 were given");
}

#[test]
fn names_parse_to_formats() {
    for quant in Quant::ALL {
        assert_eq!(Quant::from_name(&quant.name().to_lowercase()), Some(quant));
    }
    assert_eq!(Quant::from_name("Q9_9"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn stored_blocks_have_finite_scales_and_small_weights_are_storable(
        mut weights in prop::collection::vec(-1_f32..1.0, 256), exponent in -140..40_i32,
        outlier in prop::option::of((0..256_usize, any::<f32>())),
    ) {
        weights.iter_mut().for_each(|weight| *weight *= (exponent as f32).exp2());
        if let Some((index, weight)) = outlier {
            weights[index] = weight;
        }
        for quant in Quant::ALL {
            // Most scales are f16, whose maximum is 65504; no format multiplies them by less than
            // 1.
            let limit = if quant == Quant::NVFP4 { 6.0 * 448.0 } else { 60_000.0 };
            let are_small = weights.iter().all(|weight| weight.abs() <= limit);
            let mut bytes = vec![0; quant.row_bytes(weights.len()).unwrap()];
            let result = quant.quantize_row(&weights, &mut bytes);
            prop_assert!(result.is_ok() || !are_small, "{}: {:?}", quant, result);
            prop_assert!(result.is_err() || quant.is_float() || !quant.has_bad_scale(&bytes), "{}", quant);
        }
    }

    #[test]
    fn quantizing_twice_adds_little_error(seed in any::<u64>()) {
        let weights = floats(seed, 256);
        for &(quant, loss) in LOSS {
            let once = quantize_and_dequantize(quant, &weights);
            prop_assert!(relative_error(&once, &weights) < 1.5 * loss, "{}", quant);
            let twice = quantize_and_dequantize(quant, &once);
            prop_assert!(relative_error(&twice, &weights) < 2.0 * loss, "{}", quant);
        }
    }
}
