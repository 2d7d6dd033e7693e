//! The change of Q and K before attention: RMSNorm, then RoPE, then the temperature of Q. Each is
//! optional. One cube per head of a token; norms over all heads have a separate kernel.

use super::launch::{buffer_arg, cube_count, matrix_arg};
use super::norm_over_heads::norm_over_heads;
use super::reduce::reduce_sum;
use super::{Floats, GpuError, Norm, heads};
use crate::attention::{Heads, QkNormWidth, Temperature};
use crate::rope::{Pairing, Rope};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a head.
const UNITS: usize = 64;

/// The change of Q and K before attention, as [`crate::attention::QkNormRope`] on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct QkNormRope<'a> {
    /// The norms of Q and of K.
    pub norms: [Option<&'a Norm>; 2],
    /// The width of the norms.
    pub norm_width: QkNormWidth,
    /// RoPE, after the norms; `None` if Q and K have no positions.
    pub rotation: Option<Rotation<'a>>,
    /// The temperature of Q, after RoPE.
    pub temperature: Option<Temperature>,
}

/// RoPE with its angles on a device.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// The pairing.
    pub pairing: Pairing,
    /// Rotated elements of a head. In narrower heads only the pairs that exist are rotated.
    pub dims: usize,
    /// [`rope_table`] of `positions`, with `dims / 2` pairs.
    pub table: &'a Handle,
    /// Positions in the table. Positions of tokens are clamped to them.
    pub positions: usize,
}

/// Cosine and sine of each pair at each position below `positions`, times the magnitude:
/// `[positions, dims / 2, 2]`.
pub fn rope_table(rope: &Rope, positions: usize) -> Vec<f32> {
    let magnitude = f64::from(rope.magnitude());
    (0..positions as u32)
        .flat_map(|position| rope.angles(position))
        .flat_map(|angle| [(angle.cos() * magnitude) as f32, (angle.sin() * magnitude) as f32])
        .collect()
}

/// The factor of Q at a position: [`Temperature::at`].
#[cube]
pub(super) fn temperature_at(position: usize, scale: f32, length: usize) -> f32 {
    let count = 1.0f32 + f32::cast_from(position / length);
    1.0f32 + scale * count.ln()
}

/// Compile-time configuration of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    pairing: Pairing,
    /// `true` for each of Q and K that has a norm of each head.
    norms: [bool; 2],
    has_temperature: bool,
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
    temperature_scale: f32,
    temperature_length: usize,
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

    let mut temperature = 1.0f32;
    if comptime!(config.has_temperature) && is_query {
        temperature = temperature_at(positions[token] as usize, temperature_scale, temperature_length);
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
            if comptime!(config.has_temperature) {
                value *= temperature;
            }
            out[start + i] = value;
        }
    }
}

/// Checked kernel arguments, common to forward and backward.
pub(super) struct RopeArgs {
    /// The pairing; arbitrary if nothing is rotated.
    pub pairing: Pairing,
    /// Pairs per position in the table.
    pub pairs: usize,
    /// Rotated elements of a head.
    pub rotated: usize,
    /// The cosines and sines; a dummy buffer if there is no RoPE.
    pub table: BufferArg,
    /// Positions in the table; at least 1.
    pub table_positions: usize,
    /// The position of each token.
    pub positions: BufferArg,
    /// The weights of Q's and K's norm of each head; a dummy buffer if there is none.
    pub weights: [BufferArg; 2],
    /// The scale of the temperature; 0 if there is none.
    pub temperature_scale: f32,
    /// The length of the temperature; at least 1.
    pub temperature_length: usize,
}

impl RopeArgs {
    /// Checks the arguments of [`qk_norm_rope`]. `norms` are norms of each head.
    pub fn new(
        qkv: &Floats,
        heads: &Heads,
        norms: [Option<&Norm>; 2],
        args: &QkNormRope,
        positions: &Handle,
    ) -> Result<Self, GpuError> {
        let (pairing, dims, table_positions) = match &args.rotation {
            Some(rotation) => (rotation.pairing, rotation.dims, rotation.positions),
            None => (Pairing::Halves, 0, 0),
        };
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
        let table = match &args.rotation {
            Some(rotation) => buffer_arg(rotation.table, "RoPE table", table_elements)?,
            None => matrix_arg(qkv, "Q, K and V")?,
        };
        let weight = |norm: Option<&Norm>| match norm {
            Some(norm) => buffer_arg(&norm.weight, "weight of a head's norm", heads.head_dim),
            None => matrix_arg(qkv, "Q, K and V"),
        };
        Ok(Self {
            pairing,
            pairs,
            rotated,
            table,
            table_positions: table_positions.max(1),
            positions: buffer_arg(positions, "list of positions", qkv.rows)?,
            weights: [weight(norms[0])?, weight(norms[1])?],
            temperature_scale: args.temperature.map_or(0.0, |temperature| temperature.scale),
            temperature_length: args
                .temperature
                .map_or(1, |temperature| temperature.length.max(1) as usize),
        })
    }
}

/// Applies the norms, RoPE at the token's position, and the temperature to Q and K of each token;
/// copies V. `positions` has one word per token.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn qk_norm_rope(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    args: &QkNormRope,
    positions: &Handle,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    match args.norm_width {
        QkNormWidth::AllHeads if args.norms.iter().any(Option::is_some) => {
            let normed = norm_over_heads(client, qkv, heads, args.norms)?;
            rotate(client, &normed, heads, [None, None], args, positions)
        }
        _ => rotate(client, qkv, heads, args.norms, args, positions),
    }
}

/// [`qk_norm_rope`] with these norms of each head.
fn rotate(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    norms: [Option<&Norm>; 2],
    args: &QkNormRope,
    positions: &Handle,
) -> Result<Floats, GpuError> {
    let out = Floats::empty(client, qkv.rows, qkv.cols);
    let rope = RopeArgs::new(qkv, heads, norms, args, positions)?;
    let [q_weight, k_weight] = rope.weights;
    let (input, result) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(&out, "rotated Q, K and V")?);
    if qkv.rows > 0 {
        let count = cube_count(client, qkv.rows * (heads.heads + 2 * heads.kv_heads))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        let config = Config {
            pairing: rope.pairing,
            norms: norms.map(|norm| norm.is_some()),
            has_temperature: args.temperature.is_some(),
        };
        let [q_eps, k_eps] = norms.map(|norm| norm.map_or(0.0, |norm| norm.eps));
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
                rope.table_positions,
                q_eps,
                k_eps,
                rope.temperature_scale,
                rope.temperature_length,
                config,
            );
        }
    }
    Ok(out)
}
