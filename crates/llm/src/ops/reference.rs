//! Every operation composed of Burn's own: the specification of a forward on any device, and, on `Autodiff` of a backend, of its
//! gradient, which Burn derives by itself and so checks the hand-derived one.
//!
//! Weights come expanded through a function that the caller gives. Nothing here is fast: attention holds the scores of all pairs
//! of tokens, a product its whole weight in f32.

use super::{
    Activation, Adapter, AttentionSpec, Bias, Dropout, Linear, Linears, MatrixSpec, Norm, OptionalNorm, Segments,
};
use burn::backend::tensor::{Device, FloatTensor, IntTensor};
use burn::backend::{Backend, Scalar, Slice, TensorMetadata};
use burn::tensor::{Shape, TensorData};
use hearth_kernels::attention::Heads;
use hearth_kernels::rope::{Pairing, Rope};

/// Expands a weight to f32, `[out, in]`.
pub trait Expand<B: Backend>: Fn(IntTensor<B>, MatrixSpec) -> FloatTensor<B> {}

impl<B: Backend, F: Fn(IntTensor<B>, MatrixSpec) -> FloatTensor<B>> Expand<B> for F {}

/// What a masked score is: its weight after the softmax is nothing, and unlike an infinity every shader language has it.
const MASKED: f32 = -1e30;

/// See [`Ops::norm_linears`](super::Ops::norm_linears).
pub fn norm_linears<B: Backend>(
    x: FloatTensor<B>,
    norm: Norm<B>,
    linears: Linears<B>,
    expand: impl Expand<B>,
) -> FloatTensor<B> {
    let x = rms_norm::<B>(x, norm.weight, norm.eps);
    let outputs = linears
        .into_vec()
        .into_iter()
        .map(|linear| product(x.clone(), linear, &expand))
        .collect();
    B::float_cat(outputs, 1)
}

/// See [`Ops::linear_add`](super::Ops::linear_add).
pub fn linear_add<B: Backend>(
    residual: FloatTensor<B>,
    h: FloatTensor<B>,
    linear: Linear<B>,
    norm: OptionalNorm<B>,
    expand: impl Expand<B>,
) -> FloatTensor<B> {
    let y = optional_norm(product(h, linear, &expand), norm);
    B::float_add(residual, y)
}

/// See [`Ops::gated`](super::Ops::gated).
pub fn gated<B: Backend>(
    x: FloatTensor<B>,
    norm: Norm<B>,
    gate: Linear<B>,
    up: Linear<B>,
    activation: Activation,
    expand: impl Expand<B>,
) -> FloatTensor<B> {
    let x = rms_norm::<B>(x, norm.weight, norm.eps);
    let gate = product(x.clone(), gate, &expand);
    let up = product(x, up, &expand);
    let gate = match activation {
        Activation::Silu => B::float_mul(gate.clone(), B::sigmoid(gate)),
        Activation::GeluTanh => gelu_tanh::<B>(gate),
    };
    B::float_mul(gate, up)
}

/// See [`Ops::attend`](super::Ops::attend), over the batch itself.
pub fn attend<B: Backend>(
    qkv: FloatTensor<B>,
    q_norm: OptionalNorm<B>,
    k_norm: OptionalNorm<B>,
    spec: &AttentionSpec,
    segments: &Segments,
) -> FloatTensor<B> {
    let Heads {
        heads,
        kv_heads,
        head_dim,
        scale,
        window,
    } = spec.heads;
    let (tokens, per_kv_head) = (segments.positions.len(), heads / kv_heads);
    let device = qkv.device();
    let part = |first: usize, count: usize| {
        let columns = columns::<B>(qkv.clone(), 1, first * head_dim, count * head_dim);
        reshape::<B>(columns, [tokens, count, head_dim])
    };
    let by_head = |x| B::float_permute(x, &[1, 0, 2]);

    let rotation = Rotation::<B>::new(&spec.rope, &segments.positions, &device);
    let q = rotation.apply(optional_norm::<B>(part(0, heads), q_norm), tokens, heads, head_dim);
    let k = rotation.apply(
        optional_norm::<B>(part(heads, kv_heads), k_norm),
        tokens,
        kv_heads,
        head_dim,
    );
    let v = by_head(part(heads + kv_heads, kv_heads));

    // The query heads that share a key head stand one behind the other, as if they were more tokens of one head.
    let q = reshape::<B>(by_head(q), [kv_heads, per_kv_head * tokens, head_dim]);
    let scores = times::<B>(B::float_matmul(q, B::float_swap_dims(by_head(k), 1, 2)), scale);
    let scores = reshape::<B>(scores, [kv_heads, per_kv_head, tokens, tokens]);
    let mask = reshape::<B>(mask::<B>(segments, window, &device), [1, 1, tokens, tokens]);
    let weights = softmax::<B>(B::float_add(scores, mask), 3);
    let weights = reshape::<B>(weights, [kv_heads, per_kv_head * tokens, tokens]);
    let context = reshape::<B>(B::float_matmul(weights, v), [heads, tokens, head_dim]);
    reshape::<B>(by_head(context), [tokens, heads * head_dim])
}

/// Product, then the weight's own scale, then adapter, then bias: `x [T, in]` to `[T, out]`.
fn product<B: Backend>(x: FloatTensor<B>, linear: Linear<B>, expand: &impl Expand<B>) -> FloatTensor<B> {
    let spec = linear.spec;
    let weight = expand(linear.weight, spec);
    let mut y = times::<B>(B::float_matmul(x.clone(), B::float_transpose(weight)), spec.scale);
    if let Adapter::Lora { a, b, scale, dropout } = linear.adapter {
        let kept = match dropout {
            None => x,
            Some(dropout) => drop_out::<B>(x, dropout),
        };
        let low = B::float_matmul(kept, B::float_transpose(a));
        y = B::float_add(y, times::<B>(B::float_matmul(low, B::float_transpose(b)), scale));
    }
    if let Bias::Add(bias) = linear.bias {
        y = B::float_add(y, reshape::<B>(bias, [1, spec.rows]));
    }
    y
}

/// Leaves out what [`Dropout`] says of `x [T, in]`.
fn drop_out<B: Backend>(x: FloatTensor<B>, dropout: Dropout) -> FloatTensor<B> {
    let (shape, device) = (x.shape(), x.device());
    let mut mask = vec![1.0; shape[0] * shape[1]];
    dropout.drop_in_place(&mut mask, shape[1]);
    B::float_mul(
        x,
        B::float_from_data(TensorData::new(mask, [shape[0], shape[1]]), &device),
    )
}

/// See [`Ops::cross_entropy`](super::Ops::cross_entropy): all logits at once.
pub fn cross_entropy<B: Backend>(
    x: FloatTensor<B>,
    norm: Norm<B>,
    output: Linear<B>,
    targets: &[u32],
    scale: f32,
    expand: impl Expand<B>,
) -> FloatTensor<B> {
    let (device, vocab) = (x.device(), output.spec.rows);
    let logits = product(rms_norm::<B>(x, norm.weight, norm.eps), output, &expand);
    let greatest = B::float_max_dim(B::float_detach(logits.clone()), 1);
    let logits = B::float_sub(logits, greatest);
    let sums = B::float_log(B::float_sum_dim(B::float_exp(logits.clone()), 1));
    let losses = B::float_sub(sums, logits);
    // One where a row's target is: the sum over the rest of the product with it is what is asked for.
    let mut chosen = vec![0.0; targets.len() * vocab];
    for (row, target) in chosen.chunks_exact_mut(vocab).zip(targets) {
        if let Some(chosen) = row.get_mut(*target as usize) {
            *chosen = scale;
        }
    }
    let chosen = B::float_from_data(TensorData::new(chosen, [targets.len(), vocab]), &device);
    B::float_sum(B::float_mul(losses, chosen))
}

/// RMSNorm over the last dimension.
fn rms_norm<B: Backend>(x: FloatTensor<B>, weight: FloatTensor<B>, eps: f32) -> FloatTensor<B> {
    let last = x.rank() - 1;
    let mut shape = vec![1; x.rank()];
    shape[last] = x.shape()[last];
    let mean = B::float_mean_dim(B::float_mul(x.clone(), x.clone()), last);
    let root = B::float_sqrt(B::float_add_scalar(mean, scalar(eps)));
    B::float_mul(B::float_div(x, root), B::float_reshape(weight, Shape::from(shape)))
}

fn optional_norm<B: Backend>(x: FloatTensor<B>, norm: OptionalNorm<B>) -> FloatTensor<B> {
    match norm {
        OptionalNorm::None => x,
        OptionalNorm::Norm(weight, eps) => rms_norm::<B>(x, weight, eps),
    }
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`. <https://arxiv.org/abs/1606.08415>
fn gelu_tanh<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let square = B::float_mul(x.clone(), x.clone());
    let factor = B::float_add_scalar(times::<B>(square, 0.044_715), scalar(1.0));
    let inner = times::<B>(B::float_mul(x.clone(), factor), (2.0 / std::f32::consts::PI).sqrt());
    let gate = B::float_add_scalar(B::float_tanh(inner), scalar(1.0));
    B::float_mul(times::<B>(x, 0.5), gate)
}

/// Softmax over a dimension. The greatest score is taken away first, which changes nothing but the range of the exponentials, so
/// it takes no part in the gradient.
fn softmax<B: Backend>(scores: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let greatest = B::float_max_dim(B::float_detach(scores.clone()), dim);
    let exponentials = B::float_exp(B::float_sub(scores, greatest));
    let sum = B::float_sum_dim(exponentials.clone(), dim);
    B::float_div(exponentials, sum)
}

/// What is added to the score of each token (row) with each other (column): nothing where it sees it.
fn mask<B: Backend>(segments: &Segments, window: Option<usize>, device: &Device<B>) -> FloatTensor<B> {
    let tokens = segments.positions.len();
    let mut mask = vec![MASKED; tokens * tokens];
    for (token, (row, start)) in mask.chunks_exact_mut(tokens.max(1)).zip(&segments.starts).enumerate() {
        let in_window = window.map_or(0, |window| (token + 1).saturating_sub(window));
        row[in_window.max(*start as usize)..=token].fill(0.0);
    }
    B::float_from_data(TensorData::new(mask, [tokens, tokens]), device)
}

/// The rotation of a batch: sines and cosines of each token's angles.
struct Rotation<B: Backend> {
    pairing: Pairing,
    dims: usize,
    cos: FloatTensor<B>,
    sin: FloatTensor<B>,
}

impl<B: Backend> Rotation<B> {
    fn new(rope: &Rope, positions: &[u32], device: &Device<B>) -> Self {
        let (pairing, dims) = (rope.pairing(), rope.dims());
        let angles = || positions.iter().flat_map(|position| rope.angles(*position));
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles().map(|angle| (angle.cos() as f32, angle.sin() as f32)).unzip();
        // The pairs' axis comes before or after that of the frequencies, see `apply`.
        let shape = match pairing {
            Pairing::Interleaved => [positions.len(), 1, dims / 2, 1],
            Pairing::Halves => [positions.len(), 1, 1, dims / 2],
        };
        let table = |values: Vec<f32>| B::float_from_data(TensorData::new(values, shape), device);
        Self {
            pairing,
            dims,
            cos: table(cos),
            sin: table(sin),
        }
    }

    /// Rotates the pairs of each head of `x [tokens, heads, head_dim]`.
    fn apply(&self, x: FloatTensor<B>, tokens: usize, heads: usize, head_dim: usize) -> FloatTensor<B> {
        let (pairs, axis) = match self.pairing {
            Pairing::Interleaved => ([tokens, heads, self.dims / 2, 2], 3),
            Pairing::Halves => ([tokens, heads, 2, self.dims / 2], 2),
        };
        let rotated = reshape::<B>(columns::<B>(x.clone(), 2, 0, self.dims), pairs);
        let first = columns::<B>(rotated.clone(), axis, 0, 1);
        let second = columns::<B>(rotated, axis, 1, 1);
        let turned = |x: &FloatTensor<B>, by: &FloatTensor<B>| B::float_mul(x.clone(), by.clone());
        let new_first = B::float_sub(turned(&first, &self.cos), turned(&second, &self.sin));
        let new_second = B::float_add(turned(&second, &self.cos), turned(&first, &self.sin));
        let rotated = reshape::<B>(
            B::float_cat(vec![new_first, new_second], axis),
            [tokens, heads, self.dims],
        );
        match head_dim - self.dims {
            0 => rotated,
            rest => B::float_cat(vec![rotated, columns::<B>(x, 2, self.dims, rest)], 2),
        }
    }
}

/// `count` of dimension `dim` from `first`.
fn columns<B: Backend>(x: FloatTensor<B>, dim: usize, first: usize, count: usize) -> FloatTensor<B> {
    let mut slices = vec![Slice::full(); x.rank()];
    slices[dim] = Slice::from(first..first + count);
    B::float_slice(x, &slices)
}

fn reshape<B: Backend>(x: FloatTensor<B>, shape: impl Into<Shape>) -> FloatTensor<B> {
    B::float_reshape(x, shape.into())
}

fn times<B: Backend>(x: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    if factor == 1.0 {
        x
    } else {
        B::float_mul_scalar(x, scalar(factor))
    }
}

fn scalar(value: f32) -> Scalar {
    Scalar::Float(f64::from(value))
}
