//! An answer as it is shown while it grows: thoughts are dimmed in a terminal.

use hearth_protocol::{Part, TextKind, append_text};
use std::io::IsTerminal;

const DIM: &str = "\u{1b}[2m";
const NORMAL: &str = "\u{1b}[0m";

/// The parts of an answer up to now.
pub struct Shown {
    /// The parts.
    pub parts: Vec<Part>,
    is_terminal: bool,
    kind: TextKind,
}

impl Shown {
    /// An empty answer that is written to `out`.
    pub fn new(out: &impl IsTerminal) -> Self {
        Self {
            parts: Vec::new(),
            is_terminal: out.is_terminal(),
            kind: TextKind::Text,
        }
    }

    /// Add generated text. Returns what to write.
    pub fn add(&mut self, kind: TextKind, text: &str) -> String {
        let gap = match self.parts.is_empty() || kind == self.kind {
            true => "",
            false => "\n\n",
        };
        append_text(&mut self.parts, kind, text);
        format!("{}{gap}{text}", self.switch(kind))
    }

    /// What to write after the answer.
    pub fn end(&mut self) -> &'static str {
        self.switch(TextKind::Text)
    }

    fn switch(&mut self, kind: TextKind) -> &'static str {
        if self.kind == kind {
            return "";
        }
        self.kind = kind;
        match (self.is_terminal, kind) {
            (false, _) => "",
            (true, TextKind::Thinking) => DIM,
            (true, TextKind::Text) => NORMAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_terminal: bool, pieces: &[(TextKind, &str)]) -> String {
        let mut shown = Shown {
            parts: Vec::new(),
            is_terminal,
            kind: TextKind::Text,
        };
        let text: String = pieces.iter().map(|(kind, text)| shown.add(*kind, text)).collect();
        text + shown.end()
    }

    #[test]
    fn thoughts_are_dimmed_in_a_terminal_and_plain_in_a_pipe() {
        use TextKind::{Text, Thinking};
        let pieces = [(Thinking, "Hm"), (Thinking, "."), (Text, "Par"), (Text, "is.")];
        assert_eq!(written(true, &pieces), format!("{DIM}Hm.{NORMAL}\n\nParis."));
        assert_eq!(written(false, &pieces), "Hm.\n\nParis.");
        assert_eq!(written(true, &pieces[..1]), format!("{DIM}Hm{NORMAL}"));
        assert_eq!(written(true, &pieces[2..]), "Paris.");
    }
}
