//! Tests of datasets through the public API: reading files, tokenizing with a loss mask, and
//! reports.

mod answer_spans;
mod masks;
mod parquet_files;
mod properties;
mod reading;
mod reports;
mod samples;

use hearth_formats::chat_template::{Message, Role};
use hearth_formats::dataset::{Content, Dataset, Example, ReadOptions};

/// The contents of a file in one line: file format, example format (`?` if unsure), and the
/// examples with their lines. Or the error.
fn read(bytes: &[u8], name: &str, options: &ReadOptions) -> String {
    match Dataset::from_bytes(bytes.to_vec(), name, options) {
        Ok(dataset) => {
            let unsure = if dataset.unsure { "?" } else { "" };
            let examples: Vec<String> = dataset.examples.iter().map(shown).collect();
            format!(
                "{} {}{unsure}: {}",
                dataset.container,
                dataset.shape,
                examples.join("; ")
            )
        }
        Err(error) => error.problem.to_string(),
    }
}

fn shown(example: &Example) -> String {
    let content = match &example.content {
        Content::Chat(messages) => messages
            .iter()
            .map(|m| format!("{:?}={}", m.role, m.content))
            .collect::<Vec<_>>()
            .join(" "),
        Content::PromptAnswer { system, prompt, answer } => match system {
            Some(system) => format!("{system}|{prompt}>{answer}"),
            None => format!("{prompt}>{answer}"),
        },
        Content::Text(text) => format!("\"{text}\""),
    };
    format!("{} {content}", example.line)
}

fn says(role: Role, content: &str) -> Message {
    Message {
        role,
        content: content.to_owned(),
    }
}
