//! Model files with corrupt values, and with valid but unusual ones.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType, Value};
use hearth_kernels::MatmulPrecision;
use hearth_llm::{LoadError, LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The fixture `llama` with additional vectors, given by their names and values.
fn llama_with(extra: &[(&str, Vec<f32>)]) -> Gguf {
    llama_with_keys(&[], extra)
}

/// [`llama_with`], also with additional keys, without `llama.`.
pub fn llama_with_keys(keys: &[(&str, Value)], extra: &[(&str, Vec<f32>)]) -> Gguf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let original = gguf.tensors().map(|info| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    });
    let additional = extra.iter().map(|(name, values)| TensorHeader {
        name: (*name).to_owned(),
        shape: vec![values.len() as u64],
        kind: TensorType::F32,
    });
    let headers: Vec<_> = original.chain(additional).collect();
    let mut metadata = gguf.metadata().clone();
    for (key, value) in keys {
        metadata.insert(format!("llama.{key}"), value.clone());
    }
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("a tensor");
        writer.tensor(tensor.bytes()).expect("it is written");
    }
    for (_, values) in extra {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        writer.tensor(&bytes).expect("it is written");
    }
    Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
}

fn load(extra: &[(&str, Vec<f32>)]) -> Result<Model, LoadError> {
    Model::load(&llama_with(extra), &LoadOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
}

fn logits(extra: &[(&str, Vec<f32>)]) -> Vec<f32> {
    let session = Session::new(Arc::new(load(extra).expect("it loads")), 64).expect("a session");
    let mut session = session.with_precision(MatmulPrecision::F32);
    session.extend(&[1, 2, 3, 5, 8]).expect("it runs")
}

/// Checks that the model is refused with an error that names the first additional vector.
#[track_caller]
fn assert_refused(extra: &[(&str, Vec<f32>)]) {
    let error = load(extra).err().expect("it is refused").to_string();
    assert!(error.contains(&format!("'{}'", extra[0].0)), "{error}");
}

#[test]
fn rope_factors_are_positive_numbers() {
    const NAME: &str = "rope_freqs.weight";
    let pairs = load(&[]).expect("it loads").config().rope_dims / 2;
    let plain = logits(&[]);
    assert_eq!(logits(&[(NAME, vec![1.0; pairs])]), plain);
    assert_ne!(logits(&[(NAME, vec![8.0; pairs])]), plain);
    for factor in [0.0, -0.0, -1.0, 1e-40, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut factors = vec![1.0; pairs];
        factors[pairs - 1] = factor;
        assert_refused(&[(NAME, factors)]);
    }
}

/// As in llama.cpp, a scale may be negative or 0. Unlike there, scales that are not finite are
/// refused.
#[test]
fn a_scale_is_any_finite_number() {
    const Q: &str = "blk.0.attn_q.scale";
    const K: &str = "blk.0.attn_k.scale";
    const OUTPUT: &str = "blk.0.attn_output.scale";
    let plain = logits(&[]);
    assert_eq!(logits(&[(Q, vec![1.0])]), plain);
    // The signs of queries and keys cancel in the scores.
    assert_eq!(logits(&[(Q, vec![-1.0]), (K, vec![-1.0])]), plain);
    for scales in [&[(Q, vec![-1.0])][..], &[(OUTPUT, vec![0.0])], &[(OUTPUT, vec![-0.0])]] {
        let actual = logits(scales);
        assert!(
            actual.iter().all(|logit| logit.is_finite()) && actual != plain,
            "{scales:?}"
        );
    }
    assert_eq!(logits(&[(OUTPUT, vec![0.0])]), logits(&[(OUTPUT, vec![-0.0])]));
    for scale in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_refused(&[(Q, vec![scale])]);
    }
}
