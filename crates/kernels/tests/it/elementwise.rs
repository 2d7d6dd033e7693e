//! RMSNorm, RoPE, gated units and cross-entropy against f64, and their gradients against central
//! differences.

use crate::reference::{self, assert_near, central_differences, noise, wide};
use hearth_kernels::glu::{Activation, glu_backward_in_place, glu_in_place};
use hearth_kernels::norm::*;
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::softmax::*;
use hearth_kernels::{ShapeError, team};

/// Widths below a vector, of whole vectors, and with a remainder; more rows than threads.
const SIZES: [(usize, usize); 6] = [(1, 1), (3, 4), (2, 16), (5, 100), (40, 576), (7, 33)];

#[test]
fn rms_norm_matches_f64() {
    for (rows, width) in SIZES {
        let (x, weight) = (noise(1, rows * width), noise(2, width));
        let expected = reference::rms_norm(&wide(&x), &wide(&weight), 1e-5);
        let mut y = vec![0.0; x.len()];
        rms_norm(&x, &weight, 1e-5, &mut y).unwrap();
        assert_near("norm", &y, &expected, 1e-6);
        let mut x = x;
        rms_norm_in_place(&mut x, &weight, 1e-5).unwrap();
        assert_eq!(x, y, "in place");
    }
}

/// The gradient of the norm in each arrangement: to a separate buffer, and overwriting `dy`.
fn norm_gradients(x: &[f32], weight: &[f32], eps: f32, dy: &[f32]) -> [Vec<f32>; 2] {
    let mut separate = vec![f32::NAN; x.len()];
    rms_norm_backward(x, weight, eps, dy, &mut separate).unwrap();
    let mut in_place = dy.to_vec();
    rms_norm_backward_in_place(x, weight, eps, &mut in_place).unwrap();
    [separate, in_place]
}

#[test]
fn rms_norm_gradient_matches_known_values() {
    struct Case {
        x: [f32; 4],
        dy: [f32; 4],
        eps: f32,
        expected: [f64; 4],
    }
    let cases = [
        Case {
            x: [1.0, 0.0, 0.0, 0.0],
            dy: [1.0, 0.0, 0.0, 0.0],
            eps: 1e-4,
            expected: [0.000_799_52, 0.0, 0.0, 0.0],
        },
        Case {
            x: [1.0, 2.0, 3.0, 4.0],
            dy: [0.5, -1.0, 0.25, 2.0],
            eps: 1e-5,
            expected: [0.09433, -0.54164, -0.17345, 0.37732],
        },
    ];
    for Case { x, dy, eps, expected } in cases {
        for actual in norm_gradients(&x, &[1.0; 4], eps, &dy) {
            for (actual, expected) in actual.iter().zip(expected) {
                assert!(
                    (f64::from(*actual) - expected).abs() < 1e-5,
                    "{actual} is not {expected}"
                );
            }
        }
    }
}

#[test]
fn rms_norm_gradient_matches_central_differences() {
    for (rows, width) in SIZES {
        let (x, weight, dy) = (noise(3, rows * width), noise(4, width), noise(5, rows * width));
        let expected: Vec<f64> = x
            .chunks(width)
            .zip(dy.chunks(width))
            .flat_map(|(x, dy)| {
                central_differences(&wide(x), &wide(dy), |x| {
                    reference::rms_norm(x, &wide(&weight), f64::from(1e-3_f32))
                })
            })
            .collect();
        for actual in norm_gradients(&x, &weight, 1e-3, &dy) {
            // A row of one element is almost all cancellation.
            assert_near("gradient of the norm", &actual, &expected, 1e-5);
        }
    }
}

#[test]
fn rope_rotates_by_the_angle_and_back() {
    for (pairing, divisors, magnitude) in [
        (Pairing::Interleaved, [1.0; 4], 1.0),
        (Pairing::Interleaved, [1.0; 4], 1.25),
        (Pairing::Halves, [1.0, 2.0, 4.0, 8.0], 1.0),
        (Pairing::Halves, [1.0, 2.0, 4.0, 8.0], 0.5),
    ] {
        for position in [0, 1, 255, 256, 100_000, 2_000_000] {
            let (dim, dims, heads) = (12, 8, 3);
            let frequency = |pair: usize| 10_000_f64.powf(-2.0 * pair as f64 / dims as f64) / divisors[pair];
            let frequencies: Vec<f64> = (0..dims / 2).map(frequency).collect();
            let rope = Rope::new(pairing, &frequencies, magnitude);
            let x = noise(6, heads * dim);
            let mut y = x.clone();
            rope.rotate_in_place(&mut y, dim, position);
            let mut expected = wide(&x);
            for head in expected.chunks_mut(dim) {
                for (pair, frequency) in frequencies.iter().enumerate() {
                    let angle = f64::from(position) * frequency;
                    let (sin, cos) = (f64::from(magnitude) * angle.sin(), f64::from(magnitude) * angle.cos());
                    let (i, j) = match pairing {
                        Pairing::Interleaved => (2 * pair, 2 * pair + 1),
                        Pairing::Halves => (pair, pair + dims / 2),
                    };
                    (head[i], head[j]) = (head[i] * cos - head[j] * sin, head[i] * sin + head[j] * cos);
                }
            }
            assert_near("rotation", &y, &expected, 1e-6);
            rope.rotate_backward_in_place(&mut y, dim, position);
            let mut expected = wide(&x);
            for head in expected.chunks_mut(dim) {
                head[..dims].iter_mut().for_each(|x| *x *= f64::from(magnitude).powi(2));
            }
            assert_near("rotation and back", &y, &expected, 1e-6);
        }
    }
}

#[test]
fn gated_units_and_their_gradients_match_f64() {
    for activation in [Activation::Silu, Activation::GeluTanh] {
        let f = |x| reference::activated(activation, x);
        for length in [1, 16, 37, 5000] {
            let gate: Vec<f32> = noise(7, length).iter().map(|x| 8.0 * x).collect();
            let (up, dh) = (noise(8, length), noise(9, length));
            let mut h = up.clone();
            glu_in_place(activation, &gate, &mut h).unwrap();
            let forward = |gate: &[f64], up: &[f64]| gate.iter().zip(up).map(|(g, u)| f(*g) * u).collect::<Vec<_>>();
            assert_near("gated", &h, &forward(&wide(&gate), &wide(&up)), 1e-6);
            let (mut d_gate, mut d_up) = (gate.clone(), up.clone());
            glu_backward_in_place(activation, &dh, &mut d_gate, &mut d_up).unwrap();
            // Elements are independent, so one central difference per element is enough.
            let step = 1e-5;
            let expected = gate.iter().zip(&up).zip(&dh).map(|((g, u), dh)| {
                let g = f64::from(*g);
                (f(g + step) - f(g - step)) / (2.0 * step) * f64::from(*u) * f64::from(*dh)
            });
            assert_near("gradient of the gate", &d_gate, &expected.collect::<Vec<_>>(), 2e-6);
            assert_near("gradient of up", &d_up, &forward(&wide(&gate), &wide(&dh)), 1e-6);
        }
    }
}

#[test]
fn cross_entropy_and_its_gradient_match_f64() {
    let (rows, vocab, scale) = (5, 77, 0.25);
    let logits: Vec<f32> = noise(12, rows * vocab).iter().map(|x| 6.0 * x).collect();
    let targets = [3, 76, IGNORE_INDEX, 0, 41];
    let wide_logits = wide(&logits);
    for softcap in [None, Some(4.0)] {
        let loss = |row: &[f64], target: u32| {
            let row = softcap.map_or(row.to_vec(), |cap| reference::softcapped(row, f64::from(cap)));
            match target {
                IGNORE_INDEX => 0.0,
                target => -reference::softmax(&row)[target as usize].ln(),
            }
        };
        let pairs = || wide_logits.chunks(vocab).zip(targets);
        let expected: Vec<f64> = pairs().map(|(row, target)| loss(row, target)).collect();
        let expected_gradient: Vec<f64> = pairs()
            .flat_map(|(row, target)| central_differences(row, &[f64::from(scale)], |row| vec![loss(row, target)]))
            .collect();
        let (mut actual, mut gradient) = (vec![0.0; rows], logits.clone());
        cross_entropy_backward_in_place(&mut gradient, &targets, scale, softcap, &mut actual).unwrap();
        assert_near(&format!("losses, softcap {softcap:?}"), &actual, &expected, 1e-6);
        // The derivative of the softcap, 1 - t^2 with t up to tanh(6 / 4), has ten times the
        // relative error of t, which is up to 3e-7.
        let tolerance = if softcap.is_some() { 5e-6 } else { 2e-6 };
        let case = format!("gradient of the losses, softcap {softcap:?}");
        assert_near(&case, &gradient, &expected_gradient, tolerance);
        if softcap.is_none() {
            cross_entropy(&logits, &targets, &mut actual).unwrap();
            assert_near("losses alone", &actual, &expected, 1e-6);
        }
    }
}

/// A logit of any size, also an infinite one, has a finite loss below a softcap. Beyond the cap the
/// gradient is zero.
#[test]
fn a_softcap_bounds_losses() {
    let targets = [0, 1, 1];
    let mut gradient = [1e30, 0.0, f32::INFINITY, 0.0, f32::NEG_INFINITY, 3e38];
    let mut losses = [f32::NAN; 3];
    cross_entropy_backward_in_place(&mut gradient, &targets, 1.0, Some(30.0), &mut losses).unwrap();
    // ln(1 + e^-30) rounds to 0. In the second row the other logit is the cap, in the third minus
    // the cap.
    assert_near("losses", &losses, &[0.0, 30.0, 0.0], 1e-6);
    assert_eq!([gradient[0], gradient[2], gradient[4], gradient[5]], [0.0; 4]);
    assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
}

#[test]
fn mismatched_sizes_are_errors() {
    let is_length_error = |result| matches!(result, Err(ShapeError::Length { .. } | ShapeError::Multiple { .. }));
    assert!(is_length_error(rms_norm(&[0.0; 6], &[1.0; 4], 1e-5, &mut [0.0; 6])));
    assert!(is_length_error(rms_norm(&[0.0; 8], &[1.0; 4], 1e-5, &mut [0.0; 4])));
    assert!(is_length_error(rms_norm(&[0.0; 8], &[], 1e-5, &mut [0.0; 8])));
    assert!(is_length_error(glu_in_place(
        Activation::Silu,
        &[0.0; 3],
        &mut [0.0; 4]
    )));
    let result = cross_entropy(&[0.0; 4], &[0, 2], &mut [0.0; 2]);
    assert!(matches!(result, Err(ShapeError::Index { index: 2, count: 2, .. })));
    assert!(rms_norm(&[], &[], 1e-5, &mut []).is_ok() && team::threads() > 0);
}
