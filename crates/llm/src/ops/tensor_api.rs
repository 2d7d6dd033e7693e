//! The operations as functions on Burn's tensors, for decoders and layers.

use super::inputs::checked;
use super::{AttentionSpec, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, MemoryUse, Norm, Ops, OptionalNorm};
use crate::batch::Batch;
use burn::backend::Dispatch;
use burn::tensor::{Device, Int, Tensor};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// See [`Ops::embed`].
pub fn embed(table: &Linear<Dispatch>, ids: Arc<[u32]>, scale: f32) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::embed(table.weight.clone(), table.spec, ids, scale))
}

/// See [`Ops::norm_linears`].
pub fn norm_linears(
    x: Tensor<2>,
    norm: &OptionalNorm<Dispatch>,
    linears: &Linears<Dispatch>,
    precision: MatmulPrecision,
) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::norm_linears(
        x.into_dispatch(),
        norm.clone(),
        linears.clone(),
        precision,
    ))
}

/// See [`Ops::attend`].
///
/// # Panics
/// If the rows, heads or layer do not fit the batch (see [`Batch::check`]), or shapes do not match.
pub fn attend(
    qkv: Tensor<2>,
    q_norm: &OptionalNorm<Dispatch>,
    k_norm: &OptionalNorm<Dispatch>,
    spec: &Arc<AttentionSpec>,
    batch: &Arc<Batch>,
    layer: usize,
) -> Tensor<2> {
    let [rows, _] = qkv.dims();
    checked(batch.check(layer, rows, &spec.heads));
    Tensor::from_dispatch(<Dispatch as Ops>::attend(
        qkv.into_dispatch(),
        q_norm.clone(),
        k_norm.clone(),
        spec.clone(),
        batch.clone(),
        layer,
    ))
}

/// See [`Ops::linear_add`].
pub fn linear_add(
    residual: Tensor<2>,
    h: Tensor<2>,
    linear: &Linear<Dispatch>,
    norm: &OptionalNorm<Dispatch>,
    scale: f32,
    precision: MatmulPrecision,
) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::linear_add(
        residual.into_dispatch(),
        h.into_dispatch(),
        linear.clone(),
        norm.clone(),
        scale,
        precision,
    ))
}

/// See [`Ops::feed_forward`].
pub fn feed_forward(
    x: Tensor<2>,
    gated: &Gated<Dispatch>,
    down: &Linear<Dispatch>,
    after: &OptionalNorm<Dispatch>,
    scale: f32,
    precision: MatmulPrecision,
) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::feed_forward(
        x.into_dispatch(),
        gated.clone(),
        down.clone(),
        after.clone(),
        scale,
        precision,
    ))
}

/// See [`Ops::softcap`].
pub fn softcap(x: Tensor<2>, cap: f32) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::softcap(x.into_dispatch(), cap))
}

/// See [`Ops::cross_entropy`].
pub fn cross_entropy(
    x: Tensor<2>,
    norm: &Norm<Dispatch>,
    output: &Linear<Dispatch>,
    softcap: Option<f32>,
    targets: Arc<[u32]>,
    scale: f32,
    precision: MatmulPrecision,
) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as Ops>::cross_entropy(
        x.into_dispatch(),
        norm.clone(),
        output.clone(),
        softcap,
        targets,
        scale,
        precision,
    ))
}

/// See [`Ops::argmax`].
pub fn argmax(x: Tensor<2>) -> Tensor<1, Int> {
    Tensor::from_dispatch(<Dispatch as Ops>::argmax(x.into_dispatch()))
}

/// Bytes of this process on a device: in use, and reserved by the allocator. The second includes
/// the first. See [`Ops::memory`].
pub fn memory_use(device: &Device) -> (u64, u64) {
    let (like, memory_use) = (Tensor::<1>::zeros([1], device), Arc::<MemoryUse>::default());
    <Dispatch as Ops>::memory(like.into_dispatch(), memory_use.clone());
    (
        memory_use.used.load(Ordering::Relaxed),
        memory_use.reserved.load(Ordering::Relaxed),
    )
}

/// See [`Ops::dequantize`].
pub fn dequantize(weight: Tensor<1, Int>, spec: MatrixSpec) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Ops>::dequantize(weight.into_dispatch(), spec))
}
