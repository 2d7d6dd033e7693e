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
use hearth_formats::dataset::{Container, Content, Dataset, Delimiter, Example, ExampleShape, ReadOptions};

/// Describes a dataset in one line: file format, example format (`?` if unsure), and the examples
/// with their line numbers; for a file that cannot be read, the error.
fn read(bytes: &[u8], name: &str, options: &ReadOptions) -> String {
    match Dataset::from_bytes(bytes.to_vec(), name, options) {
        Ok(dataset) => {
            let unsure = if dataset.unsure { "?" } else { "" };
            let examples: Vec<String> = dataset.examples.iter().map(shown).collect();
            format!(
                "{} {}{unsure}: {}",
                container(dataset.container),
                shape(dataset.shape),
                examples.join("; ")
            )
        }
        Err(error) => error.problem.to_string(),
    }
}

fn container(container: Container) -> &'static str {
    match container {
        Container::JsonLines => "JSONL",
        Container::Json => "JSON",
        Container::Table(Delimiter::Tab) => "TSV",
        Container::Table(Delimiter::Comma) => "CSV",
        Container::Table(Delimiter::Semicolon) => "CSV with semicolons",
        Container::Parquet => "Parquet",
        Container::Text => "plain text",
        Container::Markdown => "Markdown",
    }
}

fn shape(shape: ExampleShape) -> &'static str {
    match shape {
        ExampleShape::Messages => "messages",
        ExampleShape::ShareGpt => "ShareGPT",
        ExampleShape::Alpaca => "alpaca",
        ExampleShape::PromptAnswer => "prompt and answer",
        ExampleShape::Text => "text",
    }
}

fn shown(example: &Example) -> String {
    let content = match &example.content {
        Content::Chat(messages) => messages
            .iter()
            .map(|message| format!("{:?}={}", message.role, message.content))
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
