//! Output that is safe for terminals, which interpret control characters. Text of models, files and
//! answers is untrusted, so the commands print through an [`Output`].

use hearth_formats::characters::reorders;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, StderrLock, StdoutLock, Write};

/// A writer of text. Text for a terminal is [`escaped`]; bytes for a pipe or a file are unchanged.
pub struct Output<W> {
    out: W,
    is_terminal: bool,
}

/// Standard output.
pub fn stdout() -> Output<StdoutLock<'static>> {
    Output::new(io::stdout().lock())
}

/// Standard error.
pub fn stderr() -> Output<StderrLock<'static>> {
    Output::new(io::stderr().lock())
}

/// Writes a line to standard error; see [`say!`](crate::say).
pub fn say(line: fmt::Arguments) {
    // Write errors are ignored, since there is no other place to report them.
    let _ = writeln!(stderr(), "{line}");
}

/// Writes a line to standard error, like `eprintln!` but [`escaped`] on a terminal.
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => { $crate::terminal::say(format_args!($($argument)*)) };
}

impl<W: Write + IsTerminal> Output<W> {
    fn new(out: W) -> Self {
        Self {
            is_terminal: out.is_terminal(),
            out,
        }
    }
}

impl<W: Write> Output<W> {
    /// Whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes a control sequence of Hearth if the output is a terminal.
    pub fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        if self.is_terminal {
            self.out.write_all(sequence.as_bytes())
        } else {
            Ok(())
        }
    }
}

impl<W: Write> Write for Output<W> {
    /// Writes all bytes. On a terminal, a character that is split between two calls becomes U+FFFD.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_terminal {
            self.out
                .write_all(escaped(&String::from_utf8_lossy(bytes)).as_bytes())?
        } else {
            self.out.write_all(bytes)?
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The text with control characters, except line feeds and tabs, and characters that change the
/// text direction escaped: ESC becomes `\u{1b}`. A terminal would interpret them or reorder its
/// text.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || reorders(c);
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unsafe(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An output in memory.
    pub fn in_memory(is_terminal: bool) -> Output<Vec<u8>> {
        Output {
            out: Vec::new(),
            is_terminal,
        }
    }

    /// The written text.
    pub fn written(output: &Output<Vec<u8>>) -> &str {
        std::str::from_utf8(&output.out).unwrap()
    }

    #[test]
    fn control_characters_are_escaped_except_line_feeds_and_tabs() {
        for (text, expected) in [
            ("a\n\tb é 日本語 \u{fdd0}", "a\n\tb é 日本語 \u{fdd0}"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("x\ry\u{8}\0\u{7f}", "x\\ry\\u{8}\\u{0}\\u{7f}"),
            // The same control sequences as C1 characters.
            ("\u{9b}2J\u{9d}", "\\u{9b}2J\\u{9d}"),
            // Overrides of the direction are escaped; marks of the direction are part of texts.
            (
                "\u{202e}gpj.exe\u{2069} \u{200f}\u{5d0}",
                "\\u{202e}gpj.exe\\u{2069} \u{200f}\u{5d0}",
            ),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn a_terminal_gets_escaped_text_and_a_file_the_same_bytes() {
        // Control sequences that set the clipboard and clear the screen, and a C1 control
        // character.
        let name = "\u{1b}]52;c;Y3VybCBldmlsfHNo\u{7}\u{1b}[2J\u{9b}\u{202e}";
        for (is_terminal, expected) in [
            (
                true,
                "\u{1b}[2mid  \\u{1b}]52;c;Y3VybCBldmlsfHNo\\u{7}\\u{1b}[2J\\u{9b}\\u{202e}\n",
            ),
            (false, "id  \u{1b}]52;c;Y3VybCBldmlsfHNo\u{7}\u{1b}[2J\u{9b}\u{202e}\n"),
        ] {
            let mut out = in_memory(is_terminal);
            out.control("\u{1b}[2m").unwrap();
            writeln!(out, "{:<2}  {name}", "id").unwrap();
            assert_eq!(written(&out), expected);
        }
        let mut out = in_memory(false);
        out.write_all(b"\xff\x1b").unwrap();
        assert_eq!(out.out, b"\xff\x1b");
    }

    /// Each command prints through an [`Output`], except for the messages of a worker and the lines
    /// of `--json`.
    #[test]
    fn no_command_prints_past_the_output() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files: Vec<_> = [folder.clone(), folder.join("commands")]
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && !path.ends_with("terminal.rs") && !path.ends_with("own_output.rs"))
            .collect();
        files.sort();
        assert!(files.len() > 20, "{files:?}");
        let mut direct_prints = Vec::new();
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let prints = |line: &&str| {
                let calls = ["println!", "print!(", "io::stdout()", "io::stderr()", "dbg!("];
                calls.iter().any(|call| line.contains(call))
            };
            let lines = text.lines().filter(prints).map(str::trim);
            direct_prints.extend(lines.map(|line| format!("{}: {line}", path.file_name().unwrap().display())));
        }
        // The lines of `--json`.
        assert_eq!(direct_prints, ["mod.rs: Ok(writeln!(std::io::stdout(), \"{line}\")?)"]);
    }
}
