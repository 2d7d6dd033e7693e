//! Pre-tokenizers: split a text into words, inside which BPE merges. A file names its pre-tokenizer
//! in `tokenizer.ggml.pre`.

use super::sequences as steps;
use super::steps::{Step, divide};
use regex::Regex;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// A pre-tokenizer, with the related properties of its models.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    steps: &'static [&'static Step],
    /// Words that are encoded as one token if they are a token, without applying merges.
    pub whole_words: WholeWords,
    /// The units of words before merging.
    pub alphabet: Alphabet,
    /// Whether models expect BOS before a text.
    pub bos: Bos,
    /// Matches two characters between which a text can be cut: words end there, whatever surrounds
    /// them. `None` if only the vocabulary tells.
    cuts: Option<&'static LazyLock<Regex>>,
}

/// Which words are looked up as a token before merging.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WholeWords {
    None,
    /// Words of line breaks only.
    LineBreaks,
    All,
}

/// The units from which words are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Bytes. Token texts have a printable character for each.
    Bytes,
    /// Characters, with U+2581 for a space, as in SentencePiece. Characters that the
    /// vocabulary lacks become bytes after merging.
    Characters,
}

/// Whether BOS is added before a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bos {
    /// If the file says so.
    Omitted,
    /// Unless the file says otherwise.
    Added,
    /// Whatever the file says: published files of these models are wrong.
    Forced,
}

/// Declares patterns of two characters.
macro_rules! cuts {
    ($($(#[$doc:meta])* $name:ident = $pattern:expr;)*) => {
        $(
            $(#[$doc])*
            static $name: LazyLock<Regex> =
                LazyLock::new(|| Regex::new($pattern).expect("a constant pattern, compiled by a test"));
        )*
    };
}

cuts! {
    /// After a word or number. Not before an apostrophe, which may begin a contraction in the word.
    AFTER_WORD = r"[\p{L}\p{N}][^\p{L}\p{N}\p{M}']";
    /// As [`AFTER_WORD`], for words that may contain single spaces.
    AFTER_WORDS = r"[\p{L}\p{N}][^\p{L}\p{N}\p{M}' ]";
    /// As [`AFTER_WORD`], for words of any other characters than these.
    BEFORE_SPACE_OR_STOP = "[\\p{L}\\p{N}][\\s(|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]";
    /// As [`AFTER_WORD`], for scripts in which a word never contains a space.
    AFTER_WORD_IN_SCRIPT = r"[A-Za-z\u{4e00}-\u{9fa5}][^\p{L}\p{N}\p{M}'\u{800}-\u{9fa5}]";
    /// For words that contain all but numbers.
    AFTER_NUMBER = r"\p{N}\P{N}";
}

impl PreTokenizer {
    const fn new(steps: &'static [&'static Step]) -> Self {
        Self {
            steps,
            whole_words: WholeWords::None,
            alphabet: Alphabet::Bytes,
            bos: Bos::Omitted,
            cuts: Some(&AFTER_WORD),
        }
    }

    const fn whole(self, whole_words: WholeWords) -> Self {
        Self { whole_words, ..self }
    }

    const fn bos(self, bos: Bos) -> Self {
        Self { bos, ..self }
    }

    const fn characters(self) -> Self {
        Self {
            alphabet: Alphabet::Characters,
            cuts: None,
            ..self
        }
    }

    const fn cut(self, cuts: &'static LazyLock<Regex>) -> Self {
        Self {
            cuts: Some(cuts),
            ..self
        }
    }

    /// The pre-tokenizer with this name. `None` if it is not supported.
    pub fn named(name: &str) -> Option<Self> {
        let mut rows = TABLE.iter();
        rows.find(|(row_name, _)| *row_name == name).map(|(_, pre)| *pre)
    }

    /// Calls `visit` with each word of a text, in order, until it breaks. The words concatenate to
    /// the text.
    pub fn split(&self, text: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        divide(self.steps, text, visit)
    }

    /// The first two characters at or after `start` between which a text can be cut. The text's
    /// first ones if only the vocabulary tells.
    pub fn find_cut(&self, text: &str, start: usize) -> Option<usize> {
        match self.cuts {
            Some(cuts) => cuts.find_at(text, start).map(|found| found.start()),
            None => Some(start),
        }
    }
}

use PreTokenizer as P;

/// The pre-tokenizers of llama.cpp that split by patterns (`src/llama-vocab.cpp` as of
/// llama-cpp-python 0.3.36), by name.
///
/// Without `whitespace`, of an embedding model, which drops white space.
static TABLE: &[(&str, PreTokenizer)] = &[
    ("a.x-4.0", P::new(steps::GPT2)),
    ("afmoe", P::new(steps::AFMOE)),
    ("bailingmoe", P::new(steps::QWEN2)),
    ("bailingmoe2", P::new(steps::QWEN2)),
    ("bloom", P::new(steps::BLOOM).cut(&BEFORE_SPACE_OR_STOP)),
    ("chameleon", P::new(steps::CHAMELEON).bos(Bos::Added)),
    ("chatglm-bpe", P::new(steps::LLAMA3)),
    ("codeshell", P::new(steps::SINGLE_DIGITS)),
    ("cohere2moe", P::new(steps::TINY_AYA)),
    ("command-r", P::new(steps::SINGLE_DIGITS)),
    ("dbrx", P::new(steps::LLAMA3)),
    ("deepseek-coder", P::new(steps::DEEPSEEK_CODER)),
    ("deepseek-llm", P::new(steps::DEEPSEEK_LLM).cut(&AFTER_WORD_IN_SCRIPT)),
    ("deepseek-r1-qwen", P::new(steps::QWEN2)),
    ("deepseek-v3", P::new(steps::DEEPSEEK_V3)),
    ("default", P::new(steps::DEFAULT)),
    ("exaone", P::new(steps::SINGLE_DIGITS)),
    ("exaone-moe", P::new(steps::EXAONE_MOE).cut(&AFTER_WORDS)),
    ("exaone4", P::new(steps::GPT2)),
    ("f2llmv2", P::new(steps::QWEN2)),
    ("falcon", P::new(steps::FALCON)),
    ("falcon-h1", LLAMA3),
    ("falcon3", LLAMA3),
    ("gemma4", GEMMA4),
    ("gigachat", P::new(steps::GPT2)),
    ("glm4", P::new(steps::LLAMA3).whole(WholeWords::All)),
    ("glm5", P::new(steps::LLAMA3).whole(WholeWords::All)),
    ("gpt-2", P::new(steps::GPT2)),
    ("gpt-4o", P::new(steps::GPT4O)),
    ("gpt3-finnish", P::new(steps::BLOOM).cut(&BEFORE_SPACE_OR_STOP)),
    ("granite-docling", P::new(steps::GPT2)),
    ("granite-embed-multi-311m", GEMMA4),
    ("granite-embed-multi-97m", P::new(steps::GRANITE).whole(WholeWords::All)),
    ("grok-2", P::new(steps::QWEN2)),
    ("hunyuan", P::new(steps::QWEN2)),
    ("hunyuan-dense", P::new(steps::DEEPSEEK_V3)),
    ("hy_v4", P::new(steps::DEEPSEEK_V3)),
    ("jais", P::new(steps::GPT2)),
    ("jais-2", P::new(steps::JAIS2)),
    ("jina-de", P::new(steps::GPT2)),
    ("jina-es", P::new(steps::GPT2)),
    ("jina-v1-en", P::new(steps::GPT2)),
    ("jina-v2-code", P::new(steps::GPT2)),
    ("jina-v2-de", P::new(steps::GPT2)),
    ("jina-v2-es", P::new(steps::GPT2)),
    ("jina-v5-nano", LLAMA3),
    ("joyai-llm", P::new(steps::DEEPSEEK_V3)),
    ("kanana2", P::new(steps::GPT4O)),
    ("kimi-k2", P::new(steps::KIMI_K2)),
    ("kormo", P::new(steps::QWEN2)),
    ("laguna", P::new(steps::LAGUNA)),
    ("lfm2", LLAMA3),
    ("llada-moe", P::new(steps::QWEN2)),
    ("llama-bpe", LLAMA3),
    ("llama-v3", LLAMA3),
    ("llama3", LLAMA3),
    ("llama4", P::new(steps::GPT4O)),
    ("megrez", P::new(steps::QWEN2)),
    ("mellum", P::new(steps::GPT2)),
    ("mellum2", P::new(steps::SINGLE_DIGITS)),
    ("midm-2.0", LLAMA3),
    ("minerva-7b", P::new(steps::SINGLE_DIGITS)),
    ("minicpm5", P::new(steps::MINICPM5).whole(WholeWords::All)),
    ("minimax-m2", P::new(steps::GPT4O)),
    ("modern-bert", P::new(steps::GPT2)),
    ("mpt", P::new(steps::GPT2)),
    ("olmo", P::new(steps::GPT2)),
    ("phi-2", P::new(steps::GPT2)),
    ("pixtral", LLAMA3),
    ("poro-chat", P::new(steps::BLOOM).cut(&BEFORE_SPACE_OR_STOP)),
    ("qwen2", P::new(steps::QWEN2)),
    ("qwen35", P::new(steps::QWEN35)),
    ("refact", P::new(steps::SINGLE_DIGITS)),
    ("roberta-bpe", P::new(steps::GPT2)),
    ("sarvam-moe", P::new(steps::LINES).characters()),
    ("seed-coder", P::new(steps::SEED_CODER)),
    ("smaug-bpe", P::new(steps::LLAMA3)),
    ("smollm", P::new(steps::SINGLE_DIGITS)),
    ("solar-open", P::new(steps::QWEN2)),
    ("spark2_5", P::new(steps::SPARK)),
    ("stablelm2", P::new(steps::QWEN2)),
    ("starcoder", P::new(steps::SINGLE_DIGITS)),
    ("superbpe", P::new(steps::SUPERBPE).cut(&AFTER_NUMBER)),
    ("talkie", P::new(steps::GPT4O)),
    ("tekken", P::new(steps::TEKKEN).whole(WholeWords::All).bos(Bos::Added)),
    ("tiny_aya", P::new(steps::TINY_AYA)),
    ("trillion", P::new(steps::GPT2)),
    ("ufakzeka", P::new(steps::UFAKZEKA)),
    ("viking", P::new(steps::VIKING).cut(&BEFORE_SPACE_OR_STOP)),
    ("youtu", P::new(steps::YOUTU).whole(WholeWords::All)),
];

/// Llama 3's, of which there are many names.
static LLAMA3: PreTokenizer = P::new(steps::LLAMA3).whole(WholeWords::All).bos(Bos::Added);

/// Gemma 4's.
static GEMMA4: PreTokenizer = P::new(steps::LINES)
    .characters()
    .whole(WholeWords::LineBreaks)
    .bos(Bos::Forced);

#[cfg(test)]
mod tests {
    use super::super::patterns::ALL;
    use super::super::{Special, Tokenizer};
    use super::*;
    use crate::gguf::{Gguf, GgufWriter};
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::collections::BTreeSet;

    /// The file that `tests/fixtures/tokenizer/pre.py` writes.
    #[derive(Deserialize)]
    struct Fixture {
        /// Names of pre-tokenizers that give every text the same tokens.
        groups: Vec<Vec<String>>,
        /// Whether models of each group expect BOS before a text if the file does not say.
        adds_bos: Vec<bool>,
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        text: String,
        /// The different tokens of the text.
        ids: Vec<Vec<u32>>,
        /// Index of each group's tokens.
        of_group: Vec<usize>,
    }

    fn fixture() -> Fixture {
        let path = format!("{}/../../tests/fixtures/tokenizer/pre.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// A tokenizer of the fixtures' vocabulary with this pre-tokenizer.
    fn tokenizer(name: &str) -> Tokenizer {
        let pre = PreTokenizer::named(name).unwrap();
        let (file, model) = match pre.alphabet {
            Alphabet::Bytes => ("mixed", "gpt2"),
            Alphabet::Characters => ("gemma4", if name == "gemma4" { "gemma4" } else { "gpt2" }),
        };
        let path = format!(
            "{}/../../tests/fixtures/tokenizer/{file}.gguf",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut metadata = Gguf::open(path).unwrap().metadata().clone();
        metadata.insert("tokenizer.ggml.model", model);
        metadata.insert("tokenizer.ggml.pre", name);
        let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
        Tokenizer::from_gguf(&Gguf::from_bytes(file).unwrap()).unwrap()
    }

    fn words(pre: &PreTokenizer, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let flow = pre.split(text, &mut |word| {
            words.push(word.to_owned());
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        words
    }

    #[test]
    fn patterns_compile() {
        for step in ALL {
            if let Step::Pattern(pattern) = step {
                assert!(!pattern.regex.as_str().is_empty());
            }
        }
        for (name, pre) in TABLE {
            assert!(pre.cuts.is_none_or(|cuts| !cuts.as_str().is_empty()), "{name}");
            // The fixed patterns of numbers.
            assert_eq!(words(pre, "1").len(), 1, "{name}");
        }
    }

    #[test]
    fn rows_are_sorted_and_every_row_is_checked_with_llama_cpp() {
        assert!(TABLE.is_sorted_by(|(a, _), (b, _)| a < b));
        let fixture = fixture();
        let checked: BTreeSet<&str> = fixture.groups.iter().flatten().map(String::as_str).collect();
        let rows: BTreeSet<&str> = TABLE.iter().map(|(name, _)| *name).collect();
        assert_eq!(rows, checked);
    }

    #[test]
    fn every_row_gives_the_tokens_of_llama_cpp() {
        let fixture = fixture();
        assert!(fixture.cases.len() >= 300);
        let mut differences = Vec::new();
        for (group, names) in fixture.groups.iter().enumerate() {
            for name in names {
                let tokenizer = tokenizer(name);
                assert_eq!(tokenizer.add_bos(), fixture.adds_bos[group], "{name}");
                for case in &fixture.cases {
                    let text = &case.text;
                    let ids = tokenizer.encode(text, Special::Text);
                    let expected = &case.ids[case.of_group[group]];
                    if ids != *expected {
                        differences.push(format!("{name}: {text:?}\n  actual   {ids:?}\n  expected {expected:?}"));
                    }
                    let back = tokenizer.decode(&ids);
                    if back != *text {
                        differences.push(format!("{name}: {text:?} decodes to {back:?}"));
                    }
                }
            }
        }
        let count = differences.len();
        differences.truncate(20);
        assert!(count == 0, "{count} differences\n{}", differences.join("\n"));
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
            ("tekken", "camelCaseXML", vec!["camel", "Case", "XML"]),
            ("tekken", "dog's", vec!["dog", "'s"]),
            ("gpt-4o", "dog's a/b//\n", vec!["dog's", " a", "/b", "//\n"]),
            ("gemma4", "a b\n\nc", vec!["a b", "\n\n", "c"]),
            ("superbpe", "of the 1234567", vec!["of the ", "1", "234", "567"]),
            ("superbpe", "12 123", vec!["12", " ", "123"]),
            ("tiny_aya", "ab 1234567 c", vec!["ab", " ", "1", "234", "567", " c"]),
            ("exaone-moe", "two words, 3", vec!["two words", ",", " ", "3"]),
            ("kimi-k2", "中文abc", vec!["中文", "abc"]),
            (
                "chameleon",
                "xIMGIMGAZy  12",
                vec!["x", "IMGIMGAZ", "y", "  ", "1", "2"],
            ),
            (
                "jais-2",
                "a\t\t\t\t\t\t\t\t\tb       ",
                vec!["a", "\t\t\t\t\t\t\t\t", "\tb", "    ", "  ", " "],
            ),
        ] {
            let pre = PreTokenizer::named(name).unwrap();
            assert_eq!(words(&pre, text), expected, "{name}: {text:?}");
        }
    }

    /// Names of which no two divide texts alike.
    fn distinct_names() -> Vec<&'static str> {
        let mut rows: Vec<(&str, &PreTokenizer)> = Vec::new();
        for (name, pre) in TABLE {
            let is_new = |(_, other): &(&str, &PreTokenizer)| !std::ptr::eq(other.steps, pre.steps);
            if rows.iter().all(is_new) {
                rows.push((name, pre));
            }
        }
        rows.into_iter().map(|(name, _)| name).collect()
    }

    /// To search for the end of each of these words again at each character would take hours.
    #[test]
    fn long_texts_take_linear_time() {
        for unit in [
            " ",
            "\t \u{3000}",
            "\n ",
            "a",
            "A",
            "aA",
            "é",
            "É1",
            "\u{301}",
            "7",
            "½",
            "'",
            "中",
            "<sentinel:1",
            "IMGIMGA",
            "a b",
            "!",
        ] {
            let text = unit.repeat((256 << 10) / unit.len());
            for name in distinct_names() {
                let mut bytes = 0;
                let flow = PreTokenizer::named(name).unwrap().split(&text, &mut |word| {
                    bytes += word.len();
                    ControlFlow::Continue(())
                });
                assert!(flow.is_continue() && bytes == text.len(), "{name}: {unit:?}");
            }
        }
    }

    /// Text of what ends or continues words in some pre-tokenizer.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            3 => "[a-zA-Z]{1,3}",
            3 => "[ \\t\\r\\n]{1,3}",
            2 => "\\PC{1,2}",
            1 => any::<char>().prop_map(String::from),
            2 => "[0-9]{1,4}",
            4 => prop::sample::select(vec![
                "'s", "'LL", "'", "\u{301}", "é", "É", "中", "文，", "。", "々", "〇", "・", "カー", "한", "ع", " ع", "\u{5d0}",
                "ก", "๑", "१", "क\u{94d}", "½", "①", "Ⅳ", "—", "…", "“", "\u{3000}", "\u{a0}", "\u{2003}", "/", "!?", "+", "`",
                "<sentinel:1>", "<sentinel:", ">", "IMGIMGAZ", "。\n", ":\n", "😀", "\u{fe0f}", "\u{200d}", "\u{fa30}", "_",
            ]).prop_map(str::to_owned),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn a_cut_changes_no_word(text in text()) {
            for (name, pre) in TABLE {
                if pre.cuts.is_none() {
                    continue;
                }
                let whole = words(pre, &text);
                prop_assert_eq!(&whole.concat(), &text, "{}", name);
                let mut start = 0;
                while let Some(found) = pre.find_cut(&text, start) {
                    start = found + text[found..].chars().next().unwrap().len_utf8();
                    let (left, right) = text.split_at(start);
                    let parts = [words(pre, left), words(pre, right)].concat();
                    prop_assert_eq!(&parts, &whole, "{}: {:?} at {}", name, text, start);
                }
            }
        }
    }
}
