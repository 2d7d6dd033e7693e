//! The models of each architecture, and the real files that Hearth was checked with.
//! `docs/MODELS.md` is written from them and from the fixtures, and the window says which
//! architectures were never seen with real weights.

use crate::Architecture;

impl Architecture {
    /// The models that have it.
    pub const fn models(self) -> &'static str {
        match self {
            Self::Llama => "Llama 2 to 3.3, SmolLM 2, Mistral 7B, Nemo and Small",
            Self::Qwen2 => "Qwen 2, Qwen 2.5",
            Self::Qwen3 => "Qwen 3 without experts",
            Self::Gemma3 => "Gemma 3",
            Self::Mistral3 => "Ministral 3, newer files of Mistral Small 3",
            Self::Phi3 => "Phi 3, 3.5 and 4 without experts",
            Self::Granite => "Granite 3 and 4 without experts or recurrent layers",
            Self::SmolLm3 => "SmolLM 3",
            Self::Gemma2 => "Gemma 2",
            Self::Olmo2 => "OLMo 2, Olmo 3",
        }
    }

    /// A file with real weights that Hearth was checked with. `None` means that no real file was
    /// seen: only models with random weights were.
    pub const fn real_file(self) -> Option<&'static str> {
        match self {
            Self::Llama => Some("SmolLM2-135M-Instruct.Q4_1.gguf"),
            Self::Qwen2
            | Self::Qwen3
            | Self::Gemma3
            | Self::Mistral3
            | Self::Phi3
            | Self::Granite
            | Self::SmolLm3
            | Self::Gemma2
            | Self::Olmo2 => None,
        }
    }
}
