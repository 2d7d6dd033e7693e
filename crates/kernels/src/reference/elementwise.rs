//! Norms, softmax, gates, rotations and losses.

use crate::glu::Activation;
use crate::rope::Pairing;
use crate::softmax::IGNORE_INDEX;

/// RMSNorm of rows as wide as the weight.
pub fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let norm_row = |x: &[f64]| {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let inverse_rms = 1.0 / (mean + eps).sqrt();
        x.iter()
            .zip(weight)
            .map(move |(x, w)| x * inverse_rms * w)
            .collect::<Vec<_>>()
    };
    x.chunks(weight.len()).flat_map(norm_row).collect()
}

/// Softmax of one row.
pub fn softmax(x: &[f64]) -> Vec<f64> {
    let maximum = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = x.iter().map(|x| (x - maximum).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// `cap * tanh(x / cap)` of each element.
pub fn softcapped(x: &[f64], cap: f64) -> Vec<f64> {
    x.iter().map(|x| cap * (x / cap).tanh()).collect()
}

/// `-ln p(target)` of each row of logits; 0 if the target is [`IGNORE_INDEX`].
pub fn cross_entropy(logits: &[f64], targets: &[u32]) -> Vec<f64> {
    let loss = |(row, target): (&[f64], &u32)| match *target {
        IGNORE_INDEX => 0.0,
        target => -softmax(row)[target as usize].ln(),
    };
    logits
        .chunks(logits.len() / targets.len())
        .zip(targets)
        .map(loss)
        .collect()
}

/// The activation function of one element.
pub fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
    }
}

/// `activation(gate) * up`.
pub fn gated(activation: Activation, gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter()
        .zip(up)
        .map(|(gate, up)| activated(activation, *gate) * up)
        .collect()
}

/// A head rotated by the angles of its pairs, in radians, and multiplied by the magnitude. Elements
/// without an angle are unchanged.
pub fn rotated(head: &[f64], pairing: Pairing, angles: &[f64], magnitude: f64) -> Vec<f64> {
    let mut out = head.to_vec();
    for (pair, angle) in angles.iter().enumerate() {
        let (i, j) = match pairing {
            Pairing::Interleaved => (2 * pair, 2 * pair + 1),
            Pairing::Halves => (pair, pair + angles.len()),
        };
        let (sin, cos) = (magnitude * angle.sin(), magnitude * angle.cos());
        (out[i], out[j]) = (head[i] * cos - head[j] * sin, head[i] * sin + head[j] * cos);
    }
    out
}
