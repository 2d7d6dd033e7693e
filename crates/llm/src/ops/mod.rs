//! Hearth's own operations: fused parts of a transformer layer, declared once, run on every device.
//!
//! A transformer layer is four of them ([`attention in`](Ops::norm_linears),
//! [`attention`](Ops::attend), [`projection out`](Ops::linear_add),
//! [`feed-forward`](Ops::feed_forward)), so a decode step crosses from Burn into a kernel four
//! times a layer and everything between stays fused.
//!
//! * [`flex`] runs them on the CPU with the loops of `hearth-kernels`;
//! * [`cube`] runs them on a GPU with the kernels of `hearth-kernels::gpu`;
//! * [`autodiff`] puts the backward of either, derived by hand, on Burn's tape.
//!
//! Shapes: `T` tokens, `D` the model's width, `in` and `out` a weight's.

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

/// The target of a row that is not trained.
pub const NOT_TRAINED: u32 = hearth_kernels::softmax::IGNORE_INDEX;

/// Approximate bytes of logits in GPU memory at once.
const LOGIT_BYTES: usize = 64 << 20;
/// Rows of logits are rounded down to a multiple of this.
const LOGIT_ROWS: usize = 64;

/// Rows of logits that [`Ops::cross_entropy`] has on a GPU at once, of a vocabulary of this size.
pub fn logit_rows(vocab: usize) -> usize {
    (LOGIT_BYTES / (size_of::<f32>() * vocab.max(1)) / LOGIT_ROWS).max(1) * LOGIT_ROWS
}

/// Device memory of this process in bytes, as reported by the device.
#[derive(Debug, Default)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: AtomicU64,
    /// Bytes reserved by the allocator, including those in use.
    pub reserved: AtomicU64,
}

/// Fused operations over quantized weights.
///
/// Float tensors are f32. A frozen weight is an integer tensor of the file's bytes (see
/// [`MatrixSpec`]); it is not differentiated. The order of every linear is product, the weight's
/// own scale, LoRA, bias.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"))]
pub trait Ops: burn::backend::Backend {
    /// Rows `ids` of a table `[vocab, D]`, times `scale`: `[T, D]`.
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self>;

    /// Several linears over one normalized input: `x [T, D]` to `[T, sum of out]`, the outputs
    /// concatenated per row.
    fn norm_linears(
        x: FloatTensor<Self>,
        #[extension_type] norm: Norm<Self>,
        #[extension_type] linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// Attention: `qkv [T, (heads + 2 kv_heads) * head_dim]` to `[T, heads * head_dim]`.
    ///
    /// Applies head norms (if any) and RoPE to Q and K, writes K and V to the cells of `layer` if
    /// the batch continues cached sequences, and attends causally.
    fn attend(
        qkv: FloatTensor<Self>,
        #[extension_type] q_norm: OptionalNorm<Self>,
        #[extension_type] k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        layer: usize,
    ) -> FloatTensor<Self>;

    /// `residual + norm(linear(h))`: `residual [T, D]`, `h [T, in]`; in place if `residual` is not
    /// shared.
    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        #[extension_type] linear: Linear<Self>,
        #[extension_type] norm: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// `x + norm(down(activation(gate(norm(x))) * up(norm(x))))`: `x [T, D]`; in place if `x` is
    /// not shared.
    fn feed_forward(
        x: FloatTensor<Self>,
        #[extension_type] gated: Gated<Self>,
        #[extension_type] down: Linear<Self>,
        #[extension_type] after: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// Cross-entropy through the output layer: `scale` times the sum over the rows of `x [T, D]` of
    /// `-log softmax(output(norm(x)))[target]`, as `[1]`. Rows with the target [`NOT_TRAINED`] are
    /// ignored.
    fn cross_entropy(
        x: FloatTensor<Self>,
        #[extension_type] norm: Norm<Self>,
        #[extension_type] output: Linear<Self>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self>;

    /// Argmax over the finite elements of each row, the first of equals: `x [rows, out]` to
    /// `[rows]`. `u32::MAX` for a row without finite elements.
    fn argmax(x: FloatTensor<Self>) -> IntTensor<Self>;

    /// Stores the memory use of this process on the device of `like` in `found`; returns `like`
    /// unchanged.
    fn memory(like: FloatTensor<Self>, found: Arc<MemoryUse>) -> FloatTensor<Self>;

    /// A weight in f32, `[out, in]`: for tests.
    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self>;
}

/// Gradient of an adapter: of `a [rank, in]` and `b [out, rank]`.
pub type AdapterGradient<B> = Option<(FloatTensor<B>, FloatTensor<B>)>;

/// The hand-derived backward of [`Ops`]: of the product that the forward took, with
/// [`MatmulPrecision::F32`] in place of [`MatmulPrecision::Int8Activations`].
///
/// Each takes the inputs of its forward and the gradient of its output, and recomputes what it
/// needs of the forward.
pub trait OpsBackward: Ops {
    /// A saved activation: a matrix, in f32 or bf16.
    type Saved: Clone + Send + Sync + 'static;
    /// Saved activations of attention.
    type SavedAttention: Clone + Send + Sync + 'static;
    /// Saved activations of a feed-forward: `x`, `gate(norm(x))` and `up(norm(x))`.
    type SavedFeedForward: Clone + Send + Sync + 'static;

    /// Saves `x [rows, cols]` for the backward of this product.
    fn save(x: &FloatTensor<Self>, precision: MatmulPrecision) -> Self::Saved;

    /// The saved matrix in f32.
    fn restore(saved: &Self::Saved) -> FloatTensor<Self>;

    /// Backward of [`Ops::norm_linears`]: the gradient of `x`, and of each linear's adapter.
    fn norm_linears_backward(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Vec<AdapterGradient<Self>>);

    /// [`Ops::attend`] of a batch without a cache, and its saved activations.
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
        precision: MatmulPrecision,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, AdapterGradient<Self>);

    /// [`Ops::feed_forward`], and its saved activations.
    fn feed_forward_with_saved(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, Self::SavedFeedForward);

    /// Backward of [`Ops::feed_forward`] from the activations saved by
    /// [`OpsBackward::feed_forward_with_saved`]: the gradients of `x`, all of it, and of the
    /// adapters of gate, up and down.
    fn feed_forward_backward(
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
        saved: &Self::SavedFeedForward,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, [AdapterGradient<Self>; 3]);

    /// [`Ops::cross_entropy`] and the gradient of `x`, from one set of logits.
    fn cross_entropy_with_gradient(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        targets: Arc<[u32]>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}
