//! Texts of other programs: thoughts inside them, and what stands for a picture or a file.

use hearth_protocol::Part;

/// The marks around a thought that most models write.
const THOUGHT: [&str; 2] = ["<think>", "</think>"];

/// The marks around a thought in an answer of Open WebUI.
const DETAILS: [&str; 2] = ["<details type=\"reasoning\"", "</details>"];

/// A text part. `None` if it is blank.
pub(super) fn text(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::Text { text: text.to_owned() })
}

/// A thought. `None` if it is blank.
pub(super) fn thinking(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::Thinking { text: text.to_owned() })
}

/// The placeholder for content that is not imported, such as a picture.
pub(super) fn placeholder(what: &str, name: &str) -> Part {
    let name = name.trim();
    let text = if name.is_empty() || name.starts_with("data:") {
        format!("[{what}]")
    } else {
        format!("[{what}: {}]", name.chars().take(200).collect::<String>())
    };
    Part::Text { text }
}

/// Separates the thought that an answer begins with, if it has none yet.
pub(super) fn with_thoughts(parts: Vec<Part>) -> Vec<Part> {
    if parts.iter().any(|part| matches!(part, Part::Thinking { .. })) {
        return parts;
    }
    let mut separated = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text } => separated.extend(separate(text)),
            other => separated.push(other),
        }
    }
    separated
}

fn separate(whole: String) -> Vec<Part> {
    let begin = whole.trim_start();
    if let Some(rest) = begin.strip_prefix(THOUGHT[0])
        && let Some((thought, said)) = rest.split_once(THOUGHT[1])
    {
        return [thinking(thought.trim()), text(said.trim_start())]
            .into_iter()
            .flatten()
            .collect();
    }
    if begin.starts_with(DETAILS[0])
        && let Some((details, said)) = begin.split_once(DETAILS[1])
    {
        return [thinking(&quoted(details)), text(said.trim_start())]
            .into_iter()
            .flatten()
            .collect();
    }
    vec![Part::Text { text: whole }]
}

/// The quoted lines of `<details …><summary>…</summary> > line …`, unescaped.
fn quoted(details: &str) -> String {
    let body = details.split_once("</summary>").map_or_else(
        || details.split_once('>').map_or("", |(_, body)| body),
        |(_, body)| body,
    );
    let lines = body.trim().lines().map(|line| {
        // The mark of a quotation may be escaped itself.
        let line = line
            .strip_prefix("&gt;")
            .or_else(|| line.strip_prefix('>'))
            .unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line)
    });
    unescaped(&lines.collect::<Vec<_>>().join("\n"))
}

fn unescaped(text: &str) -> String {
    let mut text = text.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thought_at_the_beginning_is_separated() {
        let thought = |text: &str| Part::Thinking { text: text.to_owned() };
        let said = |text: &str| Part::Text { text: text.to_owned() };
        for (text, expected) in [
            ("<think>\nHm.\n</think>\n\nParis.", vec![thought("Hm."), said("Paris.")]),
            ("<think></think>Paris.", vec![said("Paris.")]),
            ("Use <think>x</think> tags.", vec![said("Use <think>x</think> tags.")]),
            ("<think>cut off", vec![said("<think>cut off")]),
            (
                "<details type=\"reasoning\" done=\"true\" duration=\"3\">\n<summary>Thought for 3 seconds</summary>\n\
                 &gt; 1 &lt; 2\n> so &amp;lt;\n</details>\nYes.",
                vec![thought("1 < 2\nso &lt;"), said("Yes.")],
            ),
        ] {
            assert_eq!(with_thoughts(vec![said(text)]), expected, "{text}");
        }
    }
}
