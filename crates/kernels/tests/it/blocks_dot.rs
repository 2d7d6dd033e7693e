//! Every SIMD variant against its scalar counterpart, and both against f32.

use crate::common::{floats, random_blocks};
use hearth_kernels::blocks::{BlockError, Quant};
use hearth_kernels::gemv::{ActivationChunk, Activations};
use hearth_kernels::isa::Isa;
use proptest::prelude::*;

/// Tolerance of SIMD against scalar dot products, relative to the sum of the products' magnitudes:
/// the rounding of f32 sums.
const ROUNDING: f32 = 4e-6;

/// Maximum quantization error of an activation relative to its scale: half a step plus the rounding
/// of the scale.
const HALF_STEP: f32 = 0.5001;

/// Row lengths: whole activation chunks, a remainder, an odd group, a part of a group of floats.
fn lengths(quant: Quant) -> impl Iterator<Item = usize> {
    let block = quant.block_elements();
    [1, 2, 3, 7, 8, 9, 16, 18, 19, 33, 63, 64, 65, 100]
        .into_iter()
        .map(move |blocks| block * blocks)
        .filter(|n| *n <= 2560)
}

/// Runs `check` for each format, instruction set and length.
fn for_all(mut check: impl FnMut(Quant, Isa, usize)) {
    for quant in Quant::ALL {
        for isa in Isa::available() {
            lengths(quant).for_each(|length| check(quant, isa, length));
        }
    }
}

/// The scalar instruction set.
fn scalar() -> Isa {
    Isa::available()[0]
}

/// Activation chunks for a row of `cols` elements.
fn zero_chunks(cols: usize) -> Vec<ActivationChunk> {
    vec![ActivationChunk::ZERO; Activations::chunks_for(cols)]
}

/// The sum of the magnitudes of a row's products.
fn magnitude(quant: Quant, row: &[u8], x: &[f32]) -> f32 {
    let mut weights = vec![0.0; x.len()];
    quant.dequantize_row(row, &mut weights).unwrap();
    // Below the smallest normal f32, the spacing is constant.
    weights.iter().zip(x).map(|(w, x)| (w * x).abs()).sum::<f32>() + f32::MIN_POSITIVE
}

/// Asserts that each instruction set's products are within [`ROUNDING`] of the scalar products.
fn assert_products_agree(seed: u64) {
    for_all(|quant, isa, cols| {
        let (rows, x) = (random_blocks(quant, seed, 3 * cols), floats(!seed, cols));
        let mut chunks = zero_chunks(cols);
        let activations = Activations::quantize(&x, &mut chunks).unwrap();
        let (mut expected, mut actual) = ([0.0; 3], [0.0; 3]);
        quant.gemv_on(scalar(), &rows, &activations, &mut expected).unwrap();
        quant.gemv_on(isa, &rows, &activations, &mut actual).unwrap();
        for (r, row) in rows.chunks_exact(quant.row_bytes(cols).unwrap()).enumerate() {
            let allowed = ROUNDING * magnitude(quant, row, &x);
            let difference = (expected[r] - actual[r]).abs();
            assert!(
                difference <= allowed,
                "{quant} {isa:?} {cols}: {} and {}, {difference} of {allowed}",
                expected[r],
                actual[r]
            );
        }
    });
}

/// Asserts that each instruction set dequantizes the same bits as the scalar code.
fn assert_weights_agree(seed: u64) {
    for_all(|quant, isa, cols| {
        let row = random_blocks(quant, seed, cols);
        let (mut expected, mut actual) = (vec![0.0; cols], vec![0.0; cols]);
        quant.dequantize_row_on(scalar(), &row, &mut expected).unwrap();
        quant.dequantize_row_on(isa, &row, &mut actual).unwrap();
        assert_eq!(expected, actual, "{quant} {isa:?} {cols}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn simd_products_match_scalar_ones(seed in any::<u64>()) {
        assert_products_agree(seed);
    }

    #[test]
    fn simd_weights_equal_scalar_ones_bit_for_bit(seed in any::<u64>()) {
        assert_weights_agree(seed);
    }

    #[test]
    fn simd_activations_equal_scalar_ones_bit_for_bit(
        x in prop::collection::vec(prop_oneof![8 => -10.0_f32..10.0, 1 => any::<f32>(), 1 => Just(f32::NAN)], 0..600),
    ) {
        for isa in Isa::available() {
            let (mut expected, mut actual) = (zero_chunks(x.len()), zero_chunks(x.len()));
            Activations::quantize_on(scalar(), &x, &mut expected).unwrap();
            Activations::quantize_on(isa, &x, &mut actual).unwrap();
            // As bytes, since a scale may be NaN.
            let [actual, expected] = [&actual, &expected].map(|chunks| bytemuck::cast_slice::<_, u8>(chunks));
            prop_assert_eq!(actual, expected, "{:?}", isa);
        }
    }

    #[test]
    fn products_differ_from_f32_by_at_most_the_rounding_of_activations(seed in any::<u64>()) {
        for_all(|quant, isa, cols| {
            let (row, x) = (random_blocks(quant, seed, cols), floats(seed, cols));
            let mut chunks = zero_chunks(cols);
            let activations = Activations::quantize(&x, &mut chunks).unwrap();
            let mut weights = vec![0.0; cols];
            quant.dequantize_row(&row, &mut weights).unwrap();
            let exact: f64 = weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            let step = |i: usize| {
                if quant.is_float() {
                    0.0
                } else {
                    activations.chunks()[i / 256].scales[i % 256 / 32]
                }
            };
            let max_error: f32 = weights.iter().enumerate().map(|(i, w)| HALF_STEP * step(i) * w.abs()).sum();
            let allowed = f64::from(max_error + ROUNDING * magnitude(quant, &row, &x));
            let mut y = [0.0];
            quant.gemv_on(isa, &row, &activations, &mut y).unwrap();
            assert!((f64::from(y[0]) - exact).abs() <= allowed, "{quant} {isa:?} {cols}: {} for {exact}", y[0]);
        });
    }
}

#[test]
fn the_largest_codes_do_not_overflow() {
    for_all(|quant, isa, cols| {
        if quant.is_float() {
            return;
        }
        let x = vec![-1.0; cols];
        for byte in [0x80, 0x7b] {
            let row = vec![byte; quant.row_bytes(cols).unwrap()];
            let mut chunks = zero_chunks(cols);
            let activations = Activations::quantize(&x, &mut chunks).unwrap();
            let (mut expected, mut actual) = ([0.0], [0.0]);
            quant.gemv_on(scalar(), &row, &activations, &mut expected).unwrap();
            quant.gemv_on(isa, &row, &activations, &mut actual).unwrap();
            assert!(
                (expected[0] - actual[0]).abs() <= ROUNDING * magnitude(quant, &row, &x),
                "{quant} {isa:?}"
            );
        }
    });
}

#[test]
fn nan_and_infinity_propagate() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for_all(|quant, isa, cols| {
            let (row, mut x) = (random_blocks(quant, 1, cols), floats(1, cols));
            x[cols / 2] = value;
            let mut chunks = zero_chunks(cols);
            let activations = Activations::quantize_on(isa, &x, &mut chunks).unwrap();
            let mut y = [0.0];
            quant.gemv_on(isa, &row, &activations, &mut y).unwrap();
            assert!(!y[0].is_finite(), "{quant} {isa:?} {value}");
        });
    }
}

#[test]
fn mismatched_slices_are_errors() {
    let x = [0.0; 256];
    assert_eq!(
        Activations::quantize(&x, &mut []).unwrap_err(),
        BlockError::Activations { cols: 0, found: 256 }
    );
    let mut chunks = zero_chunks(256);
    let activations = Activations::quantize(&x, &mut chunks).unwrap();
    let error = Quant::Q4_0.gemv(&[0; 287], &activations, &mut [0.0; 2]).unwrap_err();
    assert_eq!(
        error,
        BlockError::Bytes {
            quant: Quant::Q4_0,
            weights: 512,
            expected: 288,
            found: 287
        }
    );
    assert!(Quant::Q4_0.gemv(&[0; 288], &activations, &mut [0.0; 2]).is_ok());
}

#[test]
fn empty_rows_give_zeros() {
    let activations = Activations::quantize(&[], &mut []).unwrap();
    let mut y = [1.0; 2];
    Quant::Q4_K.gemv(&[], &activations, &mut y).unwrap();
    assert_eq!(y, [0.0; 2]);
}
