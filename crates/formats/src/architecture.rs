//! The supported architectures: their names, and their differences in adapters and merged files.
//! `hearth_llm::arch` implements them.

use crate::adapter::RowOrder;
use std::fmt;

/// Declares [`Architecture`] from one table.
macro_rules! architectures {
    ($($variant:ident $name:literal $row_order:ident $ffn_scales:literal;)*) => {
        /// An architecture, as `general.architecture` names it in a GGUF.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Architecture {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Architecture {
            /// All architectures.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in a GGUF: `llama`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The row order of the Q and K weights in a GGUF.
            pub const fn row_order(self) -> RowOrder {
                match self { $(Self::$variant => RowOrder::$row_order,)* }
            }

            /// Whether llama.cpp applies tensor scales (`NAME.scale`) to the feed-forward weights.
            pub const fn has_ffn_scales(self) -> bool {
                match self { $(Self::$variant => $ffn_scales,)* }
            }
        }
    };
}

// The row order comes from llama.cpp's converter, and the scales from its calls of `build_ffn`.
architectures! {
    Llama "llama" Interleaved true;
    Qwen2 "qwen2" Same false;
    Qwen3 "qwen3" Same true;
    Gemma3 "gemma3" Same false;
    Mistral3 "mistral3" Interleaved true;
    Phi3 "phi3" Same false;
    Granite "granite" Interleaved false;
    SmolLm3 "smollm3" Interleaved false;
    Gemma2 "gemma2" Same false;
    Olmo2 "olmo2" Same false;
}

impl Architecture {
    /// The architecture of this name; `None` if Hearth does not support it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|architecture| architecture.name() == name)
    }

    /// All names as a list in a sentence: `a, b and c`.
    pub fn list() -> String {
        listed(Self::ALL.iter().map(|architecture| architecture.name()))
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names as a list in a sentence: `a, b and c`.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let list = names.collect::<Vec<_>>().join(", ");
    match list.rsplit_once(", ") {
        Some((others, last)) => format!("{others} and {last}"),
        None => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_them() {
        let names: Vec<_> = Architecture::ALL
            .iter()
            .map(|architecture| format!("`{architecture}`"))
            .collect();
        let list = listed(names.iter().map(String::as_str));
        let readme = include_str!("../../../README.md");
        let unwrapped = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            unwrapped.contains(&format!("GGUF files of the {list} architectures")),
            "{list}"
        );
    }
}
