//! Texts of other programs: embedded reasoning, and placeholders for images and files.

use hearth_protocol::Part;

/// The tags around reasoning that most models write.
const THINK_TAGS: [&str; 2] = ["<think>", "</think>"];

/// The tags around reasoning in an answer of Open WebUI.
const DETAILS_TAGS: [&str; 2] = ["<details type=\"reasoning\"", "</details>"];

/// A text part. `None` if it is blank.
pub(super) fn text(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::Text { text: text.to_owned() })
}

/// A thinking part. `None` if it is blank.
pub(super) fn thinking(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::Thinking { text: text.to_owned() })
}

/// The placeholder for content that is not imported, such as an image.
pub(super) fn placeholder(kind: &str, name: &str) -> Part {
    let name = name.trim();
    let text = if name.is_empty() || name.starts_with("data:") {
        format!("[{kind}]")
    } else {
        format!("[{kind}: {}]", name.chars().take(200).collect::<String>())
    };
    Part::Text { text }
}

/// Separates the reasoning at the beginning of an answer that has no thinking part.
pub(super) fn with_thoughts(parts: Vec<Part>) -> Vec<Part> {
    if parts.iter().any(|part| matches!(part, Part::Thinking { .. })) {
        return parts;
    }
    let mut separated = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text } => separated.extend(separate(text)),
            part => separated.push(part),
        }
    }
    separated
}

fn separate(answer: String) -> Vec<Part> {
    let trimmed = answer.trim_start();
    if let Some(rest) = trimmed.strip_prefix(THINK_TAGS[0])
        && let Some((thought, content)) = rest.split_once(THINK_TAGS[1])
    {
        return [thinking(thought.trim()), text(content.trim_start())]
            .into_iter()
            .flatten()
            .collect();
    }
    if trimmed.starts_with(DETAILS_TAGS[0])
        && let Some((details, content)) = trimmed.split_once(DETAILS_TAGS[1])
    {
        return [thinking(&unquote(details)), text(content.trim_start())]
            .into_iter()
            .flatten()
            .collect();
    }
    vec![Part::Text { text: answer }]
}

/// Extracts the quoted lines of `<details …><summary>…</summary> > line …`, unescaped.
fn unquote(details: &str) -> String {
    let body = details.split_once("</summary>").map_or_else(
        || details.split_once('>').map_or("", |(_, body)| body),
        |(_, body)| body,
    );
    let lines = body.trim().lines().map(|line| {
        // The `>` of a quoted line may be escaped.
        let line = line
            .strip_prefix("&gt;")
            .or_else(|| line.strip_prefix('>'))
            .unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line)
    });
    unescape(&lines.collect::<Vec<_>>().join("\n"))
}

fn unescape(text: &str) -> String {
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
        let content = |text: &str| Part::Text { text: text.to_owned() };
        for (text, expected) in [
            (
                "<think>\nHm.\n</think>\n\nParis.",
                vec![thought("Hm."), content("Paris.")],
            ),
            ("<think></think>Paris.", vec![content("Paris.")]),
            (
                "Use <think>x</think> tags.",
                vec![content("Use <think>x</think> tags.")],
            ),
            ("<think>cut off", vec![content("<think>cut off")]),
            (
                "<details type=\"reasoning\" done=\"true\" duration=\"3\">\n<summary>Thought for 3 seconds</summary>\n\
                 &gt; 1 &lt; 2\n> so &amp;lt;\n</details>\nYes.",
                vec![thought("1 < 2\nso &lt;"), content("Yes.")],
            ),
        ] {
            assert_eq!(with_thoughts(vec![content(text)]), expected, "{text}");
        }
    }
}
