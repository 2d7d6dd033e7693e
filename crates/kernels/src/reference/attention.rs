//! Attention, and what happens to Q and K before it.

use super::{rms_norm, rotated, softmax};
use crate::attention::{Heads, KvFormat};
use crate::rope::Pairing;
use half::f16;

/// What is done to each head of Q and K: a norm where there is a weight, then the rotation.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The weights of Q's norm and of K's.
    pub norms: [Option<Vec<f64>>; 2],
    /// Keeps the roots of the norms away from zero.
    pub eps: f64,
    /// Which elements are turned together.
    pub pairing: Pairing,
    /// How many elements of a head are turned.
    pub dims: usize,
    /// Pair `i` is turned by `base^(-2 i / dims)` radians a position.
    pub base: f64,
}

/// Rows of Q, K and V with Q and K prepared, each token at its position.
pub fn prepared(qkv: &[f64], heads: &Heads, positions: &[u32], prepare: &Prepare) -> Vec<f64> {
    let mut out = qkv.to_vec();
    for (row, position) in out.chunks_mut(heads.qkv_width()).zip(positions) {
        let angle = |pair: usize| f64::from(*position) * prepare.base.powf(-2.0 * pair as f64 / prepare.dims as f64);
        let angles: Vec<f64> = (0..prepare.dims / 2).map(angle).collect();
        let of_q_and_k = row.chunks_mut(heads.head_dim).take(heads.heads + heads.kv_heads);
        for (number, head) in of_q_and_k.enumerate() {
            let mut x = head.to_vec();
            if let Some(weight) = &prepare.norms[usize::from(number >= heads.heads)] {
                x = rms_norm(&x, weight, prepare.eps);
            }
            head.copy_from_slice(&rotated(&x, prepare.pairing, &angles));
        }
    }
    out
}

/// Rows of Q, K and V with K and V as a cache holds them.
pub fn cached(qkv: &[f32], shape: &Heads, format: KvFormat) -> Vec<f32> {
    let mut out = qkv.to_vec();
    for row in out.chunks_mut(shape.qkv_width()) {
        for head in row[shape.out_width()..].chunks_mut(shape.head_dim) {
            match format {
                KvFormat::F16 => head.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
                KvFormat::Q8_0 => head.chunks_mut(32).for_each(in_8_bits),
            }
        }
    }
    out
}

/// Turns a block into the nearest multiples of its scale.
fn in_8_bits(block: &mut [f32]) {
    let most = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = f16::from_f32(most / 127.0).to_f32();
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    for x in block {
        *x = (*x * inverse).round_ties_even().clamp(-127.0, 127.0) * scale;
    }
}

/// Attention of rows of Q, K and V: token `t` sees those from `starts[t]` to itself, within the window.
pub fn attend(qkv: &[f64], shape: &Heads, starts: &[u32]) -> Vec<f64> {
    let Heads {
        heads,
        kv_heads,
        head_dim,
        ..
    } = *shape;
    let part = |token: usize, head: usize| &qkv[token * shape.qkv_width() + head * head_dim..][..head_dim];
    let mut out = Vec::new();
    for (token, start) in starts.iter().enumerate() {
        let first = (*start as usize).max(shape.window.map_or(0, |window| (token + 1).saturating_sub(window)));
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let score = |key: usize| {
                let products = part(token, head).iter().zip(part(key, heads + kv)).map(|(a, b)| a * b);
                f64::from(shape.scale) * products.sum::<f64>()
            };
            let p = softmax(&(first..=token).map(score).collect::<Vec<_>>());
            out.extend((0..head_dim).map(|i| {
                let seen = (first..=token).zip(&p);
                seen.map(|(key, p)| p * part(key, heads + kv_heads + kv)[i])
                    .sum::<f64>()
            }));
        }
    }
    out
}
