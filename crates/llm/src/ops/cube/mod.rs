//! The operations on a GPU. They pass the buffers of Burn's tensors to the kernels of
//! `hearth-kernels::gpu`.
//!
//! GEMMs may round their inputs to f16 if less than f32 is requested and the device has matrix
//! units (tensor cores). All other products are in f32, since on a GPU they are bound by memory
//! bandwidth, where int8 activations do not help. Index lists and RoPE tables are uploaded once for
//! all layers of a pass, and cached next to their source.

mod backward;
mod buffers;
mod indices;

use buffers::{contiguous_copy, floats, tensor, vector, words};
use indices::upload_indices;

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

/// A weight as an operand of a kernel: the blocks of the GGUF file, as `ggml_tensor::data`.
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

/// A linear layer as an operand of kernels.
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

/// The rows of `x`, after a norm if there is one.
fn normed(x: &Tensor, norm: Option<&gpu::Norm>) -> Floats {
    let rows = floats(x);
    match norm {
        None => rows,
        Some(norm) => checked(gpu::rms_norm(&x.client, &rows, norm)),
    }
}

/// The outputs of linear layers with a common input, concatenated per row.
fn concat_linears(like: &Tensor, x: &Floats, linears: &[gpu::Linear], precision: MatmulPrecision) -> Floats {
    let width = linears.iter().map(|linear| linear.weight.rows).sum();
    let out = Floats::empty(&like.client, x.rows, width);
    let mut offset = 0;
    for linear in linears {
        checked(gpu::linear(&like.client, x, linear, precision, &out, offset, false));
        offset += linear.weight.rows;
    }
    out
}

/// The RoPE table of a layer, which has all positions of the batch; `None` without RoPE.
fn rope_table(qkv: &Tensor, spec: &AttentionSpec, batch: &Batch) -> Option<RopeTable> {
    let rope = spec.rope.as_ref()?;
    Some(rope.table(qkv, batch.rope_positions()))
}

/// The change of Q and K before attention; `table` is the result of [`rope_table`].
fn qk_norm_rope<'a>(
    spec: &AttentionSpec,
    norms: &'a [Option<gpu::Norm>; 2],
    table: &'a Option<RopeTable>,
) -> gpu::QkNormRope<'a> {
    let rotation = match (&spec.rope, table) {
        (Some(rope), Some(table)) => Some(gpu::Rotation {
            pairing: rope.pairing(),
            dims: rope.dims(),
            table: &table.angles,
            positions: table.positions,
        }),
        _ => None,
    };
    gpu::QkNormRope {
        norms: norms.each_ref().map(Option::as_ref),
        norm_width: spec.norm_width,
        rotation,
        temperature: spec.temperature,
    }
}

/// The parameters of [`Ops::cross_entropy`] besides its tensors.
struct Loss<'a> {
    softcap: Option<f32>,
    targets: &'a [u32],
    scale: f32,
    precision: MatmulPrecision,
}

/// The scale of `loss` times the summed cross-entropy of normalized hidden states `x`, and its
/// gradient with respect to `x` if requested. Logits are computed for [`logit_rows`] rows at a
/// time.
fn loss_and_gradient(
    like: &Tensor,
    x: &Floats,
    output: &gpu::Linear,
    loss: &Loss,
    with_gradient: bool,
) -> (f64, Option<Floats>) {
    let (client, vocab) = (&like.client, output.weight.rows);
    let rows = logit_rows(vocab);
    let dx = with_gradient.then(|| Floats::empty(client, x.rows, x.cols));
    // Gradients never use int8 activations.
    let precision = match loss.precision {
        MatmulPrecision::Int8Activations if with_gradient => MatmulPrecision::F32,
        precision => precision,
    };
    let mut row_losses = Vec::new();
    for first in (0..x.rows).step_by(rows) {
        let count = rows.min(x.rows - first);
        let hidden = x.rows_from(first, count);
        let logits = Floats::empty(client, count, vocab);
        checked(gpu::linear(client, &hidden, output, precision, &logits, 0, false));
        let target_indices = upload_indices(like, &loss.targets[first..first + count]);
        // Replaces the logits by their gradient if requested.
        row_losses.push(checked(gpu::cross_entropy_in_place(
            client,
            &logits,
            &target_indices,
            loss.scale,
            loss.softcap,
            with_gradient,
        )));
        if let Some(dx) = &dx {
            let d_hidden = dx.rows_from(first, count);
            checked(gpu::weight_backward(
                client,
                &logits,
                0,
                &output.weight,
                output.scale,
                precision,
                &d_hidden,
                false,
            ));
        }
    }
    let sums = row_losses.into_iter().map(|losses| {
        let bytes = checked(client.read_one(losses).map_err(|error| format!("{error:?}")));
        let losses: &[f32] = bytemuck::cast_slice(&bytes);
        losses.iter().map(|loss| f64::from(*loss)).sum::<f64>()
    });
    (f64::from(loss.scale) * sums.sum::<f64>(), dx)
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

/// Writes the keys and values of [`rotated_qkv`] to their cells, and attends to the cells of their
/// sequences: paged attention in vLLM's terms.
fn attend_cached(like: &Tensor, rotated: &Floats, heads: &Heads, cells: &LayerCells, rows: &GroupRows) -> Floats {
    let (client, n_cells, format) = (&like.client, cells.cells(), cells.format());
    let GpuCells { keys, values, .. } = cells.gpu(like);
    let indices = rows.indices(like);
    checked(gpu::kv_write(
        client,
        rotated,
        heads,
        &indices.cells,
        keys,
        values,
        n_cells,
        format,
    ));
    let sequences: Vec<_> = rows
        .sequences
        .iter()
        .zip(&indices.pages)
        .map(|(sequence, pages)| gpu::CachedRows {
            rows: sequence.rows,
            length: sequence.spans.end(),
            first_page: sequence.first_page,
            pages,
        })
        .collect();
    checked(gpu::attend_cached(
        client,
        rotated,
        heads,
        [keys, values],
        n_cells,
        &sequences,
        format,
    ))
}

impl Ops for Cube {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        let out = checked(gpu::embed(
            &table.client,
            &weight(&table, &spec),
            upload_indices(&table, &ids),
            ids.len(),
            scale,
        ));
        tensor(&table, out)
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let normed = normed(&x, kernel_optional_norm(norm).as_ref());
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
        let table = rope_table(&qkv, &spec, &batch);
        let indices = batch.indices(&qkv);
        let args = qk_norm_rope(&spec, &norms, &table);
        let rotated = checked(gpu::qk_norm_rope(
            client,
            &floats(&qkv),
            heads,
            &args,
            &indices.positions,
        ));
        let context = match checked(batch.keys(layer)) {
            LayerKeys::Batch(_) => checked(gpu::attend_batch(client, &rotated, heads, &indices.starts)),
            LayerKeys::Bidirectional(..) => {
                checked(gpu::attend_batch_both_ways(client, &rotated, heads, &indices.starts))
            }
            LayerKeys::Cache(cells, rows) => attend_cached(&qkv, &rotated, heads, cells, rows),
        };
        tensor(&qkv, context)
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (residual, h, linear) = (into_contiguous(residual), into_contiguous(h), kernel_linear(linear));
        match kernel_optional_norm(norm) {
            None => {
                // In place if the residual is not shared.
                let stream = if residual.can_mut() {
                    residual
                } else {
                    contiguous_copy(&residual)
                };
                let (input, out) = (floats(&h), floats(&stream));
                checked(gpu::linear_add(&h.client, &input, &linear, scale, precision, &out));
                stream
            }
            Some(norm) => {
                let y = concat_linears(&h, &floats(&h), &[linear], precision);
                let sum = checked(gpu::add_norm(&h.client, &floats(&residual), &y, &norm, scale));
                tensor(&h, sum)
            }
        }
    }

    fn feed_forward(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let (h, _) = backward::gated_with_saved(&x, gated, precision);
        Self::linear_add(x, h, down, after, scale, precision)
    }

    fn softcap(x: FloatTensor<Self>, cap: f32) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        // In place if `x` is not shared.
        let logits = if x.can_mut() { x } else { contiguous_copy(&x) };
        checked(gpu::softcap_in_place(&logits.client, &floats(&logits), cap));
        logits
    }

    fn cross_entropy(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        softcap: Option<f32>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &kernel_norm(norm)));
        let output = kernel_linear(output);
        let loss = Loss {
            softcap,
            targets: &targets,
            scale,
            precision,
        };
        let (loss, _) = loss_and_gradient(&x, &normed, &output, &loss, false);
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

    fn memory(like: FloatTensor<Self>, memory_use: Arc<MemoryUse>) -> FloatTensor<Self> {
        let usage = like.client.memory_report(MemoryScope::Device).usage();
        memory_use.used.store(usage.bytes_in_use, Ordering::Relaxed);
        memory_use.reserved.store(usage.bytes_reserved, Ordering::Relaxed);
        like
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        let (rows, cols) = (spec.rows, spec.cols);
        let words = self::weight(&weight, &spec).words;
        let handle = checked(gpu::dequantize(&weight.client, words, spec.quant, rows, cols));
        tensor(&weight, Floats { handle, rows, cols })
    }
}
