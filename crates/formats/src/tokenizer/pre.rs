//! Pre-tokenizers: split a text into words, inside which BPE merges. A file names its pre-tokenizer
//! in `tokenizer.ggml.pre`.
//!
//! The published patterns use a look-ahead, `\s+(?!\S)`, which matches white space except the last
//! character before a word. The `regex` crate has no look-ahead, so the patterns here match all
//! white space, and [`Pattern::find`] drops the last character.

use regex::Regex;
use std::ops::{ControlFlow, Range};
use std::sync::LazyLock;

/// A pre-tokenizer, with the related properties of its models.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    /// Patterns, each applied to the words of the previous one. Text between two matches is a word,
    /// too.
    patterns: &'static [&'static Pattern],
    /// Whether a word that is a token is encoded as this token, without applying merges.
    pub ignore_merges: bool,
    /// Default of `tokenizer.ggml.add_bos_token`.
    pub add_bos: bool,
}

impl PreTokenizer {
    /// The pre-tokenizer with this name. `None` if it is not supported.
    pub fn named(name: &str) -> Option<Self> {
        static DEFAULT: &[&Pattern] = &[&PUNCTUATION, &GPT2, &NUMBER, &THREE_DIGITS];
        static GPT2_ONLY: &[&Pattern] = &[&GPT2];
        static SINGLE_DIGITS: &[&Pattern] = &[&DIGIT, &GPT2];
        static QWEN2_ONLY: &[&Pattern] = &[&QWEN2];
        static QWEN35_ONLY: &[&Pattern] = &[&QWEN35];
        static LLAMA3_ONLY: &[&Pattern] = &[&LLAMA3];
        let plain = |patterns| Self {
            patterns,
            ignore_merges: false,
            add_bos: false,
        };
        Some(match name {
            "default" => plain(DEFAULT),
            "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "gigachat" | "jina-v2-es" | "jina-v2-de" | "a.x-4.0"
            | "mellum" | "modern-bert" | "mpt" | "olmo" | "jais" | "exaone4" | "trillion" | "granite-docling" => {
                plain(GPT2_ONLY)
            }
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
                plain(SINGLE_DIGITS)
            }
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "stablelm2" | "hunyuan" | "megrez" => {
                plain(QWEN2_ONLY)
            }
            "qwen35" => plain(QWEN35_ONLY),
            "dbrx" | "smaug-bpe" | "glm4" | "glm5" | "chatglm-bpe" => plain(LLAMA3_ONLY),
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => Self {
                patterns: LLAMA3_ONLY,
                ignore_merges: true,
                add_bos: true,
            },
            _ => return None,
        })
    }

    /// Calls `visit` with each word of a text, in order, until it breaks. The words concatenate to
    /// the text.
    pub fn split(&self, text: &str, visit: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        split_by(self.patterns, text, visit)
    }
}

/// A pattern of words.
struct Pattern {
    regex: LazyLock<Regex>,
    /// Whether the regex has an alternative without look-ahead for white space that ends with a
    /// line break.
    newline_alternative: bool,
}

/// Declares patterns, which are compiled on first use.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $pattern:expr, newline_alternative: $newline_alternative:literal;)*) => {
        $(
            $(#[$doc])*
            static $name: Pattern = Pattern {
                regex: LazyLock::new(|| Regex::new($pattern).expect("a constant pattern, compiled by a test")),
                newline_alternative: $newline_alternative,
            };
        )*

        #[cfg(test)]
        static ALL: &[&Pattern] = &[$(&$name,)*];
    };
}

/// A pattern in the style of cl100k: English contractions in either case, words and numbers,
/// symbols, white space.
macro_rules! cl100k_style {
    ($words_and_numbers:literal, $not_symbols:literal) => {
        concat!(
            "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|",
            $words_and_numbers,
            "| ?[^",
            $not_symbols,
            r"]+[\r\n]*|\s*[\r\n]+|\s+"
        )
    };
}

patterns! {
    GPT2 = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+", newline_alternative: false;
    LLAMA3 = cl100k_style!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", r"\s\p{L}\p{N}"), newline_alternative: true;
    QWEN2 = cl100k_style!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", r"\s\p{L}\p{N}"), newline_alternative: true;
    /// As Qwen 2's, with combining marks counted as letters.
    QWEN35 = cl100k_style!(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}", r"\s\p{L}\p{M}\p{N}"), newline_alternative: true;
    DIGIT = r"\p{N}", newline_alternative: false;
    NUMBER = r"\p{N}+", newline_alternative: false;
    THREE_DIGITS = "[0-9]{3}", newline_alternative: false;
    PUNCTUATION = r"[\p{P}$+<=>^~|]+", newline_alternative: false;
}

fn split_by(patterns: &[&Pattern], text: &str, visit: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    let Some((pattern, inner)) = patterns.split_first() else {
        return visit(text);
    };
    let mut start = 0;
    while start < text.len() {
        let word = pattern.find(text, start);
        if word.start > start {
            split_by(inner, &text[start..word.start], visit)?;
        }
        if !word.is_empty() {
            split_by(inner, &text[word.clone()], visit)?;
        }
        start = word.end;
    }
    ControlFlow::Continue(())
}

impl Pattern {
    /// The first match at or after `start`, or an empty range at the end of the text.
    fn find(&self, text: &str, start: usize) -> Range<usize> {
        let Some(found) = self.regex.find_at(text, start) else {
            return text.len()..text.len();
        };
        let matched = found.as_str();
        let is_newline_alternative = self.newline_alternative && matched.ends_with(['\r', '\n']);
        let is_before_word = found.end() < text.len();
        match matched.chars().next_back() {
            Some(last)
                if is_before_word
                    && !is_newline_alternative
                    && last.len_utf8() < matched.len()
                    && matched.chars().all(char::is_whitespace) =>
            {
                found.start()..found.end() - last.len_utf8()
            }
            _ => found.range(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let flow = PreTokenizer::named(name).unwrap().split(text, &mut |word| {
            words.push(word.to_owned());
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        words
    }

    #[test]
    fn patterns_compile() {
        for pattern in ALL {
            assert!(!pattern.regex.as_str().is_empty());
        }
    }

    #[test]
    fn known_splits() {
        for (name, text, expected) in [
            ("gpt-2", "", vec![]),
            (
                "gpt-2",
                "Hello  world\n\n x",
                vec!["Hello", " ", " world", "\n\n", " x"],
            ),
            ("gpt-2", "it's 123!? ", vec!["it", "'s", " 123", "!?", " "]),
            ("gpt-2", "\t\tx", vec!["\t", "\t", "x"]),
            ("smollm", "a 12  3", vec!["a", " ", "1", "2", "  ", "3"]),
            (
                "qwen2",
                "I'M 12\r\n \n\tend",
                vec!["I", "'M", " ", "1", "2", "\r\n \n", "\tend"],
            ),
            ("qwen2", "if x:\n    y", vec!["if", " x", ":\n", "   ", " y"]),
            ("llama-bpe", "12345", vec!["123", "45"]),
            ("default", "a+b 1234", vec!["a", "+", "b", " ", "123", "4"]),
            ("qwen35", "e\u{301}x", vec!["e\u{301}x"]),
            ("qwen2", "e\u{301}x", vec!["e", "\u{301}x"]),
        ] {
            assert_eq!(words(name, text), expected, "{name}: {text:?}");
        }
    }
}
