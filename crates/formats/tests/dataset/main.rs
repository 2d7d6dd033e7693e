//! Datasets, through their doors alone: files become examples, examples tokens with a mask, and a report says what is wrong.

mod answers;
#[path = "../formats/fixtures.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod fixtures;
mod masks;
mod parquet_files;
mod reading;
mod reports;
mod samples;
mod wild;

use hearth_formats::chat_template::{Message, Role};
use hearth_formats::dataset::{Content, Dataset, Example, ReadOptions};

/// What a file holds in one line: container, shape (`?` where unsure), and the examples, each with its line. Or the error.
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
