//! Attention of a batch over itself.

use super::Source;
use super::run::{Rows, run};
use crate::attention::Heads;
use crate::gpu::launch::{buffer_arg, matrix_arg};
use crate::gpu::{Floats, GpuError, heads};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Attention of a batch over itself: `[T, heads * head_dim]`. `starts` has the first key that each
/// token sees, one word per token, clamped to the token.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn attend_batch(client: &Client, qkv: &Floats, heads: &Heads, starts: &Handle) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let starts = buffer_arg(starts, "list of first keys", qkv.rows)?;
    let (keys, values) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::from_batch(qkv.rows);
    run(
        client,
        qkv,
        heads,
        [keys, values, starts],
        Source::Batch,
        rows,
        false,
        &out,
    )?;
    Ok(out)
}

/// [`attend_batch`] without a causal mask: a token sees its whole sequence, or half a window on
/// either side. `bounds` has the first token of each token's sequence, one word per token, then the
/// token after the last; they are clamped so that a token sees itself.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn attend_batch_both_ways(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    bounds: &Handle,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let bounds = buffer_arg(bounds, "list of first and last keys", 2 * qkv.rows)?;
    let (keys, values) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::from_batch(qkv.rows);
    run(
        client,
        qkv,
        heads,
        [keys, values, bounds],
        Source::Batch,
        rows,
        true,
        &out,
    )?;
    Ok(out)
}
