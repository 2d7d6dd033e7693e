//! What happens to Q and K before they meet: a norm of each head where the model has one, and the rotation.

use super::launch::{argument, cubes, matrix};
use super::reduce::sum;
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

/// What is done to heads, as a kernel is compiled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    pairing: Pairing,
    /// Whether Q has a norm, and K.
    norms: [bool; 2],
}

#[cube(launch_unchecked)]
fn prepare_heads(
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
    turned: usize,
    table_pairs: usize,
    table_positions: usize,
    q_eps: f32,
    k_eps: f32,
    #[comptime] plan: Plan,
) {
    let across = query_heads + 2 * kv_heads;
    if CUBE_POS >= tokens * across {
        terminate!();
    }
    let head = CUBE_POS % across;
    let token = CUBE_POS / across;
    let start = CUBE_POS * head_dim;
    let unit = UNIT_POS as usize;
    let steps = head_dim.div_ceil(UNITS);
    let is_query = head < query_heads;
    let is_value = head >= query_heads + kv_heads;

    // Every head goes through the sum, for all units of a cube have to.
    let mut root = 1.0f32;
    if comptime!(plan.norms[0] || plan.norms[1]) {
        let mut squares = 0.0f32;
        for step in 0..steps {
            let i = step * UNITS + unit;
            if i < head_dim {
                squares += qkv[start + i] * qkv[start + i];
            }
        }
        let mut shared = Shared::<[f32]>::new_slice(UNITS);
        let mean = sum(squares, &mut shared, UNITS) / f32::cast_from(head_dim);
        let eps = select(is_query, q_eps, k_eps);
        root = 1.0f32 / f32::sqrt(mean + eps);
    }

    let last = table_positions - 1;
    let position = min(positions[token] as usize, last);
    for step in 0..steps {
        let i = step * UNITS + unit;
        if i < head_dim {
            let mut other = i;
            let mut pair = 0usize;
            // -1 for the first of a pair, whose turned value is a cos - b sin; 1 for the second.
            let mut sign = 0.0f32;
            if !is_value && i < turned {
                match comptime!(plan.pairing) {
                    Pairing::Interleaved => {
                        pair = i / 2;
                        other = i ^ 1;
                        sign = select(i == other + 1, 1.0f32, -1.0f32);
                    }
                    Pairing::Halves => {
                        let half = turned / 2;
                        pair = i % half;
                        other = (i + half) % turned;
                        sign = select(i < half, -1.0f32, 1.0f32);
                    }
                }
            }
            let mut mine = qkv[start + i];
            let mut theirs = qkv[start + other];
            if comptime!(plan.norms[0]) && is_query {
                mine = mine * root * q_weight[i];
                theirs = theirs * root * q_weight[other];
            }
            if comptime!(plan.norms[1]) && !is_query && !is_value {
                mine = mine * root * k_weight[i];
                theirs = theirs * root * k_weight[other];
            }
            let mut value = mine;
            if sign != 0.0f32 {
                let at = (position * table_pairs + pair) * 2;
                value = mine * table[at] + sign * theirs * table[at + 1];
            }
            out[start + i] = value;
        }
    }
}

/// What the kernels of both ways are given beside Q, K and V: checked and measured.
pub(super) struct Turning {
    /// Pairs of a position in the table.
    pub pairs: usize,
    /// Elements of a head that are turned.
    pub turned: usize,
    /// The cosines and sines.
    pub table: BufferArg,
    /// A position for each token.
    pub positions: BufferArg,
    /// The weights of Q's and K's norm; where there is none, something that is not read.
    pub weights: [BufferArg; 2],
}

impl Turning {
    /// For rows of Q, K and V; the rest is as [`prepare`] takes it.
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
        let turned = (2 * pairs).min(heads.head_dim - heads.head_dim % 2);
        if turned > 0 && table_positions == 0 {
            return Err(GpuError::Size {
                what: "number of positions in a table of rotations",
                found: 0,
                expected: 1,
            });
        }
        let angles = table_positions.checked_mul(2 * pairs).unwrap_or(usize::MAX / 4);
        let weight = |norm: Option<&Norm>| match norm {
            Some(norm) => argument(&norm.weight, "weight of a head's norm", heads.head_dim),
            None => matrix(qkv, "Q, K and V"),
        };
        Ok(Self {
            pairs,
            turned,
            table: argument(table, "table of rotations", angles)?,
            positions: argument(positions, "list of positions", qkv.rows)?,
            weights: [weight(norms[0])?, weight(norms[1])?],
        })
    }
}

/// Rows of Q, K and V with each head of Q and K normalised where there is a norm, then turned by its token's position; V is
/// copied.
///
/// `table` is that of [`rope_table`] for `table_positions`, with `dims / 2` pairs; heads narrower than `dims` are turned as far
/// as they go. `positions` has a word for each token; one beyond the table is taken for its last.
///
/// # Errors
/// Where the shapes do not fit.
pub fn prepare(
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
    let turning = Turning::new(qkv, heads, [q_norm, k_norm], dims, table, table_positions, positions)?;
    let [q_weight, k_weight] = turning.weights;
    let (input, result) = (matrix(qkv, "Q, K and V")?, matrix(&out, "prepared Q, K and V")?);
    if qkv.rows > 0 {
        let count = cubes(client, qkv.rows * (heads.heads + 2 * heads.kv_heads))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        let plan = Plan {
            pairing,
            norms: [q_norm.is_some(), k_norm.is_some()],
        };
        // SAFETY: the kernel stays in the heads of `qkv`, in norms as wide as a head, and in the table's positions and pairs.
        unsafe {
            prepare_heads::launch_unchecked(
                client,
                count,
                dim,
                input,
                q_weight,
                k_weight,
                turning.table,
                turning.positions,
                result,
                qkv.rows,
                heads.heads,
                heads.kv_heads,
                heads.head_dim,
                turning.turned,
                turning.pairs,
                table_positions.max(1),
                q_norm.map_or(0.0, |norm| norm.eps),
                k_norm.map_or(0.0, |norm| norm.eps),
                plan,
            );
        }
    }
    Ok(out)
}
