//! The operations on a GPU: Burn's tensors, handed as buffers to the kernels of
//! `hearth-kernels::gpu`.
//!
//! GEMMs may round their factors to f16 if less than f32 is requested and the device has matrix
//! units; all other products are in f32: a GPU is limited by memory before int8 activations would
//! help. Values shared by all layers of a pass (lists of cells, RoPE tables) are cached beside
//! their source.

mod backward;
mod buffers;
mod lists;

use buffers::{copied, floats, tensor, vector, words};
use lists::list;

use super::inputs::checked;
use super::{
    Adapter, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, MemoryUse, Norm, Ops,
    OptionalNorm, logit_rows,
};
use crate::batch::{Batch, GroupRows, LayerKeys};
use crate::cache::{GpuCells, LayerCells};
use crate::per_device::RopeTable;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, DType, Shape, TensorMetadata};
use burn_cubecl::kernel::into_contiguous;
use cubecl::MemoryScope;
use hearth_kernels::attention::Heads;
use hearth_kernels::gpu::{self, Floats};
use hearth_kernels::{Layout, ShapeError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Tensor = FloatTensor<Cube>;

fn weight(blocks: &IntTensor<Cube>, spec: &MatrixSpec) -> gpu::Weight {
    if spec.layout != Layout::Plain {
        let quant = spec.quant;
        checked::<(), _>(Err(ShapeError::Layout { quant }));
    }
    gpu::Weight {
        words: words(blocks),
        quant: spec.quant,
        rows: spec.rows,
        cols: spec.cols,
    }
}

fn kernel_linear(linear: Linear<Cube>) -> gpu::Linear {
    let lora = match linear.adapter {
        Adapter::None => None,
        Adapter::Lora { a, b, scale, dropout } => Some(gpu::Lora {
            a: floats(&into_contiguous(a)),
            b: floats(&into_contiguous(b)),
            scale,
            dropout,
        }),
    };
    let bias = match linear.bias {
        Bias::None => None,
        Bias::Add(bias) => Some(vector(bias)),
    };
    gpu::Linear {
        weight: weight(&linear.weight, &linear.spec),
        scale: linear.spec.scale,
        lora,
        bias,
    }
}

fn kernel_norm(norm: Norm<Cube>) -> gpu::Norm {
    gpu::Norm {
        weight: vector(norm.weight),
        eps: norm.eps,
    }
}

fn kernel_optional_norm(norm: OptionalNorm<Cube>) -> Option<gpu::Norm> {
    match norm {
        OptionalNorm::None => None,
        OptionalNorm::Norm(weight, eps) => Some(kernel_norm(Norm { weight, eps })),
    }
}

/// Concatenated outputs of linears over a normalized input.
fn concat_linears(like: &Tensor, x: &Floats, linears: &[gpu::Linear], precision: MatmulPrecision) -> Floats {
    let width = linears.iter().map(|linear| linear.weight.rows).sum();
    let out = Floats::empty(&like.client, x.rows, width);
    let mut at = 0;
    for linear in linears {
        checked(gpu::linear(&like.client, x, linear, precision, &out, at, false));
        at += linear.weight.rows;
    }
    out
}

/// Q, K and V after head norms (if any) and RoPE, in a new buffer.
fn prepared(
    qkv: &Tensor,
    spec: &AttentionSpec,
    norms: [&Option<gpu::Norm>; 2],
    positions: &cubecl::server::Handle,
    table: &RopeTable,
) -> Floats {
    checked(gpu::qk_norm_rope(
        &qkv.client,
        &floats(qkv),
        &spec.heads,
        norms[0].as_ref(),
        norms[1].as_ref(),
        spec.rope.pairing(),
        spec.rope.dims(),
        &table.angles,
        table.positions,
        positions,
    ))
}

/// Losses of normalized hidden states, a few rows of logits at a time: `[rows]`; and the gradient
/// of their sum for `x`, times `scale`, if requested.
fn losses(
    like: &Tensor,
    x: &Floats,
    output: &gpu::Linear,
    precision: MatmulPrecision,
    targets: &[u32],
    scale: f32,
    gradient: bool,
) -> (f64, Option<Floats>) {
    let (client, vocab) = (&like.client, output.weight.rows);
    let rows = logit_rows(vocab);
    let dx = gradient.then(|| Floats::empty(client, x.rows, x.cols));
    // Gradients never use int8 activations.
    let precision = match precision {
        MatmulPrecision::Int8Activations if gradient => MatmulPrecision::F32,
        precision => precision,
    };
    let mut parts = Vec::new();
    for first in (0..x.rows).step_by(rows) {
        let count = rows.min(x.rows - first);
        let part = x.rows_from(first, count);
        let logits = Floats::empty(client, count, vocab);
        checked(gpu::linear(client, &part, output, precision, &logits, 0, false));
        let chosen = list(like, &targets[first..first + count]);
        parts.push(checked(gpu::cross_entropy_in_place(
            client, &logits, &chosen, scale, gradient,
        )));
        if let Some(dx) = &dx {
            let part = dx.rows_from(first, count);
            checked(gpu::weight_backward(
                client,
                &logits,
                0,
                &output.weight,
                output.scale,
                precision,
                &part,
                false,
            ));
        }
    }
    let sum = parts.into_iter().map(|losses| {
        let bytes = checked(client.read_one(losses).map_err(|error| format!("{error:?}")));
        let losses: &[f32] = bytemuck::cast_slice(&bytes);
        losses.iter().map(|loss| f64::from(*loss)).sum::<f64>()
    });
    (f64::from(scale) * sum.sum::<f64>(), dx)
}

/// A scalar `[1]` on the device of `like`.
fn scalar(like: &Tensor, value: f64) -> Tensor {
    let handle = like.client.create_from_slice(&(value as f32).to_le_bytes());
    Tensor::new_contiguous(
        like.client.clone(),
        like.device.clone(),
        Shape::from([1]),
        handle,
        DType::F32,
    )
}

/// Writes the keys and values of `ready`, normalized and rotated rows of Q, K and V, to their
/// cells, and attends to the cells of their sequences.
fn attend_cached(like: &Tensor, ready: &Floats, heads: &Heads, cells: &LayerCells, rows: &GroupRows) -> Floats {
    let (client, count, format) = (&like.client, cells.cells(), cells.format());
    let GpuCells { keys, values, .. } = cells.gpu(like);
    let lists = rows.lists(like);
    checked(gpu::kv_write(
        client,
        ready,
        heads,
        &lists.cells,
        keys,
        values,
        count,
        format,
    ));
    let parts = rows.sequences.iter().zip(&lists.pages);
    let mut sequences = Vec::with_capacity(rows.sequences.len());
    sequences.extend(parts.map(|(part, pages)| gpu::CachedRows {
        rows: part.rows,
        length: part.spans.end(),
        first_page: part.first_page,
        pages,
    }));
    checked(gpu::attend_cached(
        client,
        ready,
        heads,
        [keys, values],
        count,
        &sequences,
        format,
    ))
}

impl Ops for Cube {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        let out = checked(gpu::embed(
            &table.client,
            &weight(&table, &spec),
            list(&table, &ids),
            ids.len(),
            scale,
        ));
        tensor(&table, out)
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &kernel_norm(norm)));
        let linears: Vec<_> = linears.into_vec().into_iter().map(kernel_linear).collect();
        tensor(&x, concat_linears(&x, &normed, &linears, precision))
    }

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        layer: usize,
    ) -> FloatTensor<Self> {
        let qkv = into_contiguous(qkv);
        let norms = [kernel_optional_norm(q_norm), kernel_optional_norm(k_norm)];
        let (client, heads) = (&qkv.client, &spec.heads);
        let (table, lists) = (spec.rope.table(&qkv, batch.longest()), batch.lists(&qkv));
        let ready = prepared(&qkv, &spec, norms.each_ref(), &lists.positions, &table);
        let context = match checked(batch.keys(layer)) {
            LayerKeys::Batch(_) => checked(gpu::attend_batch(client, &ready, heads, &lists.starts)),
            LayerKeys::BothWays(..) => checked(gpu::attend_batch_both_ways(client, &ready, heads, &lists.starts)),
            LayerKeys::Cache(cells, rows) => attend_cached(&qkv, &ready, heads, cells, rows),
        };
        tensor(&qkv, context)
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (residual, h, linear) = (into_contiguous(residual), into_contiguous(h), kernel_linear(linear));
        match kernel_optional_norm(norm) {
            None => {
                // In place if the residual is not shared.
                let stream = if residual.can_mut() {
                    residual
                } else {
                    copied(&residual)
                };
                let (input, out) = (floats(&h), floats(&stream));
                checked(gpu::linear(&h.client, &input, &linear, precision, &out, 0, true));
                stream
            }
            Some(norm) => {
                let y = concat_linears(&h, &floats(&h), &[linear], precision);
                let sum = checked(gpu::add_norm(&h.client, &floats(&residual), &y, &norm));
                tensor(&h, sum)
            }
        }
    }

    fn feed_forward(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let (h, _) = backward::gated_with_saved(&x, gated, precision);
        Self::linear_add(x, h, down, after, precision)
    }

    fn cross_entropy(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &kernel_norm(norm)));
        let (loss, _) = losses(&x, &normed, &kernel_linear(output), precision, &targets, scale, false);
        scalar(&x, loss)
    }

    fn argmax(x: FloatTensor<Self>) -> IntTensor<Self> {
        let x = into_contiguous(x);
        let rows = x.shape()[0];
        let handle = checked(gpu::argmax(&x.client, &floats(&x)));
        IntTensor::<Cube>::new_contiguous(
            x.client.clone(),
            x.device.clone(),
            Shape::new([rows]),
            handle,
            DType::U32,
        )
    }

    fn memory(like: FloatTensor<Self>, found: Arc<MemoryUse>) -> FloatTensor<Self> {
        let usage = like.client.memory_report(MemoryScope::Device).usage();
        found.used.store(usage.bytes_in_use, Ordering::Relaxed);
        found.reserved.store(usage.bytes_reserved, Ordering::Relaxed);
        like
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        let (rows, cols) = (spec.rows, spec.cols);
        let words = self::weight(&weight, &spec).words;
        let handle = checked(gpu::dequantize(&weight.client, words, spec.quant, rows, cols));
        tensor(&weight, Floats { handle, rows, cols })
    }
}
