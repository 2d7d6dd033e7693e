//! The backward of every operation, registered with Burn's tape.
//!
//! A forward keeps its inputs, and of a gated layer both products (see [`OpsBackward`]); the backward runs again
//! what else it needs. Burn wants a fixed number of parents for a step, so a linear without an adapter gives two constants in the
//! adapter's place.

use super::{
    Activation, Adapter, AdapterGradient, AttentionSpec, Bias, KeyValues, Linear, Linears, MatrixSpec, Norm, Ops,
    OpsBackward, OptionalNorm, Product,
};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops as Step, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Flex, Shape};
use std::sync::Arc;

type Plain = FloatTensor<Flex>;
type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

/// From the gradient of an output to those of its `N` parents; none where a parent is a constant's place.
#[derive(Clone)]
struct Rule<const N: usize>(Arc<dyn Fn(Plain) -> [Option<Plain>; N] + Send + Sync>);

impl<const N: usize> std::fmt::Debug for Rule<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule<{N}>")
    }
}

/// The step on the tape: runs the rule and hands each parent its gradient.
#[derive(Debug)]
struct Replay;

impl<const N: usize> Backward<Flex, N> for Replay {
    type State = Rule<N>;

    fn backward(self, step: Step<Rule<N>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<Flex>(&step.node);
        let of_parents = (step.state.0)(gradient);
        for (parent, gradient) in step.parents.into_iter().zip(of_parents) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

/// Runs an operation, and puts it on the tape if any parent is on it: `run` is told so, and gives the output and then also the rule.
fn record<C: CheckpointStrategy, const N: usize>(
    parents: [NodeGuard; N],
    run: impl FnOnce(bool) -> (Plain, Option<Rule<N>>),
) -> Tracked<C> {
    match Replay.prepare::<C>(parents).compute_bound().stateful() {
        OpsKind::Tracked(step) => match run(true) {
            (output, Some(rule)) => step.finish(rule, output),
            // No operation does this: what has parents on the tape has a rule.
            (output, None) => <Autodiff<Flex, C> as AutodiffBackend>::from_inner(output),
        },
        OpsKind::UnTracked(step) => step.finish(run(false).0),
    }
}

fn rule<const N: usize>(rule: impl Fn(Plain) -> [Option<Plain>; N] + Send + Sync + 'static) -> Option<Rule<N>> {
    Some(Rule(Arc::new(rule)))
}

fn constant<C: CheckpointStrategy>(like: &Plain) -> NodeGuard {
    <Autodiff<Flex, C> as AutodiffBackend>::from_inner(like.clone()).node()
}

fn inner_norm<C: CheckpointStrategy>(norm: Norm<Autodiff<Flex, C>>) -> Norm<Flex> {
    Norm {
        weight: norm.weight.into_primitive(),
        eps: norm.eps,
    }
}

fn inner_optional_norm<C: CheckpointStrategy>(norm: OptionalNorm<Autodiff<Flex, C>>) -> OptionalNorm<Flex> {
    match norm {
        OptionalNorm::None => OptionalNorm::None,
        OptionalNorm::Norm(weight, eps) => OptionalNorm::Norm(weight.into_primitive(), eps),
    }
}

/// The linear without its tape, and the nodes of its adapter.
fn inner_linear<C: CheckpointStrategy>(
    linear: Linear<Autodiff<Flex, C>>,
    like: &Plain,
) -> (Linear<Flex>, [NodeGuard; 2]) {
    let (adapter, nodes) = match linear.adapter {
        Adapter::None => (Adapter::None, [constant::<C>(like), constant::<C>(like)]),
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

fn split(gradient: AdapterGradient<Flex>) -> [Option<Plain>; 2] {
    match gradient {
        Some((a, b)) => [Some(a), Some(b)],
        None => [None, None],
    }
}

impl<C: CheckpointStrategy> Ops for Autodiff<Flex, C> {
    fn embed(table: IntTensor<Self>, spec: MatrixSpec, ids: Arc<[u32]>, scale: f32) -> FloatTensor<Self> {
        Self::from_inner(Flex::embed(table, spec, ids, scale))
    }

    fn norm_linears(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        linears: Linears<Self>,
        product: Product,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let norm = inner_norm(norm);
        let take = |linear| inner_linear(linear, &x);
        let none = || [constant::<C>(&x), constant::<C>(&x)];
        let (linears, [[a0, b0], [a1, b1], [a2, b2]]) = match linears {
            Linears::One(l) => {
                let (l, nodes) = take(l);
                (Linears::One(l), [nodes, none(), none()])
            }
            Linears::Two(l, m) => {
                let ((l, l_nodes), (m, m_nodes)) = (take(l), take(m));
                (Linears::Two(l, m), [l_nodes, m_nodes, none()])
            }
            Linears::Three(l, m, n) => {
                let ((l, l_nodes), (m, m_nodes), (n, n_nodes)) = (take(l), take(m), take(n));
                (Linears::Three(l, m, n), [l_nodes, m_nodes, n_nodes])
            }
        };
        record::<C, 7>([x_node, a0, b0, a1, b1, a2, b2], |tracked| {
            if !tracked {
                return (Flex::norm_linears(x, norm, linears, product), None);
            }
            let kept = Flex::keep(&x, product);
            let out = Flex::norm_linears(x, norm.clone(), linears.clone(), product);
            let rule = rule(move |gradient| {
                let (dx, adapters) =
                    Flex::norm_linears_backward(Flex::restore(&kept), norm.clone(), linears.clone(), product, gradient);
                let mut adapters = adapters.into_iter().map(split);
                let mut next = || adapters.next().unwrap_or([None, None]);
                let ([a0, b0], [a1, b1], [a2, b2]) = (next(), next(), next());
                [Some(dx), a0, b0, a1, b1, a2, b2]
            });
            (out, rule)
        })
    }

    fn attend(
        qkv: FloatTensor<Self>,
        q_norm: OptionalNorm<Self>,
        k_norm: OptionalNorm<Self>,
        spec: Arc<AttentionSpec>,
        key_values: KeyValues,
    ) -> FloatTensor<Self> {
        let (qkv, node) = qkv.into_parts();
        let (q_norm, k_norm) = (inner_optional_norm(q_norm), inner_optional_norm(k_norm));
        let segments = match &key_values {
            KeyValues::Batch(segments) => segments.clone(),
            // A cache holds keys and values without their tape: what comes from one is a constant.
            KeyValues::Pool { .. } => return Self::from_inner(Flex::attend(qkv, q_norm, k_norm, spec, key_values)),
        };
        record::<C, 1>([node], |tracked| {
            if !tracked {
                return (Flex::attend(qkv, q_norm, k_norm, spec, key_values), None);
            }
            let kept = qkv.clone();
            let out = Flex::attend(qkv, q_norm.clone(), k_norm.clone(), spec.clone(), key_values);
            let rule = rule(move |gradient| {
                let (q_norm, k_norm) = (q_norm.clone(), k_norm.clone());
                let (spec, segments) = (spec.clone(), segments.clone());
                [Some(Flex::attend_backward(
                    kept.clone(),
                    q_norm,
                    k_norm,
                    spec,
                    segments,
                    gradient,
                ))]
            });
            (out, rule)
        })
    }

    fn linear_add(
        residual: FloatTensor<Self>,
        h: FloatTensor<Self>,
        linear: Linear<Self>,
        norm: OptionalNorm<Self>,
        product: Product,
    ) -> FloatTensor<Self> {
        let ((residual, residual_node), (h, h_node)) = (residual.into_parts(), h.into_parts());
        let (linear, [a, b]) = inner_linear(linear, &h);
        let norm = inner_optional_norm(norm);
        record::<C, 4>([residual_node, h_node, a, b], |tracked| {
            if !tracked {
                return (Flex::linear_add(residual, h, linear, norm, product), None);
            }
            let kept = Flex::keep(&h, product);
            let out = Flex::linear_add(residual, h, linear.clone(), norm.clone(), product);
            let rule = rule(move |gradient| {
                let (dh, adapter) = Flex::linear_add_backward(
                    Flex::restore(&kept),
                    linear.clone(),
                    norm.clone(),
                    product,
                    gradient.clone(),
                );
                let [da, db] = split(adapter);
                [Some(gradient), Some(dh), da, db]
            });
            (out, rule)
        })
    }

    fn gated(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        gate: Linear<Self>,
        up: Linear<Self>,
        activation: Activation,
        product: Product,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let norm = inner_norm(norm);
        let (gate, [gate_a, gate_b]) = inner_linear(gate, &x);
        let (up, [up_a, up_b]) = inner_linear(up, &x);
        record::<C, 5>([x_node, gate_a, gate_b, up_a, up_b], |tracked| {
            if !tracked {
                return (Flex::gated(x, norm, gate, up, activation, product), None);
            }
            let kept_x = Flex::keep(&x, product);
            let (out, kept) = Flex::gated_keeping(x, norm.clone(), gate.clone(), up.clone(), activation, product);
            let rule = rule(move |gradient| {
                let (dx, [of_gate, of_up]) = Flex::gated_backward(
                    Flex::restore(&kept_x),
                    norm.clone(),
                    gate.clone(),
                    up.clone(),
                    activation,
                    product,
                    &kept,
                    gradient,
                );
                let ([gate_a, gate_b], [up_a, up_b]) = (split(of_gate), split(of_up));
                [Some(dx), gate_a, gate_b, up_a, up_b]
            });
            (out, rule)
        })
    }

    fn cross_entropy(
        x: FloatTensor<Self>,
        norm: Norm<Self>,
        output: Linear<Self>,
        targets: Arc<[u32]>,
        scale: f32,
        product: Product,
    ) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        let norm = inner_norm(norm);
        // The output layer is frozen: an adapter on it would get no gradient, and none is ever hung there.
        let (output, _) = inner_linear(output, &x);
        record::<C, 1>([node], |tracked| {
            if !tracked {
                return (Flex::cross_entropy(x, norm, output, targets, scale, product), None);
            }
            // The logits are the dearest of a step, so they are made once, for the loss and for its gradient.
            let (loss, dx) = Flex::cross_entropy_with_gradient(x, norm, output, targets, scale, product);
            let rule = rule(move |gradient| {
                let gradient = Flex::float_reshape(gradient, Shape::from([1, 1]));
                [Some(Flex::float_mul(dx.clone(), gradient))]
            });
            (loss, rule)
        })
    }

    fn dequantize(weight: IntTensor<Self>, spec: MatrixSpec) -> FloatTensor<Self> {
        Self::from_inner(Flex::dequantize(weight, spec))
    }
}
