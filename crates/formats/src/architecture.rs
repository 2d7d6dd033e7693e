//! The architectures that Hearth supports: their names and what adapters must know of them.
//! `hearth_llm::arch` has one file for each, with what its layers compute.

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

            /// The row order of Q and K in a GGUF.
            pub const fn row_order(self) -> RowOrder {
                match self { $(Self::$variant => RowOrder::$row_order,)* }
            }

            /// Whether llama.cpp applies the scales of whole tensors (`NAME.scale`) to a
            /// feed-forward's linears.
            pub const fn has_ffn_scales(self) -> bool {
                match self { $(Self::$variant => $ffn_scales,)* }
            }
        }
    };
}

// The row order is determined by llama.cpp's converter, and the scales by its calls of `build_ffn`:
// check there before adding a row.
architectures! {
    Llama "llama" Interleaved true;
    Qwen2 "qwen2" Same false;
    Qwen3 "qwen3" Same true;
    Gemma3 "gemma3" Same false;
}

impl Architecture {
    /// The architecture of this name; `None` if Hearth does not support it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|architecture| architecture.name() == name)
    }

    /// All names, for a sentence: `a, b and c`.
    pub fn list() -> String {
        listed(Self::ALL.iter().map(|architecture| architecture.name()))
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names in a sentence: `a, b and c`.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all = names.collect::<Vec<_>>().join(", ");
    match all.rsplit_once(", ") {
        Some((before, last)) => format!("{before} and {last}"),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_them() {
        let names: Vec<_> = Architecture::ALL.iter().map(|one| format!("`{one}`")).collect();
        let list = listed(names.iter().map(String::as_str));
        let readme = include_str!("../../../README.md");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words(readme).contains(&format!("GGUF files of the {list} architectures")),
            "{list}"
        );
    }
}
