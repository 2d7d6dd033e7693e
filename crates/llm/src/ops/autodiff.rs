//! The operations on Burn's autodiff backend: they record their backward on the tape.
//!
//! A forward saves its inputs, and the expensive intermediates of attention and feed-forward (see
//! [`OpsBackward`]). The backward recomputes the others. A step on Burn's tape has a fixed number
//! of parents, so a linear layer without an adapter passes two constants instead of `a` and `b`.

use super::inputs::checked;
use super::{
    Adapter, AdapterGradient, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, MemoryUse,
    Norm, Ops, OpsBackward, OptionalNorm,
};
use crate::batch::Batch;
use crate::error::CacheError;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops as Step, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend as BurnBackend, Shape};
use std::sync::Arc;

/// A tensor of the autodiff backend, with its node on the tape.
type AutodiffTensor<B, C> = FloatTensor<Autodiff<B, C>>;

/// Maps the gradient of the output to the gradients of `N` parents.
type BackwardFn<B, const N: usize> = dyn Fn(FloatTensor<B>) -> [Option<FloatTensor<B>>; N] + Send + Sync;

/// The backward of an operation with `N` parents, as `grad_fn` in PyTorch. The gradient of a
/// constant is `None`.
struct GradFn<B: BurnBackend, const N: usize>(Arc<BackwardFn<B, N>>);

impl<B: BurnBackend, const N: usize> Clone for GradFn<B, N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: BurnBackend, const N: usize> std::fmt::Debug for GradFn<B, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GradFn<{N}>")
    }
}

/// The step on Burn's tape: runs a [`GradFn`] and registers the gradient of each parent.
#[derive(Debug)]
struct RunGradFn;

impl<B: BurnBackend, const N: usize> Backward<B, N> for RunGradFn {
    type State = GradFn<B, N>;

    fn backward(self, step: Step<GradFn<B, N>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
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
    run: impl FnOnce(bool) -> (FloatTensor<B>, Option<GradFn<B, N>>),
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

fn grad_fn<B: BurnBackend, const N: usize>(
    backward: impl Fn(FloatTensor<B>) -> [Option<FloatTensor<B>>; N] + Send + Sync + 'static,
) -> Option<GradFn<B, N>> {
    Some(GradFn(Arc::new(backward)))
}

/// An untracked node, in place of the adapter of a linear layer without one.
fn constant<B: BurnBackend, C: CheckpointStrategy>(like: &FloatTensor<B>) -> NodeGuard {
    <Autodiff<B, C> as AutodiffBackend>::from_inner(like.clone()).node()
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

/// A linear layer with tensors of the inner backend, and the tape nodes of its adapter.
fn inner_linear<B: BurnBackend, C: CheckpointStrategy>(
    linear: Linear<Autodiff<B, C>>,
    like: &FloatTensor<B>,
) -> (Linear<B>, [NodeGuard; 2]) {
    let (adapter, nodes) = match linear.adapter {
        Adapter::None => (Adapter::None, [constant::<B, C>(like), constant::<B, C>(like)]),
        Adapter::Lora { a, b, scale, dropout } => {
            let ((a, a_node), (b, b_node)) = (a.into_parts(), b.into_parts());
            (Adapter::Lora { a, b, scale, dropout }, [a_node, b_node])
        }
    };
    let bias = match linear.bias {
        Bias::None => Bias::None,
        Bias::Add(bias) => Bias::Add(bias.into_primitive()),
    };
    (
        Linear {
            weight: linear.weight,
            spec: linear.spec,
            adapter,
            bias,
        },
        nodes,
    )
}

/// The gradients of an adapter's `a` and `b`, as gradients of two parents.
fn parent_gradients<B: BurnBackend>(gradient: AdapterGradient<B>) -> [Option<FloatTensor<B>>; 2] {
    match gradient {
        Some((a, b)) => [Some(a), Some(b)],
        None => [None, None],
    }
}

impl<B: OpsBackward, C: CheckpointStrategy> Ops for Autodiff<B, C> {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        Self::from_inner(B::embed(table, spec, ids, scale))
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        linears: Linears<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let norm = inner_norm(norm);
        let inner = |linear| inner_linear(linear, &x);
        let constants = || [constant::<B, C>(&x), constant::<B, C>(&x)];
        let (linears, [[a0, b0], [a1, b1], [a2, b2]]) = match linears {
            Linears::One(linear) => {
                let (linear, nodes) = inner(linear);
                (Linears::One(linear), [nodes, constants(), constants()])
            }
            Linears::Two(first, second) => {
                let ((first, first_nodes), (second, second_nodes)) = (inner(first), inner(second));
                (Linears::Two(first, second), [first_nodes, second_nodes, constants()])
            }
            Linears::Three(first, second, third) => {
                let ((first, first_nodes), (second, second_nodes)) = (inner(first), inner(second));
                let (third, third_nodes) = inner(third);
                (
                    Linears::Three(first, second, third),
                    [first_nodes, second_nodes, third_nodes],
                )
            }
        };
        record::<B, C, 7>([x_node, a0, b0, a1, b1, a2, b2], |tracked| {
            if !tracked {
                return (B::norm_linears(x, norm, linears, precision), None);
            }
            let saved = B::save(&x, precision);
            let out = B::norm_linears(x, norm.clone(), linears.clone(), precision);
            let grad_fn = grad_fn(move |gradient| {
                let (dx, adapters) =
                    B::norm_linears_backward(B::restore(&saved), norm.clone(), linears.clone(), precision, gradient);
                let mut adapters = adapters.into_iter().map(parent_gradients::<B>);
                let mut next = || adapters.next().unwrap_or([None, None]);
                let ([a0, b0], [a1, b1], [a2, b2]) = (next(), next(), next());
                [Some(dx), a0, b0, a1, b1, a2, b2]
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
        let (qkv, node) = qkv.into_parts();
        let (q_norm, k_norm) = (inner_optional_norm(q_norm), inner_optional_norm(k_norm));
        if batch.is_cached() {
            // Keys and values in a cache are untracked: the output is a constant.
            return Self::from_inner(B::attend(qkv, q_norm, k_norm, spec, batch, layer));
        }
        record::<B, C, 1>([node], |tracked| {
            if !tracked {
                return (B::attend(qkv, q_norm, k_norm, spec, batch, layer), None);
            }
            checked(batch.ends().map_or(Ok(()), |_| Err(CacheError::NotCausal)));
            let (out, saved) = B::attend_with_saved(qkv, q_norm.clone(), k_norm.clone(), spec.clone(), batch.clone());
            let grad_fn = grad_fn(move |gradient| {
                let (q_norm, k_norm) = (q_norm.clone(), k_norm.clone());
                let (spec, batch) = (spec.clone(), batch.clone());
                [Some(B::attend_backward(q_norm, k_norm, spec, batch, &saved, gradient))]
            });
            (out, grad_fn)
        })
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let ((residual, residual_node), (h, h_node)) = (residual.into_parts(), h.into_parts());
        let (linear, [a, b]) = inner_linear(linear, &h);
        let norm = inner_optional_norm(norm);
        record::<B, C, 4>([residual_node, h_node, a, b], |tracked| {
            if !tracked {
                return (B::linear_add(residual, h, linear, norm, precision), None);
            }
            let saved = B::save(&h, precision);
            let out = B::linear_add(residual, h, linear.clone(), norm.clone(), precision);
            let grad_fn = grad_fn(move |gradient: FloatTensor<B>| {
                let (dh, adapter) = B::linear_add_backward(
                    B::restore(&saved),
                    linear.clone(),
                    norm.clone(),
                    precision,
                    gradient.clone(),
                );
                let [da, db] = parent_gradients::<B>(adapter);
                [Some(gradient), Some(dh), da, db]
            });
            (out, grad_fn)
        })
    }

    fn feed_forward(
        x: FloatTensor<Self>,
        gated: Gated<Self>,
        down: Linear<Self>,
        after: OptionalNorm<Self>,
        precision: MatmulPrecision,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let (gate, [gate_a, gate_b]) = inner_linear(gated.gate, &x);
        let (up, [up_a, up_b]) = inner_linear(gated.up, &x);
        let (down, [down_a, down_b]) = inner_linear(down, &x);
        let gated = Gated {
            norm: inner_norm(gated.norm),
            gate,
            up,
            activation: gated.activation,
        };
        let after = inner_optional_norm(after);
        let nodes = [x_node, gate_a, gate_b, up_a, up_b, down_a, down_b];
        record::<B, C, 7>(nodes, |tracked| {
            if !tracked {
                return (B::feed_forward(x, gated, down, after, precision), None);
            }
            let (out, saved) = B::feed_forward_with_saved(x, gated.clone(), down.clone(), after.clone(), precision);
            let grad_fn = grad_fn(move |gradient| {
                let (gated, down, after) = (gated.clone(), down.clone(), after.clone());
                let (dx, adapters) = B::feed_forward_backward(gated, down, after, precision, &saved, gradient);
                let [[gate_a, gate_b], [up_a, up_b], [down_a, down_b]] = adapters.map(parent_gradients::<B>);
                [Some(dx), gate_a, gate_b, up_a, up_b, down_a, down_b]
            });
            (out, grad_fn)
        })
    }

    fn softcap(x: FloatTensor<Self>, cap: f32) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        record::<B, C, 1>([node], |tracked| {
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
                [Some(B::float_sub(gradient, lost))]
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
        let (x, node) = x.into_parts();
        let norm = inner_norm(norm);
        // The output layer is frozen: it never has an adapter.
        let (output, _) = inner_linear(output, &x);
        record::<B, C, 1>([node], |tracked| {
            if !tracked {
                let loss = B::cross_entropy(x, norm, output, softcap, targets, scale, precision);
                return (loss, None);
            }
            // The logits are expensive, so they are computed once, for the loss and its gradient.
            let (loss, dx) = B::cross_entropy_with_gradient(x, norm, output, softcap, targets, scale, precision);
            let grad_fn = grad_fn(move |gradient| {
                let gradient = B::float_reshape(gradient, Shape::from([1, 1]));
                [Some(B::float_mul(dx.clone(), gradient))]
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
