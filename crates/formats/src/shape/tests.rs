//! Tests of the parser of shapes, and of shapes against the weights of the fixtures.

use super::*;
use crate::gguf::{Gguf, GgufWriter, Metadata, Value};
use std::path::Path;

/// The shape of a model with four layers of 4 query heads and 2 KV heads of width 16, with these
/// keys in addition; without those whose value is `None`.
fn shape(keys: &[(&str, Option<Value>)]) -> Result<ModelShape, String> {
    let mut values: Vec<(&str, Value)> = [
        ("block_count", 4_u32),
        ("embedding_length", 64),
        ("feed_forward_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ]
    .map(|(key, value)| (key, value.into()))
    .into();
    for (key, value) in keys {
        values.retain(|(other, _)| other != key);
        values.extend(value.clone().map(|value| (*key, value)));
    }
    let metadata: Metadata = values
        .into_iter()
        .map(|(key, value)| (format!("llama.{key}"), value))
        .collect();
    let writer = GgufWriter::begin(Vec::new(), &metadata, &[]).expect("a header");
    let gguf = Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens");
    ModelShape::from_gguf(&gguf, Architecture::Llama).map_err(|error| error.to_string())
}

/// The shape with one key in addition.
fn shape_with(key: &str, value: impl Into<Value>) -> Result<ModelShape, String> {
    shape(&[(key, Some(value.into()))])
}

/// Query heads, KV heads, head dimension and intermediate size of each layer.
fn sizes(shape: &ModelShape) -> Vec<[usize; 4]> {
    let sizes = |layer: &LayerShape| {
        let attention = layer.attention().expect("attention");
        let ffn_width = layer.ffn_width().expect("a feed-forward");
        [attention.heads, attention.kv_heads, attention.head_dim, ffn_width]
    };
    shape.layers.iter().map(sizes).collect()
}

#[test]
fn a_number_is_for_all_layers_and_an_array_has_one_for_each() {
    let uniform = shape(&[]).expect("a shape");
    assert_eq!(sizes(&uniform), [[4, 2, 16, 128]; 4]);
    assert_eq!((uniform.width, uniform.vocab, uniform.prediction_layers), (64, 0, 0));
    let keys = [
        ("feed_forward_length", Some(vec![32_u32, 64, 128, 256].into())),
        ("attention.head_count", Some(vec![4_i32, 8, 4, 2].into())),
        ("attention.head_count_kv", Some(vec![4_u16, 2, 1, 2].into())),
        ("attention.key_length", Some(Value::U32(8))),
        ("nextn_predict_layers", Some(Value::U32(1))),
    ];
    let varying = shape(&keys).expect("a shape");
    assert_eq!(
        sizes(&varying),
        [[4, 4, 8, 32], [8, 2, 8, 64], [4, 1, 8, 128], [2, 2, 8, 256]]
    );
    assert_eq!(varying.prediction_layers, 1);
}

/// Without `head_count_kv`, each query head has keys; without `key_length`, the query heads of the
/// first layer share the width.
#[test]
fn missing_keys_have_the_defaults_of_llama_cpp() {
    let keys = [
        ("attention.head_count", Some(vec![2_u32, 4, 4, 8].into())),
        ("attention.head_count_kv", None),
    ];
    let attention: Vec<_> = sizes(&shape(&keys).expect("a shape"));
    assert_eq!(attention.iter().map(|sizes| sizes[1]).collect::<Vec<_>>(), [2, 4, 4, 8]);
    assert!(attention.iter().all(|sizes| sizes[2] == 32));
    for key in [
        "block_count",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
    ] {
        let error = shape(&[(key, None)]).expect_err("it is refused");
        assert!(error.contains(&format!("'llama.{key}' is missing")), "{error}");
    }
}

#[test]
fn arrays_of_another_length_are_refused() {
    for key in ["feed_forward_length", "attention.head_count", "attention.head_count_kv"] {
        for length in [0_usize, 1, 3, 5] {
            let error = shape_with(key, vec![2_u32; length]).expect_err("it is refused");
            let expected = format!("'llama.{key}' is invalid: it has {length} values, but the model has 4 layers");
            assert!(error.contains(&expected), "{error}");
        }
    }
    // Each of these is one number for the whole model.
    for key in ["block_count", "embedding_length", "attention.key_length"] {
        let error = shape_with(key, vec![8_u32; 4]).expect_err("it is refused");
        assert!(error.contains(key) && error.contains("is an array"), "{error}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_layer() {
    for (key, value, expected) in [
        ("block_count", Value::U32(0), "its value is 0"),
        (
            "block_count",
            Value::U32(1 << 31),
            "its value is 2147483648, but must be from 1 to 4096",
        ),
        ("block_count", Value::U64(1 << 32), "(4294967296)"),
        ("block_count", Value::I32(-1), "(-1)"),
        ("embedding_length", Value::U32(1 << 21), "from 1 to 1048576"),
        ("attention.head_count", Value::U32(0), "its value is 0"),
        (
            "attention.head_count",
            vec![4_u32, 4, 0, 4].into(),
            "its value for layer 2 is 0",
        ),
        (
            "attention.head_count_kv",
            vec![2_u32, 2, 2, 0].into(),
            "its value for layer 3 is 0",
        ),
        (
            "feed_forward_length",
            vec![128_u32, 1 << 21, 1, 1].into(),
            "its value for layer 1 is 2097152",
        ),
        (
            "feed_forward_length",
            vec![128_i32, 128, -128, 128].into(),
            "non-negative integers",
        ),
        (
            "feed_forward_length",
            vec![128.0_f32; 4].into(),
            "an array of 32-bit floats",
        ),
        (
            "attention.head_count_kv",
            vec![2_u32, 3, 2, 2].into(),
            "layer 1 has 3 KV heads",
        ),
        ("attention.key_length", Value::U32(15), "a width of 15"),
        ("attention.head_count", Value::U32(128), "a width of 0"),
        ("nextn_predict_layers", Value::U32(5), "its value is 5"),
    ] {
        let error = shape_with(key, value).expect_err("it is refused");
        assert!(error.contains(key) && error.contains(expected), "{key}: {error}");
    }
}

/// A layer that has only one of its parts has only the linears of this part.
#[test]
fn a_layer_has_the_linears_of_its_parts() {
    let layer = shape(&[]).expect("a shape").layers[0];
    let names = |layer: &LayerShape| layer.linears().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&layer), LinearName::ALL);
    let of_part = |part| {
        let linears = LinearName::ALL.iter().copied();
        linears.filter(|name| name.part() == part).collect::<Vec<_>>()
    };
    let attention = LayerShape {
        feed_forward: None,
        ..layer
    };
    assert_eq!(names(&attention), of_part(LayerPart::Mixer));
    let feed_forward = LayerShape { mixer: None, ..layer };
    assert_eq!(names(&feed_forward), of_part(LayerPart::FeedForward));
}

#[test]
fn shapes_are_those_of_the_weights() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    for architecture in Architecture::ALL {
        let gguf = Gguf::open(folder.join(format!("{architecture}.gguf"))).expect("the fixture opens");
        let shape = ModelShape::from_gguf(&gguf, *architecture).expect("a shape");
        for (index, layer) in shape.layers.iter().enumerate() {
            for (name, [outputs, inputs]) in layer.linears() {
                let fused = architecture.fused_in(&gguf, index, name);
                let tensor = fused.map_or(name.gguf(), FusedLinear::gguf);
                let shape = match fused {
                    Some(fused) => fused.shape(layer).expect("all parts"),
                    None => [outputs, inputs],
                };
                let weight = gguf.info(&format!("blk.{index}.{tensor}.weight")).expect("the weight");
                let expected = [shape[1] as u64, shape[0] as u64];
                assert_eq!(weight.shape, expected, "{architecture} {index} {name}");
            }
        }
        let embedding = gguf.info("token_embd.weight").expect("the embedding");
        assert_eq!(embedding.shape, [shape.width as u64, shape.vocab as u64]);
    }
}
