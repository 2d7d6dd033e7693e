//! The operations on Burn's autodiff backend: they record their backward on the tape.
//!
//! A forward saves its inputs, and the expensive intermediates of attention and feed-forward (see
//! [`OpsBackward`]). The backward recomputes the others. [`Parents`] collects the nodes on the tape
//! that get gradients.

use super::inputs::checked;
use super::{
    Adapter, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, MemoryUse, Norm, Ops,
    OpsBackward, OptionalNorm,
};
use crate::batch::Batch;
use crate::error::CacheError;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops as Step, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend as BurnBackend, Shape};
use std::marker::PhantomData;
use std::sync::Arc;

/// A tensor of the autodiff backend, with its node on the tape.
type AutodiffTensor<B, C> = FloatTensor<Autodiff<B, C>>;

/// Maps the gradient of the output to the gradients of the parents, in the order of [`Parents`].
type BackwardFn<B> = dyn Fn(FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> + Send + Sync;

/// The backward of an operation, as `grad_fn` in PyTorch. The gradient of a constant is `None`.
struct GradFn<B: BurnBackend>(Arc<BackwardFn<B>>);

impl<B: BurnBackend> Clone for GradFn<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: BurnBackend> std::fmt::Debug for GradFn<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GradFn")
    }
}

/// The step on Burn's tape: runs a [`GradFn`] and registers the gradient of each parent.
#[derive(Debug)]
struct RunGradFn;

impl<B: BurnBackend, const N: usize> Backward<B, N> for RunGradFn {
    type State = GradFn<B>;

    fn backward(self, step: Step<GradFn<B>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&step.node);
        let parent_gradients = (step.state.0)(gradient);
        for (parent, gradient) in step.parents.into_iter().zip(parent_gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Runs an operation, and records it on the tape if a parent is tracked. `run` receives this flag,
/// and returns the output and, if the flag is set, the [`GradFn`].
fn record<B: BurnBackend, C: CheckpointStrategy, const N: usize>(
    parents: [NodeGuard; N],
    run: impl FnOnce(bool) -> (FloatTensor<B>, Option<GradFn<B>>),
) -> AutodiffTensor<B, C> {
    match RunGradFn.prepare::<C>(parents).compute_bound().stateful() {
        OpsKind::Tracked(step) => match run(true) {
            (output, Some(grad_fn)) => step.finish(grad_fn, output),
            // Unreachable: an operation with tracked parents returns a `GradFn`.
            (output, None) => <Autodiff<B, C> as AutodiffBackend>::from_inner(output),
        },
        OpsKind::UnTracked(step) => step.finish(run(false).0),
    }
}

fn grad_fn<B: BurnBackend>(
    backward: impl Fn(FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> + Send + Sync + 'static,
) -> Option<GradFn<B>> {
    Some(GradFn(Arc::new(backward)))
}

/// The tape nodes of an operation's parents, collected while its operands are unwrapped: the
/// inputs, then `a` and `b` of each linear layer.
struct Parents<B: BurnBackend, C: CheckpointStrategy> {
    /// `None` for `a` and `b` of a linear layer without an adapter.
    nodes: Vec<Option<NodeGuard>>,
    backend: PhantomData<Autodiff<B, C>>,
}

impl<B: BurnBackend, C: CheckpointStrategy> Parents<B, C> {
    fn new() -> Self {
        Self {
            nodes: Vec::new(),
            backend: PhantomData,
        }
    }

    /// An input.
    fn input(&mut self, x: AutodiffTensor<B, C>) -> FloatTensor<B> {
        let (x, node) = x.into_parts();
        self.nodes.push(Some(node));
        x
    }

    /// A linear layer with tensors of the inner backend. The parents are `a` and `b` of its
    /// adapter.
    fn linear(&mut self, linear: Linear<Autodiff<B, C>>) -> Linear<B> {
        let adapter = match linear.adapter {
            Adapter::None => {
                self.nodes.extend([None, None]);
                Adapter::None
            }
            Adapter::Lora { a, b, scale, dropout } => {
                let (a, b) = (self.input(a), self.input(b));
                Adapter::Lora { a, b, scale, dropout }
            }
        };
        Linear {
            weight: linear.weight,
            spec: linear.spec,
            adapter,
            bias: inner_bias(linear.bias),
        }
    }

    /// The nodes for a step with `N` parents. Burn's steps have a fixed number of them, so what is
    /// missing is a constant.
    fn nodes<const N: usize>(self, like: &FloatTensor<B>) -> [NodeGuard; N] {
        let found = self.nodes.len();
        if found > N {
            checked::<(), _>(Err(format!("{found} parents of a step with {N}")));
        }
        let constant = || <Autodiff<B, C> as AutodiffBackend>::from_inner(like.clone()).node();
        let mut nodes = self.nodes.into_iter();
        std::array::from_fn(|_| nodes.next().flatten().unwrap_or_else(constant))
    }
}

/// The gradients of parents: first the inputs, then each linear layer's adapter.
fn gradients_of<T>(
    inputs: impl IntoIterator<Item = T>,
    adapters: impl IntoIterator<Item = Option<(T, T)>>,
) -> Vec<Option<T>> {
    let adapters = adapters.into_iter().flat_map(|gradients| match gradients {
        Some((a, b)) => [Some(a), Some(b)],
        None => [None, None],
    });
    inputs.into_iter().map(Some).chain(adapters).collect()
}

fn inner_bias<B: BurnBackend, C: CheckpointStrategy>(bias: Bias<Autodiff<B, C>>) -> Bias<B> {
    match bias {
        Bias::None => Bias::None,
        Bias::Add(bias) => Bias::Add(bias.into_primitive()),
    }
}

fn inner_norm<B: BurnBackend, C: CheckpointStrategy>(norm: Norm<Autodiff<B, C>>) -> Norm<B> {
    Norm {
        weight: norm.weight.into_primitive(),
        eps: norm.eps,
    }
}

fn inner_optional_norm<B: BurnBackend, C: CheckpointStrategy>(norm: OptionalNorm<Autodiff<B, C>>) -> OptionalNorm<B> {
    match norm {
        OptionalNorm::None => OptionalNorm::None,
        OptionalNorm::Norm(weight, eps) => OptionalNorm::Norm(weight.into_primitive(), eps),
    }
}

impl<B: OpsBackward, C: CheckpointStrategy> Ops for Autodiff<B, C> {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        Self::from_inner(B::embed(table, spec, ids, scale))
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: OptionalNorm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let mut parents = Parents::<B, C>::new();
        let (x, norm) = (parents.input(x), inner_optional_norm(norm));
        let linears = linears.map(|linear| parents.linear(linear));
        record::<B, C, { 1 + 2 * 3 }>(parents.nodes(&x), |tracked| {
            if !tracked {
                return (B::norm_linears(x, norm, linears, precision), None);
            }
            let saved = B::save(&x, precision);
            let out = B::norm_linears(x, norm.clone(), linears.clone(), precision);
            let grad_fn = grad_fn(move |gradient| {
                let (dx, adapters) =
                    B::norm_linears_backward(B::restore(&saved), norm.clone(), linears.clone(), precision, gradient);
                gradients_of([dx], adapters)
            });
            (out, grad_fn)
        })
    }

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        batch: Arc<Batch>,
        layer: usize,
    ) -> FloatTensor<Self> {
        let mut parents = Parents::<B, C>::new();
        let qkv = parents.input(qkv);
        let (q_norm, k_norm) = (inner_optional_norm(q_norm), inner_optional_norm(k_norm));
        if batch.is_cached() {
            // Keys and values in a cache are untracked: the output is a constant.
            return Self::from_inner(B::attend(qkv, q_norm, k_norm, spec, batch, layer));
        }
        record::<B, C, 1>(parents.nodes(&qkv), |tracked| {
            if !tracked {
                return (B::attend(qkv, q_norm, k_norm, spec, batch, layer), None);
            }
            checked(batch.ends().map_or(Ok(()), |_| Err(CacheError::NotCausal)));
            let (out, saved) = B::attend_with_saved(qkv, q_norm.clone(), k_norm.clone(), spec.clone(), batch.clone());
            let grad_fn = grad_fn(move |gradient| {
                let (q_norm, k_norm) = (q_norm.clone(), k_norm.clone());
                let (spec, batch) = (spec.clone(), batch.clone());
                vec![Some(B::attend_backward(q_norm, k_norm, spec, batch, &saved, gradient))]
            });
            (out, grad_fn)
        })
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let mut parents = Parents::<B, C>::new();
        let (residual, h) = (parents.input(residual), parents.input(h));
        let (linear, norm) = (parents.linear(linear), inner_optional_norm(norm));
        record::<B, C, { 2 + 2 }>(parents.nodes(&h), |tracked| {
            if !tracked {
                return (B::linear_add(residual, h, linear, norm, scale, precision), None);
            }
            let saved = B::save(&h, precision);
            let out = B::linear_add(residual, h, linear.clone(), norm.clone(), scale, precision);
            let grad_fn = grad_fn(move |gradient: FloatTensor<B>| {
                let (dh, adapter) = B::linear_add_backward(
                    B::restore(&saved),
                    linear.clone(),
                    norm.clone(),
                    scale,
                    precision,
                    gradient.clone(),
                );
                gradients_of([gradient, dh], [adapter])
            });
            (out, grad_fn)
        })
    }

    fn feed_forward(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        scale: f32,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let mut parents = Parents::<B, C>::new();
        let x = parents.input(x);
        let gated = Gated {
            norm: inner_optional_norm(gated.norm),
            gate: parents.linear(gated.gate),
            up: parents.linear(gated.up),
            activation: gated.activation,
        };
        let (down, after) = (parents.linear(down), inner_optional_norm(after));
        record::<B, C, { 1 + 2 * 3 }>(parents.nodes(&x), |tracked| {
            if !tracked {
                return (B::feed_forward(x, gated, down, after, scale, precision), None);
            }
            let (out, saved) =
                B::feed_forward_with_saved(x, gated.clone(), down.clone(), after.clone(), scale, precision);
            let grad_fn = grad_fn(move |gradient| {
                let (gated, down, after) = (gated.clone(), down.clone(), after.clone());
                let (dx, adapters) = B::feed_forward_backward(gated, down, after, scale, precision, &saved, gradient);
                gradients_of([dx], adapters)
            });
            (out, grad_fn)
        })
    }

    fn softcap(x: FloatTensor<Self>, cap: f32) -> FloatTensor<Self> {
        let mut parents = Parents::<B, C>::new();
        let x = parents.input(x);
        record::<B, C, 1>(parents.nodes(&x), |tracked| {
            let out = B::softcap(x, cap);
            if !tracked {
                return (out, None);
            }
            let saved = out.clone();
            let grad_fn = grad_fn(move |gradient: FloatTensor<B>| {
                // The derivative is 1 - (out / cap)^2.
                let ratio = B::float_div_scalar(saved.clone(), cap.into());
                let square = B::float_mul(ratio.clone(), ratio);
                let lost = B::float_mul(gradient.clone(), square);
                vec![Some(B::float_sub(gradient, lost))]
            });
            (out, grad_fn)
        })
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
        let mut parents = Parents::<B, C>::new();
        let (x, norm) = (parents.input(x), inner_norm(norm));
        // The output layer is frozen: if it had an adapter, that would get no gradient.
        let output = Parents::<B, C>::new().linear(output);
        record::<B, C, 1>(parents.nodes(&x), |tracked| {
            if !tracked {
                let loss = B::cross_entropy(x, norm, output, softcap, targets, scale, precision);
                return (loss, None);
            }
            // The logits are expensive, so they are computed once, for the loss and its gradient.
            let (loss, dx) = B::cross_entropy_with_gradient(x, norm, output, softcap, targets, scale, precision);
            let grad_fn = grad_fn(move |gradient| {
                let gradient = B::float_reshape(gradient, Shape::from([1, 1]));
                vec![Some(B::float_mul(dx.clone(), gradient))]
            });
            (loss, grad_fn)
        })
    }

    fn argmax(x: FloatTensor<Self>) -> IntTensor<Self> {
        B::argmax(x.into_primitive())
    }

    fn memory(like: FloatTensor<Self>, memory_use: Arc<MemoryUse>) -> FloatTensor<Self> {
        B::memory(like.clone().into_primitive(), memory_use);
        like
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        Self::from_inner(<B as Ops>::dequantize(weight, spec))
    }
}
