//! Display of an answer while it is generated. In a terminal, thoughts are dim.

use crate::terminal::Output;
use hearth_protocol::{Event, Part, TextKind, append_text, fold_text};
use std::io::{self, Write};
use std::mem;

/// Control sequence for dim text.
const DIM: &str = "\u{1b}[2m";
/// Control sequence for normal text.
const NORMAL: &str = "\u{1b}[0m";

/// The answer so far. New text is written to an output.
pub struct AnswerDisplay<'o, W> {
    /// The parts of the answer.
    pub parts: Vec<Part>,
    out: &'o mut Output<W>,
    /// Kind of the last text.
    kind: TextKind,
    /// Whether the last text turned out to be a thought after it was written as an answer.
    is_folded: bool,
    /// Result of writing. Nothing is written after the first error.
    result: io::Result<()>,
}

impl<'o, W: Write> AnswerDisplay<'o, W> {
    /// An empty answer that is written to `out`.
    pub fn new(out: &'o mut Output<W>) -> Self {
        Self {
            parts: Vec::new(),
            out,
            kind: TextKind::Text,
            is_folded: false,
            result: Ok(()),
        }
    }

    /// Applies an event of the generation.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Text { kind, text, .. } => self.add(*kind, text),
            Event::Folded => {
                fold_text(&mut self.parts);
                self.is_folded = true;
            }
            _ => {}
        }
    }

    /// Adds generated text.
    fn add(&mut self, kind: TextKind, text: &str) {
        let is_folded = mem::take(&mut self.is_folded);
        let continues = if is_folded {
            // The text of a further thought begins with the gap.
            text.starts_with("\n\n")
        } else {
            kind == self.kind
        };
        let gap = if self.parts.is_empty() || continues { "" } else { "\n\n" };
        append_text(&mut self.parts, kind, text);
        let style = self.switch(kind);
        self.write(style, &[gap, text]);
    }

    /// Writes a notice that is not part of the answer.
    pub fn notice(&mut self, text: &str) {
        self.write("", &[text]);
    }

    /// Ends the answer: restores the normal style, and returns the first error of all writes.
    ///
    /// # Errors
    /// Writing failed.
    pub fn end(&mut self) -> io::Result<()> {
        let style = self.switch(TextKind::Text);
        self.write(style, &[]);
        mem::replace(&mut self.result, Ok(()))
    }

    fn write(&mut self, style: &'static str, texts: &[&str]) {
        let Self { out, result, .. } = self;
        if result.is_ok() {
            *result = out
                .control(style)
                .and_then(|()| texts.iter().try_for_each(|text| out.write_all(text.as_bytes())))
                .and_then(|()| out.flush());
        }
    }

    /// Changes the kind of the text. Returns the control sequence for the new style, empty if the
    /// kind is unchanged.
    fn switch(&mut self, kind: TextKind) -> &'static str {
        if mem::replace(&mut self.kind, kind) == kind {
            ""
        } else if kind == TextKind::Thinking {
            DIM
        } else {
            NORMAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::tests::{in_memory, written};
    use TextKind::{Text, Thinking};

    fn displayed(is_terminal: bool, pieces: &[(TextKind, &str)]) -> String {
        let mut out = in_memory(is_terminal);
        let mut display = AnswerDisplay::new(&mut out);
        for (kind, text) in pieces {
            display.add(*kind, text);
        }
        display.end().unwrap();
        written(&out).to_owned()
    }

    #[test]
    fn thoughts_are_dimmed_in_a_terminal_and_plain_in_a_pipe() {
        let pieces = [(Thinking, "Hm"), (Thinking, "."), (Text, "Par"), (Text, "is.")];
        assert_eq!(displayed(true, &pieces), format!("{DIM}Hm.{NORMAL}\n\nParis."));
        assert_eq!(displayed(false, &pieces), "Hm.\n\nParis.");
        assert_eq!(displayed(true, &pieces[..1]), format!("{DIM}Hm{NORMAL}"));
        assert_eq!(displayed(true, &pieces[2..]), "Paris.");
    }

    #[test]
    fn a_folded_thought_is_separated_from_the_following_text() {
        let event = |(kind, text): &(TextKind, &str)| Event::Text {
            kind: *kind,
            text: (*text).to_owned(),
            tokens: 1,
        };
        let check = |pieces: &[(TextKind, &str)], thought: &str, output: &str| {
            let mut out = in_memory(true);
            let mut display = AnswerDisplay::new(&mut out);
            let mut events: Vec<Event> = [(Text, "Hm"), (Text, ". ")].iter().map(event).collect();
            events.push(Event::Folded);
            events.extend(pieces.iter().map(event));
            events.iter().for_each(|event| display.apply(event));
            display.end().unwrap();
            let expected = [
                Part::Thinking { text: thought.into() },
                Part::Text { text: "Paris.".into() },
            ];
            assert_eq!(display.parts, expected);
            assert_eq!(written(&out), output);
        };
        check(&[(Text, "Par"), (Text, "is.")], "Hm.", "Hm. \n\nParis.");
        check(
            &[(Thinking, "\n\nSo."), (Text, "Paris.")],
            "Hm.\n\nSo.",
            &format!("Hm. {DIM}\n\nSo.{NORMAL}\n\nParis."),
        );
    }

    #[test]
    fn an_answer_cannot_act_on_a_terminal() {
        let pieces = [(Thinking, "\u{1b}[8m"), (Text, "\u{1b}"), (Text, "]0;x\u{7}\u{202e}")];
        let expected = format!("{DIM}\\u{{1b}}[8m{NORMAL}\n\n\\u{{1b}}]0;x\\u{{7}}\\u{{202e}}");
        assert_eq!(displayed(true, &pieces), expected);
        assert_eq!(displayed(false, &pieces), "\u{1b}[8m\n\n\u{1b}]0;x\u{7}\u{202e}");
    }
}
