//! Fused operations of transformer layers, as an extension of Burn's backends.
//!
//! A transformer layer is four operations: norm with Q, K and V ([`Ops::norm_linears`]), attention
//! ([`Ops::attend`]), the output projection with the residual ([`Ops::linear_add`]) and the
//! feed-forward ([`Ops::feed_forward`]). So a layer has only four calls from Burn into kernels.
//!
//! * [`flex`] runs them on the CPU with the loops of `hearth-kernels`.
//! * [`cube`] runs them on a GPU with the kernels of `hearth-kernels::gpu`.
//! * [`autodiff`] records their hand-derived backward on Burn's tape.
//!
//! Shapes: `T` is the number of tokens, `D` the width of the model, `in` and `out` the input and
//! output features of a weight.

mod attention;
mod autodiff;
#[cfg(feature = "gpu")]
mod cube;
mod flex;
mod inputs;
mod linear;
mod pooled;
mod saved_activations;
mod tensor_api;

pub use attention::{AttentionSpec, SharedRope};
pub use linear::{
    Activation, Adapter, Bias, Dropout, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, Norm, OptionalNorm,
};
pub use tensor_api::*;

use crate::batch::Batch;
use burn::backend::backend_extension;
use burn::backend::tensor::{FloatTensor, IntTensor};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The target of a row without a loss.
pub const NOT_TRAINED: u32 = hearth_kernels::softmax::IGNORE_INDEX;

/// Approximate bytes of the logits that are in GPU memory at a time.
const LOGIT_BYTES: usize = 64 << 20;
/// The number of rows of logits is a multiple of this.
const LOGIT_ROW_STEP: usize = 64;

/// The number of rows of logits that [`Ops::cross_entropy`] computes at a time on a GPU.
pub fn logit_rows(vocab: usize) -> usize {
    (LOGIT_BYTES / (size_of::<f32>() * vocab.max(1)) / LOGIT_ROW_STEP).max(1) * LOGIT_ROW_STEP
}

/// Device memory of this process in bytes, as reported by CubeCL's allocator.
#[derive(Debug, Default)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: AtomicU64,
    /// Bytes reserved by the allocator, including the bytes in use.
    pub reserved: AtomicU64,
}

/// Fused operations over quantized weights.
///
/// Float tensors are f32. A weight is frozen: an integer tensor of quantized blocks, described by a
/// [`MatrixSpec`], without a gradient. A linear layer computes product, the weight's own scale,
/// LoRA, bias, in this order.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"))]
pub trait Ops: burn::backend::Backend {
    /// Rows `ids` of a table `[vocab, D]`, times `scale`: `[T, D]`.
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self>;

    /// Linear layers with a common input: `x [T, D]`, normalized if there is a norm, to
    /// `[T, sum of out]`, the outputs concatenated per row.
    fn norm_linears(
        x: FloatTensor<Self>,
        #[extension_type] norm: OptionalNorm<Self>,
        #[extension_type] linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// Attention: `qkv [T, (heads + 2 kv_heads) * head_dim]` to `[T, heads * head_dim]`.
    ///
    /// Applies head norms (if any) and RoPE to Q and K, writes K and V to the cells of `layer` if
    /// the batch continues cached sequences, and attends with the batch's mask.
    fn attend(
        qkv: FloatTensor<Self>,
        #[extension_type] q_norm: OptionalNorm<Self>,
        #[extension_type] k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        layer: usize,
    ) -> FloatTensor<Self>;

    /// `residual + scale * norm(linear(h))`, for `residual [T, D]` and `h [T, in]`. In place if
    /// `residual` is not shared. With a scale of 1 there is no multiplication.
    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        #[extension_type] linear: Linear<Self>,
        #[extension_type] norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// `x + scale * after(down(activation(gate(norm(x))) * up(norm(x))))`, for `x [T, D]`. In place
    /// if `x` is not shared. With a scale of 1 there is no multiplication.
    fn feed_forward(
        x: FloatTensor<Self>,
        #[extension_type] gated: Gated<Self>,
        #[extension_type] down: Linear<Self>,
        #[extension_type] after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// The softcap of logits, `cap * tanh(x / cap)`: `x [rows, out]` to the same shape. In place if
    /// `x` is not shared.
    fn softcap(x: FloatTensor<Self>, cap: f32) -> FloatTensor<Self>;

    /// Cross-entropy through the output layer: `scale` times the sum over the rows of `x [T, D]` of
    /// `-log softmax(logits)[target]`, as `[1]`. The logits are `output(norm(x))`, after the
    /// softcap if there is one. Rows with the target [`NOT_TRAINED`] are ignored.
    fn cross_entropy(
        x: FloatTensor<Self>,
        #[extension_type] norm: Norm<Self>,
        #[extension_type] output: Linear<Self>,
        softcap: Option<f32>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// Argmax over the finite elements of each row: `x [rows, out]` to `[rows]`. Of equal elements
    /// the first; `u32::MAX` for a row without finite elements.
    fn argmax(x: FloatTensor<Self>) -> IntTensor<Self>;

    /// Stores the memory use of this process on the device of `like` in `memory_use`. Returns
    /// `like` unchanged.
    fn memory(like: FloatTensor<Self>, memory_use: Arc<MemoryUse>) -> FloatTensor<Self>;

    /// Dequantizes a weight to f32, `[out, in]`. For tests.
    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self>;
}

/// The gradients of an adapter's `a [rank, in]` and `b [out, rank]`; `None` without an adapter.
pub type AdapterGradient<B> = Option<(FloatTensor<B>, FloatTensor<B>)>;

/// The hand-derived backward of [`Ops`]. GEMMs have the precision of the forward, except that
/// [`MatmulPrecision::Int8Activations`] is replaced by [`MatmulPrecision::F32`].
///
/// Each function takes the inputs or saved activations of its forward and the gradient of the
/// output, and recomputes the other intermediates.
pub trait OpsBackward: Ops {
    /// A saved activation: a matrix, in f32 or bf16.
    type SavedTensor: Clone + Send + Sync + 'static;
    /// Saved activations of attention.
    type SavedAttention: Clone + Send + Sync + 'static;
    /// Saved activations of a feed-forward: `x`, `gate(norm(x))` and `up(norm(x))`.
    type SavedFeedForward: Clone + Send + Sync + 'static;

    /// Saves `x [rows, cols]` for the backward of a GEMM in this precision.
    fn save(x: &FloatTensor<Self>, precision: MatmulPrecision) -> Self::SavedTensor;

    /// Returns the saved matrix in f32.
    fn restore(saved: &Self::SavedTensor) -> FloatTensor<Self>;

    /// Backward of [`Ops::norm_linears`]: the gradients of `x` and of each adapter.
    fn norm_linears_backward(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Vec<AdapterGradient<Self>>);

    /// [`Ops::attend`] for a batch without a cache, and its saved activations.
    fn attend_with_saved(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
    ) -> (FloatTensor<Self>, Self::SavedAttention);

    /// Backward of [`Ops::attend`] from the activations saved by
    /// [`OpsBackward::attend_with_saved`]: the gradient of `qkv`.
    fn attend_backward(
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        saved: &Self::SavedAttention,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Backward of [`Ops::linear_add`]: the gradients of `h` and of the adapter. The gradient of
    /// `residual` is `gradient` itself.
    fn linear_add_backward(
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, AdapterGradient<Self>);

    /// [`Ops::feed_forward`], and its saved activations.
    fn feed_forward_with_saved(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, Self::SavedFeedForward);

    /// Backward of [`Ops::feed_forward`] from the activations saved by
    /// [`OpsBackward::feed_forward_with_saved`]: the gradient of `x`, including the residual, and
    /// the gradients of the adapters of gate, up and down.
    fn feed_forward_backward(
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
        saved: &Self::SavedFeedForward,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, [AdapterGradient<Self>; 3]);

    /// [`Ops::cross_entropy`] and the gradient of `x`, from the same logits.
    fn cross_entropy_with_gradient(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        softcap: Option<f32>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}
