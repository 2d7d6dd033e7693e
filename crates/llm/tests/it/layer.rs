//! Compares the forward and backward of a layer, loaded from a model file, with PyTorch and with
//! finite differences. All seven linear layers have LoRA adapters.
//!
//! The fixtures, and the script that makes them, are in `tests/fixtures/layer`.

use burn::tensor::{Device, Tensor, TensorData};
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};
use hearth_llm::ops::{Adapter, MatmulPrecision};
use hearth_llm::{Batch, Layer, LoadOptions, Model};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Tolerance against PyTorch in f64: the maximum difference, divided by the maximum value.
const TOLERANCE: f64 = 1e-4;

/// A tensor of the fixture.
struct Array {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Array {
    fn tensor(&self, device: &Device) -> Tensor<2> {
        let [rows, cols] = [self.shape[0], self.shape[1]];
        Tensor::from_data(TensorData::new(self.values.clone(), [rows, cols]), device)
    }
}

struct Fixture {
    arrays: BTreeMap<String, Array>,
    /// Shapes of tensors and hyperparameters.
    description: serde_json::Value,
}

impl Fixture {
    fn read(name: &str) -> Self {
        let base = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/fixtures/layer")
            .join(name);
        let text = std::fs::read_to_string(base.with_extension("json")).expect("the description");
        let description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let bytes = std::fs::read(base.with_extension("bin")).expect("the values");
        let (numbers, _) = bytes.as_chunks();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let arrays = description["tensors"]
            .as_object()
            .expect("an object")
            .iter()
            .map(|(name, tensor)| {
                let shape: Vec<usize> = tensor["shape"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|size| size.as_u64().expect("a size") as usize)
                    .collect();
                let first = tensor["first"].as_u64().expect("an index") as usize;
                let values = numbers[first..first + shape.iter().product::<usize>()].to_vec();
                (name.clone(), Array { shape, values })
            });
        Self {
            arrays: arrays.collect(),
            description,
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        find(&self.description, key).and_then(|value| value.as_f64())
    }

    /// A model file with only this layer.
    fn gguf(&self, architecture: &str) -> Gguf {
        let number = |key: &str| self.number(key).unwrap_or_else(|| panic!("{key}"));
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", architecture);
        let mut insert_u32 = |key: &str, value: f64| metadata.insert(format!("{architecture}.{key}"), value as u32);
        insert_u32("block_count", 1.0);
        insert_u32("context_length", 64.0);
        insert_u32("embedding_length", number("width"));
        insert_u32("feed_forward_length", number("ffn_width"));
        insert_u32("attention.head_count", number("heads"));
        insert_u32("attention.head_count_kv", number("kv_heads"));
        insert_u32("attention.key_length", number("head_dim"));
        insert_u32("attention.value_length", number("head_dim"));
        insert_u32("rope.dimension_count", number("head_dim"));
        if let Some(window) = self.number("window") {
            insert_u32("attention.sliding_window", window);
        }
        metadata.insert(format!("{architecture}.rope.freq_base"), number("rope_base") as f32);
        metadata.insert(
            format!("{architecture}.attention.layer_norm_rms_epsilon"),
            number("eps") as f32,
        );

        let width = number("width") as usize;
        let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = vec![
            ("token_embd.weight".to_owned(), vec![2, width], vec![0.0; 2 * width]),
            ("output_norm.weight".to_owned(), vec![width], vec![1.0; width]),
        ];
        for (name, array) in &self.arrays {
            if (name.ends_with(".weight") || name.ends_with(".bias")) && !name.starts_with("grad.") {
                tensors.push((format!("blk.0.{name}"), array.shape.clone(), array.values.clone()));
            }
        }
        if let Some(scales) = find(&self.description, "scales").and_then(|scales| scales.as_object()) {
            for (name, scale) in scales {
                let scale = scale.as_f64().expect("a scale") as f32;
                tensors.push((format!("blk.0.{name}.scale"), vec![1], vec![scale]));
            }
        }
        let headers: Vec<_> = tensors
            .iter()
            .map(|(name, shape, _)| TensorHeader {
                name: name.clone(),
                shape: shape.iter().rev().map(|size| *size as u64).collect(),
                kind: TensorType::F32,
            })
            .collect();
        let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
        for (_, _, values) in &tensors {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(&bytes).expect("a tensor");
        }
        Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
    }
}

/// The value of `key` at any depth of the description, except for tensors.
fn find<'a>(json: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    let object = json.as_object()?;
    object.get(key).or_else(|| {
        object
            .iter()
            .filter(|(name, _)| *name != "tensors")
            .find_map(|(_, value)| find(value, key))
    })
}

/// alpha / rank = 8 / 4, as in the script.
const ADAPTER_SCALE: f32 = 2.0;

fn batch() -> Arc<Batch> {
    Arc::new(Batch::of_lengths(&[10, 14]))
}

/// Attaches the fixture's adapters to the layer, and returns their tensors by name.
fn adapt(layer: &mut Layer, fixture: &Fixture, device: &Device) -> BTreeMap<String, Tensor<2>> {
    let mut adapters = BTreeMap::new();
    for (name, linear) in layer.linears_mut() {
        let matrix = |matrix: &str| {
            fixture.arrays[&format!("{name}.{matrix}")]
                .tensor(device)
                .require_grad()
        };
        let (a, b) = (matrix("a"), matrix("b"));
        linear.adapter = Adapter::Lora {
            a: a.clone().into_dispatch(),
            b: b.clone().into_dispatch(),
            scale: ADAPTER_SCALE,
            dropout: None,
        };
        adapters.insert(format!("{name}.a"), a);
        adapters.insert(format!("{name}.b"), b);
    }
    adapters
}

fn load(fixture: &Fixture, architecture: &str) -> Model {
    let gguf = fixture.gguf(architecture);
    Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(())).expect("it loads")
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("f32")
}

fn assert_close(name: &str, actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len(), "{name}");
    let max = expected.iter().fold(0.0f64, |max, x| max.max(f64::from(x.abs())));
    let difference = actual
        .iter()
        .zip(expected)
        .fold(0.0f64, |max, (a, b)| max.max(f64::from((a - b).abs())));
    assert!(
        difference <= TOLERANCE * max,
        "{name}: differs by {difference} of {max}"
    );
}

fn compare_with_pytorch(name: &str, architecture: &str) {
    let fixture = Fixture::read(name);
    let mut model = load(&fixture, architecture);
    let device = Device::flex().autodiff();
    let layer = &mut model.decoder_mut().layers_mut()[0];
    let adapters = adapt(layer, &fixture, &device);
    let x = fixture.arrays["x"].tensor(&device).require_grad();

    let out = layer.forward(x.clone(), 0, &batch(), MatmulPrecision::F32);
    assert_close("out", &values(out.clone()), &fixture.arrays["out"].values);

    let gradients = (out * fixture.arrays["probe"].tensor(&device)).sum().backward();
    let gradient = |tensor: &Tensor<2>| values(tensor.grad(&gradients).expect("it has a gradient"));
    assert_close("grad.x", &gradient(&x), &fixture.arrays["grad.x"].values);
    assert_eq!(adapters.len(), 14);
    for (name, tensor) in &adapters {
        assert_close(
            &format!("grad.{name}"),
            &gradient(tensor),
            &fixture.arrays[&format!("grad.{name}")].values,
        );
    }
}

#[test]
fn a_llama_layer_has_the_gradients_of_pytorch() {
    compare_with_pytorch("llama", "llama");
}

#[test]
fn a_gemma_layer_has_the_gradients_of_pytorch() {
    compare_with_pytorch("gemma", "gemma3");
}

/// Compares the directional derivative of the loss, computed by central differences, with the
/// gradients.
fn check_directional_derivative(name: &str, architecture: &str) {
    const STEP: f32 = 1e-2;
    /// In f32, a derivative through a layer has about three significant digits.
    const SLOPE_TOLERANCE: f64 = 5e-3;
    let fixture = Fixture::read(name);
    let device = Device::flex();
    let loss = |step: f32| -> f64 {
        let mut model = load(&fixture, architecture);
        let layer = &mut model.decoder_mut().layers_mut()[0];
        for (name, linear) in layer.linears_mut() {
            // Each element moves in the direction of its gradient, so that contributions do not
            // cancel.
            let matrix = |matrix: &str| {
                let sign = fixture.arrays[&format!("grad.{name}.{matrix}")].tensor(&device).sign();
                (fixture.arrays[&format!("{name}.{matrix}")].tensor(&device) + sign * (step / 10.0)).into_dispatch()
            };
            linear.adapter = Adapter::Lora {
                a: matrix("a"),
                b: matrix("b"),
                scale: ADAPTER_SCALE,
                dropout: None,
            };
        }
        let x = fixture.arrays["x"].tensor(&device) + fixture.arrays["grad.x"].tensor(&device).sign() * step / 10.0;
        let out = values(layer.forward(x, 0, &batch(), MatmulPrecision::F32));
        out.iter()
            .zip(&fixture.arrays["probe"].values)
            .map(|(output, probe)| f64::from(*output) * f64::from(*probe))
            .sum()
    };
    let actual = (loss(STEP) - loss(-STEP)) / f64::from(2.0 * STEP / 10.0);
    let gradients = fixture.arrays.iter().filter(|(name, _)| name.starts_with("grad."));
    let expected: f64 = gradients
        .flat_map(|(_, array)| &array.values)
        .map(|gradient| f64::from(gradient.abs()))
        .sum();
    assert!(
        (actual - expected).abs() <= SLOPE_TOLERANCE * expected,
        "{name}: {actual} against {expected}"
    );
}

#[test]
fn llama_gradients_match_finite_differences() {
    check_directional_derivative("llama", "llama");
}

#[test]
fn gemma_gradients_match_finite_differences() {
    check_directional_derivative("gemma", "gemma3");
}
