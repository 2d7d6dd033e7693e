//! The Markdown report.

use crate::process::{Outcome, Output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// A Markdown report. Rewritten after each part, so that a crash leaves the finished parts.
pub struct Report {
    file: PathBuf,
    page: String,
    /// Titles of the failed parts.
    failed: Vec<String>,
}

/// A section of the report.
#[derive(Default)]
pub struct Part {
    /// Markdown.
    pub text: String,
    /// Whether something failed. A skipped part has not failed.
    pub failed: bool,
}

impl Part {
    /// A part that was not run.
    pub fn skipped(why: &str) -> Self {
        Self {
            text: format!("Not run: {why}"),
            failed: false,
        }
    }

    /// Appends a paragraph.
    pub fn say(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text.trim_end());
    }

    /// Marks the part as failed and appends the reason.
    pub fn fail(&mut self, what: &str) {
        self.failed = true;
        self.say(&format!("**Failed:** {what}"));
    }

    /// Appends command lines as a code block.
    pub fn commands(&mut self, commands: &[String]) {
        self.block("sh", &commands.join("\n"));
    }

    /// Appends a code block.
    pub fn block(&mut self, language: &str, text: &str) {
        self.say(&format!("```{language}\n{text}\n```"));
    }
}

impl Report {
    /// Creates an empty report at `file`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(file: &Path, title: &str) -> Outcome<Self> {
        let report = Self {
            file: file.to_path_buf(),
            page: format!("# {title}\n\nWritten by `cargo xtask gpu`.\n"),
            failed: Vec::new(),
        };
        report.write()?;
        Ok(report)
    }

    /// Appends a part.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, title: &str, part: &Part) -> Outcome {
        self.page.push_str(&format!("\n## {title}\n\n{}\n", part.text));
        if part.failed {
            self.failed.push(title.to_owned());
        }
        self.write()
    }

    /// Prints the path of the report.
    ///
    /// # Errors
    /// Names the failed parts.
    pub fn end(self) -> Outcome {
        let file = self.file.display();
        println!("\nThe report is in {file}");
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => Err(format!("Failed: {}. See {file}.", failed.join(", "))),
        }
    }

    fn write(&self) -> Outcome {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&self.file, &self.page))
            .map_err(|error| format!("{} could not be written ({error}).", self.file.display()))
    }
}

/// A command line for the report: paths are shortened to file names, since folders are specific to
/// this machine.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let name = |word: &std::ffi::OsStr| {
        let path = Path::new(word);
        let name = path.file_name().filter(|_| path.components().count() > 1);
        name.unwrap_or(word).to_string_lossy().into_owned()
    };
    words.map(name).collect::<Vec<_>>().join(" ")
}

/// Formats a number for a table; empty if `None`.
pub fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

/// Collects the notices printed by `hearth`, without duplicates. One may say that fewer layers than
/// requested are on the GPU.
pub fn collect_notices(output: &Output, notes: &mut Vec<String>) {
    for note in output
        .stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("note: "))
    {
        let note = format!("Hearth's note: {note}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// Today's date, as `2026-01-31`.
pub fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The date of a day, counted from 1970-01-01.
fn date(mut day: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_correct() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (365 + 365 + 31 + 28, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_818, "2026-12-31"),
            (20_819, "2027-01-01"),
        ] {
            assert_eq!(date(day), expected);
        }
    }

    #[test]
    fn paths_are_shortened_to_file_names() {
        let mut command = Command::new("target/release/hearth");
        command.args(["bench", "models/a.gguf", "-p", "8"]);
        assert_eq!(command_line(&command), "hearth bench a.gguf -p 8");
    }
}
