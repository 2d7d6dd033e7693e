//! Row-wise kernels: RMSNorm, gated units, embeddings, argmax.

use crate::device::{assert_near, floats, gpu, numbers, read, unpadded, weight};
use cubecl::prelude::*;
use hearth_kernels::Quant;
use hearth_kernels::glu::Activation;
use hearth_kernels::gpu::{Floats, Norm, add_norm, argmax, embed, glu, rms_norm, softcap_in_place};
use hearth_kernels::reference::{self, gated, noise, softcapped, wide};

/// Rows and columns, fewer and more than the units of a row.
const SHAPES: [(usize, usize); 4] = [(1, 1), (3, 10), (9, 129), (70, 576)];

#[test]
fn norms_match_the_reference() {
    let Some(client) = gpu() else { return };
    for (rows, cols) in SHAPES {
        let (x, y, w) = (noise(1, rows * cols), noise(2, rows * cols), noise(3, cols));
        let norm = Norm {
            weight: floats(&client, &w, 1, cols).handle,
            eps: 1e-3,
        };
        let (x_there, y_there) = (floats(&client, &x, rows, cols), floats(&client, &y, rows, cols));
        let normed = reference::rms_norm(&wide(&y), &wide(&w), 1e-3_f32.into());
        let actual = rms_norm(&client, &y_there, &norm).expect("a weight as wide as rows");
        assert_near("norm", &client, &actual, &normed, 1e-6);
        for scale in [1.0_f32, 0.22, -3.0] {
            let add = |(x, y): (f64, &f64)| x + f64::from(scale) * y;
            let sum: Vec<f64> = wide(&x).into_iter().zip(&normed).map(add).collect();
            let actual = add_norm(&client, &x_there, &y_there, &norm, scale).expect("a weight as wide as rows");
            // A scale above 1 multiplies the norm's error.
            assert_near(&format!("sum, times {scale}"), &client, &actual, &sum, 3e-6);
        }
        let short = Norm {
            weight: unpadded(norm.weight.clone()),
            ..norm
        };
        assert!(rms_norm(&client, &floats(&client, &noise(4, cols + 1), 1, cols + 1), &short).is_err());
        assert!(add_norm(&client, &floats(&client, &x, rows * cols, 1), &y_there, &norm, 1.0).is_err() || cols == 1);
    }
}

#[test]
fn gated_units_match_the_reference() {
    let Some(client) = gpu() else { return };
    for activation in [Activation::Silu, Activation::GeluTanh] {
        for (rows, cols) in SHAPES {
            // Gates from -300 to 300, so that exponentials overflow.
            let values: Vec<f32> = noise(1, rows * 2 * cols).iter().map(|x| 300.0 * x.powi(3)).collect();
            let actual = glu(&client, &floats(&client, &values, rows, 2 * cols), activation).expect("an even width");
            let expected: Vec<f64> = wide(&values)
                .chunks(2 * cols)
                .flat_map(|row| gated(activation, &row[..cols], &row[cols..]))
                .collect();
            assert_near(&format!("{activation:?}"), &client, &actual, &expected, 1e-6);
        }
        assert!(glu(&client, &floats(&client, &[1.0; 3], 1, 3), activation).is_err());
    }
}

/// Elements far below the cap, near it, and so far beyond that exponentials overflow.
#[test]
fn softcaps_match_the_reference() {
    let Some(client) = gpu() else { return };
    for (rows, cols) in SHAPES {
        for cap in [0.5, 30.0, 1e6] {
            let x: Vec<f32> = noise(1, rows * cols).iter().map(|x| 1e4 * x.powi(5)).collect();
            let there = floats(&client, &x, rows, cols);
            softcap_in_place(&client, &there, cap).expect("a whole matrix");
            let expected = softcapped(&wide(&x), f64::from(cap));
            for (actual, expected) in read(&client, &there).into_iter().zip(expected) {
                // WGSL divides within 2.5 ulp, and has `exp` within 4 ulp from -1 to 0.
                let error = (f64::from(actual) - expected).abs();
                assert!(error <= 2e-6 * expected.abs(), "{cap}: {actual}, expected {expected}");
            }
        }
    }
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0];
    let there = floats(&client, &special, 1, 5);
    softcap_in_place(&client, &there, 30.0).expect("a whole matrix");
    assert_eq!(read(&client, &there), [30.0, -30.0, 30.0, -30.0, 0.0]);
    let short = Floats {
        handle: unpadded(there.handle.clone()),
        cols: 6,
        ..there
    };
    assert!(softcap_in_place(&client, &short, 30.0).is_err());
}

#[test]
fn embeddings_are_scaled_rows_of_the_table() {
    let Some(client) = gpu() else { return };
    for (quant, cols) in [(Quant::F16, 7), (Quant::Q6_K, 512)] {
        let (table, values) = weight(&client, quant, 11, cols);
        let ids = [10, 0, 3, 3, 7];
        let actual = embed(&client, &table, numbers(&client, &ids), 5, 1.5).expect("five ids");
        let expected: Vec<f64> = ids
            .iter()
            .flat_map(|id| &values[*id as usize * cols..][..cols])
            .map(|w| 1.5 * f64::from(*w))
            .collect();
        assert_near(quant.name(), &client, &actual, &expected, 1e-6);
        assert!(embed(&client, &table, unpadded(numbers(&client, &ids)), 6, 1.5).is_err());
    }
}

#[test]
fn the_first_of_equal_maxima_wins() {
    let Some(client) = gpu() else { return };
    let cols = 1000;
    let mut x = noise(1, 5 * cols);
    // The first and the last column; two equal maxima of one unit; two of two units; NaN.
    let greatest = [vec![0], vec![999], vec![300, 556], vec![301, 777], vec![500]];
    for (row, columns) in greatest.iter().enumerate() {
        columns.iter().for_each(|column| x[row * cols + column] = 2.0);
    }
    x[4 * cols..][..256].fill(f32::NAN);
    x[4 * cols + 600] = f32::INFINITY;
    x.extend(vec![f32::INFINITY; cols]);
    let actual = argmax(&client, &floats(&client, &x, 6, cols)).expect("a whole matrix");
    let actual = client.read_one(actual).expect("the kernel ran");
    let actual = u32::from_bytes(&actual);
    assert_eq!(actual[..5], greatest.map(|columns| columns[0] as u32));
    assert_eq!(actual[5], u32::MAX, "a row without a finite value");
}
