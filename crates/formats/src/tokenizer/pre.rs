//! Pre-tokenizers: how a text is cut before BPE merges inside the cuts. A file names its own in `tokenizer.ggml.pre`.
//!
//! The published patterns use a look-ahead, `\s+(?!\S)`, which takes white space up to the last before a word. No fast engine
//! has one, so the patterns here take all of it and [`Pattern::find`] gives the last character back.

use regex::Regex;
use std::ops::{ControlFlow, Range};
use std::sync::LazyLock;

/// One way of cutting, with what goes along with it.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    /// Patterns, each applied inside the cuts of the one before. What lies between two matches is a cut too.
    patterns: &'static [&'static Pattern],
    /// Whether a cut that is a token is taken as it is, whatever the merges would make of it.
    pub ignore_merges: bool,
    /// Whether such models want a BOS where the file does not say.
    pub add_bos: bool,
}

impl PreTokenizer {
    /// The pre-tokenizer of a name.
    pub fn named(name: &str) -> Option<Self> {
        static DEFAULT: &[&Pattern] = &[&PUNCTUATION, &GPT2, &NUMBER, &THREE_DIGITS];
        static GPT2_ALONE: &[&Pattern] = &[&GPT2];
        static DIGITS_APART: &[&Pattern] = &[&DIGIT, &GPT2];
        static QWEN2_ALONE: &[&Pattern] = &[&QWEN2];
        static QWEN35_ALONE: &[&Pattern] = &[&QWEN35];
        static LLAMA3_ALONE: &[&Pattern] = &[&LLAMA3];
        let plain = |patterns| Self {
            patterns,
            ignore_merges: false,
            add_bos: false,
        };
        Some(match name {
            "default" => plain(DEFAULT),
            "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "gigachat" | "jina-v2-es" | "jina-v2-de" | "a.x-4.0"
            | "mellum" | "modern-bert" | "mpt" | "olmo" | "jais" | "exaone4" | "trillion" | "granite-docling" => {
                plain(GPT2_ALONE)
            }
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
                plain(DIGITS_APART)
            }
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "stablelm2" | "hunyuan" | "megrez" => {
                plain(QWEN2_ALONE)
            }
            "qwen35" => plain(QWEN35_ALONE),
            "dbrx" | "smaug-bpe" | "glm4" | "glm5" | "chatglm-bpe" => plain(LLAMA3_ALONE),
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => Self {
                patterns: LLAMA3_ALONE,
                ignore_merges: true,
                add_bos: true,
            },
            _ => return None,
        })
    }

    /// Calls `word` with every cut of a text, in order, until it breaks. Together they are the text.
    pub fn cut(&self, text: &str, word: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        cut_by(self.patterns, text, word)
    }
}

/// One pattern.
struct Pattern {
    regex: LazyLock<Regex>,
    /// Whether white space up to a line's end is an alternative of its own, which the look-ahead does not concern.
    breaks_apart: bool,
}

/// Declares patterns; each is compiled when first used.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $pattern:expr, breaks_apart: $breaks_apart:literal;)*) => {
        $(
            $(#[$doc])*
            static $name: Pattern = Pattern {
                regex: LazyLock::new(|| Regex::new($pattern).expect("a constant pattern, compiled by a test")),
                breaks_apart: $breaks_apart,
            };
        )*

        #[cfg(test)]
        static ALL: &[&Pattern] = &[$(&$name,)*];
    };
}

/// English contractions in either case, then the end of most newer patterns.
macro_rules! newer {
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
    GPT2 = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+", breaks_apart: false;
    LLAMA3 = newer!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", r"\s\p{L}\p{N}"), breaks_apart: true;
    QWEN2 = newer!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", r"\s\p{L}\p{N}"), breaks_apart: true;
    /// As Qwen 2's, with combining marks counted as letters.
    QWEN35 = newer!(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}", r"\s\p{L}\p{M}\p{N}"), breaks_apart: true;
    DIGIT = r"\p{N}", breaks_apart: false;
    NUMBER = r"\p{N}+", breaks_apart: false;
    THREE_DIGITS = "[0-9]{3}", breaks_apart: false;
    PUNCTUATION = r"[\p{P}$+<=>^~|]+", breaks_apart: false;
}

fn cut_by(patterns: &[&Pattern], text: &str, word: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    let Some((pattern, inner)) = patterns.split_first() else {
        return word(text);
    };
    let mut done = 0;
    while done < text.len() {
        let found = pattern.find(text, done);
        if found.start > done {
            cut_by(inner, &text[done..found.start], word)?;
        }
        if !found.is_empty() {
            cut_by(inner, &text[found.clone()], word)?;
        }
        done = found.end;
    }
    ControlFlow::Continue(())
}

impl Pattern {
    /// The first match from `from` on; an empty one at the end where there is none.
    fn find(&self, text: &str, from: usize) -> Range<usize> {
        let Some(found) = self.regex.find_at(text, from) else {
            return text.len()..text.len();
        };
        let matched = found.as_str();
        let at_break = self.breaks_apart && matched.ends_with(['\r', '\n']);
        let before_word = found.end() < text.len();
        match matched.chars().next_back() {
            Some(last)
                if before_word
                    && !at_break
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

    fn cuts(name: &str, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let cut = PreTokenizer::named(name).unwrap().cut(text, &mut |word| {
            words.push(word.to_owned());
            ControlFlow::Continue(())
        });
        assert!(cut.is_continue());
        words
    }

    #[test]
    fn patterns_compile() {
        for pattern in ALL {
            assert!(!pattern.regex.as_str().is_empty());
        }
    }

    #[test]
    fn known_cuts() {
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
            assert_eq!(cuts(name, text), expected, "{name}: {text:?}");
        }
    }
}
