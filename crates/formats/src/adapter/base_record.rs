//! The shape of an adapter's base model as a manifest records it: a size of its layers is a number,
//! or a list if the layers differ.

use super::BaseShape;
use crate::shape::{AttentionShape, FeedForwardShape, LayerShape, MAX_LAYERS, MixerShape};
use serde::{Deserialize, Serialize};

/// The fields of a manifest. A size is 0 in layers that do not have it.
#[derive(Serialize, Deserialize)]
pub(super) struct BaseRecord {
    architecture: String,
    layers: usize,
    width: usize,
    ffn_width: PerLayer,
    heads: PerLayer,
    kv_heads: PerLayer,
    head_dim: PerLayer,
    vocab: usize,
}

/// A size of each layer.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PerLayer {
    /// The size of all layers.
    All(usize),
    /// The sizes, if layers differ.
    Each(Vec<usize>),
}

impl PerLayer {
    fn new(sizes: Vec<usize>) -> Self {
        let first = sizes.first().copied().unwrap_or(0);
        if sizes.iter().all(|size| *size == first) {
            Self::All(first)
        } else {
            Self::Each(sizes)
        }
    }

    /// The size of each of `layers` layers.
    fn sizes(self, layers: usize) -> Result<Vec<usize>, String> {
        match self {
            Self::All(size) => Ok(vec![size; layers]),
            Self::Each(sizes) if sizes.len() == layers => Ok(sizes),
            Self::Each(sizes) => Err(format!("it has {} sizes for {layers} layers", sizes.len())),
        }
    }
}

/// A size of a layer; 0 if the layer does not have it.
pub(super) type LayerSize = fn(&LayerShape) -> usize;

pub(super) const FFN_WIDTH: LayerSize = |layer| layer.ffn_width().unwrap_or(0);
pub(super) const HEADS: LayerSize = |layer| layer.attention().map_or(0, |attention| attention.heads);
pub(super) const KV_HEADS: LayerSize = |layer| layer.attention().map_or(0, |attention| attention.kv_heads);
pub(super) const HEAD_DIM: LayerSize = |layer| layer.attention().map_or(0, |attention| attention.head_dim);

impl From<BaseShape> for BaseRecord {
    fn from(shape: BaseShape) -> Self {
        let sizes = |size: LayerSize| PerLayer::new(shape.layers.iter().map(size).collect());
        Self {
            layers: shape.layers.len(),
            width: shape.width,
            ffn_width: sizes(FFN_WIDTH),
            heads: sizes(HEADS),
            kv_heads: sizes(KV_HEADS),
            head_dim: sizes(HEAD_DIM),
            vocab: shape.vocab,
            architecture: shape.architecture,
        }
    }
}

impl TryFrom<BaseRecord> for BaseShape {
    type Error = String;

    fn try_from(record: BaseRecord) -> Result<Self, String> {
        let (layers, width) = (record.layers, record.width);
        if layers > MAX_LAYERS {
            return Err(format!(
                "its base model has {layers} layers, but at most {MAX_LAYERS} are known"
            ));
        }
        let ffn_widths = record.ffn_width.sizes(layers)?;
        let (heads, kv_heads) = (record.heads.sizes(layers)?, record.kv_heads.sizes(layers)?);
        let head_dims = record.head_dim.sizes(layers)?;
        let attention = |layer: usize| AttentionShape {
            heads: heads[layer],
            kv_heads: kv_heads[layer],
            head_dim: head_dims[layer],
        };
        let layer = |index: usize| LayerShape {
            width,
            mixer: (heads[index] > 0).then(|| MixerShape::Attention(attention(index))),
            feed_forward: (ffn_widths[index] > 0).then(|| FeedForwardShape::Gated {
                width: ffn_widths[index],
            }),
        };
        Ok(Self {
            layers: (0..layers).map(layer).collect(),
            width,
            vocab: record.vocab,
            architecture: record.architecture,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(field: &str, value: serde_json::Value) -> Result<BaseShape, String> {
        let mut manifest = json!({
            "architecture": "llama", "layers": 2, "width": 64, "ffn_width": 128, "heads": 4, "kv_heads": 2,
            "head_dim": 16, "vocab": 300,
        });
        manifest[field] = value;
        serde_json::from_value(manifest).map_err(|error| error.to_string())
    }

    #[test]
    fn equal_layers_have_one_size_and_others_a_list() {
        for (field, value) in [
            ("vocab", json!(300)),
            ("ffn_width", json!([128, 64])),
            ("kv_heads", json!([1, 2])),
        ] {
            let shape = read(field, value.clone()).expect("a shape");
            let written = serde_json::to_value(&shape).expect("it is written");
            assert_eq!(written[field], value);
            assert_eq!(written["heads"], json!(4));
        }
        let shape = read("ffn_width", json!([128, 64])).expect("a shape");
        assert_eq!(shape.layers.iter().map(FFN_WIDTH).collect::<Vec<_>>(), [128, 64]);
    }

    #[test]
    fn lists_of_another_length_and_too_many_layers_are_refused() {
        for (field, value, expected) in [
            ("ffn_width", json!([128, 64, 32]), "3 sizes for 2 layers"),
            ("heads", json!([]), "0 sizes for 2 layers"),
            ("layers", json!(1_u64 << 31), "at most 4096"),
            ("layers", json!(-1), "-1"),
        ] {
            let error = read(field, value).expect_err("it is refused");
            assert!(error.contains(expected), "{field}: {error}");
        }
    }
}
