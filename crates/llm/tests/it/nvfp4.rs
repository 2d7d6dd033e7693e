//! A model in NVFP4, whose weights have a scale of the whole tensor, against the same model with
//! the scales folded into weights in F32: logits, with adapters and biases.
//! `crates/train/tests/it/run.rs` compares training.

use crate::nvfp4_pair;
use hearth_formats::adapter::LinearName;
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Relative tolerance: the scale multiplies a sum in one model and its terms in the other.
const TOLERANCE: f32 = 2e-5;

fn models() -> [Arc<Model>; 2] {
    nvfp4_pair::files().map(|gguf| load(&gguf))
}

fn load(gguf: &Gguf) -> Arc<Model> {
    let model = Model::load(gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

/// The model with an adapter on each linear.
fn adapted(model: &Model) -> Arc<Model> {
    const RANK: usize = 3;
    let config = model.config();
    let noise = |count: usize, seed: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 + seed) % 101) as f32 / 500.0 - 0.1;
        (0..count).map(value).collect()
    };
    let part = |layer: usize, linear: LinearName| {
        let [outputs, inputs] = config.linear(linear);
        LoraPart {
            layer,
            linear,
            rank: RANK,
            a: noise(RANK * inputs, layer + 1),
            b: noise(outputs * RANK, layer + 2),
            scale: 0.5,
        }
    };
    let parts: Vec<_> = (0..config.n_layers)
        .flat_map(|layer| LinearName::ALL.iter().map(move |linear| part(layer, *linear)))
        .collect();
    Arc::new(model.adapted(&parts).expect("they fit"))
}

fn logits(model: &Arc<Model>, tokens: &[u32]) -> Vec<f32> {
    let session = Session::new(model.clone(), 64).expect("a session");
    session
        .with_precision(MatmulPrecision::F32)
        .extend(tokens)
        .expect("it runs")
}

fn close(what: &str, found: &[f32], expected: &[f32]) {
    let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let worst = found
        .iter()
        .zip(expected)
        .fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(worst <= TOLERANCE * largest, "{what}: differs by {worst} of {largest}");
}

#[test]
fn a_scale_is_applied_as_if_folded_into_the_weight() {
    let [scaled, folded] = models();
    // One token and many are computed by different kernels.
    for tokens in [&[5][..], &[1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 4, 9, 16, 25]] {
        close("logits", &logits(&scaled, tokens), &logits(&folded, tokens));
        let [scaled, folded] = [&scaled, &folded].map(|model| adapted(model));
        close(
            "logits with an adapter",
            &logits(&scaled, tokens),
            &logits(&folded, tokens),
        );
    }
    // The comparison sees an adapter.
    let [with, without] = [&adapted(&scaled), &scaled].map(|model| logits(model, &[5]));
    assert!(
        with.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-2),
        "the adapter does nothing"
    );
}

/// The fixture `qwen2`, whose output layer is tied to the embedding, with another tensor.
fn tied_with(name: &str, value: f32) -> Gguf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/qwen2.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    assert!(gguf.info("output.weight").is_none());
    let mut headers: Vec<_> = gguf
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    headers.push(TensorHeader {
        name: name.to_owned(),
        shape: vec![1],
        kind: TensorType::F32,
    });
    let mut writer = GgufWriter::begin(Vec::new(), gguf.metadata(), &headers).expect("a header");
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("it is there");
        writer.tensor(tensor.bytes()).expect("it is written");
    }
    writer.tensor(&value.to_le_bytes()).expect("it is written");
    Gguf::from_bytes(writer.finish().expect("it is whole")).expect("it opens")
}

/// As in llama.cpp: a lookup and a tied output layer have no scale.
#[test]
fn the_embedding_has_no_scale() {
    let gguf = tied_with("token_embd.scale", 3.0);
    let refused = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("token_embd.scale"), "{error}");
}
