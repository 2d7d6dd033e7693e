//! The backward of the operations on a GPU.

use super::{
    checked, concat_linears, floats, kernel_linear, kernel_norm, kernel_optional_norm, losses, prepared, scalar, tensor,
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

fn adapter(like: &Tensor, gradient: Option<(Floats, Floats)>) -> AdapterGradient<Cube> {
    gradient.map(|(a, b)| (tensor(like, a), tensor(like, b)))
}

/// Gradients of the input that linears share, and of their adapters, from the gradient of their
/// concatenated outputs.
fn linears_backward(
    like: &Tensor,
    x: &Floats,
    linears: &[gpu::Linear],
    precision: MatmulPrecision,
    gradient: &Floats,
) -> (Floats, Vec<AdapterGradient<Cube>>) {
    let dx = Floats::empty(&like.client, x.rows, x.cols);
    let mut at = 0;
    let mut backward = |linear: &gpu::Linear| {
        let found = checked(gpu::linear_backward(
            &like.client,
            x,
            linear,
            precision,
            gradient,
            at,
            &dx,
            at > 0,
        ));
        at += linear.weight.rows;
        adapter(like, found)
    };
    let adapters = linears.iter().map(&mut backward).collect();
    (dx, adapters)
}

/// The input of a feed-forward, and gate and up concatenated.
#[derive(Clone)]
pub struct SavedFeedForward {
    x: Tensor,
    both: Tensor,
}

/// The first half of a feed-forward, and gate and up concatenated.
pub(super) fn gated_with_saved(x: &Tensor, gated: Gated<Cube>, precision: MatmulPrecision) -> (Tensor, Tensor) {
    let normed = checked(gpu::rms_norm(&x.client, &floats(x), &kernel_norm(gated.norm)));
    let linears = [kernel_linear(gated.gate), kernel_linear(gated.up)];
    let both = concat_linears(x, &normed, &linears, precision);
    let h = checked(gpu::glu(&x.client, &both, gated.activation));
    (tensor(x, h), tensor(x, both))
}

impl OpsBackward for Cube {
    type Saved = Tensor;
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
        norm: Norm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Vec<AdapterGradient<Self>>) {
        let (x, gradient, norm) = (into_contiguous(x), into_contiguous(gradient), kernel_norm(norm));
        let linears: Vec<_> = linears.into_vec().into_iter().map(kernel_linear).collect();
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &norm));
        let (dz, adapters) = linears_backward(&x, &normed, &linears, precision, &floats(&gradient));
        let dx = checked(gpu::rms_norm_backward(&x.client, &floats(&x), &norm, &dz));
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
        // A batch without a cache has no layers.
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
        let (table, lists) = (spec.rope.table(&qkv, batch.longest()), batch.lists(&qkv));
        let (client, heads) = (&qkv.client, &spec.heads);
        let ready = prepared(&qkv, &spec, norms.each_ref(), &lists.positions, &table);
        let d_ready = checked(gpu::attend_batch_backward(
            client,
            &ready,
            heads,
            &lists.starts,
            &floats(&gradient),
        ));
        let d_qkv = checked(gpu::qk_norm_rope_backward(
            client,
            &d_ready,
            &floats(&qkv),
            heads,
            norms[0].as_ref(),
            norms[1].as_ref(),
            spec.rope.pairing(),
            spec.rope.dims(),
            &table.angles,
            table.positions,
            &lists.positions,
        ));
        tensor(&qkv, d_qkv)
    }

    fn linear_add_backward(
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, AdapterGradient<Self>) {
        let (h, linear) = (into_contiguous(h), kernel_linear(linear));
        let mut dy = floats(&into_contiguous(gradient));
        if let Some(norm) = kernel_optional_norm(norm) {
            let y = concat_linears(&h, &floats(&h), std::slice::from_ref(&linear), precision);
            dy = checked(gpu::rms_norm_backward(&h.client, &y, &norm, &dy));
        }
        let (dh, mut adapters) = linears_backward(&h, &floats(&h), &[linear], precision, &dy);
        (tensor(&h, dh), adapters.pop().flatten())
    }

    fn feed_forward_with_saved(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, SavedFeedForward) {
        let x = into_contiguous(x);
        let (h, both) = gated_with_saved(&x, gated, precision);
        let saved = SavedFeedForward { x: x.clone(), both };
        (Self::linear_add(x, h, down, after, precision), saved)
    }

    fn feed_forward_backward(
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
        saved: &SavedFeedForward,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, [AdapterGradient<Self>; 3]) {
        let SavedFeedForward { x, both } = saved;
        let h = checked(gpu::glu(&x.client, &floats(both), gated.activation));
        let (dh, of_down) = Self::linear_add_backward(tensor(x, h), down, after, precision, gradient.clone());
        let norm = kernel_norm(gated.norm);
        let linears = [kernel_linear(gated.gate), kernel_linear(gated.up)];
        let d_both = checked(gpu::glu_backward(
            &x.client,
            &floats(both),
            gated.activation,
            &floats(&into_contiguous(dh)),
        ));
        let normed = checked(gpu::rms_norm(&x.client, &floats(x), &norm));
        let (dz, mut adapters) = linears_backward(x, &normed, &linears, precision, &d_both);
        let dx = checked(gpu::rms_norm_backward(&x.client, &floats(x), &norm, &dz));
        let of_up = adapters.pop().flatten();
        let adapters = [adapters.pop().flatten(), of_up, of_down];
        (Self::float_add(tensor(x, dx), gradient), adapters)
    }

    fn cross_entropy_with_gradient(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (x, norm) = (into_contiguous(x), kernel_norm(norm));
        let normed = checked(gpu::rms_norm(&x.client, &floats(&x), &norm));
        let (loss, dz) = losses(&x, &normed, &kernel_linear(output), precision, &targets, scale, true);
        let dz = checked(dz.ok_or("no gradient was computed"));
        let dx = checked(gpu::rms_norm_backward(&x.client, &floats(&x), &norm, &dz));
        (scalar(&x, loss), tensor(&x, dx))
    }
}
