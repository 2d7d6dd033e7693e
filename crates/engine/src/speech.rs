//! The text of an answer, from its tokens: whole characters, without stop strings, split into
//! thought and text.

use crate::engine::Texts;
use crate::sampling::shown;
use crate::thinking::{Markers, Piece, Splitter};
use hearth_llm::{Detokenizer, StopTexts};
use hearth_protocol::{GenerateRequest, Prompt, TextKind};

/// Most tokens of a thought's opening marker and the white space after it.
const MARKER_TOKENS: usize = 16;

/// The state of an answer's text after its tokens so far.
#[derive(Debug, Clone)]
pub(crate) struct Speech {
    detokenizer: Detokenizer,
    stop: StopTexts,
    markers: Option<Markers>,
    splitter: Splitter,
}

/// The pieces of text after a token.
pub(crate) struct Said {
    pub pieces: Vec<Piece>,
    /// Whether a stop string was found.
    pub stopped: bool,
}

impl Speech {
    /// The state before the first token of an answer to a prompt of these tokens.
    pub fn new(texts: &Texts, request: &GenerateRequest, prompt: &[u32]) -> Self {
        let is_chat = matches!(request.prompt, Prompt::Chat(_) | Prompt::Continue { .. });
        let of_template: &[String] = if is_chat { texts.template.stop_strings() } else { &[] };
        let markers = is_chat.then(|| Markers::of_template(texts.template.source())).flatten();
        let is_open = markers.is_some_and(|markers| are_open(texts, markers, prompt));
        Self {
            detokenizer: Detokenizer::new(),
            stop: StopTexts::new(request.stop.iter().chain(of_template).cloned()),
            markers,
            splitter: Splitter::new(markers, is_open),
        }
    }

    /// This state, inside a thought or a text whose beginning is known otherwise.
    pub fn inside(mut self, kind: TextKind) -> Self {
        self.splitter = Splitter::inside(self.markers, kind);
        self
    }

    /// The markers of the model's thoughts.
    pub fn markers(&self) -> Option<Markers> {
        self.markers
    }

    /// Whether the next text belongs to a thought.
    pub fn is_thinking(&self) -> bool {
        self.splitter.is_thinking()
    }

    /// Add a token.
    pub fn push(&mut self, texts: &Texts, token: u32) -> Said {
        let text = self.detokenizer.push(shown(&texts.tokenizer, self.markers, token));
        let passed = self.stop.push(&text);
        Said {
            pieces: self.splitter.push(&passed.text),
            stopped: passed.stopped,
        }
    }

    /// End the answer: the text that was held back.
    pub fn finish(&mut self) -> Said {
        let passed = self.stop.push(&self.detokenizer.finish());
        let text = passed.text + &self.stop.finish();
        let mut pieces = self.splitter.push(&text);
        pieces.extend(self.splitter.finish());
        Said {
            pieces,
            stopped: passed.stopped,
        }
    }
}

/// Whether a prompt ends inside a thought.
pub(crate) fn are_open(texts: &Texts, markers: Markers, prompt: &[u32]) -> bool {
    let end = &prompt[prompt.len().saturating_sub(MARKER_TOKENS)..];
    markers.are_open_after(&texts.tokenizer.decode(end))
}
