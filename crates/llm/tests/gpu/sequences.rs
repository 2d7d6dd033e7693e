//! Steps over several sequences on a GPU: each has the logits that it has alone on the CPU, within
//! the tolerance.

use crate::fixture::relative_error;
use crate::gpu;
use crate::lora::lora;
use crate::offload::{TOLERANCE, load, path};
use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{Cache, CacheSize, Config, Model, Output, Placement, Rows, Sequence, Session, Want, step};
use hearth_test_parts::Parts;
use std::ops::ControlFlow;
use std::sync::Arc;

const CONTEXT: usize = 400;
const STEP: usize = 64;
/// Rows of a sequence in consecutive steps, in rotation.
const SIZES: [usize; 4] = [STEP, 1, 33, 2];

/// The tiny model on the CPU and on a GPU, each without and with an adapter.
fn models(name: &str) -> [[Arc<Model>; 2]; 2] {
    let gguf = Gguf::open(path(name)).expect("the fixture opens");
    let layers = Config::from_gguf(&gguf).expect("a model").layers();
    [None, Some(Placement::offload(layers, layers, &[(0, 1)]))].map(|placement| {
        let base = load(&gguf, placement);
        let adapted = base.adapted(&lora(&base, 4, 0.5)).expect("it fits");
        [base, Arc::new(adapted)]
    })
}

fn ids(number: usize) -> Vec<u32> {
    let length = [170, 5, 131, 64, 1][number % 5];
    (0..length).map(|i: u32| (i * i + 17 * number as u32) % 300).collect()
}

/// The logits after the last row of a step.
fn run(rows: &mut [Rows]) -> Vec<Vec<f32>> {
    let result = step(rows, MatmulPrecision::F32, &mut |_| ControlFlow::Continue(())).expect("it runs");
    let ControlFlow::Continue(outputs) = result else {
        panic!("the callback does not break")
    };
    let logits = |output| match output {
        Output::Logits(logits) => logits,
        _ => panic!("logits were requested"),
    };
    outputs.into_iter().map(logits).collect()
}

/// The logits after the last token of a sequence that is processed alone.
fn alone(model: &Arc<Model>, ids: &[u32], format: KvFormat) -> Vec<f32> {
    let session = Session::with_cache(model.clone(), CONTEXT, format).expect("a session");
    let logits = session
        .with_precision(MatmulPrecision::F32)
        .extend(ids)
        .expect("it runs");
    logits[logits.len() - model.config().vocab..].to_vec()
}

fn cache(model: &Model, format: KvFormat, sequences: usize) -> Arc<Cache> {
    let size = CacheSize {
        context: CONTEXT,
        sequences,
        snapshots: 0,
        step: STEP,
        drafts: 0,
    };
    Cache::new(model.groups(), format, size)
}

/// Processes `count` sequences in common steps on the GPU, and compares their last logits with each
/// sequence alone on the CPU.
fn check(name: &str, format: KvFormat, count: usize) {
    // A difference in the last bit of f32 can become one of 2^-11 in f16, and of 2^-7 in 8 bits.
    let tolerance = if format == KvFormat::F16 {
        TOLERANCE
    } else {
        4.0 * TOLERANCE
    };
    let [cpu_models, gpu_models] = models(name);
    let cache = cache(&gpu_models[0], format, count);
    assert_eq!(cache.is_windowed(), name == "gemma3");
    let all_ids: Vec<Vec<u32>> = (0..count).map(ids).collect();
    let mut sequences = vec![Sequence::new(&cache); count];
    let mut last_logits = vec![Vec::new(); count];
    for step in 0.. {
        let (mut rows, mut indices) = (Vec::new(), Vec::new());
        for (index, (sequence, ids)) in sequences.iter_mut().zip(&all_ids).enumerate() {
            let rest = &ids[sequence.len()..];
            let size = SIZES[(step + index) % SIZES.len()].min(rest.len());
            if size > 0 {
                indices.push(index);
                rows.push(Rows::last(
                    sequence,
                    &gpu_models[index / 2 % 2],
                    &rest[..size],
                    Want::Logits,
                ));
            }
        }
        if rows.is_empty() {
            break;
        }
        for (index, logits) in indices.into_iter().zip(run(&mut rows)) {
            last_logits[index] = logits;
        }
    }
    for (index, (logits, ids)) in last_logits.iter().zip(&all_ids).enumerate() {
        let error = relative_error(logits, &alone(&cpu_models[index / 2 % 2], ids, format));
        assert!(
            error <= tolerance,
            "{name}, {format:?}, sequence {index} of {count}: off by {error}"
        );
    }
}

#[test]
fn sequences_of_a_batch_have_the_logits_they_have_alone() {
    if gpu().is_none() {
        return;
    }
    let cases = [
        ("llama", KvFormat::F16, 1),
        ("llama", KvFormat::Q8_0, 3),
        ("gemma3", KvFormat::F16, 3),
        ("qwen3", KvFormat::F16, 16),
        ("gemma3", KvFormat::Q8_0, 16),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, (name, format, count)) in cases.into_iter().enumerate() {
        let case =
            format!("sequences::sequences_of_a_batch_have_the_logits_they_have_alone {count} of {name} in {format:?}");
        if parts.includes_or(number == 0, number, &case) {
            check(name, format, count);
        }
    }
}

/// The last page, which the forks share, is copied on the GPU.
#[test]
fn forks_continue_in_pages_of_their_own() {
    if gpu().is_none() {
        return;
    }
    let [[on_cpu, _], [on_gpu, _]] = models("llama");
    let cache = cache(&on_gpu, KvFormat::F16, 2);
    let prompt = ids(0);
    let mut trunk = Sequence::new(&cache);
    run(&mut [Rows::last(&mut trunk, &on_gpu, &prompt, Want::Logits)]);
    let mut forks = [trunk.clone(), trunk.clone(), trunk];
    let branches: [&[u32]; 3] = [&[5, 6], &[9], &[1, 2, 3]];
    let mut rows = Vec::new();
    for (fork, ids) in forks.iter_mut().zip(branches) {
        rows.push(Rows::last(fork, &on_gpu, ids, Want::Logits));
    }
    for (logits, ids) in run(&mut rows).iter().zip(branches) {
        let expected = alone(&on_cpu, &[&prompt, ids].concat(), KvFormat::F16);
        let error = relative_error(logits, &expected);
        assert!(error <= TOLERANCE, "{ids:?}: off by {error}");
    }
}
