//! The transformer layer of `tests/fixtures/layer/make.py`, on any device.

use burn::backend::Dispatch;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hearth_kernels::attention::{Heads, QkNormWidth};
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::{Layout, Quant};
use hearth_llm::Batch;
use hearth_llm::ops::{
    Activation, Adapter, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, OptionalNorm,
    attend, feed_forward, linear_add, norm_linears,
};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The weights, inputs and outputs of the layer in PyTorch.
pub struct Fixture {
    name: String,
    /// Shapes of tensors and hyperparameters.
    description: Value,
    /// The values of all tensors.
    numbers: Vec<f32>,
}

impl Fixture {
    pub fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/layer");
        let description = std::fs::read(folder.join(format!("{name}.json"))).expect("the layer's description");
        let numbers = std::fs::read(folder.join(format!("{name}.bin"))).expect("the layer's numbers");
        let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        Self {
            name: name.to_owned(),
            description: serde_json::from_slice(&description).expect("JSON"),
            numbers: numbers.chunks_exact(4).map(float).collect(),
        }
    }

    /// Panics if `actual` differs from the tensor `name` by more than `tolerance` times its
    /// maximum.
    pub fn check<const D: usize>(&self, name: &str, actual: Tensor<D>, tolerance: f32) {
        let actual = actual.into_data().try_to_vec::<f32>().expect("floats");
        let error = relative_error(&actual, self.values(name));
        assert!(error <= tolerance, "{} of {}: off by {error}", name, self.name);
    }

    fn shape(&self, tensor: &str) -> Vec<usize> {
        let shape = self.description["tensors"][tensor]["shape"].as_array();
        let shape = shape.unwrap_or_else(|| panic!("{} has no tensor {tensor}", self.name));
        shape
            .iter()
            .map(|size| size.as_u64().expect("a size") as usize)
            .collect()
    }

    fn values(&self, tensor: &str) -> &[f32] {
        let first = self.size_at(&["tensors", tensor, "first"]);
        &self.numbers[first..first + self.shape(tensor).iter().product::<usize>()]
    }

    fn has(&self, tensor: &str) -> bool {
        !self.description["tensors"][tensor].is_null()
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.values(name).to_vec(), self.shape(name)), device)
    }

    fn size_at(&self, path: &[&str]) -> usize {
        let value = path.iter().fold(&self.description, |value, key| &value[*key]);
        value.as_u64().expect("a size") as usize
    }

    fn number(&self, key: &str) -> f32 {
        self.description[key].as_f64().expect("a number") as f32
    }
}

/// The layer on a device.
pub struct Layer {
    x: Tensor<2>,
    /// The gradient of the output.
    probe: Tensor<2>,
    adapters: Vec<(String, Tensor<2>)>,
    attention: Arc<AttentionSpec>,
    activation: Activation,
    batch: Arc<Batch>,
    adapter_scale: f32,
    attention_norm: OptionalNorm<Dispatch>,
    ffn_norm: OptionalNorm<Dispatch>,
    head_norms: [OptionalNorm<Dispatch>; 2],
    post_norms: [OptionalNorm<Dispatch>; 2],
    linears: Vec<(&'static str, Linear<Dispatch>)>,
}

const LINEARS: [&str; 7] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
];

impl Layer {
    /// The fixture's layer with its weights in this format. On an autodiff device, the input and
    /// the adapters require gradients.
    pub fn new(fixture: &Fixture, quant: Quant, device: &Device) -> Self {
        let trainable = |name: &str| {
            let tensor = fixture.tensor::<2>(name, device);
            if device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        let eps = fixture.number("eps");
        let norm = |name: &str| {
            let weight = fixture.tensor::<1>(&format!("{name}.weight"), device);
            OptionalNorm::Norm(weight.into_dispatch(), eps)
        };
        let optional_norm = |name: &str| {
            if fixture.has(&format!("{name}.weight")) {
                norm(name)
            } else {
                OptionalNorm::None
            }
        };
        let linear = |name: &'static str| {
            let weight = format!("{name}.weight");
            let shape = fixture.shape(&weight);
            let spec = MatrixSpec {
                quant,
                layout: Layout::Plain,
                rows: shape[0],
                cols: shape[1],
                scale: fixture.description["scales"][name].as_f64().unwrap_or(1.0) as f32,
            };
            let bias = if fixture.has(&format!("{name}.bias")) {
                Bias::Add(fixture.tensor::<1>(&format!("{name}.bias"), device).into_dispatch())
            } else {
                Bias::None
            };
            let weight = blocks(&quantize(quant, fixture.values(&weight)), device).into_dispatch();
            (
                name,
                Linear {
                    weight,
                    spec,
                    adapter: Adapter::None,
                    bias,
                },
            )
        };
        let head_dim = fixture.size_at(&["head_dim"]);
        let pairing = match fixture.description["pairing"].as_str() {
            Some("interleaved") => Pairing::Interleaved,
            _ => Pairing::Halves,
        };
        let lengths = fixture.description["segments"].as_array().expect("lengths");
        let lengths: Vec<usize> = lengths
            .iter()
            .map(|length| length.as_u64().expect("a length") as usize)
            .collect();
        Self {
            x: trainable("x"),
            probe: fixture.tensor("probe", device),
            adapters: LINEARS
                .iter()
                .flat_map(|name| [format!("{name}.a"), format!("{name}.b")])
                .map(|name| (name.clone(), trainable(&name)))
                .collect(),
            attention: Arc::new(AttentionSpec {
                heads: Heads {
                    heads: fixture.size_at(&["heads"]),
                    kv_heads: fixture.size_at(&["kv_heads"]),
                    head_dim,
                    scale: (head_dim as f32).sqrt().recip(),
                    softcap: None,
                    window: fixture.description["window"].as_u64().map(|window| window as usize),
                },
                norm_width: QkNormWidth::Head,
                rope: Some(Rope::plain(pairing, head_dim, fixture.number("rope_base")).into()),
                temperature: None,
            }),
            activation: match fixture.description["activation"].as_str() {
                Some("silu") => Activation::Silu,
                _ => Activation::GeluTanh,
            },
            batch: Arc::new(Batch::of_lengths(&lengths)),
            adapter_scale: fixture.number("adapter_scale"),
            attention_norm: norm("attn_norm"),
            ffn_norm: norm("ffn_norm"),
            head_norms: [optional_norm("attn_q_norm"), optional_norm("attn_k_norm")],
            post_norms: [optional_norm("post_attention_norm"), optional_norm("post_ffw_norm")],
            linears: LINEARS.into_iter().map(linear).collect(),
        }
    }

    /// The layer's output `[T, D]`.
    pub fn forward(&self, precision: MatmulPrecision) -> Tensor<2> {
        let x = self.x.clone();
        let qkv = Linears::Three(self.linear("attn_q"), self.linear("attn_k"), self.linear("attn_v"));
        let qkv = norm_linears(x.clone(), &self.attention_norm, &qkv, precision);
        let [q_norm, k_norm] = &self.head_norms;
        let context = attend(qkv, q_norm, k_norm, &self.attention, &self.batch, 0);
        let x = linear_add(
            x,
            context,
            &self.linear("attn_output"),
            &self.post_norms[0],
            1.0,
            precision,
        );
        let gated = Gated {
            norm: self.ffn_norm.clone(),
            gate: self.linear("ffn_gate"),
            up: self.linear("ffn_up"),
            activation: self.activation,
        };
        feed_forward(x, &gated, &self.linear("ffn_down"), &self.post_norms[1], 1.0, precision)
    }

    /// The loss that the fixture's gradients are of.
    pub fn loss(&self, precision: MatmulPrecision) -> Tensor<1> {
        (self.forward(precision) * self.probe.clone()).sum()
    }

    /// The tensors with gradients, and their names.
    pub fn trainable(&self) -> Vec<(String, Tensor<2>)> {
        let x = ("x".to_owned(), self.x.clone());
        std::iter::once(x).chain(self.adapters.iter().cloned()).collect()
    }

    fn linear(&self, name: &str) -> Linear<Dispatch> {
        let lora = |part: &str| {
            let name = format!("{name}.{part}");
            let (_, tensor) = self
                .adapters
                .iter()
                .find(|(other, _)| *other == name)
                .expect("an adapter");
            tensor.clone().into_dispatch()
        };
        let (_, linear) = self.linears.iter().find(|(other, _)| *other == name).expect("a linear");
        let adapter = Adapter::Lora {
            a: lora("a"),
            b: lora("b"),
            scale: self.adapter_scale,
            dropout: None,
        };
        Linear {
            adapter,
            ..linear.clone()
        }
    }
}

/// Quantizes values to this format.
pub fn quantize(quant: Quant, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; quant.row_bytes(values.len()).expect("whole blocks")];
    quant.quantize_row(values, &mut bytes).expect("whole blocks");
    bytes
}

/// Quantized blocks as a weight on a device: bytes on the CPU, words on a GPU.
pub fn blocks(bytes: &[u8], device: &Device) -> Tensor<1, Int> {
    use burn::tensor::DType;
    if device.clone().without_autodiff() != Device::flex() {
        let words = hearth_kernels::gpu::words(bytes);
        let length = words.len();
        return Tensor::from_data(TensorData::new(words, [length]), (device, DType::U32));
    }
    Tensor::from_data(TensorData::new(bytes.to_vec(), [bytes.len()]), (device, DType::U8))
}

/// The maximum difference, divided by the maximum absolute value of `expected`. NaN counts as an
/// infinite difference.
pub fn relative_error(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let differences = actual.iter().zip(expected).map(|(actual, expected)| {
        if actual.is_nan() {
            f32::INFINITY
        } else {
            (actual - expected).abs()
        }
    });
    differences.fold(0.0, f32::max) / max_abs(expected)
}

/// The maximum absolute value.
fn max_abs(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |max, value| max.max(value.abs()))
}
