//! The softcap of logits applies to everything that is computed from them, and to nothing else.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader};
use hearth_kernels::MatmulPrecision;
use hearth_llm::ops::NOT_TRAINED;
use hearth_llm::{Batch, LoadError, LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const KEY: &str = "gemma3.final_logit_softcapping";
const IDS: [u32; 7] = [1, 2, 3, 5, 8, 13, 21];
/// Near the size of the logits.
const CAP: f32 = 1.5;
const PRECISION: MatmulPrecision = MatmulPrecision::F32;

/// The fixture `gemma3` with this softcap.
fn load(softcap: Option<f32>) -> Result<Arc<Model>, LoadError> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/gemma3.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let mut metadata = gguf.metadata().clone();
    if let Some(cap) = softcap {
        metadata.insert(KEY, cap);
    }
    let headers = gguf.tensors().map(|info| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    });
    let headers: Vec<_> = headers.collect();
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("a tensor");
        writer.tensor(tensor.bytes()).expect("it is written");
    }
    let capped = Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens");
    let model = Model::load(&capped, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()))?;
    Ok(Arc::new(model))
}

fn session(model: &Arc<Model>) -> Session {
    let session = Session::new(model.clone(), 64).expect("a session");
    session.with_precision(PRECISION)
}

/// The logits after each of the ids.
fn logits(model: &Arc<Model>) -> Vec<f32> {
    session(model).extend(&IDS).expect("it runs")
}

/// The log probability of each id but the first, from the logits before it.
fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let vocab = logits.len() / IDS.len();
    let log_probability = |(row, id): (&[f32], &u32)| {
        let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        f64::from(row[*id as usize]) - sum.ln()
    };
    logits.chunks_exact(vocab).zip(&IDS[1..]).map(log_probability).collect()
}

#[test]
fn a_softcap_changes_logits_scores_and_losses_alone() {
    let [plain, capped] = [None, Some(CAP)].map(|softcap| load(softcap).expect("it loads"));
    let (plain_logits, capped_logits) = (logits(&plain), logits(&capped));
    for (actual, plain) in capped_logits.iter().zip(&plain_logits) {
        let cap = f64::from(CAP);
        let expected = cap * (f64::from(*plain) / cap).tanh();
        assert!((f64::from(*actual) - expected).abs() < 1e-6, "{plain} became {actual}");
    }
    let difference = |(a, b): (&f32, &f32)| (a - b).abs();
    assert!(
        capped_logits
            .iter()
            .zip(&plain_logits)
            .map(difference)
            .any(|x| x > 0.01)
    );

    let scores = session(&capped).score(&IDS, 1).expect("it runs");
    let expected = log_probabilities(&capped_logits);
    assert_eq!(scores.len(), expected.len());
    for (score, expected) in scores.iter().zip(&expected) {
        assert!((score - expected).abs() < 1e-5, "{score}, expected {expected}");
    }

    // Without a cache, as the loss.
    let batch = Arc::new(Batch::of_lengths(&[IDS.len()]));
    let [plain_hidden, hidden] = [&plain, &capped].map(|model| model.decoder().hidden(IDS.into(), &batch, PRECISION));
    let values = |tensor: burn::tensor::Tensor<2>| tensor.into_data().try_into_vec::<f32>().expect("f32");
    assert!(values(plain_hidden) == values(hidden.clone()));
    let logits = values(capped.decoder().logits(hidden.clone(), PRECISION));
    let expected = -log_probabilities(&logits).iter().sum::<f64>();
    let targets: Vec<u32> = IDS[1..].iter().copied().chain([NOT_TRAINED]).collect();
    let loss = capped.decoder().loss(hidden, targets.into(), 1.0, PRECISION);
    let loss = f64::from(loss.into_data().try_into_vec::<f32>().expect("f32")[0]);
    assert!((loss - expected).abs() < 1e-5 * expected, "{loss}, expected {expected}");
}

#[test]
fn a_softcap_of_0_is_none_and_others_are_positive_and_finite() {
    let plain = logits(&load(None).expect("it loads"));
    assert!(logits(&load(Some(0.0)).expect("it loads")) == plain);
    for cap in [-30.0, 1e-40, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = load(Some(cap)).err().expect("it is refused").to_string();
        assert!(error.contains(KEY), "{cap}: {error}");
    }
}
