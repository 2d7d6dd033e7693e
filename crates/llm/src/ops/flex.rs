//! The operations on the CPU. They pass the elements of Burn's Flex tensors as slices to the loops
//! of `hearth-kernels`.
//!
//! Shapes are checked when a model is loaded, so a mismatch here is a bug: the op panics, and the
//! engine catches and reports it.

use super::inputs::{checked, floats};
use super::pooled::tensor;
use super::saved_activations::{SavedAttention, SavedFeedForward, SavedTensor};
use super::{
    Adapter, AdapterGradient, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, MemoryUse,
    Norm, Ops, OpsBackward, OptionalNorm,
};
use crate::batch::{Batch, LayerKeys};
use crate::sample::greedy;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::TensorData;
use burn_flex::FlexTensor;
use hearth_kernels::attention::{self, QkNormRope};
use hearth_kernels::cross_entropy::{Targets, linear_cross_entropy};
use hearth_kernels::linear::{self, Lora, LoraGradient};
use hearth_kernels::scratch::Scratch;
use hearth_kernels::softcap::softcap_in_place;
use hearth_kernels::{Matrix, ShapeError, fused};
use std::sync::Arc;

/// The tensor if it is contiguous, otherwise a contiguous copy.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// The tensor if it fills its storage, otherwise a copy that does. For writing in place: Flex
/// returns the whole storage, also for a slice of a larger tensor.
fn whole_storage(tensor: FlexTensor) -> FlexTensor {
    let tensor = contiguous(tensor);
    let elements: usize = tensor.shape().iter().product();
    if tensor.bytes().len() == elements * size_of::<f32>() {
        tensor
    } else {
        let mut copy = Scratch::new(elements);
        copy.copy_from_slice(floats(&tensor));
        self::tensor(copy, size(&tensor))
    }
}

/// A tensor that is not from the pool, because it is small or long-lived.
fn unpooled<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Rows and columns of a matrix.
fn size(tensor: &FlexTensor) -> [usize; 2] {
    let shape = tensor.shape();
    [shape[0], shape[1]]
}

fn matrix<'a>(weight: &'a FlexTensor, spec: &MatrixSpec) -> Result<Matrix<'a>, ShapeError> {
    Matrix::new(spec.quant, spec.layout, spec.rows, spec.cols, weight.bytes())
}

/// A linear layer as an operand of kernels.
fn kernel_linear(linear: &Linear<Flex>) -> linear::Linear<'_> {
    let lora = match &linear.adapter {
        Adapter::None => None,
        Adapter::Lora { a, b, scale, dropout } => Some(Lora {
            a: floats(a),
            b: floats(b),
            rank: size(a)[0],
            scale: *scale,
            dropout: *dropout,
        }),
    };
    let bias = match &linear.bias {
        Bias::None => None,
        Bias::Add(bias) => Some(floats(bias)),
    };
    linear::Linear {
        weight: checked(matrix(&linear.weight, &linear.spec)),
        scale: linear.spec.scale,
        lora,
        bias,
    }
}

fn kernel_norm(norm: &Norm<Flex>) -> linear::Norm<'_> {
    linear::Norm {
        weight: floats(&norm.weight),
        eps: norm.eps,
    }
}

fn kernel_optional_norm(norm: &OptionalNorm<Flex>) -> Option<linear::Norm<'_>> {
    match norm {
        OptionalNorm::None => None,
        OptionalNorm::Norm(weight, eps) => Some(linear::Norm {
            weight: floats(weight),
            eps: *eps,
        }),
    }
}

/// The linear layer with a contiguous adapter.
fn contiguous_linear(mut linear: Linear<Flex>) -> Linear<Flex> {
    if let Adapter::Lora { a, b, .. } = &mut linear.adapter {
        *a = contiguous(a.clone());
        *b = contiguous(b.clone());
    }
    linear
}

fn contiguous_linears(linears: Linears<Flex>) -> Vec<Linear<Flex>> {
    linears.into_vec().into_iter().map(contiguous_linear).collect()
}

/// A kernel's adapter gradient as tensors of Burn.
fn adapter_gradient(linear: &Linear<Flex>, gradient: Option<LoraGradient>) -> AdapterGradient<Flex> {
    let rank = match &linear.adapter {
        Adapter::None => return None,
        Adapter::Lora { a, .. } => size(a)[0],
    };
    let (rows, cols) = (linear.spec.rows, linear.spec.cols);
    gradient.map(|gradient| (unpooled(gradient.a, [rank, cols]), unpooled(gradient.b, [rows, rank])))
}

/// Whether Q or K has a norm. Only then does the backward need the values before [`rotated_qkv`],
/// since RoPE and temperature are linear.
fn has_head_norms(q_norm: &OptionalNorm<Flex>, k_norm: &OptionalNorm<Flex>) -> bool {
    [q_norm, k_norm]
        .into_iter()
        .any(|norm| matches!(norm, OptionalNorm::Norm(..)))
}

/// The change of Q and K before attention.
fn qk_norm_rope<'a>(
    spec: &'a AttentionSpec,
    q_norm: &'a OptionalNorm<Flex>,
    k_norm: &'a OptionalNorm<Flex>,
) -> QkNormRope<'a> {
    QkNormRope {
        norms: [kernel_optional_norm(q_norm), kernel_optional_norm(k_norm)],
        norm_width: spec.norm_width,
        rope: spec.rope.as_deref(),
        temperature: spec.temperature,
    }
}

/// Q, K and V, with the norms, RoPE and temperature that the model has applied to Q and K.
fn rotated_qkv(
    qkv: FlexTensor,
    spec: &AttentionSpec,
    positions: &[u32],
    q_norm: &OptionalNorm<Flex>,
    k_norm: &OptionalNorm<Flex>,
) -> FlexTensor {
    let mut qkv = whole_storage(qkv);
    let args = qk_norm_rope(spec, q_norm, k_norm);
    let rows = qkv.storage_mut::<f32>();
    checked(attention::qk_norm_rope_in_place(rows, &spec.heads, positions, &args));
    qkv
}

impl Ops for Flex {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        let mut out = Scratch::new(ids.len() * spec.cols);
        checked(matrix(&table, &spec).and_then(|table| table.gather(&ids, scale, &mut out)));
        tensor(out, [ids.len(), spec.cols])
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (x, width) = (contiguous(x), linears.out_features());
        let linears = contiguous_linears(linears);
        let kernel_linears: Vec<_> = linears.iter().map(kernel_linear).collect();
        let mut out = Scratch::new(size(&x)[0] * width);
        checked(fused::norm_linears(
            floats(&x),
            kernel_optional_norm(&norm),
            &kernel_linears,
            precision,
            &mut out,
        ));
        tensor(out, [size(&x)[0], width])
    }

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        layer: usize,
    ) -> FloatTensor<Self> {
        let heads = &spec.heads;
        let mut out = Scratch::new(size(&qkv)[0] * heads.out_width());
        let qkv = rotated_qkv(qkv, &spec, batch.positions(), &q_norm, &k_norm);
        match checked(batch.keys(layer)) {
            LayerKeys::Batch(starts) => checked(attention::attend_batch(floats(&qkv), heads, starts, &mut out)),
            LayerKeys::Bidirectional(starts, ends) => {
                let attend = attention::attend_batch_both_ways;
                checked(attend(floats(&qkv), heads, starts, ends, &mut out));
            }
            LayerKeys::Cache(cells, rows) => {
                let mut cells = cells.cpu();
                checked(cells.write(heads, &rows.cells, floats(&qkv)));
                let sequences = rows.kernel_rows();
                checked(attention::attend(floats(&qkv), heads, &cells, &sequences, &mut out));
            }
        }
        let tokens = out.len() / heads.out_width();
        tensor(out, [tokens, heads.out_width()])
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (mut residual, h, linear) = (whole_storage(residual), contiguous(h), contiguous_linear(linear));
        // In place if the residual is not shared. Otherwise Flex copies it here.
        let stream = residual.storage_mut::<f32>();
        let norm = kernel_optional_norm(&norm);
        checked(fused::linear_add_in_place(
            floats(&h),
            &kernel_linear(&linear),
            norm,
            scale,
            precision,
            stream,
        ));
        residual
    }

    fn feed_forward(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (x, gate, up) = (
            contiguous(x),
            contiguous_linear(gated.gate),
            contiguous_linear(gated.up),
        );
        let (tokens, width) = (size(&x)[0], gate.spec.rows);
        let mut h = Scratch::new(tokens * width);
        checked(fused::gated(
            floats(&x),
            kernel_optional_norm(&gated.norm),
            &kernel_linear(&gate),
            &kernel_linear(&up),
            gated.activation,
            precision,
            &mut h,
        ));
        Self::linear_add(x, tensor(h, [tokens, width]), down, after, scale, precision)
    }

    fn softcap(x: FloatTensor<Self>, cap: f32) -> FloatTensor<Self> {
        let mut x = whole_storage(x);
        // In place if `x` is not shared. Otherwise Flex copies it here.
        softcap_in_place(x.storage_mut::<f32>(), cap);
        x
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
        let x = contiguous(x);
        let (norm, output) = (kernel_norm(&norm), kernel_linear(&output));
        let targets = unweighted(&targets, scale);
        loss(&x, norm, &output, softcap, &targets, precision, None)
    }

    fn argmax(x: FloatTensor<Self>) -> IntTensor<Self> {
        let x = contiguous(x);
        let [rows, cols] = size(&x);
        let indices: Vec<u32> = floats(&x)
            .chunks_exact(cols.max(1))
            .map(|row| greedy(row).unwrap_or(u32::MAX))
            .collect();
        FlexTensor::from_data(TensorData::new(indices, [rows]))
    }

    /// Host memory is not counted.
    fn memory(like: FloatTensor<Self>, _: Arc<MemoryUse>) -> FloatTensor<Self> {
        like
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        let mut out = Scratch::new(spec.rows * spec.cols);
        checked(matrix(&weight, &spec).and_then(|weight| weight.dequantize_rows(0..spec.rows, &mut out)));
        tensor(out, [spec.rows, spec.cols])
    }
}

impl OpsBackward for Flex {
    type SavedTensor = SavedTensor;
    type SavedAttention = SavedAttention;
    type SavedFeedForward = SavedFeedForward;

    fn save(x: &FloatTensor<Self>, precision: MatmulPrecision) -> SavedTensor {
        SavedTensor::new(x, precision)
    }

    fn restore(saved: &SavedTensor) -> FloatTensor<Self> {
        saved.restore()
    }

    fn norm_linears_backward(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Vec<AdapterGradient<Self>>) {
        let (x, gradient) = (contiguous(x), contiguous(gradient));
        let linears = contiguous_linears(linears);
        let kernel_linears: Vec<_> = linears.iter().map(kernel_linear).collect();
        let mut dx = Scratch::new(floats(&x).len());
        let adapters = checked(fused::norm_linears_backward(
            floats(&x),
            kernel_optional_norm(&norm),
            &kernel_linears,
            precision,
            floats(&gradient),
            &mut dx,
        ));
        let adapters = linears
            .iter()
            .zip(adapters)
            .map(|(linear, gradient)| adapter_gradient(linear, gradient));
        (tensor(dx, size(&x)), adapters.collect())
    }

    fn attend_with_saved(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
    ) -> (FloatTensor<Self>, SavedAttention) {
        let (heads, tokens) = (&spec.heads, size(&qkv)[0]);
        let raw = has_head_norms(&q_norm, &k_norm).then(|| qkv.clone());
        let rotated = rotated_qkv(qkv, &spec, batch.positions(), &q_norm, &k_norm);
        let (mut out, mut lse) = (
            Scratch::new(tokens * heads.out_width()),
            vec![0.0; tokens * heads.heads],
        );
        let starts = batch.starts();
        checked(attention::attend_batch_with_lse(
            floats(&rotated),
            heads,
            starts,
            &mut out,
            &mut lse,
        ));
        let out = tensor(out, [tokens, heads.out_width()]);
        let saved = SavedAttention {
            qkv: raw.unwrap_or(rotated),
            out: out.clone(),
            lse: Arc::new(lse),
        };
        (out, saved)
    }

    fn attend_backward(
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        saved: &SavedAttention,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (qkv, gradient) = (contiguous(saved.qkv.clone()), contiguous(gradient));
        let positions = batch.positions();
        let rotated = if has_head_norms(&q_norm, &k_norm) {
            rotated_qkv(qkv.clone(), &spec, positions, &q_norm, &k_norm)
        } else {
            qkv.clone()
        };
        let mut d_qkv = Scratch::new(floats(&qkv).len());
        let (heads, starts) = (&spec.heads, batch.starts());
        checked(attention::attend_batch_backward(
            floats(&rotated),
            heads,
            starts,
            [floats(&saved.out), &saved.lse],
            floats(&gradient),
            &mut d_qkv,
        ));
        checked(attention::qk_norm_rope_backward_in_place(
            &mut d_qkv,
            floats(&qkv),
            heads,
            positions,
            &qk_norm_rope(&spec, &q_norm, &k_norm),
        ));
        tensor(d_qkv, size(&qkv))
    }

    fn linear_add_backward(
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, AdapterGradient<Self>) {
        let (h, linear, gradient) = (contiguous(h), contiguous_linear(linear), contiguous(gradient));
        let mut dh = Scratch::new(floats(&h).len());
        let adapter = checked(fused::linear_add_backward(
            floats(&h),
            &kernel_linear(&linear),
            kernel_optional_norm(&norm),
            scale,
            precision,
            floats(&gradient),
            &mut dh,
        ));
        (tensor(dh, size(&h)), adapter_gradient(&linear, adapter))
    }

    fn feed_forward_with_saved(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, SavedFeedForward) {
        let x = contiguous(x);
        let mut h = Scratch::new(size(&x)[0] * gated.gate.spec.rows);
        let [gate, up] = match precision {
            MatmulPrecision::Bf16 => gated_with_saved(&x, gated, precision, &mut h, |values, size| {
                SavedTensor::Bf16(Arc::new(values), size)
            }),
            MatmulPrecision::F32 | MatmulPrecision::Int8Activations => {
                gated_with_saved(&x, gated, precision, &mut h, |values, size| {
                    SavedTensor::F32(tensor(values, size))
                })
            }
        };
        let saved = SavedFeedForward {
            x: SavedTensor::new(&x, precision),
            gate,
            up,
        };
        let h = tensor(h, saved.gate.size());
        (Self::linear_add(x, h, down, after, scale, precision), saved)
    }

    fn feed_forward_backward(
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
        saved: &SavedFeedForward,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, [AdapterGradient<Self>; 3]) {
        let gradient = contiguous(gradient);
        let h = saved.h(gated.activation);
        let (dh, down_adapter) = Self::linear_add_backward(h, down, after, scale, precision, gradient.clone());
        let (x, gate, up) = (
            saved.x.restore(),
            contiguous_linear(gated.gate),
            contiguous_linear(gated.up),
        );
        let mut dx = Scratch::new(floats(&x).len());
        let norm = kernel_optional_norm(&gated.norm);
        let [kernel_gate, kernel_up] = [kernel_linear(&gate), kernel_linear(&up)];
        let (x_values, dh) = (floats(&x), floats(&dh));
        let activation = gated.activation;
        let gradients = match (&saved.gate, &saved.up) {
            (SavedTensor::Bf16(saved_gate, _), SavedTensor::Bf16(saved_up, _)) => fused::gated_backward_from_saved(
                x_values,
                norm,
                &kernel_gate,
                &kernel_up,
                activation,
                precision,
                [saved_gate, saved_up],
                dh,
                &mut dx,
            ),
            (saved_gate, saved_up) => {
                let [saved_gate, saved_up] = [saved_gate, saved_up].map(SavedTensor::restore);
                fused::gated_backward_from_saved(
                    x_values,
                    norm,
                    &kernel_gate,
                    &kernel_up,
                    activation,
                    precision,
                    [floats(&saved_gate), floats(&saved_up)],
                    dh,
                    &mut dx,
                )
            }
        };
        let [gate_gradient, up_gradient] = checked(gradients);
        checked(fused::add_in_place(&mut dx, floats(&gradient)));
        let adapters = [
            adapter_gradient(&gate, gate_gradient),
            adapter_gradient(&up, up_gradient),
            down_adapter,
        ];
        (tensor(dx, size(&x)), adapters)
    }

    fn cross_entropy_with_gradient(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        softcap: Option<f32>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let x = contiguous(x);
        let mut dx = Scratch::new(floats(&x).len());
        let (norm, output) = (kernel_norm(&norm), kernel_linear(&output));
        let targets = unweighted(&targets, scale);
        let loss = loss(&x, norm, &output, softcap, &targets, precision, Some(&mut dx));
        (loss, tensor(dx, size(&x)))
    }
}

/// Writes the first half of a feed-forward to `h`. Returns the saved outputs of gate and up, which
/// `save` wraps.
fn gated_with_saved<K: fused::SavedElement>(
    x: &FlexTensor,
    gated: Gated<Flex>,
    precision: MatmulPrecision,
    h: &mut [f32],
    save: fn(Scratch<K>, [usize; 2]) -> SavedTensor,
) -> [SavedTensor; 2] {
    let (gate, up) = (contiguous_linear(gated.gate), contiguous_linear(gated.up));
    let mut saved = [(); 2].map(|()| Scratch::new(h.len()));
    checked(fused::gated_with_saved(
        floats(x),
        kernel_optional_norm(&gated.norm),
        &kernel_linear(&gate),
        &kernel_linear(&up),
        gated.activation,
        precision,
        saved.each_mut().map(|values| &mut values[..]),
        h,
    ));
    saved.map(|values| save(values, [size(x)[0], gate.spec.rows]))
}

/// Targets whose losses all have the weight 1.
fn unweighted(ids: &[u32], scale: f32) -> Targets<'_> {
    Targets {
        ids,
        weights: None,
        scale,
    }
}

/// The scale of the targets times the summed cross-entropy of hidden states, as `[1]`. Writes its
/// gradient to `dx` if that is set.
fn loss(
    x: &FlexTensor,
    norm: linear::Norm,
    output: &linear::Linear,
    softcap: Option<f32>,
    targets: &Targets,
    precision: MatmulPrecision,
    dx: Option<&mut [f32]>,
) -> FlexTensor {
    let mut losses = vec![0.0; targets.ids.len()];
    let loss = checked(linear_cross_entropy(
        floats(x),
        Some(norm),
        output,
        softcap,
        targets,
        precision,
        &mut losses,
        dx,
    ));
    unpooled(vec![(f64::from(targets.scale) * loss.sum) as f32], [1])
}
