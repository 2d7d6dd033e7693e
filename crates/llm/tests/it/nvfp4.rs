//! Compares the logits of a model in NVFP4, whose weights have a scale per tensor, with the same
//! model in F32, whose weights have the scales folded in. Both have biases, and adapters in some
//! cases. `crates/train/tests/it/run.rs` compares training.

use crate::nvfp4_pair;
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Relative tolerance. Rounding differs, because the scale multiplies a sum in one model and its
/// terms in the other.
const TOLERANCE: f32 = 2e-5;

fn models() -> [Arc<Model>; 2] {
    nvfp4_pair::files().map(|gguf| load(&gguf))
}

fn load(gguf: &Gguf) -> Arc<Model> {
    let model = Model::load(gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

/// The model with an adapter on each linear layer.
fn adapted(model: &Model) -> Arc<Model> {
    const RANK: usize = 3;
    let noise = |count: usize, seed: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 + seed) % 101) as f32 / 500.0 - 0.1;
        (0..count).map(value).collect()
    };
    let mut parts = Vec::new();
    for (layer, shape) in model.config().layer_shapes.iter().enumerate() {
        parts.extend(shape.linears().map(|(linear, [outputs, inputs])| LoraPart {
            layer,
            linear,
            rank: RANK,
            a: noise(RANK * inputs, layer + 1),
            b: noise(outputs * RANK, layer + 2),
            scale: 0.5,
        }));
    }
    Arc::new(model.adapted(&parts).expect("they fit"))
}

fn logits(model: &Arc<Model>, tokens: &[u32]) -> Vec<f32> {
    let session = Session::new(model.clone(), 64).expect("a session");
    session
        .with_precision(MatmulPrecision::F32)
        .extend(tokens)
        .expect("it runs")
}

fn assert_close(name: &str, actual: &[f32], expected: &[f32]) {
    let max = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let difference = actual
        .iter()
        .zip(expected)
        .fold(0.0_f32, |max, (a, b)| max.max((a - b).abs()));
    assert_eq!(actual.len(), expected.len(), "{name}");
    assert!(
        difference <= TOLERANCE * max,
        "{name}: differs by {difference} of {max}"
    );
}

#[test]
fn a_scale_is_applied_as_if_folded_into_the_weight() {
    let [scaled, folded] = models();
    // Steps of one and of many tokens use different kernels.
    for tokens in [&[5][..], &[1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 4, 9, 16, 25]] {
        assert_close("logits", &logits(&scaled, tokens), &logits(&folded, tokens));
        let [scaled, folded] = [&scaled, &folded].map(|model| adapted(model));
        assert_close(
            "logits with an adapter",
            &logits(&scaled, tokens),
            &logits(&folded, tokens),
        );
    }
    let [with_adapter, without] = [&adapted(&scaled), &scaled].map(|model| logits(model, &[5]));
    assert!(
        with_adapter.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-2),
        "the adapter does not change the logits"
    );
}

/// The fixture `qwen2`, whose output layer is tied to the embedding, with an additional tensor of
/// one element.
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
        let tensor = gguf.tensor(&info.name).expect("a tensor");
        writer.tensor(tensor.bytes()).expect("it is written");
    }
    writer.tensor(&value.to_le_bytes()).expect("it is written");
    Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
}

/// As in llama.cpp, an embedding and a tied output layer have no scale.
#[test]
fn the_embedding_has_no_scale() {
    let gguf = tied_with("token_embd.scale", 3.0);
    let result = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("token_embd.scale"), "{error}");
}
