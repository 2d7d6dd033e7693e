//! The operations on a GPU: Burn's own over weights that a kernel expands, and their gradient derived by Burn.
//!
//! This is the portable path in its simplest form: right before it is fast. The KV pool lies in the processor's memory, so attention
//! over one is made there; within a batch everything stays on the device.

use super::{
    Activation, AttentionSpec, KeyValues, Linear, Linears, MatrixSpec, Norm, Ops, OptionalNorm, Product, reference,
};
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Cube, DType, Flex, FlexDevice, Shape, TensorData, TensorMetadata, read_sync,
};
use hearth_kernels::{Layout, gpu};
use std::sync::Arc;

/// Sizes are checked when a model is loaded, so one that does not fit here is a defect of ours: as on the CPU, it ends the operation
/// with a panic that the engine catches and reports.
const CHECKED_AT_LOAD: &str = "an operation was given what its model cannot hold";

/// What is the same with and without a tape: Burn derives the gradient of its own operations.
macro_rules! composed_of_burns_own {
    () => {
        fn norm_linears(
            x: FloatTensor<Self>,
            norm: Norm<Self>,
            linears: Linears<Self>,
            _: Product,
        ) -> FloatTensor<Self> {
            reference::norm_linears(x, norm, linears, Self::dequantize)
        }

        fn linear_add(
            residual: FloatTensor<Self>,
            h: FloatTensor<Self>,
            linear: Linear<Self>,
            norm: OptionalNorm<Self>,
            _: Product,
        ) -> FloatTensor<Self> {
            reference::linear_add(residual, h, linear, norm, Self::dequantize)
        }

        fn gated(
            x: FloatTensor<Self>,
            norm: Norm<Self>,
            gate: Linear<Self>,
            up: Linear<Self>,
            activation: Activation,
            _: Product,
        ) -> FloatTensor<Self> {
            reference::gated(x, norm, gate, up, activation, Self::dequantize)
        }

        fn cross_entropy(
            x: FloatTensor<Self>,
            norm: Norm<Self>,
            output: Linear<Self>,
            targets: Arc<[u32]>,
            scale: f32,
            _: Product,
        ) -> FloatTensor<Self> {
            reference::cross_entropy(x, norm, output, &targets, scale, Self::dequantize)
        }
    };
}

impl Ops for Cube {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        let rows = Self::int_from_data(TensorData::new(ids.to_vec(), [ids.len()]), &table.device());
        let weights = gpu::dequantize_rows(
            &table.client,
            table.handle,
            spec.quant,
            spec.rows,
            spec.cols,
            rows.handle,
            ids.len(),
        )
        .expect(CHECKED_AT_LOAD);
        let shape = Shape::from([ids.len(), spec.cols]);
        let rows = <FloatTensor<Self>>::new_contiguous(table.client, table.device, shape, weights, DType::F32);
        Self::float_mul_scalar(rows, scale.into())
    }

    composed_of_burns_own!();

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        key_values: KeyValues,
    ) -> FloatTensor<Self> {
        match key_values {
            KeyValues::Batch(segments) => reference::attend(qkv, q_norm, k_norm, &spec, &segments),
            KeyValues::Pool { .. } => {
                let device = qkv.device();
                let norm = |norm| match norm {
                    OptionalNorm::None => OptionalNorm::None,
                    OptionalNorm::Norm(weight, eps) => OptionalNorm::Norm(to_cpu(weight), eps),
                };
                let context = Flex::attend(to_cpu(qkv), norm(q_norm), norm(k_norm), spec, key_values);
                Self::float_from_data(read::<Flex>(context), &device)
            }
        }
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        assert_eq!(spec.layout, Layout::Plain, "{CHECKED_AT_LOAD}");
        let expanded =
            gpu::dequantize(&weight.client, weight.handle, spec.quant, spec.rows, spec.cols).expect(CHECKED_AT_LOAD);
        let shape = Shape::from([spec.rows, spec.cols]);
        <FloatTensor<Self>>::new_contiguous(weight.client, weight.device, shape, expanded, DType::F32)
    }
}

impl<C: CheckpointStrategy> Ops for Autodiff<Cube, C> {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        Self::from_inner(Cube::embed(table, spec, ids, scale))
    }

    composed_of_burns_own!();

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        key_values: KeyValues,
    ) -> FloatTensor<Self> {
        match key_values {
            KeyValues::Batch(segments) => reference::attend(qkv, q_norm, k_norm, &spec, &segments),
            KeyValues::Pool { .. } => {
                // A cache holds keys and values without their tape: what comes from one is a constant.
                let norm = |norm| match norm {
                    OptionalNorm::None => OptionalNorm::None,
                    OptionalNorm::Norm(weight, eps) => OptionalNorm::Norm(Self::inner(weight), eps),
                };
                Self::from_inner(Cube::attend(
                    Self::inner(qkv),
                    norm(q_norm),
                    norm(k_norm),
                    spec,
                    key_values,
                ))
            }
        }
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        Self::from_inner(Cube::dequantize(weight, spec))
    }
}

fn to_cpu(x: FloatTensor<Cube>) -> FloatTensor<Flex> {
    Flex::float_from_data(read::<Cube>(x), &FlexDevice)
}

/// The numbers of a tensor, waiting for its device.
fn read<B: Backend>(x: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(x)).expect("the device has failed")
}
