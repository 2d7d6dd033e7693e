//! The backward of the operations on a GPU.

use super::{
    Loss, checked, concat_linears, floats, kernel_linear, kernel_norm, kernel_optional_norm, loss_and_gradient, normed,
    qk_norm_rope, rope_table, scalar, tensor,
};
use crate::batch::Batch;
use crate::ops::{
    AdapterGradient, AttentionSpec, Gated, Linear, Linears, MatmulPrecision, Norm, Ops, OpsBackward, OptionalNorm,
};
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn_cubecl::kernel::into_contiguous;
use hearth_kernels::gpu::{self, Floats};
use std::sync::Arc;

type Tensor = FloatTensor<Cube>;

/// Wraps the buffers of a kernel's adapter gradient as tensors of Burn.
fn adapter_gradient(like: &Tensor, gradient: Option<(Floats, Floats)>) -> AdapterGradient<Cube> {
    gradient.map(|(a, b)| (tensor(like, a), tensor(like, b)))
}

/// The backward of linear layers with a common input: the gradients of the input and of each
/// adapter, from the gradient of their concatenated outputs.
fn linears_backward(
    like: &Tensor,
    x: &Floats,
    linears: &[gpu::Linear],
    precision: MatmulPrecision,
    gradient: &Floats,
) -> (Floats, Vec<AdapterGradient<Cube>>) {
    let dx = Floats::empty(&like.client, x.rows, x.cols);
    let mut offset = 0;
    let mut backward = |linear: &gpu::Linear| {
        // The first writes `dx`, the others add to it.
        let adds = offset > 0;
        let gradient = checked(gpu::linear_backward(
            &like.client,
            x,
            linear,
            precision,
            gradient,
            offset,
            &dx,
            adds,
        ));
        offset += linear.weight.rows;
        adapter_gradient(like, gradient)
    };
    let adapters = linears.iter().map(&mut backward).collect();
    (dx, adapters)
}

/// The gradient of `x`, given the gradient of [`normed`].
fn normed_backward(x: &Tensor, norm: Option<&gpu::Norm>, d_normed: Floats) -> Floats {
    match norm {
        None => d_normed,
        Some(norm) => checked(gpu::rms_norm_backward(&x.client, &floats(x), norm, &d_normed)),
    }
}

/// Saved activations of a feed-forward.
#[derive(Clone)]
pub struct SavedFeedForward {
    /// The input.
    x: Tensor,
    /// The outputs of gate and up, concatenated per row.
    gate_up: Tensor,
}

/// The first half of a feed-forward, and the outputs of gate and up, concatenated per row.
pub(super) fn gated_with_saved(x: &Tensor, gated: Gated<Cube>, precision: MatmulPrecision) -> (Tensor, Tensor) {
    let normed = normed(x, kernel_optional_norm(gated.norm).as_ref());
    let linears = [kernel_linear(gated.gate), kernel_linear(gated.up)];
    let gate_up = concat_linears(x, &normed, &linears, precision);
    let h = checked(gpu::glu(&x.client, &gate_up, gated.activation));
    (tensor(x, h), tensor(x, gate_up))
}

impl OpsBackward for Cube {
    type SavedTensor = Tensor;
    type SavedAttention = Tensor;
    type SavedFeedForward = SavedFeedForward;

    fn save(x: &FloatTensor<Self>, _: MatmulPrecision) -> Tensor {
        x.clone()
    }

    fn restore(saved: &Tensor) -> FloatTensor<Self> {
        saved.clone()
    }

    fn norm_linears_backward(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Vec<AdapterGradient<Self>>) {
        let (x, gradient, norm) = (
            into_contiguous(x),
            into_contiguous(gradient),
            kernel_optional_norm(norm),
        );
        let linears: Vec<_> = linears.into_vec().into_iter().map(kernel_linear).collect();
        let normed = normed(&x, norm.as_ref());
        let (d_normed, adapters) = linears_backward(&x, &normed, &linears, precision, &floats(&gradient));
        let dx = normed_backward(&x, norm.as_ref(), d_normed);
        (tensor(&x, dx), adapters)
    }

    fn attend_with_saved(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
    ) -> (FloatTensor<Self>, Tensor) {
        let saved = qkv.clone();
        // The layer is not used: a batch without a cache is the same for all layers.
        (Self::attend(qkv, q_norm, k_norm, spec, batch, 0), saved)
    }

    fn attend_backward(
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        qkv: &Tensor,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (qkv, gradient) = (into_contiguous(qkv.clone()), into_contiguous(gradient));
        let norms = [kernel_optional_norm(q_norm), kernel_optional_norm(k_norm)];
        let table = rope_table(&qkv, &spec, &batch);
        let indices = batch.indices(&qkv);
        let (client, heads) = (&qkv.client, &spec.heads);
        let args = qk_norm_rope(&spec, &norms, &table);
        let rotated = checked(gpu::qk_norm_rope(
            client,
            &floats(&qkv),
            heads,
            &args,
            &indices.positions,
        ));
        let d_rotated = checked(gpu::attend_batch_backward(
            client,
            &rotated,
            heads,
            &indices.starts,
            &floats(&gradient),
        ));
        let d_qkv = checked(gpu::qk_norm_rope_backward(
            client,
            &d_rotated,
            &floats(&qkv),
            heads,
            &args,
            &indices.positions,
        ));
        tensor(&qkv, d_qkv)
    }

    fn linear_add_backward(
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, AdapterGradient<Self>) {
        let (h, linear) = (into_contiguous(h), kernel_linear(linear));
        let mut dy = floats(&into_contiguous(gradient));
        if let Some(norm) = kernel_optional_norm(norm) {
            let y = concat_linears(&h, &floats(&h), std::slice::from_ref(&linear), precision);
            dy = checked(gpu::rms_norm_backward(&h.client, &y, &norm, &dy));
        }
        // The gradient through a norm is linear in `dy`, too, so the scale may be applied after it.
        let linear = linear.with_gradients_times(scale);
        let (dh, mut adapters) = linears_backward(&h, &floats(&h), &[linear], precision, &dy);
        (tensor(&h, dh), adapters.pop().flatten())
    }

    fn feed_forward_with_saved(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, SavedFeedForward) {
        let x = into_contiguous(x);
        let (h, gate_up) = gated_with_saved(&x, gated, precision);
        let saved = SavedFeedForward { x: x.clone(), gate_up };
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
        let SavedFeedForward { x, gate_up } = saved;
        let h = checked(gpu::glu(&x.client, &floats(gate_up), gated.activation));
        let h = tensor(x, h);
        let (dh, down_adapter) = Self::linear_add_backward(h, down, after, scale, precision, gradient.clone());
        let norm = kernel_optional_norm(gated.norm);
        let linears = [kernel_linear(gated.gate), kernel_linear(gated.up)];
        let d_gate_up = checked(gpu::glu_backward(
            &x.client,
            &floats(gate_up),
            gated.activation,
            &floats(&into_contiguous(dh)),
        ));
        let normed = normed(x, norm.as_ref());
        let (d_normed, mut adapters) = linears_backward(x, &normed, &linears, precision, &d_gate_up);
        let dx = normed_backward(x, norm.as_ref(), d_normed);
        let up_adapter = adapters.pop().flatten();
        let gate_adapter = adapters.pop().flatten();
        let dx = Self::float_add(tensor(x, dx), gradient);
        (dx, [gate_adapter, up_adapter, down_adapter])
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
        let (x, norm) = (into_contiguous(x), kernel_norm(norm));
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &norm));
        let output = kernel_linear(output);
        let loss = Loss {
            softcap,
            targets: &targets,
            scale,
            precision,
        };
        let (loss, d_normed) = loss_and_gradient(&x, &normed, &output, &loss, true);
        let d_normed = checked(d_normed.ok_or("no gradient was computed"));
        let dx = checked(gpu::rms_norm_backward(&x.client, &floats(&x), &norm, &d_normed));
        (scalar(&x, loss), tensor(&x, dx))
    }
}
