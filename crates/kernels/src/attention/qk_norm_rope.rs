//! The change of Q and K before attention: RMSNorm, then RoPE, then the temperature of Q. Each is
//! optional.

use super::heads::{Heads, Temperature};
use crate::isa::Isa;
use crate::linear::Norm;
use crate::norm::{self, rows_per_work_chunk};
use crate::rope::Rope;
use crate::shape::{self, ShapeError};
use crate::team;

/// The elements of Q, or of K, over which their RMSNorm computes one mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QkNormWidth {
    /// Each head has its own mean. All heads have the same weights.
    #[default]
    Head,
    /// All heads of a token have one mean, and each has its own weights.
    AllHeads,
}

impl QkNormWidth {
    /// The lengths of the weights of the norms of Q and of K.
    pub fn lengths(self, heads: &Heads) -> [usize; 2] {
        match self {
            Self::Head => [heads.head_dim; 2],
            Self::AllHeads => [heads.heads, heads.kv_heads].map(|count| count * heads.head_dim),
        }
    }
}

/// The change of Q and K before attention. The default changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct QkNormRope<'a> {
    /// The norms of Q and of K.
    pub norms: [Option<Norm<'a>>; 2],
    /// The width of the norms.
    pub norm_width: QkNormWidth,
    /// RoPE of Q and K, after the norms; `None` if they have no positions.
    pub rope: Option<&'a Rope>,
    /// The temperature of Q, after RoPE.
    pub temperature: Option<Temperature>,
}

impl QkNormRope<'_> {
    /// Checks the sizes of rows, positions and norms.
    fn check(&self, heads: &Heads, qkv: &[f32], positions: &[u32]) -> Result<(), ShapeError> {
        let tokens = heads.tokens(qkv)?;
        shape::length("the positions", positions.len(), Some(tokens))?;
        for (norm, length) in self.norms.iter().zip(self.norm_width.lengths(heads)) {
            if let Some(norm) = norm {
                shape::length("the weight of a norm of Q or K", norm.weight.len(), Some(length))?;
            }
        }
        Ok(())
    }

    /// Whether nothing changes, as in layers without positions.
    fn is_neutral(&self) -> bool {
        self.norms.iter().all(Option::is_none) && self.rope.is_none() && self.temperature.is_none()
    }

    /// Multiplies Q of a token by its temperature.
    fn scale_queries(&self, q: &mut [f32], position: u32) {
        if let Some(temperature) = self.temperature {
            let factor = temperature.at(position);
            q.iter_mut().for_each(|x| *x *= factor);
        }
    }
}

/// Applies the norms, RoPE at the token's position, and the temperature to Q and K of each token.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn qk_norm_rope_in_place(
    qkv: &mut [f32],
    heads: &Heads,
    positions: &[u32],
    args: &QkNormRope,
) -> Result<(), ShapeError> {
    args.check(heads, qkv, positions)?;
    if args.is_neutral() {
        return Ok(());
    }
    let (isa, width, dim) = (Isa::best(), heads.qkv_width(), heads.head_dim);
    let [q_norm, k_norm] = args.norms;
    let chunk_tokens = rows_per_work_chunk(width);
    team::run_over(qkv, chunk_tokens * width, &|work_chunk, qkv| {
        for (token, row) in qkv.chunks_exact_mut(width).enumerate() {
            let position = positions[work_chunk * chunk_tokens + token];
            let (q, k) = row[..heads.values_offset()].split_at_mut(heads.keys_offset());
            for (part, norm) in [(&mut *q, q_norm), (k, k_norm)] {
                if let Some(norm) = norm {
                    // One head or all of them, as checked.
                    part.chunks_exact_mut(norm.weight.len().max(1))
                        .for_each(|x| norm::row_in_place(isa, x, norm.weight, norm.eps));
                }
                if let Some(rope) = args.rope {
                    rope.rotate_in_place(part, dim, position);
                }
            }
            args.scale_queries(q, position);
        }
    });
    Ok(())
}

/// Backward of [`qk_norm_rope_in_place`]: replaces the gradient of its output by the gradient of
/// its input `qkv`. `qkv` is read only if there is a norm.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn qk_norm_rope_backward_in_place(
    gradient: &mut [f32],
    qkv: &[f32],
    heads: &Heads,
    positions: &[u32],
    args: &QkNormRope,
) -> Result<(), ShapeError> {
    args.check(heads, qkv, positions)?;
    shape::length("the gradient of Q, K and V", gradient.len(), Some(qkv.len()))?;
    if args.is_neutral() {
        return Ok(());
    }
    let (isa, width, dim) = (Isa::best(), heads.qkv_width(), heads.head_dim);
    let [q_norm, k_norm] = args.norms;
    let chunk_tokens = rows_per_work_chunk(width);
    team::run_over(gradient, chunk_tokens * width, &|work_chunk, gradient| {
        for (token, row) in gradient.chunks_exact_mut(width).enumerate() {
            let token = work_chunk * chunk_tokens + token;
            let (q, k) = row[..heads.values_offset()].split_at_mut(heads.keys_offset());
            let (x_q, x_k) = qkv[token * width..][..heads.values_offset()].split_at(heads.keys_offset());
            args.scale_queries(q, positions[token]);
            for (part, x, norm) in [(q, x_q, q_norm), (k, x_k, k_norm)] {
                if let Some(rope) = args.rope {
                    rope.rotate_backward_in_place(part, dim, positions[token]);
                }
                let Some(norm) = norm else { continue };
                let norm_width = norm.weight.len().max(1);
                for (part, x) in part.chunks_exact_mut(norm_width).zip(x.chunks_exact(norm_width)) {
                    norm::row_backward_in_place(isa, x, norm.weight, norm.eps, part);
                }
            }
        }
    });
    Ok(())
}
