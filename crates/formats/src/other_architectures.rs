//! Architectures that Hearth does not support, for messages.
//!
//! The names are from llama.cpp's `llama-arch.cpp`, as are the recurrent ones and those that write
//! by diffusion (`llm_arch_is_...`); the others follow from the tensors and graphs in its `models`.

use crate::{Architecture, shortened};

/// A group of architectures.
struct Group {
    /// The reason that they are not supported, or what else runs them, after "which".
    reason: &'static str,
    /// Whether a later version may support them.
    may_follow: bool,
    names: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        reason: "has recurrent layers",
        may_follow: true,
        names: &[
            "arwkv7",
            "falcon-h1",
            "lfm2",
            "mamba",
            "mamba2",
            "nemotron_h",
            "plamo2",
            "qwen35",
            "rwkv6",
            "rwkv6qwen2",
            "rwkv7",
        ],
    },
    Group {
        reason: "has recurrent layers and mixtures of experts",
        may_follow: true,
        names: &[
            "bailingmoe3",
            "glm5-next",
            "granitehybrid",
            "jamba",
            "kimi-k3",
            "kimi-linear",
            "lfm2moe",
            "minimax-01",
            "nemotron_h_moe",
            "qwen35moe",
            "qwen3next",
            "qwen4exp",
        ],
    },
    Group {
        reason: "has mixtures of experts",
        may_follow: true,
        names: &[
            "afmoe",
            "arctic",
            "bailingmoe",
            "bailingmoe2",
            "cohere2moe",
            "dbrx",
            "deepseek",
            "deepseek2",
            "deepseek2-ocr",
            "deepseek32",
            "deepseek4",
            "dots1",
            "dots3note",
            "ernie4_5-moe",
            "exaone-moe",
            "glm-dsa",
            "glm4moe",
            "gpt-oss",
            "granitemoe",
            "grok",
            "grovemoe",
            "hunyuan-moe",
            "hy_v3",
            "hy_v4",
            "laguna",
            "llama4",
            "maple",
            "mellum",
            "mimo2",
            "minimax-m2",
            "minimax-m3",
            "mistral4",
            "olmoe",
            "phimoe",
            "qwen2moe",
            "qwen3moe",
            "qwen3vlmoe",
            "smallthinker",
            "step35",
        ],
    },
    Group {
        reason: "llama.cpp runs",
        may_follow: true,
        names: &[
            "apertus",
            "arcee",
            "baichuan",
            "bitnet",
            "bloom",
            "chameleon",
            "chatglm",
            "codeshell",
            "cogvlm",
            "cohere2",
            "command-r",
            "deci",
            "ernie4_5",
            "exaone",
            "exaone4",
            "falcon",
            "gemma",
            "gemma3n",
            "gemma4",
            "glm4",
            "gpt2",
            "gptneox",
            "granite_swa",
            "graniteswitch",
            "hrm_text",
            "hunyuan-dense",
            "hunyuan_vl",
            "internlm2",
            "jais",
            "jais2",
            "maincoder",
            "minicpm",
            "minicpm3",
            "mpt",
            "muse-glimmer",
            "nanbeige",
            "nemotron",
            "olmo",
            "openelm",
            "orion",
            "paddleocr",
            "pangu-embedded",
            "phi2",
            "plamo",
            "plamo3",
            "plm",
            "qwen",
            "qwen2vl",
            "qwen3vl",
            "refact",
            "seed_oss",
            "spark2_5",
            "stablelm",
            "starcoder",
            "starcoder2",
            "talkie",
            "xverse",
        ],
    },
    Group {
        reason: "writes text by diffusion",
        may_follow: true,
        names: &["dream", "llada", "llada-moe", "rnd1"],
    },
    Group {
        reason: "has an encoder",
        may_follow: true,
        names: &["t5"],
    },
    Group {
        reason: "computes embeddings and writes no text",
        may_follow: false,
        names: &[
            "bert",
            "eurobert",
            "gemma-embedding",
            "jina-bert-v2",
            "jina-bert-v3",
            "llama-embed",
            "modern-bert",
            "neo-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "t5encoder",
        ],
    },
    Group {
        reason: "writes speech and no text",
        may_follow: false,
        names: &["pockettts", "qwen3tts"],
    },
    Group {
        reason: "is a part of another model, for images or sound",
        may_follow: false,
        names: &["clip", "wavtokenizer-dec"],
    },
    Group {
        reason: "only drafts for another model",
        may_follow: false,
        names: &["dflash", "eagle3", "gemma4-assistant"],
    },
];

/// Maximum characters of a name in a message.
const MAX_NAME_CHARACTERS: usize = 40;
/// Maximum edits between a name and a similar one.
const MAX_EDITS: usize = 2;

impl Architecture {
    /// Says that an architecture is not supported, why if it is known, and which one is similar.
    /// Sentences, the last without its full stop.
    pub fn unsupported(name: &str) -> String {
        let shown = shortened(name, MAX_NAME_CHARACTERS);
        let refusal = format!("Hearth does not support the architecture '{shown}' yet");
        let all = format!("This version supports {}", Self::list());
        let later = "A newer version may support it.";
        let group = GROUPS.iter().find(|group| group.names.contains(&name));
        match (group, similar(name)) {
            (Some(Group { reason, may_follow, .. }), _) => {
                let later = if *may_follow {
                    format!(" {later}")
                } else {
                    String::new()
                };
                format!("{refusal}, which {reason}.{later} {all}")
            }
            (None, Some(similar)) => {
                format!("{refusal}. Its name is similar to '{similar}', which is supported. {later} {all}")
            }
            (None, None) => format!("{refusal}. {later} {all}"),
        }
    }
}

/// The supported architecture with the most similar name; `None` if all names differ much.
fn similar(name: &str) -> Option<Architecture> {
    // A short name differs in all of its letters from some other.
    if name.chars().count() > MAX_NAME_CHARACTERS || name.chars().count() <= MAX_EDITS {
        return None;
    }
    let distances = Architecture::ALL
        .iter()
        .map(|other| (edits(name, other.name()), *other));
    let (distance, similar) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= MAX_EDITS).then_some(similar)
}

/// The number of inserted, deleted and replaced characters between two texts (Levenshtein
/// distance).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The distances of the characters so far to each prefix of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, from_char) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, to_char) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from_char != *to_char);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_reason_or_a_similar_architecture() {
        for (name, expected) in [
            (
                "qwen35",
                "'qwen35' yet, which has recurrent layers. A newer version may",
            ),
            (
                "gpt-oss",
                "'gpt-oss' yet, which has mixtures of experts. A newer version may",
            ),
            ("exaone4", "'exaone4' yet, which llama.cpp runs. A newer version may"),
            (
                "bert",
                "which computes embeddings and writes no text. This version supports llama,",
            ),
            ("phi4", "'phi4' yet. Its name is similar to 'phi3'"),
            (
                "LLaMA",
                "'LLaMA' yet. A newer version may support it. This version supports llama,",
            ),
            ("x", "'x' yet. A newer version may support it."),
            ("", "'' yet. A newer version may support it."),
            ("a\u{1b}b", "'ab' yet."),
        ] {
            let message = Architecture::unsupported(name);
            assert!(message.contains(expected), "{name}: {message}");
        }
        assert!(Architecture::unsupported(&"phi3".repeat(100_000)).len() < 500);
    }

    #[test]
    fn each_name_is_in_one_group_and_not_supported() {
        let mut names: Vec<&str> = GROUPS.iter().flat_map(|group| group.names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| Architecture::named(name).is_none()));
        assert!(GROUPS.iter().all(|group| group.names.is_sorted()));
    }

    #[test]
    fn edits_are_counted() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abc", "ac", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((edits(from, to), edits(to, from)), (expected, expected), "{from} {to}");
        }
    }
}
