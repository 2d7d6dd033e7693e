//! The markers around a model's thoughts, and their recognition.

use hearth_formats::tokenizer::Tokenizer;

/// Known pairs of markers: the beginning and the end of a thought.
pub(super) const PAIRS: [[&str; 2]; 4] = [
    ["<think>", "</think>"],
    ["[THINK]", "[/THINK]"],
    ["<|START_THINKING|>", "<|END_THINKING|>"],
    ["<seed:think>", "</seed:think>"],
];

/// Maximum tokens of a marker that is not a single token.
const MAX_MARKER_TOKENS: usize = 16;

/// The effect of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Begins a thought.
    Open,
    /// Ends a thought.
    Close,
}

/// The end of a prompt, apart from white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptEnd {
    /// The beginning of a thought. Some templates begin a thought for the model.
    Open,
    /// The end of a thought. Templates write an empty thought if the model is not to think.
    Closed,
    /// Neither beginning nor end.
    Text,
}

/// A marker of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Its text.
    pub text: &'static str,
    /// The tokens with this text, mostly one or none.
    tokens: Vec<u32>,
}

impl Marker {
    /// The text to search for. `None` if the marker is a token: then the same letters in other
    /// tokens are ordinary text, which a model may quote.
    pub fn letters(&self) -> Option<&'static str> {
        self.tokens.is_empty().then_some(self.text)
    }
}

/// The markers around a model's thoughts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Markers {
    pub open: Marker,
    pub close: Marker,
}

impl Markers {
    /// The markers that a chat template contains, with their tokens. `None` means that the model
    /// does not think, or that its markers are unknown.
    ///
    /// The vocabulary is not sufficient, because models that do not think may have inherited the
    /// tokens.
    pub fn from_template(template: &str, tokenizer: &Tokenizer) -> Option<Self> {
        let pair = PAIRS.into_iter().find(|[_, close]| template.contains(close))?;
        let tokens = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let [open, close] = pair.map(|text| {
            let is_marker = |token: &u32| tokenizer.token_bytes(*token) == Some(text.as_bytes());
            Marker {
                text,
                tokens: (0..tokens).filter(is_marker).collect(),
            }
        });
        Some(Self { open, close })
    }

    /// A pair of markers with these tokens.
    #[cfg(test)]
    pub fn with_tokens([open, close]: [&'static str; 2], tokens: [Option<u32>; 2]) -> Self {
        let [open_tokens, close_tokens] = tokens.map(|token| token.into_iter().collect());
        Self {
            open: Marker {
                text: open,
                tokens: open_tokens,
            },
            close: Marker {
                text: close,
                tokens: close_tokens,
            },
        }
    }

    /// The marker with this effect.
    pub fn marker(&self, edge: Edge) -> &Marker {
        match edge {
            Edge::Open => &self.open,
            Edge::Close => &self.close,
        }
    }

    /// The effect of a token. `None` if the token is not a marker.
    pub fn edge(&self, token: u32) -> Option<Edge> {
        [Edge::Open, Edge::Close]
            .into_iter()
            .find(|edge| self.marker(*edge).tokens.contains(&token))
    }

    /// Classifies the end of a prompt.
    pub fn end_of(&self, tokenizer: &Tokenizer, prompt: &[u32]) -> PromptEnd {
        let is_blank = |token: &u32| {
            let bytes = tokenizer.token_bytes(*token).unwrap_or_default();
            bytes.iter().all(u8::is_ascii_whitespace)
        };
        let length = prompt
            .iter()
            .rposition(|token| !is_blank(token))
            .map_or(0, |last| last + 1);
        let prompt = &prompt[..length];
        let by_token = prompt.last().and_then(|token| self.edge(*token));
        let text = tokenizer.decode(&prompt[length.saturating_sub(MAX_MARKER_TOKENS)..]);
        let by_letters = [Edge::Open, Edge::Close].into_iter().find(|edge| {
            let letters = self.marker(*edge).letters();
            letters.is_some_and(|letters| text.trim_end().ends_with(letters))
        });
        match by_token.or(by_letters) {
            Some(Edge::Open) => PromptEnd::Open,
            Some(Edge::Close) => PromptEnd::Closed,
            None => PromptEnd::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::Gguf;
    use hearth_formats::tokenizer::Special;
    use std::path::PathBuf;

    fn tokenizer() -> Tokenizer {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizer/qwen2.gguf");
        Tokenizer::from_gguf(&Gguf::open(PathBuf::from(path)).expect("a fixture")).expect("its tokenizer")
    }

    #[test]
    fn markers_are_taken_from_the_template() {
        let tokenizer = tokenizer();
        for pair in PAIRS {
            let [open, close] = pair;
            let actual = Markers::from_template(&format!("{{{{ content.split('{close}')[-1] }}}}"), &tokenizer);
            let actual = actual.expect("markers");
            assert_eq!((actual.open.text, actual.close.text), (open, close));
            // All markers but one are letters in this vocabulary.
            assert_eq!(actual.close.letters(), Some(close));
            assert_eq!(actual.open.letters().is_none(), open == "<think>");
        }
        assert_eq!(Markers::from_template("{{ message.content }}", &tokenizer), None);
    }

    #[test]
    fn the_end_of_a_prompt_is_recognized_by_tokens_or_else_by_letters() {
        let tokenizer = tokenizer();
        let encoded = |text: &str| tokenizer.encode(text, Special::Parse);
        let markers = |tokens| Markers::with_tokens(PAIRS[0], tokens);
        let letters = markers([None, None]);
        for (prompt, expected) in [
            ("assistant\n<think>\n", PromptEnd::Open),
            ("<think>\n\n</think>\n\n", PromptEnd::Closed),
            ("<think>\n\n</think>\n\nSo", PromptEnd::Text),
            ("Hello", PromptEnd::Text),
            ("", PromptEnd::Text),
        ] {
            assert_eq!(letters.end_of(&tokenizer, &encoded(prompt)), expected, "{prompt:?}");
            // If other tokens are the markers, the letters are not.
            let tokens = markers([Some(u32::MAX), Some(u32::MAX - 1)]);
            assert_eq!(
                tokens.end_of(&tokenizer, &encoded(prompt)),
                PromptEnd::Text,
                "{prompt:?}"
            );
        }
        let hello = encoded("Hello");
        let prompt = [&hello[..], &encoded(&" \n".repeat(40))].concat();
        let last = *hello.last().expect("a token");
        for (tokens, expected) in [
            ([Some(last), None], PromptEnd::Open),
            ([None, Some(last)], PromptEnd::Closed),
        ] {
            assert_eq!(markers(tokens).end_of(&tokenizer, &prompt), expected, "{tokens:?}");
        }
    }
}
