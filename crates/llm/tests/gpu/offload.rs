//! Tiny models with some of their layers on GPUs: the layers are placed as planned, and the logits
//! match the CPU.

use crate::fixture::relative_error;
use crate::gpu;
use crate::reference::names;
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, Value};
#[cfg(feature = "wgpu")]
use hearth_llm::gpus;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{Config, LoadOptions, Model, Place, Placement, Session, greedy};
use hearth_test_parts::Parts;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tolerance relative to the maximum logit. An f16 cache amplifies differences in the last bit of
/// f32.
pub const TOLERANCE: f32 = 2e-3;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

pub fn path(name: &str) -> PathBuf {
    folder().join(name).with_extension("gguf")
}

pub fn load(gguf: &Gguf, placement: Option<Placement>) -> Arc<Model> {
    let options = LoadOptions {
        placement,
        ..LoadOptions::default()
    };
    Arc::new(Model::load(gguf, &options, &mut |_| ControlFlow::Continue(())).expect("it loads"))
}

/// The logits of a prompt in one step, then of further tokens in steps of one and several.
fn logits(model: &Arc<Model>) -> Vec<f32> {
    let mut session = Session::new(model.clone(), 32)
        .expect("a session")
        .with_precision(MatmulPrecision::F32);
    let ids: Vec<u32> = (0..17).map(|i| (i * 7 + 1) % model.config().vocab as u32).collect();
    let parts = [&ids[..12], &ids[12..13], &ids[13..14], &ids[14..]];
    parts
        .iter()
        .flat_map(|ids| session.extend(ids).expect("it runs"))
        .collect()
}

/// Panics if layers are not on the devices of the placement, or the logits differ from `expected`.
fn check(name: &str, gguf: &Gguf, placement: &Placement, expected: &[f32]) {
    let model = load(gguf, Some(placement.clone()));
    for layer in 0..model.config().n_layers() {
        let on_gpu = placement.place(layer) != Place::Cpu;
        assert_eq!(
            *model.decoder().device(layer) != burn::tensor::Device::flex(),
            on_gpu,
            "{name}, layer {layer}"
        );
    }
    // Each layer amplifies the differences of those before it.
    let tolerance = TOLERANCE * (model.config().n_layers() as f32 / 8.0).max(1.0);
    let error = relative_error(&logits(&model), expected);
    assert!(error <= tolerance, "{name}, {placement:?}: off by {error}");
}

/// Checks the numbers of offloaded layers that `select` accepts, from none to one more than the
/// model has.
fn check_all(name: &str, gguf: &Gguf, select: &mut dyn FnMut(usize) -> bool) {
    let layers = Config::from_gguf(gguf).expect("a model").layers();
    let expected = logits(&load(gguf, None));
    for requested in (0..=layers + 1).filter(|requested| select(*requested)) {
        let placement = Placement::offload(layers, requested, &[(0, 1)]);
        assert_eq!(placement.gpu_layers(), requested.min(layers));
        check(name, gguf, &placement, &expected);
    }
}

#[test]
fn any_number_of_layers_gives_the_same_logits() {
    if gpu().is_none() {
        return;
    }
    let (parts, mut count) = (Parts::from_variable("gpu"), 0);
    for (number, name) in names().into_iter().enumerate() {
        let gguf = Gguf::open(path(&name)).expect("the fixture opens");
        let layers = Config::from_gguf(&gguf).expect("a model").layers();
        // Of a deep model, fewer numbers.
        let step = 1 + layers / 16;
        check_all(&name, &gguf, &mut |requested| {
            if requested % step > 0 && requested + 1 < layers {
                return false;
            }
            let case = format!("offload::any_number_of_layers_gives_the_same_logits {name} with {requested} layers");
            let is_included = parts.includes(number + requested, &case);
            count += usize::from(is_included);
            is_included
        });
    }
    assert!(count > names().len() / 2, "{count} cases");
}

/// The argmax computed on the output layer's device equals the argmax of its logits.
#[test]
fn argmax_runs_on_the_output_layers_device() {
    if gpu().is_none() {
        return;
    }
    let gguf = Gguf::open(path("llama")).expect("the fixture opens");
    let layers = Config::from_gguf(&gguf).expect("a model").layers();
    for on_gpu in [0, 1, layers] {
        let model = load(&gguf, Some(Placement::offload(layers, on_gpu, &[(0, 1)])));
        let session = || Session::new(model.clone(), 16).expect("a session");
        let (mut with_argmax, mut with_logits) = (session(), session());
        let mut token = 1;
        for _ in 0..8 {
            let argmax = with_argmax.push_greedy(token).expect("it runs");
            with_logits.push(token).expect("it runs");
            assert_eq!(argmax, greedy(with_logits.logits()), "{on_gpu} layers");
            token = argmax.expect("a token");
        }
        assert_eq!(with_argmax.tokens(), with_logits.tokens());
    }
}

/// A layer for multi-token prediction is counted, but not run.
#[test]
fn a_prediction_layer_is_counted() {
    if gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("predicting.gguf");
    let llama = Gguf::open(path("llama")).expect("the fixture opens");
    copy_with_prediction_layer(&llama, &file);
    let gguf = Gguf::open(&file).expect("the copy opens");
    let llama = Config::from_gguf(&llama).expect("a model");
    let config = Config::from_gguf(&gguf).expect("a model");
    assert_eq!(
        (config.n_layers(), config.layers()),
        (llama.n_layers() - 1, llama.layers())
    );
    let all_but_one = Placement::offload(config.layers(), config.layers() - 1, &[(0, 1)]);
    assert_eq!(
        (all_but_one.place(0), all_but_one.place(1)),
        (Place::Cpu, Place::Gpu(0))
    );
    check_all("llama with a prediction block", &gguf, &mut |_| true);
}

#[cfg(feature = "wgpu")]
#[test]
fn several_gpus_share_the_layers() {
    if gpu().is_none() {
        return;
    }
    // A second device on the same GPU.
    hearth_llm::device::register(1, gpus::open(0).expect("the GPU opens again"));
    for name in ["qwen3", "gemma3"] {
        let gguf = Gguf::open(path(name)).expect("the fixture opens");
        let layers = Config::from_gguf(&gguf).expect("a model").layers();
        let expected = logits(&load(&gguf, None));
        for requested in [2, layers] {
            check(
                name,
                &gguf,
                &Placement::offload(layers, requested, &[(0, 1), (1, 1)]),
                &expected,
            );
        }
    }
}

/// Copies a model, and declares its last layer to be for multi-token prediction.
fn copy_with_prediction_layer(gguf: &Gguf, to: &Path) {
    let mut metadata: Metadata = gguf.metadata().clone();
    metadata.insert("llama.nextn_predict_layers".to_owned(), Value::U32(1));
    let tensors: Vec<_> = gguf.tensors().collect();
    let headers: Vec<TensorHeader> = tensors
        .iter()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    let file = std::fs::File::create(to).expect("a file");
    let mut writer = GgufWriter::begin(file, &metadata, &headers).expect("a header");
    for info in tensors {
        writer
            .tensor(gguf.tensor(&info.name).expect("a tensor").bytes())
            .expect("it is written");
    }
    writer.finish().expect("a complete file");
}
