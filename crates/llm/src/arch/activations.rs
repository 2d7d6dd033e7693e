//! The sizes of a layer's activations, for the plans of memory.

use super::spec::{DecoderSpec, FeedForwardSpec, LayerSpec, MixerSpec};

impl DecoderSpec {
    /// The largest of a size of the layers.
    pub fn largest(&self, size: impl Fn(&LayerSpec) -> usize) -> usize {
        self.layers.iter().map(size).max().unwrap_or(0)
    }
}

impl LayerSpec {
    /// Numbers per token of the activations on a CPU: the residual stream and its normalized copy,
    /// input and output of the mixer, and gate, up and their product.
    pub fn activations(&self) -> usize {
        let mixer = self.mixer.as_ref().map_or(0, MixerSpec::activations);
        2 * self.shape.width + mixer + 3 * self.ffn_width()
    }

    /// Columns of the widest activation: gate and up concatenated, or the inputs of the mixer.
    pub fn widest(&self) -> usize {
        let mixer = self.mixer.as_ref().map_or(0, MixerSpec::input_width);
        mixer.max(2 * self.ffn_width())
    }

    /// Bytes of the activations that a backward needs, for this number of tokens. Inputs of GEMMs
    /// are saved in bf16 if GEMMs round to it.
    pub fn saved_bytes(&self, tokens: usize, bf16: bool) -> usize {
        let gemm_bytes = if bf16 { size_of::<u16>() } else { size_of::<f32>() };
        let width = self.shape.width;
        let mixer = self.mixer.as_ref().map_or(0, |mixer| {
            // The residual stream before the mixer.
            width * gemm_bytes + mixer.saved_bytes(bf16)
        });
        let feed_forward = self.feed_forward.map_or(0, |FeedForwardSpec::Gated { .. }| {
            // The residual stream before the feed-forward, gate and up.
            (width + 2 * self.ffn_width()) * gemm_bytes
        });
        tokens * (mixer + feed_forward)
    }

    fn ffn_width(&self) -> usize {
        self.shape.ffn_width().unwrap_or(0)
    }
}

impl MixerSpec {
    /// Columns of the output of its first linear layers: Q, K and V concatenated.
    fn input_width(&self) -> usize {
        let Self::Attention { heads, .. } = self;
        heads.qkv_width()
    }

    /// Numbers per token of its input and output.
    fn activations(&self) -> usize {
        let Self::Attention { heads, .. } = self;
        2 * heads.qkv_width().max(heads.out_width())
    }

    /// Saved bytes per token after its first linear layers. The output is saved for the output
    /// linear, with bf16 also in f32 for attention, which saves Q, K, V and the log-sum-exps.
    fn saved_bytes(&self, bf16: bool) -> usize {
        const F32: usize = size_of::<f32>();
        let Self::Attention { heads, .. } = self;
        let output = if bf16 { size_of::<u16>() + F32 } else { F32 };
        heads.out_width() * output + (heads.qkv_width() + heads.heads) * F32
    }
}

#[cfg(test)]
mod tests {
    use crate::arch::{Config, describe};
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Gguf;
    use std::path::Path;

    /// The sizes of models with equal layers, by formulas of the whole layer.
    #[test]
    fn sizes_of_the_fixtures_are_those_of_their_formulas() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
        for architecture in Architecture::ALL {
            let gguf = Gguf::open(folder.join(format!("{architecture}.gguf"))).expect("the fixture opens");
            let optional = |key: &str| gguf.u32(&format!("{architecture}.{key}")).expect("a number");
            let number = |key: &str| optional(key).expect("the key") as usize;
            let (width, ffn) = (number("embedding_length"), number("feed_forward_length"));
            let (heads, kv_heads) = (number("attention.head_count"), number("attention.head_count_kv"));
            let head_dim = optional("attention.key_length").map_or(width / heads, |width| width as usize);
            let (qkv, output) = ((heads + 2 * kv_heads) * head_dim, heads * head_dim);
            let config = Config::from_gguf(&gguf).expect("a model");
            for layer in describe(&gguf, &config).expect("it is described").layers {
                assert_eq!(layer.activations(), 2 * width + 2 * qkv.max(output) + 3 * ffn);
                assert_eq!(layer.widest(), (2 * ffn).max(qkv));
                let inputs = 2 * width + output + 2 * ffn;
                assert_eq!(layer.saved_bytes(7, false), 7 * (4 * inputs + 4 * (qkv + heads)));
                assert_eq!(
                    layer.saved_bytes(7, true),
                    7 * (2 * inputs + 4 * (qkv + heads + output))
                );
            }
        }
    }
}
