//! The text of an answer, from its tokens: whole characters, without stop strings, split into
//! thought and text.

use crate::engine::Texts;
use crate::sampling::shown;
use crate::thinking::{Input, Markers, Passage, Piece, PromptEnd, Splitter};
use hearth_llm::{Detokenizer, StopStrings};
use hearth_protocol::{GenerateRequest, Prompt, TextKind};
use std::sync::Arc;

/// The state of an answer's text after its tokens so far.
#[derive(Debug, Clone)]
pub(crate) struct TextStream {
    detokenizer: Detokenizer,
    passage: Passage,
    markers: Option<Arc<Markers>>,
    splitter: Splitter,
}

/// The pieces of text after a token.
pub(crate) struct TextPieces {
    pub pieces: Vec<Piece>,
    /// Whether a stop string was found.
    pub stopped: bool,
}

impl TextStream {
    /// The state before the first token of an answer to a prompt of these tokens.
    pub fn new(texts: &Texts, request: &GenerateRequest, prompt: &[u32]) -> Self {
        let is_chat = matches!(request.prompt, Prompt::Chat(_) | Prompt::Continue { .. });
        let of_template: &[String] = if is_chat { texts.template.stop_strings() } else { &[] };
        let markers = texts.markers.as_ref().filter(|_| is_chat).cloned();
        let stop = StopStrings::new(request.stop.iter().chain(of_template).cloned());
        let end = prompt_end(texts, markers.as_deref(), prompt);
        // JSON has no thoughts: what looks like their markers is in its strings.
        let splitter = match (&request.json_schema, end) {
            (Some(_), PromptEnd::Closed | PromptEnd::Text) => Splitter::inside(markers.clone(), TextKind::Text),
            _ => Splitter::new(markers.clone(), end),
        };
        Self {
            detokenizer: Detokenizer::new(),
            passage: Passage::new(stop, markers.clone()),
            markers,
            splitter,
        }
    }

    /// This state, inside a thought or a text whose beginning is known otherwise.
    pub fn inside(mut self, kind: TextKind) -> Self {
        self.splitter = Splitter::inside(self.markers.clone(), kind);
        self
    }

    /// This state after a text that the user may have written. A later end of a thought does not
    /// turn the text into a thought.
    pub fn settled(mut self) -> Self {
        self.splitter.settle();
        self
    }

    /// The markers of the model's thoughts.
    pub fn markers(&self) -> Option<&Arc<Markers>> {
        self.markers.as_ref()
    }

    /// Whether the next text belongs to a thought.
    pub fn is_thinking(&self) -> bool {
        self.splitter.is_thinking()
    }

    /// Adds a token.
    pub fn push(&mut self, texts: &Texts, token: u32) -> TextPieces {
        let Some(edge) = self.markers.as_ref().and_then(|markers| markers.edge(token)) else {
            let text = self.detokenizer.push(shown(&texts.tokenizer, None, token));
            let passed = self.passage.text(&text);
            return self.said(passed);
        };
        // A character ends before the marker, or never.
        let text = self.detokenizer.finish();
        let (mut inputs, mut stopped) = self.passage.text(&text);
        if !stopped {
            let (marker, found) = self.passage.marker(edge);
            inputs.extend(marker);
            stopped = found;
        }
        self.said((inputs, stopped))
    }

    /// Ends the answer, and returns the text that was held back.
    pub fn finish(&mut self) -> TextPieces {
        let text = self.detokenizer.finish();
        let (mut inputs, stopped) = self.passage.text(&text);
        inputs.extend(self.passage.finish());
        let mut said = self.said((inputs, stopped));
        said.pieces.extend(self.splitter.finish());
        said
    }

    fn said(&mut self, (inputs, stopped): (Vec<Input>, bool)) -> TextPieces {
        TextPieces {
            pieces: inputs.into_iter().flat_map(|input| self.splitter.push(input)).collect(),
            stopped,
        }
    }
}

/// The end of a prompt.
pub(crate) fn prompt_end(texts: &Texts, markers: Option<&Markers>, prompt: &[u32]) -> PromptEnd {
    markers.map_or(PromptEnd::Text, |markers| markers.end_of(&texts.tokenizer, prompt))
}
