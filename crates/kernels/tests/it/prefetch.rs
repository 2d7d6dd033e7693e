//! Prefetching of weights changes no bit of a result, and calibration measures it once.

use hearth_kernels::fused::norm_linears;
use hearth_kernels::{Linear, MatmulPrecision, Matrix, Prefetch, Quant, calibrate, matrix};
use std::time::{Duration, Instant};

const COLS: usize = 1024;
const CHOICES: [&str; 5] = ["none", "t0+64", "t1+1024", "t1+4096", "nta+16384"];

/// Packed rows of a format.
fn packed(quant: Quant, rows: usize) -> (matrix::Layout, Vec<u8>) {
    let x: Vec<f32> = (0..COLS).map(|i| (i as f32 * 0.37).sin()).collect();
    let mut row = vec![0; quant.row_bytes(COLS).expect("whole blocks")];
    quant.quantize_row(&x, &mut row).expect("it fits");
    matrix::pack(quant, rows, COLS, &row.repeat(rows)).expect("it fits")
}

#[test]
fn prefetching_changes_no_bit() {
    for quant in Quant::ALL {
        let rows = 80;
        let (layout, bytes) = packed(quant, rows);
        let weight = Matrix::new(quant, layout, rows, COLS, &bytes).expect("it fits");
        for tokens in [1, 3, 13] {
            let x: Vec<f32> = (0..tokens * COLS).map(|i| (i as f32 * 0.11).cos()).collect();
            let product = |choice: &str| {
                Prefetch::choose(quant, Some(choice.parse().expect(choice)));
                let mut y = vec![0.0; tokens * rows];
                let precision = MatmulPrecision::Int8Activations;
                norm_linears(&x, None, &[Linear::plain(weight)], precision, &mut y).expect("it fits");
                y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let expected = product("none");
            for choice in CHOICES {
                assert_eq!(product(choice), expected, "{quant}, {tokens} tokens, {choice}");
            }
        }
        Prefetch::choose(quant, None);
    }
}

#[test]
fn formats_of_large_weights_are_measured_once() {
    let formats = [(Quant::Q4_K, 40 << 20), (Quant::Q8_0, 24 << 20), (Quant::Q6_K, 1 << 20)];
    let weights = formats.map(|(quant, bytes)| {
        let rows = bytes / quant.row_bytes(COLS).expect("whole blocks");
        (quant, rows, packed(quant, rows))
    });
    let matrices: Vec<Matrix> = weights
        .iter()
        .map(|(quant, rows, (layout, bytes))| Matrix::new(*quant, *layout, *rows, COLS, bytes).expect("it fits"))
        .collect();
    let calibrated_formats = |matrices: &[Matrix]| {
        let calibrated = calibrate(matrices, Duration::from_millis(160)).expect("they can be multiplied");
        calibrated.iter().map(|result| result.quant).collect::<Vec<_>>()
    };
    assert_eq!(calibrated_formats(&matrices[1..]), [], "it may stay in the caches");
    let start = Instant::now();
    let is_packed = matrices[0].layout() == matrix::Layout::Rows16;
    let expected = if cfg!(target_arch = "x86_64") && is_packed {
        vec![Quant::Q8_0, Quant::Q4_K]
    } else {
        vec![]
    };
    assert_eq!(
        calibrated_formats(&matrices),
        expected,
        "the third is too small to matter"
    );
    // Ten times the time that loading a model may spend on it.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    for quant in expected {
        assert!(Prefetch::chosen(quant).is_some(), "{quant}");
    }
    assert_eq!(calibrated_formats(&matrices), [], "their choices are known");
}
