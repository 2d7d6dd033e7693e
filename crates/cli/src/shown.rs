//! Display of a growing answer: thoughts are dimmed in a terminal.

use crate::terminal::Output;
use hearth_protocol::{Event, Part, TextKind, append_text, fold_text};
use std::io::{self, Write};
use std::mem;

const DIM: &str = "\u{1b}[2m";
const NORMAL: &str = "\u{1b}[0m";

/// An answer up to now, which is written to an output.
pub struct Shown<'o, W> {
    /// The parts.
    pub parts: Vec<Part>,
    out: &'o mut Output<W>,
    kind: TextKind,
    /// Whether the text so far is a thought, though it was written as text.
    is_folded: bool,
    /// The first error; nothing is written after it.
    written: io::Result<()>,
}

impl<'o, W: Write> Shown<'o, W> {
    /// An empty answer that is written to `out`.
    pub fn new(out: &'o mut Output<W>) -> Self {
        Self {
            parts: Vec::new(),
            out,
            kind: TextKind::Text,
            is_folded: false,
            written: Ok(()),
        }
    }

    /// Adds what an event generates, if anything.
    pub fn follow(&mut self, event: &Event) {
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
        let goes_on = if is_folded {
            // A thought after another has its gap.
            text.starts_with("\n\n")
        } else {
            kind == self.kind
        };
        let gap = if self.parts.is_empty() || goes_on { "" } else { "\n\n" };
        append_text(&mut self.parts, kind, text);
        let style = self.switch(kind);
        self.write(style, &[gap, text]);
    }

    /// Writes a notice that is not part of the answer.
    pub fn notice(&mut self, text: &str) {
        self.write("", &[text]);
    }

    /// Writes what comes after the answer.
    ///
    /// # Errors
    /// Writing failed.
    pub fn end(&mut self) -> io::Result<()> {
        let style = self.switch(TextKind::Text);
        self.write(style, &[]);
        mem::replace(&mut self.written, Ok(()))
    }

    fn write(&mut self, style: &'static str, texts: &[&str]) {
        let Self { out, written, .. } = self;
        if written.is_ok() {
            *written = out
                .control(style)
                .and_then(|()| texts.iter().try_for_each(|text| out.write_all(text.as_bytes())))
                .and_then(|()| out.flush());
        }
    }

    /// Changes the kind of text. Returns the control sequence for it.
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

    fn shown(is_terminal: bool, pieces: &[(TextKind, &str)]) -> String {
        let mut out = in_memory(is_terminal);
        let mut shown = Shown::new(&mut out);
        for (kind, text) in pieces {
            shown.add(*kind, text);
        }
        shown.end().unwrap();
        written(&out).to_owned()
    }

    #[test]
    fn thoughts_are_dimmed_in_a_terminal_and_plain_in_a_pipe() {
        let pieces = [(Thinking, "Hm"), (Thinking, "."), (Text, "Par"), (Text, "is.")];
        assert_eq!(shown(true, &pieces), format!("{DIM}Hm.{NORMAL}\n\nParis."));
        assert_eq!(shown(false, &pieces), "Hm.\n\nParis.");
        assert_eq!(shown(true, &pieces[..1]), format!("{DIM}Hm{NORMAL}"));
        assert_eq!(shown(true, &pieces[2..]), "Paris.");
    }

    #[test]
    fn what_was_a_thought_is_told_apart_from_what_follows() {
        let event = |(kind, text): &(TextKind, &str)| Event::Text {
            kind: *kind,
            text: (*text).to_owned(),
            tokens: 1,
        };
        for (rest, thought, shown_rest) in [
            (&[(Text, "Par"), (Text, "is.")][..], "Hm.", "\n\nParis.".to_owned()),
            (
                &[(Thinking, "\n\nSo."), (Text, "Paris.")],
                "Hm.\n\nSo.",
                format!("{DIM}\n\nSo.{NORMAL}\n\nParis."),
            ),
        ] {
            let mut out = in_memory(true);
            let mut shown = Shown::new(&mut out);
            let mut events: Vec<Event> = [(Text, "Hm"), (Text, ". ")].iter().map(event).collect();
            events.push(Event::Folded);
            events.extend(rest.iter().map(event));
            events.iter().for_each(|event| shown.follow(event));
            shown.end().unwrap();
            let parts = [
                Part::Thinking { text: thought.into() },
                Part::Text { text: "Paris.".into() },
            ];
            assert_eq!(shown.parts, parts);
            assert_eq!(written(&out), format!("Hm. {shown_rest}"));
        }
    }

    #[test]
    fn an_answer_cannot_act_on_a_terminal() {
        let pieces = [(Thinking, "\u{1b}[8m"), (Text, "\u{1b}"), (Text, "]0;x\u{7}\u{202e}")];
        let expected = format!("{DIM}\\u{{1b}}[8m{NORMAL}\n\n\\u{{1b}}]0;x\\u{{7}}\\u{{202e}}");
        assert_eq!(shown(true, &pieces), expected);
        assert_eq!(shown(false, &pieces), "\u{1b}[8m\n\n\u{1b}]0;x\u{7}\u{202e}");
    }
}
