//! Attention within a batch, and over a KV cache.

use super::axes::Case;
use super::linears::Run;
use super::{Direction, Outputs};
use burn::backend::Dispatch;
use burn::tensor::Device;
use hearth_kernels::attention::Heads;
use hearth_kernels::rope::{Pairing, Rope};
use hearth_llm::KvPool;
use hearth_llm::ops::{AttentionSpec, CachedSequence, KeyValues, OptionalNorm, Segments, SequenceView, attend};
use std::sync::Arc;

fn heads(case: &Case, window: Option<usize>) -> Heads {
    // One KV head for large groups, two otherwise.
    let kv_heads = if case.group > 3 { 1 } else { 2 };
    Heads {
        heads: kv_heads * case.group,
        kv_heads,
        head_dim: case.head_dim,
        scale: (case.head_dim as f32).sqrt().recip(),
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
    Arc::new(AttentionSpec {
        heads: heads(case, window),
        rope: Rope::new(pairing, dims, 10_000.0, 1.0, None).into(),
    })
}

fn norms(run: &mut Run) -> [OptionalNorm<Dispatch>; 2] {
    let (case, enabled) = (run.case, run.case.coin(3));
    [(); 2].map(|()| run.optional_norm(case.head_dim, enabled))
}

pub fn over_the_batch(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let spec = spec(case, case.window);
    let qkv = run.input("qkv", case.tokens, spec.heads.qkv_width());
    let [q_norm, k_norm] = norms(&mut run);
    let first = case.tokens / 3;
    let lengths = [first, case.tokens - first];
    let lengths: Vec<usize> = lengths.into_iter().filter(|length| *length > 0).collect();
    let segments = Arc::new(Segments::of_lengths(&lengths));
    run.outputs(attend(qkv, &q_norm, &k_norm, &spec, KeyValues::Batch(segments)))
}

pub fn over_a_cache(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let spec_of = |window| spec(case, window);
    let spec = spec_of(case.window);
    let all = case.cached + case.tokens;
    let scattered = case.coin(4);
    // The pool's last cell is always taken; in a scattered sequence neighbours are seven cells
    // apart.
    let cells = if scattered && all.is_multiple_of(7) {
        all + 1
    } else {
        all
    };
    let cell = |token: usize| ((cells - 1 + 7 * token) % cells) as u32;
    let list: Vec<u32> = (0..all).map(cell).collect();
    let pool = Arc::new(KvPool::new(
        case.format,
        2,
        cells,
        spec.heads.kv_heads,
        spec.heads.head_dim,
    ));
    let sequence = |length: usize, batch: usize| {
        let view = match scattered {
            true => SequenceView::new(&list[..length], batch),
            false => SequenceView::in_order(length, batch),
        };
        let sequence = CachedSequence::new(pool.clone(), Arc::new(view)).expect("cells of the pool");
        KeyValues::Pool { sequence, layer: 1 }
    };
    let [q_norm, k_norm] = norms(&mut run);
    let before = run.input("before", case.cached, spec.heads.qkv_width());
    // This output is unused; a window of 1 makes it fast.
    let alone = spec_of(Some(1));
    drop(attend(
        before,
        &q_norm,
        &k_norm,
        &alone,
        sequence(case.cached, case.cached),
    ));
    let qkv = run.input("qkv", case.tokens, spec.heads.qkv_width());
    run.outputs(attend(qkv, &q_norm, &k_norm, &spec, sequence(all, case.tokens)))
}
