//! Steps over several sequences: each sequence has the same bits as alone.

use crate::lora::lora;
use crate::own_process;
use crate::sample::{Sample, layer_shape};
use burn::tensor::Tensor;
use hearth_formats::Architecture;
use hearth_formats::shape::{AttentionShape, LayerShape, MixerShape};
use hearth_kernels::attention::KvFormat;
use hearth_kernels::{Quant, team};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::threads::{self, Threads};
use hearth_llm::{
    Cache, CacheError, CacheSize, LoadOptions, Model, Output, Rows, Sequence, Session, SessionError, Want, greedy, step,
};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const VOCAB: u32 = 331;
const PRECISION: MatmulPrecision = MatmulPrecision::Int8Activations;
/// Rows of a sequence in consecutive steps, in rotation. With 0, it is not in the step.
const SIZES: [usize; 7] = [1, 33, 0, 2, 7, 64, 1];

/// Sets the number of threads, which may exceed the number of cores. Only for tests with a separate
/// process. The first call must be before any kernel runs.
fn set_threads(threads: usize) {
    team::oversubscribe(8);
    team::set_threads(threads);
    assert_eq!(team::threads(), threads);
}

fn model(architecture: Architecture, formats: &'static [Quant]) -> Arc<Model> {
    // Gemma's sixth layer has full attention.
    let count = if architecture == Architecture::Gemma3 { 6 } else { 2 };
    model_with(architecture, vec![layer_shape(256, 512, 4, 2); count], formats)
}

fn model_with(architecture: Architecture, layers: Vec<LayerShape>, formats: &'static [Quant]) -> Arc<Model> {
    let sample = Sample {
        architecture,
        layers,
        vocab: VOCAB as usize,
        formats,
    };
    let gguf = sample.gguf().expect("a file");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn llama() -> Arc<Model> {
    model(Architecture::Llama, &[Quant::Q4_K, Quant::Q5_0, Quant::Q6_K])
}

/// The model with an adapter of this rank on every linear layer.
fn adapted(model: &Model, rank: usize) -> Arc<Model> {
    Arc::new(model.adapted(&lora(model, rank, 0.7)).expect("they fit"))
}

/// Tokens of one sequence, and the model with its adapters.
pub struct Part {
    pub model: Arc<Model>,
    pub ids: Vec<u32>,
}

/// Sequences of different lengths. Neighbors have the same adapter, different ones or none.
fn parts(base: &Arc<Model>, count: usize) -> Vec<Part> {
    let models = [base.clone(), adapted(base, 8), adapted(base, 5)];
    let part = |index: usize| Part {
        model: models[[0, 0, 1, 1, 2, 0, 1][index % 7]].clone(),
        ids: (0..[300, 5, 131, 64, 1][index % 5])
            .map(|i: u32| (i * i + 17 * index as u32) % VOCAB)
            .collect(),
    };
    (0..count).map(part).collect()
}

fn bits(logits: &[f32]) -> impl Iterator<Item = u32> {
    logits.iter().map(|logit| logit.to_bits())
}

/// The bits of the logits after every token of a sequence that is processed alone.
fn alone(part: &Part, format: KvFormat) -> Vec<u32> {
    let mut session = Session::with_cache(part.model.clone(), 512, format).expect("a session");
    part.ids
        .chunks(50)
        .flat_map(|ids| bits(&session.extend(ids).expect("it runs")).collect::<Vec<_>>())
        .collect()
}

fn cache(model: &Model, format: KvFormat, sequences: usize, context: usize) -> Arc<Cache> {
    let size = CacheSize {
        context,
        sequences,
        snapshots: 0,
        step: context,
        drafts: 0,
    };
    Cache::new(model.groups(), format, size)
}

fn never_cancel(_layer: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn outputs(rows: &mut [Rows]) -> Vec<Output> {
    match step(rows, PRECISION, &mut never_cancel).expect("it runs") {
        ControlFlow::Continue(outputs) => outputs,
        ControlFlow::Break(()) => panic!("the callback does not break"),
    }
}

fn logits(output: &Output) -> &[f32] {
    match output {
        Output::Logits(logits) => logits,
        _ => panic!("logits were requested"),
    }
}

/// The bits of the logits after every token of all sequences, which are processed in common steps
/// and have at most `context` tokens.
pub fn together(parts: &[Part], format: KvFormat, context: usize) -> Vec<Vec<u32>> {
    let cache = cache(&parts[0].model, format, parts.len(), context);
    let mut sequences: Vec<Sequence> = parts.iter().map(|_| Sequence::new(&cache)).collect();
    let mut actual = vec![Vec::new(); parts.len()];
    for step in 0.. {
        let (mut rows, mut indices) = (Vec::new(), Vec::new());
        for (index, (part, sequence)) in parts.iter().zip(&mut sequences).enumerate() {
            let first = sequence.len();
            let size = SIZES[(step + 3 * index) % SIZES.len()].min(part.ids.len() - first);
            if size > 0 {
                rows.push(Rows {
                    sequence,
                    model: &part.model,
                    ids: &part.ids[first..first + size],
                    embeddings: None,
                    want: Want::Logits,
                    wanted: 0..size,
                });
                indices.push(index);
            }
        }
        if !rows.is_empty() {
            for (index, output) in indices.into_iter().zip(outputs(&mut rows)) {
                actual[index].extend(bits(logits(&output)));
            }
        }
        if parts
            .iter()
            .zip(&sequences)
            .all(|(part, sequence)| part.ids == sequence.ids())
        {
            break;
        }
    }
    actual
}

#[test]
fn sequences_of_a_batch_have_the_bits_they_have_alone() {
    if !own_process::has_own_process(sequences_of_a_batch_have_the_bits_they_have_alone) {
        return;
    }
    set_threads(1);
    let gemma = model(Architecture::Gemma3, &[Quant::Q8_0, Quant::F16]);
    let layers = [(512, 4, 2), (256, 2, 1), (768, 2, 2)].map(|(ffn_width, heads, kv_heads)| LayerShape {
        mixer: Some(MixerShape::Attention(AttentionShape {
            heads,
            kv_heads,
            head_dim: 64,
        })),
        ..layer_shape(256, ffn_width, heads, kv_heads)
    });
    let varying = model_with(Architecture::Llama, layers.into(), &[Quant::Q8_0, Quant::Q4_K]);
    for (base, format) in [
        (llama(), KvFormat::F16),
        (varying, KvFormat::F16),
        (llama(), KvFormat::Q8_0),
        (gemma.clone(), KvFormat::Q8_0),
        (gemma, KvFormat::F16),
    ] {
        set_threads(1);
        let parts = parts(&base, 16);
        let expected: Vec<Vec<u32>> = parts.iter().map(|part| alone(part, format)).collect();
        for (count, threads) in [(1, 2), (3, 1), (3, 3), (16, 1), (16, 2), (16, 8)] {
            set_threads(threads);
            let actual = together(&parts[..count], format, 300);
            for (index, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                let architecture = &base.config().architecture;
                assert!(
                    actual == expected,
                    "sequence {index} of {count}, {architecture}, {format:?}, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn decode_tries_fewer_threads_with_the_same_bits() {
    if !own_process::has_own_process(decode_tries_fewer_threads_with_the_same_bits) {
        return;
    }
    set_threads(8);
    let model = llama();
    let cache = cache(&model, KvFormat::F16, 2, 64);
    let decode = |threads| {
        threads::set(threads);
        let (mut actual, mut thread_counts) = (Vec::new(), Vec::new());
        let mut sequence = Sequence::new(&cache);
        let _ = outputs(&mut [Rows::last(&mut sequence, &model, &[1, 2, 3], Want::Nothing)]);
        for id in 0..24 {
            let ids = [id];
            let mut rows = [Rows::last(&mut sequence, &model, &ids, Want::Logits)];
            let mut on_layer = |_| {
                thread_counts.push(team::threads());
                ControlFlow::Continue(())
            };
            let ControlFlow::Continue(outputs) = step(&mut rows, PRECISION, &mut on_layer).expect("it runs") else {
                panic!("the callback does not break")
            };
            assert_eq!(team::threads(), 8, "the number is restored");
            actual.extend(bits(logits(&outputs[0])));
        }
        thread_counts.dedup();
        (actual, thread_counts)
    };
    let (expected, fixed_counts) = decode(Threads::Fixed(8));
    let (actual, tried_counts) = decode(Threads::AtMost(8));
    threads::set(Threads::Fixed(8));
    assert!(actual == expected);
    assert_eq!(fixed_counts, [8]);
    assert_eq!(tried_counts[..2], [8, 6]);
}

/// Forks whose tokens differ after a common prefix, as in a tree of drafts.
#[test]
fn forks_in_one_batch_have_the_bits_they_have_alone() {
    let model = llama();
    let prompt: Vec<u32> = (0..150).map(|i| i * 7 % VOCAB).collect();
    let branches: Vec<Vec<u32>> = [&[1, 2, 3][..], &[1, 2, 4], &[5], &[1, 9, 9, 9]]
        .map(<[u32]>::to_vec)
        .into();
    let cache = cache(&model, KvFormat::F16, 2, 300);
    let mut trunk = Sequence::new(&cache);
    let _ = outputs(&mut [Rows::last(&mut trunk, &model, &prompt, Want::Nothing)]);
    let mut forks = vec![trunk.clone(); branches.len()];
    let mut rows: Vec<Rows> = forks
        .iter_mut()
        .zip(&branches)
        .map(|(fork, ids)| Rows {
            wanted: 0..ids.len(),
            ..Rows::last(fork, &model, ids, Want::Logits)
        })
        .collect();
    let actual = outputs(&mut rows);
    for (ids, actual) in branches.iter().zip(&actual) {
        let mut session = Session::new(model.clone(), 300).expect("a session");
        session.extend(&prompt).expect("it runs");
        let expected = session.extend(ids).expect("it runs");
        assert!(bits(logits(actual)).eq(bits(&expected)), "{ids:?}");
    }
    assert_eq!(trunk.ids(), prompt);
}

#[test]
fn each_row_gets_its_requested_output() {
    let model = llama();
    let ids: Vec<u32> = (0..20).map(|i| i * 13 % VOCAB).collect();
    let cache = cache(&model, KvFormat::F16, 6, 64);
    let mut sequences = vec![Sequence::new(&cache); 6];
    let [all, nothing, argmax, hidden, last, embedded] = sequences.get_disjoint_mut([0, 1, 2, 3, 4, 5]).expect("six");
    let rows = |sequence, want, wanted| Rows {
        sequence,
        model: &model,
        ids: &ids,
        embeddings: None,
        want,
        wanted,
    };
    let embeddings = model.decoder().embed(ids.clone().into());
    let actual = outputs(&mut [
        rows(all, Want::Logits, 0..20),
        rows(nothing, Want::Nothing, 0..20),
        rows(argmax, Want::Argmax, 3..20),
        rows(hidden, Want::Hidden, 5..9),
        Rows::last(last, &model, &ids, Want::Logits),
        Rows {
            embeddings: Some(embeddings),
            ..rows(embedded, Want::Logits, 18..20)
        },
    ]);
    let all: Vec<&[f32]> = logits(&actual[0]).chunks_exact(VOCAB as usize).collect();
    assert_eq!(all.len(), 20);
    assert!(matches!(actual[1], Output::Nothing));
    let Output::Argmax(tokens) = &actual[2] else {
        panic!("the argmax was requested")
    };
    assert!(tokens.iter().copied().eq(all[3..].iter().map(|logits| greedy(logits))));
    let Output::Hidden(hidden) = &actual[3] else {
        panic!("hidden states were requested")
    };
    assert_eq!(hidden.dims(), [4, 256]);
    let hidden_logits: Vec<f32> = model
        .decoder()
        .logits(hidden.as_ref().clone(), PRECISION)
        .into_data()
        .try_into_vec()
        .expect("f32");
    assert!(bits(&hidden_logits).eq(bits(&all[5..9].concat())));
    assert!(bits(logits(&actual[4])).eq(bits(all[19])));
    assert!(bits(logits(&actual[5])).eq(bits(&all[18..].concat())));
}

#[test]
fn a_failed_or_cancelled_step_leaves_all_sequences_as_they_were() {
    let (base, other) = (llama(), llama());
    let cache = cache(&base, KvFormat::F16, 2, 64);
    let [mut first, mut second] = [Sequence::new(&cache), Sequence::new(&cache)];
    let _ = outputs(&mut [
        Rows::last(&mut first, &base, &[1, 2, 3], Want::Nothing),
        Rows::last(&mut second, &base, &[4; 60], Want::Nothing),
    ]);
    let mut refusal = |model: &Model, ids: &[u32], embeddings: Option<Tensor<2>>| {
        let mut rows = [
            Rows::last(&mut first, &base, &[5, 6], Want::Logits),
            Rows {
                embeddings,
                ..Rows::last(&mut second, model, ids, Want::Logits)
            },
        ];
        let error = step(&mut rows, PRECISION, &mut never_cancel).expect_err("it is refused");
        assert_eq!((first.ids(), second.ids()), (&[1, 2, 3][..], &[4; 60][..]));
        error
    };
    let expected = SessionError::NoSuchToken {
        id: VOCAB,
        vocab: VOCAB as usize,
    };
    assert_eq!(refusal(&base, &[1, VOCAB], None), expected);
    let expected = CacheError::ContextFull {
        tokens: 65,
        context: 64,
    };
    assert_eq!(refusal(&base, &[1; 5], None), SessionError::Cache(expected));
    assert_eq!(refusal(&base, &[], None), SessionError::Empty);
    assert_eq!(refusal(&other, &[1], None), SessionError::OtherModel);
    let expected = SessionError::Embeddings {
        found: [1, 256],
        expected: [2, 256],
    };
    let embeddings = base.decoder().embed([1].into());
    assert_eq!(refusal(&base, &[1, 2], Some(embeddings)), expected);
    assert_eq!(
        step(&mut [], PRECISION, &mut never_cancel).err(),
        Some(SessionError::Empty)
    );

    let mut rows = [
        Rows::last(&mut first, &base, &[5, 6], Want::Logits),
        Rows::last(&mut second, &base, &[7], Want::Logits),
    ];
    let break_in_second_layer = &mut |layer: usize| match layer {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    assert!(
        step(&mut rows, PRECISION, break_in_second_layer)
            .expect("no error")
            .is_break()
    );
    assert_eq!((first.ids(), second.ids()), (&[1, 2, 3][..], &[4; 60][..]));

    let panics = AssertUnwindSafe(|| {
        let mut rows = [Rows::last(&mut first, &base, &[5, 6], Want::Logits)];
        let _ = step(&mut rows, PRECISION, &mut |_| panic!("an operation fails"));
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(first.ids(), [1, 2, 3]);
}

/// The second sequence reuses the page, but does not write all of its cells.
#[test]
fn a_sequence_leaves_no_nan_in_its_pages() {
    let model = llama();
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        let cache = cache(&model, format, 1, 64);
        let ids = [1; 20];
        let nan = model.decoder().embed(ids.into()).mul_scalar(f32::NAN);
        let mut first = Sequence::new(&cache);
        let _ = outputs(&mut [Rows {
            embeddings: Some(nan),
            ..Rows::last(&mut first, &model, &ids, Want::Nothing)
        }]);
        drop(first);
        let mut second = Sequence::new(&cache);
        let actual = outputs(&mut [Rows::last(&mut second, &model, &[5, 6, 7], Want::Logits)]);
        assert!(logits(&actual[0]).iter().all(|logit| logit.is_finite()), "{format:?}");
    }
}

#[test]
fn a_cache_of_another_model_is_refused() {
    let (base, gemma) = (llama(), model(Architecture::Gemma3, &[Quant::Q8_0]));
    let mut sequence = Sequence::new(&cache(&gemma, KvFormat::F16, 1, 64));
    let result = step(
        &mut [Rows::last(&mut sequence, &base, &[1], Want::Logits)],
        PRECISION,
        &mut never_cancel,
    );
    assert_eq!(result.err(), Some(SessionError::Cache(CacheError::OtherModel)));
    assert!(sequence.is_empty());
}
