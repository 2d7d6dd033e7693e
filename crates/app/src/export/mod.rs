//! Exports conversations as one file: Markdown or HTML with the selected branch of each, or JSON
//! with everything, which [`crate::import`] reads.

mod branch;
mod html;
mod json;
mod markdown;

use crate::{
    App, conversations,
    device_name::is_device_name,
    shared::Shared,
    store::conversation,
    wire::{ChatFormat, ExportLabels, ExportedChats, Problem, ProblemCode},
};
use hearth_formats::{
    characters::{is_hidden, is_joiner},
    durable,
};
use hearth_protocol::DataReason;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

impl App {
    /// Writes a conversation to a file, which is replaced atomically. `None` exports all
    /// conversations.
    pub async fn export_conversations(
        &self,
        conversation: Option<i64>,
        format: ChatFormat,
        labels: ExportLabels,
        path: PathBuf,
    ) -> Result<ExportedChats, Problem> {
        self.shared
            .blocking(move |shared| export(shared, conversation, format, &labels, &path))
            .await
    }
}

fn export(
    shared: &Shared,
    conversation_id: Option<i64>,
    format: ChatFormat,
    labels: &ExportLabels,
    path: &Path,
) -> Result<ExportedChats, Problem> {
    let ids: Vec<i64> = match conversation_id {
        Some(id) => vec![id],
        None => {
            let rows = shared.store.read(|t| conversation::list(t))?;
            rows.iter().map(|row| row.id).collect()
        }
    };
    if ids.is_empty() {
        return Err(Problem::new(ProblemCode::NotFound, DataReason::NothingToExport));
    }
    let mut count = 0;
    durable::write_file(path, |out| {
        count = write_all(shared, &ids, conversation_id.is_some(), format, labels, out)?;
        Ok::<(), Failure>(())
    })
    .map_err(|failure| failure.into_problem(path))?;
    Ok(ExportedChats {
        path: path.display().to_string(),
        conversations: count,
        bytes: fs::metadata(path).map_or(0, |metadata| metadata.len()),
    })
}

/// Writes conversations one at a time. Returns their number. A conversation that is deleted
/// meanwhile is skipped, unless it is the only one.
fn write_all(
    shared: &Shared,
    ids: &[i64],
    is_single: bool,
    format: ChatFormat,
    labels: &ExportLabels,
    out: &mut BufWriter<File>,
) -> Result<u32, Failure> {
    let mut count = 0;
    let mut has_begun = false;
    for id in ids {
        let conversation = match conversations::open(shared, *id) {
            Err(problem) if problem.code == ProblemCode::NotFound && !is_single => continue,
            result => result?,
        };
        if !has_begun {
            let title = if is_single {
                &conversation.title
            } else {
                &labels.conversations
            };
            begin(format, title, labels, out)?;
            has_begun = true;
        }
        match format {
            ChatFormat::Json => json::write(out, &origin(shared, *id)?, &conversation, count == 0)?,
            ChatFormat::Markdown => markdown::write(out, &conversation, labels, count == 0)?,
            ChatFormat::Html => html::write(out, &conversation, labels)?,
        }
        count += 1;
    }
    match format {
        ChatFormat::Json => json::end(out)?,
        ChatFormat::Html => html::end(out)?,
        ChatFormat::Markdown => {}
    }
    out.flush()?;
    Ok(count)
}

fn begin(format: ChatFormat, title: &str, labels: &ExportLabels, out: &mut impl Write) -> io::Result<()> {
    match format {
        ChatFormat::Json => json::begin(out),
        ChatFormat::Html => html::begin(out, title, &labels.language),
        ChatFormat::Markdown => Ok(()),
    }
}

/// The origin, which identifies a conversation in every import. The first export creates it.
fn origin(shared: &Shared, id: i64) -> Result<String, Problem> {
    let origin = shared.store.write(|t| conversation::origin(t, id))?;
    origin.ok_or_else(conversations::no_conversation)
}

/// The suggested file name of an export: the title without characters that file systems refuse.
pub fn file_name(title: &str) -> String {
    /// Maximum characters, so that every file system accepts the name with an extension.
    const MAX_CHARS: usize = 60;
    let characters = title.chars().map(|character| match character {
        '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => ' ',
        _ if character.is_control() || character.is_whitespace() => ' ',
        _ => character,
    });
    let name: String = characters.filter(|c| !is_hidden(*c) || is_joiner(*c)).collect();
    let words: Vec<&str> = name.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(MAX_CHARS).collect();
    let name = name.trim_matches(['.', ' ']);
    if name.is_empty() || is_device_name(name) {
        "Conversation".to_owned()
    } else {
        name.to_owned()
    }
}

/// The error of writing a file.
pub(crate) enum Failure {
    Problem(Problem),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Failure {
    /// The problem of writing the file at `path`.
    pub(crate) fn into_problem(self, path: &Path) -> Problem {
        match self {
            Self::Problem(problem) => problem,
            Self::Io(error) => unwritable(path, &error),
        }
    }
}

/// The problem of a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Problem {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ProblemCode::DiskFull,
        _ => ProblemCode::FileUnreadable,
    };
    let reason = DataReason::FileUnwritable {
        path: path.display().to_string(),
        detail: error.to_string(),
    };
    Problem::new(code, reason)
}

#[cfg(test)]
mod tests {
    use super::file_name;
    use proptest::prelude::*;

    #[test]
    fn a_title_becomes_a_file_name() {
        for (title, expected) in [
            ("Plans: A/B", "Plans A B"),
            ("../../x", "x"),
            ("CON", "Conversation"),
            ("lpt1.txt", "Conversation"),
            ("con .txt", "Conversation"),
            ("...", "Conversation"),
            ("\u{202e}gpj.exe\u{200b}", "gpj.exe"),
            ("COM\u{b9}", "Conversation"),
            ("\u{1f642} a\tb", "\u{1f642} a b"),
        ] {
            assert_eq!(file_name(title), expected);
        }
        assert_eq!(file_name(&"x".repeat(300)).len(), 60);
    }

    proptest! {
        #[test]
        fn a_file_name_is_one_component(title in "\\PC*|[./\\\\ a\u{0}]*") {
            let name = file_name(&title);
            let path = std::path::Path::new(&name);
            prop_assert!(path.components().count() == 1 && path.file_name().is_some());
        }
    }
}
