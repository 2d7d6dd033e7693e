//! A model's logits have the same bits for any split of the prompt and any number of threads.
//!
//! `crates/kernels/tests/it/batch_invariance.rs` tests each kernel for this property.

use crate::lora::lora;
use crate::own_process;
use crate::sample::{Sample, layer_shape};
use hearth_formats::Architecture;
use hearth_kernels::attention::KvFormat;
use hearth_kernels::{Isa, Quant, team};
use hearth_llm::{LoadOptions, Model, Session};
use hearth_test_parts::Parts;
use std::ops::ControlFlow;
use std::sync::Arc;

/// More tokens than the largest batch, and than two splits of keys in attention.
const TOKENS: usize = 700;
/// Sizes of consecutive batches, in rotation, and numbers of threads.
const SPLITS: [(&[usize], usize); 8] = [
    (&[1], 2),
    (&[7], 1),
    (&[16], 2),
    (&[64], 8),
    (&[128], 3),
    (&[512], 1),
    (&[512], 2),
    (&[1, 300, 5, 17, 4, 64, 2, 129], 3),
];

/// The environment variable that selects the instruction set of a process.
const ISA_VARIABLE: &str = "HEARTH_ISA";

/// Sets the number of threads, which may exceed the number of cores. Only for tests with a separate
/// process. The first call must be before any kernel runs.
fn set_threads(threads: usize) {
    team::oversubscribe(8);
    team::set_threads(threads);
    assert_eq!(team::threads(), threads);
}

/// A model with weights of one format and `group` query heads per KV head.
fn model(format: Quant, group: usize) -> Arc<Model> {
    // Both widths are multiples of the largest block.
    let (width, heads) = if group == 3 { (768, 12) } else { (256, 4) };
    let sample = Sample {
        architecture: Architecture::Llama,
        layers: vec![layer_shape(width, 512, heads, heads / group); 2],
        vocab: 331,
        formats: Box::leak(Box::new([format])),
    };
    let gguf = sample.gguf().expect("a file");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

/// The model with two adapters of different ranks on every linear layer.
fn adapted(model: &Model) -> Arc<Model> {
    let parts = [lora(model, 8, 1.0), lora(model, 5, 0.5)].concat();
    Arc::new(model.adapted(&parts).expect("they fit"))
}

fn ids() -> Vec<u32> {
    (0..TOKENS as u32).map(|i| i * i % 331).collect()
}

/// The bits of the logits after every token, computed in batches of these sizes.
fn logits(model: &Arc<Model>, cache: KvFormat, sizes: &[usize]) -> Vec<u32> {
    let ids = ids();
    let mut session = Session::with_cache(model.clone(), TOKENS, cache).expect("a session");
    let (mut bits, mut rest) = (Vec::new(), &ids[..]);
    for size in sizes.iter().cycle() {
        let (batch, after_batch) = rest.split_at(rest.len().min(*size));
        let logits = session.extend(batch).expect("it runs");
        bits.extend(logits.iter().map(|logit| logit.to_bits()));
        rest = after_batch;
        if rest.is_empty() {
            break;
        }
    }
    bits
}

fn check(format: Quant, group: usize, cache: KvFormat, adapters: bool) {
    let model = match (model(format, group), adapters) {
        (model, false) => model,
        (model, true) => adapted(&model),
    };
    set_threads(1);
    let expected = logits(&model, cache, &[1]);
    assert!(expected.iter().all(|bits| f32::from_bits(*bits).is_finite()));
    for (sizes, threads) in SPLITS {
        set_threads(threads);
        assert!(
            logits(&model, cache, sizes) == expected,
            "{format}, {group} query heads per KV head, {cache:?}, adapters: {adapters}: batches of {sizes:?} on \
             {threads} threads"
        );
    }
}

/// The chunk sizes of a prefill adapt to the measured time.
#[test]
fn a_prefilled_prompt_gives_the_same_bits() {
    for format in [Quant::Q4_K, Quant::F16] {
        let model = model(format, 1);
        let expected = logits(&model, KvFormat::F16, &[1]);
        let mut session = Session::with_cache(model, TOKENS, KvFormat::F16).expect("a session");
        let result = session.prefill(&ids(), &mut |_, _| ControlFlow::Continue(()));
        assert!(result.expect("it runs").completed);
        let actual: Vec<u32> = session.logits().iter().map(|logit| logit.to_bits()).collect();
        assert!(actual == expected[expected.len() - actual.len()..], "{format}");
    }
}

/// Every weight format with both group sizes and both cache formats, without and with adapters. A
/// run tests the formats in its parts. The scalar instruction set is slow, so only every fifth
/// format is tested there.
#[test]
fn any_split_of_a_prompt_gives_the_same_bits() {
    if !own_process::has_own_process(any_split_of_a_prompt_gives_the_same_bits) {
        return;
    }
    set_threads(1);
    let (isa, parts) = (Isa::best(), Parts::from_variable("levels"));
    let step = if isa == Isa::available()[0] { 5 } else { 1 };
    let suffix = std::env::var(ISA_VARIABLE).map_or_else(|_| String::new(), |level| format!(" on {level}"));
    // The offset gives each instruction set other formats in a run.
    let offset = Isa::available()
        .iter()
        .position(|other| *other == isa)
        .expect("available");
    let mut count = 0;
    for (i, format) in Quant::ALL.into_iter().enumerate().step_by(step) {
        let case = format!("batch_invariance::any_split_of_a_prompt_gives_the_same_bits {format}{suffix}");
        if !parts.includes(offset + i / step, &case) {
            continue;
        }
        let (first_cache, second_cache) = match i % 2 {
            0 => (KvFormat::F16, KvFormat::Q8_0),
            _ => (KvFormat::Q8_0, KvFormat::F16),
        };
        check(format, 1, first_cache, false);
        check(format, 3, second_cache, true);
        count += 1;
    }
    assert!(count > 0, "each part has a format");
}

#[test]
fn caches_groups_and_adapters_keep_batch_invariance() {
    if !own_process::has_own_process(caches_groups_and_adapters_keep_batch_invariance) {
        return;
    }
    set_threads(1);
    for cache in [KvFormat::F16, KvFormat::Q8_0] {
        for (group, adapters) in [(1, false), (1, true), (3, false), (3, true)] {
            check(Quant::Q4_K, group, cache, adapters);
        }
    }
}

#[test]
fn lower_isa_levels_pass_too() {
    if std::env::var_os(ISA_VARIABLE).is_some() {
        return;
    }
    const TEST: &str = "batch_invariance::any_split_of_a_prompt_gives_the_same_bits";
    let lower = Isa::available().into_iter().filter(|isa| *isa != Isa::best());
    for level in lower.map(Isa::name) {
        let output = own_process::this_executable(&["--exact", TEST])
            .env(ISA_VARIABLE, level)
            .output();
        own_process::assert_passed(level, &output.expect("this executable starts"), 1);
    }
}
