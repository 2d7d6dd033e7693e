//! A model whose layers have several sizes computes what a model with equal layers computes, if the
//! further heads and columns have weights of 0 in the output linears.

use crate::sample::{Sample, layer_shape};
use hearth_formats::Architecture;
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_formats::shape::{AttentionShape, FeedForwardShape, LayerShape, MixerShape, ModelShape};
use hearth_kernels::Quant;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Relative tolerance. Sums have more terms.
const TOLERANCE: f32 = 1e-5;
/// The sizes of all layers.
const EQUAL: (usize, usize, usize) = (96, 2, 1);
/// Intermediate size, query heads and KV heads of each layer.
const VARYING: [(usize, usize, usize); 3] = [(96, 4, 2), (160, 2, 1), (128, 6, 3)];
const WIDTH: usize = 64;

fn layer((ffn_width, heads, kv_heads): (usize, usize, usize)) -> LayerShape {
    LayerShape {
        width: WIDTH,
        mixer: Some(MixerShape::Attention(AttentionShape {
            heads,
            kv_heads,
            head_dim: 32,
        })),
        feed_forward: Some(FeedForwardShape::Gated { width: ffn_width }),
    }
}

/// The model with further heads and columns, whose weights in the output linears are 0.
fn padded(base: &Gguf) -> Gguf {
    let mut metadata = base.metadata().clone();
    let sizes = |size: fn((usize, usize, usize)) -> usize| VARYING.map(|sizes| size(sizes) as u32).to_vec();
    metadata.insert("llama.feed_forward_length", sizes(|sizes| sizes.0));
    metadata.insert("llama.attention.head_count", sizes(|sizes| sizes.1));
    metadata.insert("llama.attention.head_count_kv", sizes(|sizes| sizes.2));
    metadata.insert("llama.attention.key_length", 32_u32);
    let shape = |name: &str| -> Option<[usize; 2]> {
        let (index, name) = name.strip_prefix("blk.")?.split_once('.')?;
        let layer = layer(VARYING[index.parse::<usize>().ok()?]);
        let mut linears = layer.linears();
        linears.find_map(|(linear, shape)| (format!("{linear}.weight") == name).then_some(shape))
    };
    let (mut headers, mut contents) = (Vec::new(), Vec::new());
    for info in base.tensors() {
        let bytes = base.tensor(&info.name).expect("a tensor").bytes();
        let mut header = TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        };
        let Some([outputs, inputs]) = shape(&info.name) else {
            headers.push(header);
            contents.push(bytes.to_vec());
            continue;
        };
        assert_eq!(info.kind, TensorType::F32);
        let is_output = ["attn_output", "ffn_down"].iter().any(|name| info.name.contains(name));
        // Inputs of an output linear that the base does not have are multiplied by 0, so other
        // linears may have any further rows.
        let row_bytes = 4 * info.shape[0] as usize;
        let mut rows: Vec<Vec<u8>> = bytes.chunks(row_bytes).map(<[u8]>::to_vec).collect();
        for row in &mut rows {
            row.resize(4 * inputs, 0);
        }
        assert!(is_output || row_bytes == 4 * inputs);
        let further: Vec<_> = (rows.len()..outputs)
            .map(|row| rows[row % rows.len()].clone())
            .collect();
        rows.extend(further);
        header.shape = vec![inputs as u64, outputs as u64];
        headers.push(header);
        contents.push(rows.concat());
    }
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
    for bytes in &contents {
        writer.tensor(bytes).expect("a tensor");
    }
    Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
}

fn logits(gguf: &Gguf) -> Vec<f32> {
    let model = Model::load(gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    let session = Session::new(Arc::new(model.expect("it loads")), 64).expect("a session");
    let ids: Vec<u32> = (0..40).map(|i| i * i % 61).collect();
    let mut session = session.with_precision(MatmulPrecision::F32);
    // In two chunks, so that the second reads the cells of the first.
    let first = session.extend(&ids[..17]).expect("it runs");
    [first, session.extend(&ids[17..]).expect("it runs")].concat()
}

#[test]
fn further_heads_and_columns_of_some_layers_change_nothing() {
    let (ffn_width, heads, kv_heads) = EQUAL;
    let sample = Sample {
        architecture: Architecture::Llama,
        layers: vec![layer_shape(WIDTH, ffn_width, heads, kv_heads); VARYING.len()],
        vocab: 61,
        formats: &[Quant::F32],
    };
    let equal = sample.gguf().expect("a file");
    let varying = padded(&equal);
    let shape = ModelShape::from_gguf(&varying, Architecture::Llama).expect("a shape");
    assert_eq!(shape.layers, VARYING.map(layer));
    let (expected, actual) = (logits(&equal), logits(&varying));
    let max = expected.iter().fold(0.0_f32, |max, logit| max.max(logit.abs()));
    let pairs = expected.iter().zip(&actual);
    let difference = pairs.fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    assert_eq!(actual.len(), expected.len());
    assert!(difference <= TOLERANCE * max, "{difference} of {max}");
}
