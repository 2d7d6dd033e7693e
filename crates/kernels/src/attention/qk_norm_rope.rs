//! Optional RMSNorm of each head of Q and K, then RoPE.

use super::heads::Heads;
use crate::isa::Isa;
use crate::linear::Norm;
use crate::norm::{self, rows_per_work_chunk};
use crate::rope::Rope;
use crate::shape::{self, ShapeError};
use crate::team;

/// Checks the sizes of rows, positions and norms.
fn check(heads: &Heads, qkv: &[f32], positions: &[u32], norms: [Option<Norm>; 2]) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    shape::length("the positions", positions.len(), Some(tokens))?;
    for norm in norms.into_iter().flatten() {
        shape::length("a head's norm", norm.weight.len(), Some(heads.head_dim))?;
    }
    Ok(())
}

/// Applies RMSNorm to each head of Q and of K if there is a norm, then RoPE at the token's
/// position.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn qk_norm_rope_in_place(
    qkv: &mut [f32],
    heads: &Heads,
    positions: &[u32],
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    rope: &Rope,
) -> Result<(), ShapeError> {
    check(heads, qkv, positions, [q_norm, k_norm])?;
    let (isa, width, dim) = (Isa::best(), heads.qkv_width(), heads.head_dim);
    let chunk_tokens = rows_per_work_chunk(width);
    team::run_over(qkv, chunk_tokens * width, &|work_chunk, qkv| {
        for (token, row) in qkv.chunks_exact_mut(width).enumerate() {
            let (q, k) = row[..heads.values_offset()].split_at_mut(heads.keys_offset());
            for (part, norm) in [(q, q_norm), (k, k_norm)] {
                if let Some(norm) = norm {
                    part.chunks_exact_mut(dim)
                        .for_each(|head| norm::row_in_place(isa, head, norm.weight, norm.eps));
                }
                rope.rotate_in_place(part, dim, positions[work_chunk * chunk_tokens + token]);
            }
        }
    });
    Ok(())
}

/// Backward of [`qk_norm_rope_in_place`]: replaces the gradient of its output by the gradient of
/// its input `qkv`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn qk_norm_rope_backward_in_place(
    gradient: &mut [f32],
    qkv: &[f32],
    heads: &Heads,
    positions: &[u32],
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    rope: &Rope,
) -> Result<(), ShapeError> {
    check(heads, qkv, positions, [q_norm, k_norm])?;
    shape::length("the gradient of Q, K and V", gradient.len(), Some(qkv.len()))?;
    let (isa, width, dim) = (Isa::best(), heads.qkv_width(), heads.head_dim);
    let chunk_tokens = rows_per_work_chunk(width);
    team::run_over(gradient, chunk_tokens * width, &|work_chunk, gradient| {
        for (token, row) in gradient.chunks_exact_mut(width).enumerate() {
            let token = work_chunk * chunk_tokens + token;
            let (q, k) = row[..heads.values_offset()].split_at_mut(heads.keys_offset());
            let (x_q, x_k) = qkv[token * width..][..heads.values_offset()].split_at(heads.keys_offset());
            for (part, x, norm) in [(q, x_q, q_norm), (k, x_k, k_norm)] {
                rope.rotate_backward_in_place(part, dim, positions[token]);
                let Some(norm) = norm else { continue };
                for (part, x) in part.chunks_exact_mut(dim).zip(x.chunks_exact(dim)) {
                    norm::row_backward_in_place(isa, x, norm.weight, norm.eps, part);
                }
            }
        }
    });
    Ok(())
}
