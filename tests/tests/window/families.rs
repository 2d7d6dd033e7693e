//! Tiny files of the families of models: a fixture with random weights, to which a real chat
//! template and its control tokens are added.

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, TensorHeader};
use hearth_tests::paths;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A family, and what the window should show of it.
pub struct Family {
    /// The name of its models.
    pub name: &'static str,
    /// A file in `tests/fixtures/models`.
    pub fixture: &'static str,
    /// Its `general.architecture`.
    pub architecture: &'static str,
    /// A file in `tests/fixtures/templates/llama.cpp`, if that has one of the family.
    template: Option<&'static str>,
    /// The control tokens that the template writes.
    controls: &'static [&'static str],
    /// Whether it thinks by default. `None` means that the template has no switch.
    pub thinks: Option<bool>,
    /// The modules that PEFT's settings of an adapter name for attention and feed-forward.
    pub modules: [&'static str; 2],
}

/// Names of modules in most families.
const SEPARATE: [&str; 2] = ["q_proj", "gate_proj"];

/// Every family, newest support first, each with the shape of the fixture that covers it.
pub const FAMILIES: [Family; 10] = [
    Family {
        name: "Mistral Nemo",
        fixture: "mistral",
        architecture: "llama",
        template: Some("mistralai-Mistral-Nemo-Instruct-2407"),
        controls: &["[INST]", "[/INST]"],
        thinks: None,
        modules: SEPARATE,
    },
    Family {
        name: "Ministral 3",
        fixture: "mistral3",
        architecture: "mistral3",
        template: Some("mistralai-Ministral-3-14B-Reasoning-2512"),
        controls: &[
            "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]",
            "[INST]",
            "[/INST]",
            "[THINK]",
            "[/THINK]",
        ],
        thinks: None,
        modules: SEPARATE,
    },
    Family {
        name: "Phi 3.5",
        fixture: "phi3",
        architecture: "phi3",
        template: Some("microsoft-Phi-3.5-mini-instruct"),
        controls: &["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"],
        thinks: None,
        modules: ["qkv_proj", "gate_up_proj"],
    },
    Family {
        name: "Granite 3.3",
        fixture: "granite",
        architecture: "granite",
        template: Some("ibm-granite-granite-3.3-2B-Instruct"),
        controls: &["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"],
        thinks: Some(false),
        modules: SEPARATE,
    },
    Family {
        name: "SmolLM3",
        fixture: "smollm3",
        architecture: "smollm3",
        template: Some("HuggingFaceTB-SmolLM3-3B"),
        controls: &["<|im_start|>", "<|im_end|>"],
        thinks: Some(true),
        modules: SEPARATE,
    },
    Family {
        name: "Gemma 2",
        fixture: "gemma2",
        architecture: "gemma2",
        template: Some("google-gemma-2-2b-it"),
        controls: &["<start_of_turn>", "<end_of_turn>"],
        thinks: None,
        modules: SEPARATE,
    },
    // A base model: the folder has no template of OLMo 2.
    Family {
        name: "OLMo 2",
        fixture: "olmo2",
        architecture: "olmo2",
        template: None,
        controls: &[],
        thinks: None,
        modules: SEPARATE,
    },
    Family {
        name: "Llama 3.2",
        fixture: "llama3",
        architecture: "llama",
        template: Some("meta-llama-Llama-3.2-3B-Instruct"),
        controls: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        thinks: None,
        modules: SEPARATE,
    },
    Family {
        name: "Qwen 2.5",
        fixture: "qwen2",
        architecture: "qwen2",
        template: Some("Qwen-Qwen2.5-7B-Instruct"),
        controls: &["<|im_start|>", "<|im_end|>"],
        thinks: None,
        modules: SEPARATE,
    },
    Family {
        name: "Qwen 3",
        fixture: "qwen3",
        architecture: "qwen3",
        template: Some("Qwen-Qwen3-0.6B"),
        controls: &["<|im_start|>", "<|im_end|>"],
        thinks: Some(true),
        modules: SEPARATE,
    },
];

/// A context that holds a few turns: a token is a byte or little more.
const CONTEXT: u32 = 4096;

/// Type of a control token in `tokenizer.ggml.token_type`.
const CONTROL: i32 = 3;

impl Family {
    /// The source of its chat template.
    pub fn template(&self) -> Option<String> {
        let folder = paths::root().join("tests/fixtures/templates/llama.cpp");
        self.template.map(|name| {
            let path = folder.join(format!("{name}.jinja"));
            fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask setup tests`", path.display()))
        })
    }

    /// Writes a tiny file of the family into a folder.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let model = Gguf::open(fixture(self.fixture)).expect("a fixture");
        let mut metadata = model.metadata().clone();
        metadata.insert("general.name", self.name);
        metadata.insert(format!("{}.context_length", self.architecture), CONTEXT);
        if let Some(template) = self.template() {
            metadata.insert("tokenizer.chat_template", template.as_str());
        }
        add_controls(&mut metadata, self.controls);
        let path = folder.join(format!("{}.gguf", self.fixture));
        write_with(&path, &model, &metadata);
        path
    }
}

/// A fixture's file.
pub fn fixture(name: &str) -> PathBuf {
    paths::root().join(format!("tests/fixtures/models/{name}.gguf"))
}

/// Replaces the last tokens by control tokens. What was merged to them is written as bytes then.
fn add_controls(metadata: &mut Metadata, controls: &[&str]) {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    const KINDS: &str = "tokenizer.ggml.token_type";
    const MERGES: &str = "tokenizer.ggml.merges";
    let tokens = metadata
        .strings(TOKENS)
        .expect("strings")
        .expect("a vocabulary")
        .clone();
    let mut kinds = metadata
        .i32s(KINDS)
        .expect("numbers")
        .expect("a vocabulary")
        .into_owned();
    let start = tokens.len() - controls.len();
    let kept = tokens.iter().take(start).chain(controls.iter().copied());
    metadata.insert(TOKENS, kept.collect::<Strings>());
    kinds[start..].fill(CONTROL);
    metadata.insert(KINDS, kinds);
    if let Some(merges) = metadata.strings(MERGES).expect("strings").cloned() {
        let removed: Vec<String> = tokens.iter().skip(start).map(str::to_owned).collect();
        // A merge of a removed token is below the merge that makes it.
        let parts = |merge: &str| merge.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let is_kept = |merge: &&str| {
            let parts = parts(merge);
            !removed.contains(&parts.concat()) && !parts.iter().any(|part| removed.contains(part))
        };
        metadata.insert(MERGES, merges.iter().filter(is_kept).collect::<Strings>());
    }
}

/// Writes a copy of a model with other metadata.
fn write_with(path: &Path, model: &Gguf, metadata: &Metadata) {
    let headers: Vec<TensorHeader> = model
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    let file = File::create(path).expect("a file");
    let mut writer = GgufWriter::begin(file, metadata, &headers).expect("a header");
    for header in &headers {
        let tensor = model.tensor(&header.name).expect("a tensor");
        writer.tensor(tensor.bytes()).expect("a tensor is written");
    }
    writer.finish().expect("the file is written");
}
