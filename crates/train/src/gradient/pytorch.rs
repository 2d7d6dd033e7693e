//! Gradients next to PyTorch's, of adapters on tiny random models. `tests/fixtures/training`, with
//! its script `gradients.py`, has one model of each family.

use super::{GradientOptions, batch_gradient};
use crate::batch::{Batch, Example};
use crate::parameters::{Parameters, values};
use burn::tensor::Tensor;
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use hearth_formats::shape::Module;
use hearth_kernels::reference::{relative_error, wide};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, LoraPart, Model};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

/// Maximum relative errors of the loss, and of the gradient of each matrix, in f32.
const LOSS_TOLERANCE: f64 = 1e-5;
const TOLERANCE: f64 = 1e-4;
/// The same in bf16. The loss is compared with the one in f32.
const BF16_LOSS_TOLERANCE: f64 = 1e-2;
const BF16_TOLERANCE: f64 = 2e-2;

/// A model, an adapter of it, and an example with the gradient that PyTorch has.
struct Fixture {
    model: Model,
    example: Example,
    loss: f64,
    adapter: Parameters,
    /// The gradient of each matrix, in its place in the adapter.
    gradients: Parameters,
    /// The same if linear layers round their factors to bf16.
    bf16_gradients: Parameters,
}

impl Fixture {
    fn read(name: &str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let folder = fixtures.join("training/gradients").join(name);
        let text = fs::read_to_string(folder.join("run.json")).expect("the run");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let ids: Vec<u32> = serde_json::from_value(json["ids"].clone()).expect("ids");
        let gguf = Gguf::open(fixtures.join(format!("models/{name}.gguf"))).expect("the model opens");
        let options = LoadOptions {
            context: Some(ids.len()),
            ..LoadOptions::default()
        };
        let model = Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(())).expect("it loads");
        let base = BaseShape::from_gguf(&gguf).expect("its sizes");
        let read = |tensors: &str| parameters(&model, &base, &folder, tensors);
        Self {
            adapter: read("adapter_model.safetensors"),
            gradients: read("gradients.safetensors"),
            bf16_gradients: read("bf16.safetensors"),
            loss: json["loss"].as_f64().expect("a number"),
            example: Example {
                trained: vec![true; ids.len()],
                ids,
            },
            model,
        }
    }

    /// The loss and the gradient of each matrix.
    fn run(&self, precision: MatmulPrecision, layers_on_tape: usize) -> (f64, Vec<[Tensor<2>; 2]>) {
        let options = GradientOptions {
            precision,
            layers_on_tape,
            scale: 1.0 / self.example.trained_tokens() as f32,
            dropout: None,
        };
        let batch = Batch::new([&self.example]);
        batch_gradient(self.model.decoder(), &self.adapter, &batch, &options)
    }
}

/// The matrices in a file of an adapter's folder, as the parameters of a run.
fn parameters(model: &Model, base: &BaseShape, folder: &Path, tensors: &str) -> Parameters {
    let read = |file: &str| fs::read(folder.join(file)).expect("it is there");
    let adapter = AdapterFile::from_peft(&read("adapter_config.json"), &read(tensors), None, base);
    let parts = LoraPart::from_file(&adapter.expect("an adapter"), 1.0);
    let mut parameters = Parameters::new(model, &[], parts[0].rank, parts[0].scale, 1).expect("it has linear layers");
    parameters.start_from(&parts).expect("it has all linear layers");
    parameters
}

/// The largest relative error of a matrix's gradient, and the matrix.
fn worst(actual: &[[Tensor<2>; 2]], expected: &Parameters) -> (f64, String) {
    assert_eq!(actual.len(), expected.pairs.len());
    let pairs = actual.iter().zip(&expected.pairs);
    let errors = pairs.flat_map(|(actual, pair)| {
        [("a", &actual[0], &pair.a), ("b", &actual[1], &pair.b)].map(|(matrix, actual, expected)| {
            let error = relative_error(&values(actual), &wide(&values(expected)));
            (error, format!("{}.{matrix}", pair.name()))
        })
    });
    let worst = errors.max_by(|(a, _), (b, _)| a.total_cmp(b));
    worst.expect("an adapter has matrices")
}

fn check(name: &str) {
    let fixture = Fixture::read(name);
    let layers = fixture.model.config().n_layers();
    let (f32, bf16) = (&fixture.gradients, &fixture.bf16_gradients);
    for (precision, layers_on_tape, loss_tolerance, expected, tolerance) in [
        (MatmulPrecision::F32, layers, LOSS_TOLERANCE, f32, TOLERANCE),
        (MatmulPrecision::F32, 1, LOSS_TOLERANCE, f32, TOLERANCE),
        (MatmulPrecision::Bf16, layers, BF16_LOSS_TOLERANCE, bf16, BF16_TOLERANCE),
    ] {
        let (loss, gradients) = fixture.run(precision, layers_on_tape);
        let loss_error = (loss / fixture.loss - 1.0).abs();
        let (error, matrix) = worst(&gradients, expected);
        let case = format!("{name}, {precision:?}, {layers_on_tape} layers on the tape");
        println!("{case}: the loss is off by {loss_error:.1e}, and {matrix} by {error:.1e}");
        assert!(
            loss_error <= loss_tolerance,
            "{case}: the loss is {loss} instead of {}",
            fixture.loss
        );
        assert!(error <= tolerance, "{case}: {matrix} is off by {error}");
    }
}

macro_rules! families {
    ($($name:ident: $folder:literal),*) => {$(
        #[test]
        fn $name() {
            check($folder);
        }
    )*};
}

families!(
    gemma2: "gemma2",
    granite: "granite",
    mistral: "mistral",
    mistral3: "mistral3",
    olmo2: "olmo2",
    phi3: "phi3-3",
    smollm3: "smollm3"
);

/// In the files as in a run, fused linear layers have one A with one gradient, the sum over them.
#[test]
fn fused_linear_layers_have_one_gradient_of_a() {
    let fixture = Fixture::read("phi3-3");
    let fused = fixture.gradients.pairs.iter();
    let fused = fused.filter(|pair| matches!(pair.module, Module::Fused(_)));
    assert_eq!(fused.count(), 2 * fixture.model.config().n_layers());
}
