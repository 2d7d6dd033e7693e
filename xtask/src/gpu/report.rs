//! The file that says what was seen.

use crate::process::{Outcome, Said};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// A page of Markdown. It is written anew with each part, so that a machine which stops in the middle leaves what it had.
pub struct Report {
    file: PathBuf,
    page: String,
    /// The parts of which something failed.
    failed: Vec<String>,
}

/// What one part has to say.
#[derive(Default)]
pub struct Part {
    /// Markdown.
    pub text: String,
    /// Whether something failed. What could not be run for want of something has not failed.
    pub failed: bool,
}

impl Part {
    /// A part that was not run.
    pub fn left_out(why: &str) -> Self {
        Self {
            text: format!("Not run: {why}"),
            failed: false,
        }
    }

    /// A paragraph more.
    pub fn say(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text.trim_end());
    }

    /// What failed, in a paragraph of its own.
    pub fn fail(&mut self, what: &str) {
        self.failed = true;
        self.say(&format!("**Failed:** {what}"));
    }

    /// What was typed, in a block.
    pub fn commands(&mut self, commands: &[String]) {
        self.block("sh", &commands.join("\n"));
    }

    /// A block of another language.
    pub fn block(&mut self, language: &str, text: &str) {
        self.say(&format!("```{language}\n{text}\n```"));
    }
}

impl Report {
    /// An empty page, at this place.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(file: &Path, title: &str) -> Outcome<Self> {
        let report = Self {
            file: file.to_path_buf(),
            page: format!("# {title}\n\nWritten by `cargo xtask gpu`.\n"),
            failed: Vec::new(),
        };
        report.write()?;
        Ok(report)
    }

    /// One part more.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, title: &str, part: &Part) -> Outcome {
        self.page.push_str(&format!("\n## {title}\n\n{}\n", part.text));
        if part.failed {
            self.failed.push(title.to_owned());
        }
        self.write()
    }

    /// Says where the file is.
    ///
    /// # Errors
    /// Names the parts of which something failed.
    pub fn end(self) -> Outcome {
        let file = self.file.display();
        println!("\nWhat was seen is in {file}");
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

/// A command as a person would type it: files by their names, for where they lie is this machine's own affair.
pub fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let name = |word: &std::ffi::OsStr| {
        let path = Path::new(word);
        let name = path.file_name().filter(|_| path.components().count() > 1);
        name.unwrap_or(word).to_string_lossy().into_owned()
    };
    words.map(name).collect::<Vec<_>>().join(" ")
}

/// A number in a table; nothing where there is none.
pub fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

/// Collects the notices of a `hearth` that has ended, each once. One may say that fewer layers than wanted are on the GPU.
pub fn collect_notes(said: &Said, notes: &mut Vec<String>) {
    for note in said
        .stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("note: "))
    {
        let note = format!("Hearth says: {note}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// Today, as `2026-01-31`.
pub fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The date of a day, counted from the first of 1970.
fn date(mut day: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
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
    fn days_have_dates() {
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
    fn files_are_called_by_their_names() {
        let mut command = Command::new("target/release/hearth");
        command.args(["bench", "models/a.gguf", "-p", "8"]);
        assert_eq!(typed(&command), "hearth bench a.gguf -p 8");
    }
}
