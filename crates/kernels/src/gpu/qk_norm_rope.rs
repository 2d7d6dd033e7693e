//! Optional RMSNorm of each head of Q and K, then RoPE.

use super::launch::{buffer_arg, cube_count, matrix_arg};
use super::reduce::reduce_sum;
use super::{Floats, GpuError, Norm, heads};
use crate::attention::Heads;
use crate::rope::{Pairing, Rope};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a head.
const UNITS: usize = 64;

/// Cosine and sine of each pair at each position below `positions`: `[positions, dims / 2, 2]`.
pub fn rope_table(rope: &Rope, positions: usize) -> Vec<f32> {
    (0..positions as u32)
        .flat_map(|position| rope.angles(position))
        .flat_map(|angle| [angle.cos() as f32, angle.sin() as f32])
        .collect()
}

/// Compile-time configuration of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    pairing: Pairing,
    /// `true` for each of Q and K that has a norm.
    norms: [bool; 2],
}

#[cube(launch_unchecked)]
fn normalize_and_rotate(
    qkv: &[f32],
    q_weight: &[f32],
    k_weight: &[f32],
    table: &[f32],
    positions: &[u32],
    out: &mut [f32],
    tokens: usize,
    query_heads: usize,
    kv_heads: usize,
    head_dim: usize,
    rotated: usize,
    table_pairs: usize,
    table_positions: usize,
    q_eps: f32,
    k_eps: f32,
    #[comptime] config: Config,
) {
    let heads_per_token = query_heads + 2 * kv_heads;
    if CUBE_POS >= tokens * heads_per_token {
        terminate!();
    }
    let head = CUBE_POS % heads_per_token;
    let token = CUBE_POS / heads_per_token;
    let start = CUBE_POS * head_dim;
    let unit = UNIT_POS as usize;
    let steps = head_dim.div_ceil(UNITS);
    let is_query = head < query_heads;
    let is_value = head >= query_heads + kv_heads;

    // Also for V: all units of a cube must take part in the sum.
    let mut inverse_rms = 1.0f32;
    if comptime!(config.norms[0] || config.norms[1]) {
        let mut squares = 0.0f32;
        for step in 0..steps {
            let i = step * UNITS + unit;
            if i < head_dim {
                squares += qkv[start + i] * qkv[start + i];
            }
        }
        let mut shared = Shared::<[f32]>::new_slice(UNITS);
        let mean = reduce_sum(squares, &mut shared, UNITS) / f32::cast_from(head_dim);
        let eps = select(is_query, q_eps, k_eps);
        inverse_rms = 1.0f32 / f32::sqrt(mean + eps);
    }

    let last_position = table_positions - 1;
    let position = min(positions[token] as usize, last_position);
    for step in 0..steps {
        let i = step * UNITS + unit;
        if i < head_dim {
            let mut partner_index = i;
            let mut pair = 0usize;
            // -1 for the first of a pair (a cos - b sin), 1 for the second (a sin + b cos).
            let mut sign = 0.0f32;
            if !is_value && i < rotated {
                match comptime!(config.pairing) {
                    Pairing::Interleaved => {
                        pair = i / 2;
                        partner_index = i ^ 1;
                        sign = select(i == partner_index + 1, 1.0f32, -1.0f32);
                    }
                    Pairing::Halves => {
                        let half = rotated / 2;
                        pair = i % half;
                        partner_index = (i + half) % rotated;
                        sign = select(i < half, -1.0f32, 1.0f32);
                    }
                }
            }
            let mut element = qkv[start + i];
            let mut partner = qkv[start + partner_index];
            if comptime!(config.norms[0]) && is_query {
                element = element * inverse_rms * q_weight[i];
                partner = partner * inverse_rms * q_weight[partner_index];
            }
            if comptime!(config.norms[1]) && !is_query && !is_value {
                element = element * inverse_rms * k_weight[i];
                partner = partner * inverse_rms * k_weight[partner_index];
            }
            let mut value = element;
            if sign != 0.0f32 {
                let angle = (position * table_pairs + pair) * 2;
                value = element * table[angle] + sign * partner * table[angle + 1];
            }
            out[start + i] = value;
        }
    }
}

/// Checked kernel arguments, common to forward and backward.
pub(super) struct RopeArgs {
    /// Pairs per position in the table.
    pub pairs: usize,
    /// Rotated elements of a head.
    pub rotated: usize,
    /// The cosines and sines.
    pub table: BufferArg,
    /// The position of each token.
    pub positions: BufferArg,
    /// The weights of Q's and K's norm; a dummy buffer if there is none.
    pub weights: [BufferArg; 2],
}

impl RopeArgs {
    /// Checks the arguments of [`qk_norm_rope`].
    pub fn new(
        qkv: &Floats,
        heads: &Heads,
        norms: [Option<&Norm>; 2],
        dims: usize,
        table: &Handle,
        table_positions: usize,
        positions: &Handle,
    ) -> Result<Self, GpuError> {
        let pairs = dims / 2;
        let rotated = (2 * pairs).min(heads.head_dim - heads.head_dim % 2);
        if rotated > 0 && table_positions == 0 {
            return Err(GpuError::Size {
                what: "number of positions in a RoPE table",
                found: 0,
                expected: 1,
            });
        }
        let table_elements = table_positions.checked_mul(2 * pairs).unwrap_or(usize::MAX / 4);
        let weight = |norm: Option<&Norm>| match norm {
            Some(norm) => buffer_arg(&norm.weight, "weight of a head's norm", heads.head_dim),
            None => matrix_arg(qkv, "Q, K and V"),
        };
        Ok(Self {
            pairs,
            rotated,
            table: buffer_arg(table, "RoPE table", table_elements)?,
            positions: buffer_arg(positions, "list of positions", qkv.rows)?,
            weights: [weight(norms[0])?, weight(norms[1])?],
        })
    }
}

/// Applies RMSNorm to each head of Q and K if there is a norm, then RoPE at the token's position;
/// copies V.
///
/// `table` is [`rope_table`] for `table_positions`, with `dims / 2` pairs; in heads narrower than
/// `dims` only the pairs that exist are rotated. `positions` has one word per token, clamped to the
/// table.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn qk_norm_rope(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    q_norm: Option<&Norm>,
    k_norm: Option<&Norm>,
    pairing: Pairing,
    dims: usize,
    table: &Handle,
    table_positions: usize,
    positions: &Handle,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let out = Floats::empty(client, qkv.rows, qkv.cols);
    let rope = RopeArgs::new(qkv, heads, [q_norm, k_norm], dims, table, table_positions, positions)?;
    let [q_weight, k_weight] = rope.weights;
    let (input, result) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(&out, "rotated Q, K and V")?);
    if qkv.rows > 0 {
        let count = cube_count(client, qkv.rows * (heads.heads + 2 * heads.kv_heads))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        let config = Config {
            pairing,
            norms: [q_norm.is_some(), k_norm.is_some()],
        };
        // SAFETY: the kernel stays in the heads of `qkv`, in norms as wide as a head, and in the
        // table's positions and pairs.
        unsafe {
            normalize_and_rotate::launch_unchecked(
                client,
                count,
                dim,
                input,
                q_weight,
                k_weight,
                rope.table,
                rope.positions,
                result,
                qkv.rows,
                heads.heads,
                heads.kv_heads,
                heads.head_dim,
                rope.rotated,
                rope.pairs,
                table_positions.max(1),
                q_norm.map_or(0.0, |norm| norm.eps),
                k_norm.map_or(0.0, |norm| norm.eps),
                config,
            );
        }
    }
    Ok(out)
}
