//! Converts the tokens of an answer to text: whole characters without stop strings, split into
//! thought and text.

use crate::sampling::visible_bytes;
use crate::texts::Texts;
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
    /// The state before the first token of an answer to this prompt.
    pub fn new(texts: &Texts, request: &GenerateRequest, prompt: &[u32]) -> Self {
        let is_chat = matches!(request.prompt, Prompt::Chat(_) | Prompt::Continue { .. });
        let template_strings: &[String] = if is_chat { texts.template.stop_strings() } else { &[] };
        let markers = texts.markers.as_ref().filter(|_| is_chat).cloned();
        let stop = StopStrings::new(request.stop.iter().chain(template_strings).cloned());
        let end = prompt_end(texts, markers.as_deref(), prompt);
        // JSON has no thoughts, so the letters of markers are part of its strings.
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

    /// Changes the state to the middle of a thought or of a text.
    pub fn inside(mut self, kind: TextKind) -> Self {
        self.splitter = Splitter::inside(self.markers.clone(), kind);
        self
    }

    /// Settles the text so far, which the user may have written: a later end of a thought does not
    /// turn it into a thought.
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
            let text = self.detokenizer.push(visible_bytes(&texts.tokenizer, None, token));
            let (inputs, stopped) = self.passage.text(&text);
            return self.split(inputs, stopped);
        };
        // An incomplete character cannot continue after a marker.
        let text = self.detokenizer.finish();
        let (mut inputs, mut stopped) = self.passage.text(&text);
        if !stopped {
            let (marker, marker_stopped) = self.passage.marker(edge);
            inputs.extend(marker);
            stopped = marker_stopped;
        }
        self.split(inputs, stopped)
    }

    /// Ends the answer, and returns the text that was held back.
    pub fn finish(&mut self) -> TextPieces {
        let text = self.detokenizer.finish();
        let (mut inputs, stopped) = self.passage.text(&text);
        inputs.extend(self.passage.finish());
        let mut pieces = self.split(inputs, stopped);
        pieces.pieces.extend(self.splitter.finish());
        pieces
    }

    fn split(&mut self, inputs: Vec<Input>, stopped: bool) -> TextPieces {
        TextPieces {
            pieces: inputs.into_iter().flat_map(|input| self.splitter.push(input)).collect(),
            stopped,
        }
    }
}

/// The end of a prompt. [`PromptEnd::Text`] if the model has no markers.
pub(crate) fn prompt_end(texts: &Texts, markers: Option<&Markers>, prompt: &[u32]) -> PromptEnd {
    markers.map_or(PromptEnd::Text, |markers| markers.end_of(&texts.tokenizer, prompt))
}
