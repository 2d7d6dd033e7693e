//! Attention within a batch, and over a KV cache.

use super::axes::Case;
use super::linears::Run;
use super::{Direction, Outputs};
use burn::backend::Dispatch;
use burn::tensor::Device;
use hearth_kernels::attention::{Heads, QkNormWidth, Temperature};
use hearth_kernels::rope::{Pairing, Rope};
use hearth_llm::ops::{AttentionSpec, OptionalNorm, attend};
use hearth_llm::{Batch, Cache, CacheSize, LayerGroup, Sequence};
use std::sync::Arc;

fn heads(case: &Case, window: Option<usize>) -> Heads {
    // One KV head for large groups, two otherwise.
    let kv_heads = if case.group > 3 { 1 } else { 2 };
    Heads {
        heads: kv_heads * case.group,
        kv_heads,
        head_dim: case.head_dim,
        scale: (case.head_dim as f32).sqrt().recip(),
        softcap: case.softcap,
        window,
    }
}

fn spec(case: &Case, window: Option<usize>) -> Arc<AttentionSpec> {
    let pairing = if case.coin(1) {
        Pairing::Interleaved
    } else {
        Pairing::Halves
    };
    let dims = if case.coin(2) { case.head_dim } else { case.head_dim / 2 };
    let change = case.qk_change;
    let frequency = |pair: usize| 10_000_f64.powf(-2.0 * pair as f64 / dims as f64);
    let frequencies: Vec<f64> = (0..dims / 2).map(frequency).collect();
    let rope = |magnitude| Rope::new(pairing, &frequencies, magnitude).into();
    Arc::new(AttentionSpec {
        heads: heads(case, window),
        norm_width: norm_width(case),
        rope: change.rope.map(rope),
        // Short, so that most tokens have another factor than 1.
        temperature: change.has_temperature.then_some(Temperature { scale: 0.2, length: 3 }),
    })
}

fn norm_width(case: &Case) -> QkNormWidth {
    if case.qk_change.has_norms_over_heads {
        QkNormWidth::AllHeads
    } else {
        QkNormWidth::Head
    }
}

/// The norms of Q and K: both or none.
fn head_norms(run: &mut Run) -> [OptionalNorm<Dispatch>; 2] {
    let case = run.case;
    let enabled = case.coin(3) || case.qk_change.has_norms_over_heads;
    let lengths = norm_width(case).lengths(&heads(case, None));
    lengths.map(|length| run.optional_norm(length, enabled))
}

/// Attention of two sequences without a KV cache.
pub fn over_the_batch(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let spec = spec(case, case.window);
    let qkv = run.input("qkv", case.tokens, spec.heads.qkv_width());
    let [q_norm, k_norm] = head_norms(&mut run);
    let first = case.tokens / 3;
    let lengths = [first, case.tokens - first];
    let lengths: Vec<usize> = lengths.into_iter().filter(|length| *length > 0).collect();
    let batch = Arc::new(Batch::of_lengths(&lengths));
    run.outputs(attend(qkv, &q_norm, &k_norm, &spec, &batch, 0))
}

/// The case with a softcap near the size of the scores.
fn capped(case: &Case) -> Case {
    Case {
        softcap: Some(0.5),
        ..case.clone()
    }
}

/// [`over_the_batch`] with a softcap.
pub fn capped_over_the_batch(case: &Case, device: &Device, direction: Direction) -> Outputs {
    over_the_batch(&capped(case), device, direction)
}

/// [`over_a_cache`] with a softcap.
pub fn capped_over_a_cache(case: &Case, device: &Device, direction: Direction) -> Outputs {
    over_a_cache(&capped(case), device, direction)
}

/// Attention of one sequence over a KV cache that has `case.cached` tokens.
pub fn over_a_cache(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let (spec, prefill_spec) = (spec(case, case.window), spec(case, Some(1)));
    let mut sequence = sequence(case, &spec.heads);
    let mut append = |tokens: usize| {
        sequence.append(&vec![0; tokens]).expect("room");
        Arc::new(Batch::of_sequences(&[(&sequence, tokens)]).expect("a batch"))
    };
    let [q_norm, k_norm] = head_norms(&mut run);
    let before = run.input("before", case.cached, spec.heads.qkv_width());
    // Fills the cache. The output is not used, and a window of 1 makes it fast.
    drop(attend(before, &q_norm, &k_norm, &prefill_spec, &append(case.cached), 1));
    let qkv = run.input("qkv", case.tokens, spec.heads.qkv_width());
    run.outputs(attend(qkv, &q_norm, &k_norm, &spec, &append(case.tokens), 1))
}

/// An empty sequence. In half of the cases, its pages will not be in ascending order.
fn sequence(case: &Case, heads: &Heads) -> Sequence {
    let group = LayerGroup {
        layers: vec![0, 1],
        kv_heads: heads.kv_heads,
        head_dim: heads.head_dim,
        window: None,
    };
    let context = case.cached + case.tokens;
    let size = CacheSize {
        context,
        sequences: 2,
        snapshots: 0,
        step: context,
        drafts: 0,
    };
    let cache = Cache::new(&[group], case.format, size);
    if case.coin(4) {
        // Takes and releases two pages. The page that is released last is taken first.
        let mut others = [Sequence::new(&cache), Sequence::new(&cache)];
        others.iter_mut().for_each(|other| other.append(&[0]).expect("room"));
    }
    Sequence::new(&cache)
}
