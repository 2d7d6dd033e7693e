//! RMSNorm and RoPE of Q and K, and attention.

use super::{rms_norm, rotated, softcapped, softmax};
use crate::attention::{Heads, KvFormat, Temperature};
use crate::rope::Pairing;
use half::f16;
use std::ops::Range;

/// Parameters of [`qk_norm_rope`].
#[derive(Clone, Debug)]
pub struct QkNormRope {
    /// The weights of Q's and K's norm, as long as a head or as all heads; `None` means no norm.
    pub norms: [Option<Vec<f64>>; 2],
    /// Epsilon of the norms.
    pub eps: f64,
    /// RoPE; `None` means none.
    pub rotation: Option<Rotation>,
    /// The temperature of Q.
    pub temperature: Option<Temperature>,
}

/// RoPE.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The pairing.
    pub pairing: Pairing,
    /// Radians per position of each pair.
    pub frequencies: Vec<f64>,
    /// Factor of rotated elements.
    pub magnitude: f64,
}

impl Rotation {
    /// Pair `i` of the first `dims` elements is rotated by `base^(-2 i / dims)` radians per
    /// position.
    pub fn plain(pairing: Pairing, dims: usize, base: f64) -> Self {
        let frequency = |pair: usize| base.powf(-2.0 * pair as f64 / dims as f64);
        Self {
            pairing,
            frequencies: (0..dims / 2).map(frequency).collect(),
            magnitude: 1.0,
        }
    }

    /// A head at a position, rotated.
    fn rotated(&self, head: &[f64], position: u32) -> Vec<f64> {
        let angle = |frequency: &f64| f64::from(position) * frequency;
        let angles: Vec<f64> = self.frequencies.iter().map(angle).collect();
        rotated(head, self.pairing, &angles, self.magnitude)
    }
}

/// Rows of Q, K and V with Q and K normalized and rotated, and Q multiplied by its temperature,
/// each token at its position.
pub fn qk_norm_rope(qkv: &[f64], heads: &Heads, positions: &[u32], args: &QkNormRope) -> Vec<f64> {
    let mut out = qkv.to_vec();
    for (row, position) in out.chunks_mut(heads.qkv_width()).zip(positions) {
        let (q, k_and_v) = row.split_at_mut(heads.heads * heads.head_dim);
        let k = &mut k_and_v[..heads.kv_heads * heads.head_dim];
        for (part, norm) in [(&mut *q, &args.norms[0]), (k, &args.norms[1])] {
            if let Some(weight) = norm {
                part.copy_from_slice(&rms_norm(part, weight, args.eps));
            }
            for head in part.chunks_mut(heads.head_dim) {
                if let Some(rotation) = &args.rotation {
                    head.copy_from_slice(&rotation.rotated(head, *position));
                }
            }
        }
        if let Some(Temperature { scale, length }) = args.temperature {
            let factor = 1.0 + f64::from(scale) * f64::from(1 + position / length).ln();
            q.iter_mut().for_each(|x| *x *= factor);
        }
    }
    out
}

/// Rows of Q, K and V with K and V rounded as in a KV cache.
pub fn cached(qkv: &[f32], shape: &Heads, format: KvFormat) -> Vec<f32> {
    let mut out = qkv.to_vec();
    for row in out.chunks_mut(shape.qkv_width()) {
        for head in row[shape.out_width()..].chunks_mut(shape.head_dim) {
            match format {
                KvFormat::F16 => head.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
                KvFormat::Q8_0 => head.chunks_mut(32).for_each(round_to_8_bits),
            }
        }
    }
    out
}

/// Rounds a block to the nearest multiples of its scale.
fn round_to_8_bits(block: &mut [f32]) {
    let maximum = block.iter().fold(0.0_f32, |maximum, x| maximum.max(x.abs()));
    let scale = f16::from_f32(maximum / 127.0).to_f32();
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    for x in block {
        *x = (*x * inverse).round_ties_even().clamp(-127.0, 127.0) * scale;
    }
}

/// Attention of rows of Q, K and V: token `t` sees tokens `starts[t]..=t` within the window.
pub fn attend(qkv: &[f64], shape: &Heads, starts: &[u32]) -> Vec<f64> {
    let window_start = |token: usize| shape.window.map_or(0, |window| (token + 1).saturating_sub(window));
    let visible = starts
        .iter()
        .enumerate()
        .map(|(token, start)| window_start(token).max(*start as usize)..token + 1);
    attend_to(qkv, shape, visible)
}

/// Attention of a batch in which token `t` sees the tokens of item `t` of `visible`.
pub fn attend_to(qkv: &[f64], shape: &Heads, visible: impl Iterator<Item = Range<usize>>) -> Vec<f64> {
    let Heads {
        heads,
        kv_heads,
        head_dim,
        ..
    } = *shape;
    let head_of = |token: usize, head: usize| &qkv[token * shape.qkv_width() + head * head_dim..][..head_dim];
    let mut out = Vec::new();
    for (token, keys) in visible.enumerate() {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let score = |key: usize| {
                let terms = head_of(token, head)
                    .iter()
                    .zip(head_of(key, heads + kv))
                    .map(|(q, k)| q * k);
                f64::from(shape.scale) * terms.sum::<f64>()
            };
            let scores: Vec<f64> = keys.clone().map(score).collect();
            let p = softmax(&match shape.softcap {
                None => scores,
                Some(cap) => softcapped(&scores, f64::from(cap)),
            });
            out.extend((0..head_dim).map(|i| {
                let terms = keys.clone().zip(&p);
                terms
                    .map(|(key, p)| p * head_of(key, heads + kv_heads + kv)[i])
                    .sum::<f64>()
            }));
        }
    }
    out
}
