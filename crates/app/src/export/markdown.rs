//! Markdown: a heading for each conversation and each message. Texts are not escaped.

use super::branch::{author, branch, format_time};
use crate::wire::{Conversation, ExportLabels};
use hearth_formats::fence;
use hearth_protocol::Part;
use std::io::{self, Write};

pub(super) fn write(
    out: &mut impl Write,
    conversation: &Conversation,
    labels: &ExportLabels,
    is_first: bool,
) -> io::Result<()> {
    if !is_first {
        writeln!(out, "\n---\n")?;
    }
    if !conversation.title.is_empty() {
        writeln!(out, "# {}\n", one_line(&conversation.title))?;
    }
    writeln!(out, "*{}*", format_time(conversation.created_at))?;
    if let Some(prompt) = conversation
        .system_prompt
        .as_deref()
        .filter(|prompt| !prompt.is_empty())
    {
        writeln!(out, "\n{}:\n", labels.system_prompt)?;
        write_quote(out, prompt)?;
    }
    for message in branch(conversation) {
        writeln!(out, "\n## {}", one_line(author(message, labels)))?;
        for part in &message.parts {
            writeln!(out)?;
            write_part(out, part, labels)?;
        }
    }
    Ok(())
}

fn write_part(out: &mut impl Write, part: &Part, labels: &ExportLabels) -> io::Result<()> {
    match part {
        Part::Text { text } => writeln!(out, "{text}"),
        Part::Thinking { text } => {
            writeln!(out, "> {}:\n>", labels.thought)?;
            write_quote(out, text)
        }
        Part::ToolCall { name, arguments, .. } => {
            writeln!(out, "{}: `{}`\n", labels.tool_call, one_line(name))?;
            write_code(out, "json", &format!("{arguments:#}"))
        }
        Part::ToolResult { name, text, .. } => {
            writeln!(out, "{}: `{}`\n", labels.tool_result, one_line(name))?;
            write_code(out, "", text)
        }
        Part::Image { name, .. } => writeln!(out, "[{}: {}]", labels.image, one_line(name)),
        Part::File { name, text, .. } => {
            writeln!(out, "{}: `{}`\n", labels.file, one_line(name))?;
            write_code(out, "", text)
        }
    }
}

fn write_quote(out: &mut impl Write, text: &str) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "> {line}"))
}

fn write_code(out: &mut impl Write, language: &str, text: &str) -> io::Result<()> {
    let fence = fence::around(text);
    writeln!(out, "{fence}{language}\n{text}\n{fence}")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
