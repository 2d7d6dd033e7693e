//! The columns for the parts of a message. `content` has the text of all parts, for the search.
//! `parts` has them as JSON, and is NULL if the message is one text.

use hearth_protocol::Part;

/// The column `content`: the text of all parts, a blank line between them.
pub(super) fn content(parts: &[Part]) -> String {
    let texts: Vec<String> = parts.iter().map(searchable).collect();
    texts.join("\n\n")
}

fn searchable(part: &Part) -> String {
    match part {
        Part::Text { text } | Part::Thinking { text } => text.clone(),
        Part::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
        Part::ToolResult { name, text, .. } | Part::File { name, text, .. } => format!("{name}\n{text}"),
        Part::Image { name, .. } => name.clone(),
    }
}

/// The column `parts`. `None` if the message is one text, or empty.
pub(super) fn column(parts: &[Part]) -> Option<String> {
    match parts {
        [] | [Part::Text { .. }] => None,
        // Plain data is always written.
        parts => serde_json::to_string(parts).ok(),
    }
}

/// The parts from both columns.
pub(super) fn read(content: String, parts: Option<String>) -> Vec<Part> {
    if let Some(parts) = parts {
        match serde_json::from_str(&parts) {
            Ok(parts) => return parts,
            Err(error) => tracing::warn!(%error, "the parts of a message are malformed; its text is shown"),
        }
    }
    if content.is_empty() {
        Vec::new()
    } else {
        vec![Part::Text { text: content }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_plain_text_needs_no_json() {
        let text = |text: &str| Part::Text { text: text.into() };
        let call = Part::ToolCall {
            id: "7".into(),
            name: "sum".into(),
            arguments: serde_json::json!([1, 2]),
        };
        let result = Part::ToolResult {
            id: "7".into(),
            name: "sum".into(),
            text: "3".into(),
        };
        let thinking = Part::Thinking { text: "Hm.".into() };
        for (parts, shown, is_json) in [
            (vec![], "", false),
            (vec![text("one\ntwo")], "one\ntwo", false),
            (vec![thinking.clone()], "Hm.", true),
            (vec![thinking, text("So.")], "Hm.\n\nSo.", true),
            (vec![call, result], "sum [1,2]\n\nsum\n3", true),
        ] {
            assert_eq!((content(&parts), column(&parts).is_some()), (shown.to_owned(), is_json));
            assert_eq!(read(content(&parts), column(&parts)), parts);
        }
        assert_eq!(
            read("kept".into(), Some("[{\"type\":\"smell\"}]".into())),
            [text("kept")]
        );
    }
}
