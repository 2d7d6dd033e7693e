//! A model in NVFP4, whose weights have a scale of the whole tensor, against the same model with
//! the scales folded into weights in F32: logits and gradients, with adapters and biases.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::{MatmulPrecision, Quant};
use hearth_llm::{LoadOptions, LoraPart, Model, Session};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Relative tolerance: the scale multiplies a sum in one model and its terms in the other.
const TOLERANCE: f32 = 2e-5;

/// A tensor of the test's files.
struct File {
    headers: Vec<TensorHeader>,
    contents: Vec<Vec<u8>>,
}

impl File {
    fn push(&mut self, name: String, shape: &[u64], kind: TensorType, bytes: Vec<u8>) {
        let shape = shape.to_vec();
        self.headers.push(TensorHeader { name, shape, kind });
        self.contents.push(bytes);
    }

    fn push_floats(&mut self, name: String, shape: &[u64], values: &[f32]) {
        self.push(
            name,
            shape,
            TensorType::F32,
            values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        );
    }

    fn load(self, metadata: &hearth_formats::gguf::Metadata) -> Model {
        let mut writer = GgufWriter::begin(Vec::new(), metadata, &self.headers).expect("a header");
        for bytes in &self.contents {
            writer.tensor(bytes).expect("it is written");
        }
        let gguf = Gguf::from_bytes(writer.finish().expect("it is whole")).expect("it opens");
        Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(())).expect("it loads")
    }
}

/// The fixture `llama` in NVFP4 with scales, input scales and biases; and in F32 with the products
/// of weights and scales, and the same biases.
fn models() -> [Arc<Model>; 2] {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let [mut scaled, mut folded] = [(); 2].map(|()| File {
        headers: Vec::new(),
        contents: Vec::new(),
    });
    for (i, info) in gguf.tensors().enumerate() {
        let bytes = gguf.tensor(&info.name).expect("it is there").bytes().to_vec();
        let linear = info
            .name
            .strip_suffix(".weight")
            .filter(|_| info.name.starts_with("blk."));
        let Some(linear) = linear.filter(|_| info.shape.len() == 2) else {
            for file in [&mut scaled, &mut folded] {
                file.push(info.name.clone(), &info.shape, info.kind, bytes.clone());
            }
            continue;
        };
        // Far from one, and different for each linear.
        let scale = 0.25 + 0.125 * (i % 7) as f32;
        let values: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|value| f32::from_le_bytes(*value))
            .collect();
        let divided: Vec<f32> = values.iter().map(|value| value / scale).collect();
        let mut blocks = vec![0; Quant::NVFP4.row_bytes(values.len()).expect("whole blocks")];
        Quant::NVFP4.quantize_row(&divided, &mut blocks).expect("it fits");
        let mut found = vec![0.0; values.len()];
        Quant::NVFP4.dequantize_row(&blocks, &mut found).expect("whole blocks");
        found.iter_mut().for_each(|weight| *weight *= scale);
        let outputs = info.shape[1];
        let bias: Vec<f32> = (0..outputs)
            .map(|row| (row as f32 * 0.7 + i as f32).sin() / 10.0)
            .collect();

        scaled.push(info.name.clone(), &info.shape, TensorType::NVFP4, blocks);
        scaled.push_floats(format!("{linear}.scale"), &[1], &[scale]);
        // Describes activations of other programs; not applied.
        scaled.push_floats(format!("{linear}.input_scale"), &[1], &[17.0]);
        scaled.push_floats(format!("{linear}.bias"), &[outputs], &bias);
        folded.push_floats(info.name.clone(), &info.shape, &found);
        folded.push_floats(format!("{linear}.bias"), &[outputs], &bias);
    }
    [scaled, folded].map(|file| Arc::new(file.load(gguf.metadata())))
}

/// The model with an adapter on each linear.
fn adapted(model: &Model) -> Arc<Model> {
    const RANK: usize = 3;
    let config = model.config();
    let (width, ffn) = (config.width, config.ffn_width);
    let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let noise = |count: usize, seed: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 + seed) % 101) as f32 / 500.0 - 0.1;
        (0..count).map(value).collect()
    };
    let linears = [
        ("attn_q", width, queries),
        ("attn_k", width, keys),
        ("attn_v", width, keys),
        ("attn_output", queries, width),
        ("ffn_gate", width, ffn),
        ("ffn_up", width, ffn),
        ("ffn_down", ffn, width),
    ];
    let part = |layer: usize, (linear, inputs, outputs): (&str, usize, usize)| LoraPart {
        layer,
        linear: linear.to_owned(),
        rank: RANK,
        a: noise(RANK * inputs, layer + 1),
        b: noise(outputs * RANK, layer + 2),
        scale: 0.5,
    };
    let parts: Vec<_> = (0..config.n_layers)
        .flat_map(|layer| linears.map(|linear| part(layer, linear)))
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
