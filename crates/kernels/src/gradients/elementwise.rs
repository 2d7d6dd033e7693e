//! Norms, gated units and RoPE.

use super::{BF16, F32, Report, many_rows, sizes};
use crate::bf16_slices::{SavedElement, to_bf16};
use crate::glu::{Activation, glu_backward_from_saved};
use crate::norm::rms_norm_backward_in_place;
use crate::reference::{self, central_differences, noise, wide};
use crate::rope::{Pairing, Rope};
use crate::shape::ShapeError;

const EPS: f32 = 1e-3;

pub(super) fn check(report: &mut Report) {
    for (size, rows, width) in sizes() {
        norm(report, size, rows, width);
        for activation in [Activation::Silu, Activation::GeluTanh] {
            gate(report, size, rows * width, activation);
        }
    }
    for (heads, size) in [(1, "one head"), (many_rows(), "more heads than threads")] {
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            for magnitude in [1.0, 1.25] {
                rotation(report, size, heads, pairing, magnitude);
            }
        }
    }
}

/// Applies `f` to a copy of `x`.
fn applied(x: &[f32], f: impl FnOnce(&mut [f32]) -> Result<(), ShapeError>) -> Result<Vec<f32>, ShapeError> {
    let mut x = x.to_vec();
    f(&mut x)?;
    Ok(x)
}

fn norm(report: &mut Report, size: &str, rows: usize, width: usize) {
    let (x, weight, dy) = (noise(1, rows * width), noise(2, width), noise(3, rows * width));
    let expected = central_differences(&wide(&x), &wide(&dy), |x| {
        reference::rms_norm(x, &wide(&weight), f64::from(EPS))
    });
    let actual = applied(&dy, |dy| rms_norm_backward_in_place(&x, &weight, EPS, dy));
    report.compare("rms_norm", format!("over the gradient, {size}"), actual, &expected, F32);
}

fn gate(report: &mut Report, size: &str, length: usize, activation: Activation) {
    let (gate, up, dh) = (noise(6, length), noise(7, length), noise(8, length));
    let expected = [
        central_differences(&wide(&gate), &wide(&dh), |gate| {
            reference::gated(activation, gate, &wide(&up))
        }),
        central_differences(&wide(&up), &wide(&dh), |up| {
            reference::gated(activation, &wide(&gate), up)
        }),
    ];
    let mut compare = |arrangement: &str, actual: Result<[Vec<f32>; 2], ShapeError>, tolerance| {
        for (i, input) in ["gate", "up"].into_iter().enumerate() {
            let actual = actual.clone().map(|actual| actual[i].clone());
            let arrangement = format!("{input} of {activation:?}, {arrangement}, {size}");
            report.compare("glu", arrangement, actual, &expected[i], tolerance);
        }
    };
    let saved = [&gate, &up].map(|x| {
        let mut saved = vec![half::bf16::ZERO; x.len()];
        to_bf16(x, &mut saved).map(|()| saved)
    });
    compare("saved as f32", from_saved(activation, [&gate, &up], &dh), F32);
    let [gate, up] = saved;
    let actual = gate.and_then(|gate| from_saved(activation, [&gate, &up?], &dh));
    compare("saved as bf16", actual, BF16);
}

/// The gradients of gate and up from saved ones.
fn from_saved<K: SavedElement>(
    activation: Activation,
    [gate, up]: [&[K]; 2],
    dh: &[f32],
) -> Result<[Vec<f32>; 2], ShapeError> {
    let mut gradients = [vec![f32::NAN; dh.len()], vec![f32::NAN; dh.len()]];
    let [d_gate, d_up] = &mut gradients;
    glu_backward_from_saved(activation, [gate, up], dh, d_gate, d_up)?;
    Ok(gradients)
}

fn rotation(report: &mut Report, size: &str, heads: usize, pairing: Pairing, magnitude: f32) {
    let (head_dim, dims, position) = (12, 8, 300);
    let (x, dy) = (noise(9, heads * head_dim), noise(10, heads * head_dim));
    let frequency = |pair: usize| 10_000_f64.powf(-2.0 * pair as f64 / dims as f64);
    let frequencies: Vec<f64> = (0..dims / 2).map(frequency).collect();
    let rope = Rope::new(pairing, &frequencies, magnitude);
    let angle = |frequency: &f64| f64::from(position) * frequency;
    let angles: Vec<f64> = frequencies.iter().map(angle).collect();
    let expected = central_differences(&wide(&x), &wide(&dy), |x| {
        let heads = x.chunks(head_dim);
        heads
            .flat_map(|head| reference::rotated(head, pairing, &angles, f64::from(magnitude)))
            .collect()
    });
    let actual = applied(&dy, |dy| {
        rope.rotate_backward_in_place(dy, head_dim, position);
        Ok(())
    });
    report.compare(
        "rope",
        format!("{pairing:?}, magnitude {magnitude}, over the gradient, {size}"),
        actual,
        &expected,
        F32,
    );
}
