//! The patterns of llama.cpp's pre-tokenizers (`src/llama-vocab.cpp` and `src/unicode.cpp`).
//!
//! llama.cpp replaces the characters of a text beyond ASCII by their general category, so its
//! patterns know neither scripts nor the case of letters beyond ASCII where they name a category.
//! A pattern that names none has its own characters, but then every white space beyond ASCII is a
//! vertical tab. The patterns here give the same words.

use super::steps::{Pattern, Step, WhiteSpace};
use regex::Regex;
use std::sync::LazyLock;

/// Declares patterns, which are compiled on first use.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $pattern:expr, $white_space:ident;)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: Step = Step::Pattern(Pattern {
                regex: LazyLock::new(|| Regex::new($pattern).expect("a constant pattern, compiled by a test")),
                white_space: WhiteSpace::$white_space,
            });
        )*

        #[cfg(test)]
        pub(super) static ALL: &[&Step] = &[$(&$name,)*];
    };
}

/// English contractions in either case.
macro_rules! contraction {
    () => {
        "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
    };
}

/// A pattern in the style of cl100k: words and numbers, symbols, white space.
macro_rules! cl100k_style {
    ($words_and_numbers:expr, $not_symbols:literal) => {
        concat!($words_and_numbers, "| ?[^", $not_symbols, r"]+[\r\n]*|\s*[\r\n]+|\s+")
    };
    ($words_and_numbers:expr) => {
        cl100k_style!($words_and_numbers, r"\s\p{L}\p{N}")
    };
}

/// A pattern in the style of o200k: words that begin with letters of one class and end with those
/// of another, each with an optional suffix, then numbers, symbols, white space.
macro_rules! o200k_style {
    ($first:literal, $last:literal, $suffix:expr, $number:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?",
            $first,
            "*",
            $last,
            "+",
            $suffix,
            r"|[^\r\n\p{L}\p{N}]?",
            $first,
            "+",
            $last,
            "*",
            $suffix,
            "|",
            $number,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
        )
    };
}

/// The words and symbols of DeepSeek V3.
macro_rules! deepseek_words {
    () => {
        r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
    };
}

/// The characters that llama.cpp takes for Han.
macro_rules! han {
    () => {
        concat!(
            r"\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{f900}-\u{faff}\u{20000}-\u{2a6df}\u{2a700}-\u{2ebef}",
            r"\u{2f800}-\u{2fa1f}"
        )
    };
}

patterns! {
    GPT2 = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+", ButLast;
    LLAMA3 = cl100k_style!(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}")), ButLastOfLine;
    JAIS2 = cl100k_style!(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}")), PowersOfTwo;
    QWEN2 = cl100k_style!(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}")), ButLastOfLine;
    /// As Qwen 2's, with combining marks counted as letters.
    QWEN35 = cl100k_style!(
        concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"),
        r"\s\p{L}\p{M}\p{N}"
    ), ButLastOfLine;
    /// As Qwen 2's, without contractions.
    UFAKZEKA = cl100k_style!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"), ButLastOfLine;
    SEED_CODER = concat!(
        contraction!(),
        r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+"
    ), ButLastOfLine;
    /// Words may contain single spaces.
    EXAONE_MOE = concat!(
        contraction!(),
        r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+"
    ), ButLastOfLine;

    TEKKEN = o200k_style!(r"[\p{L}--a-z]", r"[\p{L}--A-Z]", "", r"\p{N}"), ButLastOfLine;
    GPT4O = o200k_style!(
        r"[\p{L}--a-z]", r"[\p{L}--A-Z]", concat!("(?:", contraction!(), ")?"), r"\p{N}{1,3}"
    ), ButLastOfLine;
    GRANITE = o200k_style!(
        r"[\p{L}\p{M}--a-z]", r"[\p{L}\p{M}--A-Z]", concat!("(?:", contraction!(), ")?"), r"\p{N}{1,3}"
    ), ButLastOfLine;
    /// llama.cpp does not distinguish the classes of letters.
    TINY_AYA = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:", contraction!(),
        r")?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
    ), ButLastOfLine;
    /// Nor here.
    YOUTU = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:", contraction!(),
        r")?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
    ), ButLastOfLine;
    /// llama.cpp applies it by code, in which combining marks are not letters.
    KIMI_K2 = concat!(
        "[", han!(), r"]+|[^\r\n\p{L}\p{N}]?[\p{L}--[", han!(), "]]+(?:", contraction!(),
        r")?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
    ), ButLastOfLine;

    DEEPSEEK_V3 = concat!(deepseek_words!(), r"[\r\n]*|\s*[\r\n]+|\s+"), ButLastOfLine;
    SPARK = concat!(deepseek_words!(), r"|[\r\n]|\s+"), ButLast;

    DIGIT = r"\p{N}", Whole;
    UP_TO_THREE_DIGITS = r"\p{N}{1,3}", Whole;
    NUMBER = r"\p{N}+", Whole;
    THREE_ASCII_DIGITS = "[0-9]{3}", Whole;
    PUNCTUATION = r"[\p{P}$+<=>^~|]+", Whole;
    PUNCTUATION_AND_BACKTICKS = r"[\p{P}$+<=>^~|`]+", Whole;
    ONE_PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]", Whole;
    LINE_BREAK = r"[\r\n]", Whole;
    LINE_OR_BREAKS = r"[^\n]+|\n+", Whole;
    SPACE_AND_LETTERS = r"\s?\p{L}+", Whole;
    SPACE_AND_PUNCTUATION = r"\s?\p{P}+", Whole;
    SPACE_AT_END = r"\s+$", Whole;
    HAN_OR_KANA = r"[\u{4e00}-\u{9fa5}\u{3040}-\u{30ff}]+", Whole;
    /// From Devanagari's neighbors to Han, and Hangul.
    EAST = r"[\u{800}-\u{9fa5}\u{ac00}-\u{d7ff}&&\S]+", Whole;
    BLOOM = " ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+", Whole;
    /// Letters with case. Not a category: the list is of an older Unicode.
    DEEPSEEK_LETTERS = concat!(
            r"\s?[",
            r"A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}",
            r"\u{295}-\u{2af}\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}",
            r"\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}",
            r"\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}",
            r"\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}",
            r"\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}",
            r"\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}",
            r"\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}",
            r"\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}",
            r"\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}",
            r"\u{2145}-\u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}",
            r"\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}",
            r"\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}",
            r"\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}",
            r"\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}",
            r"\u{1e900}-\u{1e943}",
            r"]+",
    ), Whole;
    DEEPSEEK_SYMBOLS = r"\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3001}\u{3002}]+", Whole;
    YOUTU_SCRIPTS = concat!(
        r"[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+",
        r"|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+",
        r"|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{30ff}]+"
    ), Whole;
    /// Asian scripts. llama.cpp's range of compatibility ideographs begins at U+8C48, to which
    /// U+F900 was normalized.
    AFMOE_SCRIPTS = concat!(
        r"[\u{e40}-\u{eff}\u{1000}-\u{109f}\u{1100}-\u{11ff}\u{1780}-\u{17ff}\u{2f00}-\u{2fdf}\u{3040}-\u{30ff}",
        r"\u{3400}-\u{4dbf}\u{4e00}-\u{faff}\u{ff65}-\u{ff9f}]+"
    ), Whole;
    SENTINEL = "<sentinel:[0-9]+>", Whole;
    IMAGE = "IMGIMG[A-I]{1,4}Z", Whole;
    CHAMELEON_SPACE = r"[\t\n]|    |  ", Whole;
}
