//! The fake host's models: the headers of their files, without tensor data.

use hearth_engine::plan::ModelBytes;
use hearth_formats::gguf::{GgufHeader, GgufWriter, Metadata, TensorHeader, TensorType};
use hearth_llm::Config;

/// A model of the fake host.
pub struct Model {
    /// Its name in the recordings.
    pub name: &'static str,
    /// Contexts that are recorded besides the automatic one, in tokens.
    pub contexts: &'static [u32],
    /// Machines on which it is recorded; empty means all.
    pub machines: &'static [&'static str],
    architecture: &'static str,
    layers: u32,
    width: u32,
    ffn_width: u32,
    heads: [u32; 2],
    head_dim: u32,
    vocab: u32,
    context: u32,
    embedding: TensorType,
    linears: TensorType,
    /// Type of an output matrix. `None` means that it is the embedding.
    output: Option<TensorType>,
}

/// The hyperparameters and formats of the named models' published files; the fine-tuned "poet" is
/// made up.
pub const ALL: [Model; 4] = [
    Model {
        name: "smollm2-135m-instruct",
        contexts: &[2048, 8192, 32_768],
        machines: &[],
        architecture: "llama",
        layers: 30,
        width: 576,
        ffn_width: 1536,
        heads: [9, 3],
        head_dim: 64,
        vocab: 49_152,
        context: 8192,
        embedding: TensorType::Q8_0,
        linears: TensorType::Q4_1,
        output: None,
    },
    Model {
        name: "qwen3-0.6b",
        contexts: &[8192, 65_536],
        machines: &[],
        architecture: "qwen3",
        layers: 28,
        width: 1024,
        ffn_width: 3072,
        heads: [16, 8],
        head_dim: 128,
        vocab: 151_936,
        context: 40_960,
        embedding: TensorType::Q8_0,
        linears: TensorType::Q8_0,
        output: None,
    },
    Model {
        name: "added",
        contexts: &[1024],
        machines: &[],
        architecture: "qwen3",
        layers: 12,
        width: 384,
        ffn_width: 1024,
        heads: [6, 2],
        head_dim: 64,
        vocab: 32_000,
        context: 1024,
        embedding: TensorType::Q8_0,
        linears: TensorType::Q8_0,
        output: None,
    },
    Model {
        name: "llama-3.3-70b",
        contexts: &[8192, 65_536],
        machines: &["too-big"],
        architecture: "llama",
        layers: 80,
        width: 8192,
        ffn_width: 28_672,
        heads: [64, 8],
        head_dim: 128,
        vocab: 128_256,
        context: 131_072,
        embedding: TensorType::Q4_K,
        linears: TensorType::Q4_K,
        output: Some(TensorType::Q6_K),
    },
];

impl Model {
    /// Whether it is recorded on this machine.
    pub fn is_on(&self, machine: &str) -> bool {
        self.machines.is_empty() || self.machines.contains(&machine)
    }

    /// Its sizes and hyperparameters, as the engine reads them from a file.
    pub fn read(&self) -> (ModelBytes, Config) {
        let mut header = Vec::new();
        // The data is described, but never written.
        let _ = GgufWriter::begin(&mut header, &self.metadata(), &self.tensors()).expect("a valid header");
        let header = GgufHeader::from_reader(header.as_slice(), u64::MAX >> 1).expect("it is read");
        let config = Config::from_gguf(&header).expect("a model");
        (ModelBytes::from_header(&header, &config).expect("its sizes"), config)
    }

    fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", self.architecture);
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("feed_forward_length", self.ffn_width),
            ("attention.head_count", self.heads[0]),
            ("attention.head_count_kv", self.heads[1]),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
        ] {
            metadata.insert(format!("{}.{key}", self.architecture), value);
        }
        metadata
    }

    fn tensors(&self) -> Vec<TensorHeader> {
        let tensor = |name: String, shape: &[u32], kind| TensorHeader {
            name: format!("{name}.weight"),
            shape: shape.iter().copied().map(u64::from).collect(),
            kind,
        };
        let (width, ffn, vocab) = (self.width, self.ffn_width, self.vocab);
        let [queries, keys] = self.heads.map(|heads| heads * self.head_dim);
        let mut all = vec![tensor("token_embd".to_owned(), &[width, vocab], self.embedding)];
        for layer in 0..self.layers {
            for (name, shape) in [
                ("attn_q", [width, queries]),
                ("attn_k", [width, keys]),
                ("attn_v", [width, keys]),
                ("attn_output", [queries, width]),
                ("ffn_gate", [width, ffn]),
                ("ffn_up", [width, ffn]),
                ("ffn_down", [ffn, width]),
            ] {
                all.push(tensor(format!("blk.{layer}.{name}"), &shape, self.linears));
            }
            for name in ["attn_norm", "ffn_norm"] {
                all.push(tensor(format!("blk.{layer}.{name}"), &[width], TensorType::F32));
            }
            if self.architecture == "qwen3" {
                for name in ["attn_q_norm", "attn_k_norm"] {
                    all.push(tensor(format!("blk.{layer}.{name}"), &[self.head_dim], TensorType::F32));
                }
            }
        }
        all.push(tensor("output_norm".to_owned(), &[width], TensorType::F32));
        all.extend(
            self.output
                .map(|kind| tensor("output".to_owned(), &[width, vocab], kind)),
        );
        all
    }
}
