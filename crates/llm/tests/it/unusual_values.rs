//! Numbers in a model's file that are corrupt, or valid but unusual.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::MatmulPrecision;
use hearth_llm::{LoadError, LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The fixture `llama` with more vectors: their names and values.
fn with(extra: &[(&str, Vec<f32>)]) -> Gguf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let own = gguf.tensors().map(|info| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    });
    let more = extra.iter().map(|(name, values)| TensorHeader {
        name: (*name).to_owned(),
        shape: vec![values.len() as u64],
        kind: TensorType::F32,
    });
    let headers: Vec<_> = own.chain(more).collect();
    let mut writer = GgufWriter::begin(Vec::new(), gguf.metadata(), &headers).expect("a header");
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("it is there");
        writer.tensor(tensor.bytes()).expect("it is written");
    }
    for (_, values) in extra {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        writer.tensor(&bytes).expect("it is written");
    }
    Gguf::from_bytes(writer.finish().expect("it is whole")).expect("it opens")
}

fn load(extra: &[(&str, Vec<f32>)]) -> Result<Model, LoadError> {
    Model::load(&with(extra), &LoadOptions::default(), &mut |_, _| {
        ControlFlow::Continue(())
    })
}

fn logits(extra: &[(&str, Vec<f32>)]) -> Vec<f32> {
    let session = Session::new(Arc::new(load(extra).expect("it loads")), 64).expect("a session");
    let mut session = session.with_precision(MatmulPrecision::F32);
    session.extend(&[1, 2, 3, 5, 8]).expect("it runs")
}

#[track_caller]
fn refused(extra: &[(&str, Vec<f32>)]) {
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
        refused(&[(NAME, factors)]);
    }
}

/// llama.cpp multiplies each product by the scale, whatever it is; so does Hearth, unless it is not
/// a number that can be computed with.
#[test]
fn a_scale_is_any_finite_number() {
    const Q: &str = "blk.0.attn_q.scale";
    const K: &str = "blk.0.attn_k.scale";
    const O: &str = "blk.0.attn_output.scale";
    let plain = logits(&[]);
    assert_eq!(logits(&[(Q, vec![1.0])]), plain);
    // The signs of queries and keys cancel.
    assert_eq!(logits(&[(Q, vec![-1.0]), (K, vec![-1.0])]), plain);
    for scales in [&[(Q, vec![-1.0])][..], &[(O, vec![0.0])], &[(O, vec![-0.0])]] {
        let actual = logits(scales);
        assert!(
            actual.iter().all(|logit| logit.is_finite()) && actual != plain,
            "{scales:?}"
        );
    }
    assert_eq!(logits(&[(O, vec![0.0])]), logits(&[(O, vec![-0.0])]));
    for scale in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        refused(&[(Q, vec![scale])]);
    }
}
