//! HTML: one page without scripts, links or pictures. Every text is escaped, and a content security
//! policy allows nothing but the style of the page.

use super::branch::{author, branch, format_time};
use crate::wire::{Conversation, ExportLabels};
use hearth_protocol::{Part, Role};
use std::io::{self, Write};

/// After the tag `html`.
const HEAD: &str = r#"<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Hearth">
"#;

const STYLE: &str = "<style>
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 0 auto; padding: 2rem 1.2rem 4rem; font: 16px/1.6 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 3rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: .95rem; margin: 0 0 .3rem; }
.about { margin: 0 0 1.5rem; opacity: .7; font-size: .9rem; }
article { margin: 1.1rem 0; padding: .8rem 1.1rem; border-radius: .8rem; }
.user { background: color-mix(in srgb, currentColor 8%, transparent); }
.text, pre { margin: .4rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { padding: .7rem .9rem; border-radius: .6rem; font: 13px/1.5 ui-monospace, monospace;
  background: color-mix(in srgb, currentColor 6%, transparent); }
summary { cursor: pointer; opacity: .75; }
</style>
</head>
<body>
";

pub(super) fn begin(out: &mut impl Write, title: &str, language: &str) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"{}\">", Escaped(language))?;
    writeln!(out, "{HEAD}<title>{}</title>\n{STYLE}", Escaped(title))
}

pub(super) fn write(out: &mut impl Write, conversation: &Conversation, labels: &ExportLabels) -> io::Result<()> {
    writeln!(out, "<section>")?;
    if !conversation.title.is_empty() {
        writeln!(out, "<h1>{}</h1>", Escaped(&conversation.title))?;
    }
    writeln!(out, "<p class=\"about\">{}</p>", format_time(conversation.created_at))?;
    if let Some(prompt) = conversation
        .system_prompt
        .as_deref()
        .filter(|prompt| !prompt.is_empty())
    {
        write_details(out, &labels.system_prompt, prompt)?;
    }
    for message in branch(conversation) {
        let class = match message.role {
            Role::User => "user",
            Role::System | Role::Assistant => "assistant",
        };
        writeln!(
            out,
            "<article class=\"{class}\">\n<h2>{}</h2>",
            Escaped(author(message, labels))
        )?;
        message
            .parts
            .iter()
            .try_for_each(|part| write_part(out, part, labels))?;
        writeln!(out, "</article>")?;
    }
    writeln!(out, "</section>")
}

pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "</body>\n</html>")
}

fn write_part(out: &mut impl Write, part: &Part, labels: &ExportLabels) -> io::Result<()> {
    match part {
        Part::Text { text } => writeln!(out, "<div class=\"text\">{}</div>", Escaped(text)),
        Part::Thinking { text } => write_details(out, &labels.thought, text),
        Part::ToolCall { name, arguments, .. } => {
            write_details(out, &format!("{}: {name}", labels.tool_call), &format!("{arguments:#}"))
        }
        Part::ToolResult { name, text, .. } => write_details(out, &format!("{}: {name}", labels.tool_result), text),
        Part::Image { name, .. } => {
            let (image, name) = (Escaped(&labels.image), Escaped(name));
            writeln!(out, "<div class=\"text\">[{image}: {name}]</div>")
        }
        Part::File { name, text, .. } => write_details(out, name, text),
    }
}

fn write_details(out: &mut impl Write, summary: &str, text: &str) -> io::Result<()> {
    let (summary, text) = (Escaped(summary), Escaped(text));
    writeln!(out, "<details><summary>{summary}</summary><pre>{text}</pre></details>")
}

/// Text without markup. Control characters that HTML forbids become U+FFFD.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        self.0.chars().try_for_each(|character| match character {
            '&' => out.write_str("&amp;"),
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            '"' => out.write_str("&quot;"),
            '\'' => out.write_str("&#39;"),
            '\n' | '\t' => out.write_char(character),
            '\r' => Ok(()),
            _ if character.is_control() => out.write_char('\u{fffd}'),
            _ => out.write_char(character),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Escaped;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_opens_no_tag(text in "\\PC*|[<>&\"'/a!\\-\u{0}\n]*") {
            let escaped = Escaped(&text).to_string();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'', '\0']));
        }
    }
}
