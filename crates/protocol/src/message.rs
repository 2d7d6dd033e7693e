//! Messages: a role and a list of parts, the same in store, window and worker.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// System prompt.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name in chat templates and datasets.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its author.
    pub role: Role,
    /// Its parts. Their texts are never parsed for special tokens.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    pub fn of_text(role: Role, text: impl Into<String>) -> Self {
        let parts = vec![Part::Text { text: text.into() }];
        Self { role, parts }
    }

    /// Its text, see [`text_of`].
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Part {
    /// Text of the message.
    Text {
        /// The text.
        text: String,
    },
    /// The thinking of a model before its answer.
    Thinking {
        /// The text.
        text: String,
    },
    /// A model's call of a tool.
    ToolCall {
        /// Id, which the result repeats.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, usually an object.
        #[cfg_attr(feature = "ts", ts(type = "unknown"))]
        arguments: serde_json::Value,
    },
    /// The result of a tool; part of the user's message after the call.
    ToolResult {
        /// Id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The result.
        text: String,
    },
    /// An image.
    Image {
        /// File name.
        name: String,
        /// `image/png` and so on.
        media_type: String,
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A file that was read as text.
    File {
        /// File name.
        name: String,
        /// `text/markdown` and so on.
        media_type: String,
        /// Its text.
        text: String,
    },
}

/// The kind of a generated text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum TextKind {
    /// [`Part::Text`].
    #[default]
    Text,
    /// [`Part::Thinking`].
    Thinking,
}

/// Appends generated text to the last part if that is of this kind; otherwise adds a new part.
pub fn append_text(parts: &mut Vec<Part>, kind: TextKind, new_text: &str) {
    match (parts.last_mut(), kind) {
        (Some(Part::Text { text }), TextKind::Text) | (Some(Part::Thinking { text }), TextKind::Thinking) => {
            text.push_str(new_text);
        }
        (_, kind) => {
            let text = new_text.to_owned();
            parts.push(match kind {
                TextKind::Text => Part::Text { text },
                TextKind::Thinking => Part::Thinking { text },
            });
        }
    }
}

/// Turns the text at the end into a thought, after a model has ended a thought that it never began.
/// The text becomes part of the thought before it, if there is one.
pub fn fold_text(parts: &mut Vec<Part>) {
    let Some(Part::Text { text }) = parts.pop_if(|last| matches!(last, Part::Text { .. })) else {
        return;
    };
    let thought = text.trim();
    if thought.is_empty() {
        return;
    }
    let separator = match parts.last() {
        Some(Part::Thinking { text }) if !text.is_empty() => "\n\n",
        _ => "",
    };
    append_text(parts, TextKind::Thinking, &format!("{separator}{thought}"));
}

/// The texts of all [`Part::Text`], separated by blank lines.
pub fn text_of(parts: &[Part]) -> String {
    join_texts(parts, |part| match part {
        Part::Text { text } => Some(text),
        _ => None,
    })
}

/// The texts of all [`Part::Thinking`], separated by blank lines.
pub fn thinking_of(parts: &[Part]) -> String {
    join_texts(parts, |part| match part {
        Part::Thinking { text } => Some(text),
        _ => None,
    })
}

fn join_texts(parts: &[Part], text: impl Fn(&Part) -> Option<&String>) -> String {
    let part_texts: Vec<&str> = parts.iter().filter_map(text).map(String::as_str).collect();
    part_texts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_appended_to_a_part_of_its_kind() {
        let mut parts = Vec::new();
        for (kind, new_text) in [
            (TextKind::Thinking, "Hm"),
            (TextKind::Thinking, "m."),
            (TextKind::Text, "Pa"),
            (TextKind::Text, "ris."),
        ] {
            append_text(&mut parts, kind, new_text);
        }
        let (thought, answer) = ("Hmm.".to_owned(), "Paris.".to_owned());
        assert_eq!(parts, [Part::Thinking { text: thought }, Part::Text { text: answer }]);
        assert_eq!((thinking_of(&parts), text_of(&parts)), ("Hmm.".into(), "Paris.".into()));
        append_text(&mut parts, TextKind::Thinking, "Or?");
        append_text(&mut parts, TextKind::Text, "Yes.");
        assert_eq!(text_of(&parts), "Paris.\n\nYes.");
    }

    #[test]
    fn the_last_text_becomes_a_thought() {
        let thought = |text: &str| Part::Thinking { text: text.into() };
        let answer = |text: &str| Part::Text { text: text.into() };
        for (mut parts, expected) in [
            (vec![], vec![]),
            (vec![answer("\n So. \n")], vec![thought("So.")]),
            (vec![answer(" ")], vec![]),
            (vec![thought("Hm.")], vec![thought("Hm.")]),
            (vec![thought("Hm."), answer("So.")], vec![thought("Hm.\n\nSo.")]),
            (
                vec![answer("Yes."), thought("Or?"), answer("No.")],
                vec![answer("Yes."), thought("Or?\n\nNo.")],
            ),
        ] {
            fold_text(&mut parts);
            assert_eq!(parts, expected);
        }
    }

    #[test]
    fn parts_are_tagged_by_their_type() {
        let call = Part::ToolCall {
            id: "1".into(),
            name: "sum".into(),
            arguments: serde_json::json!({"of": [1, 2]}),
        };
        let json = r#"{"type":"toolCall","id":"1","name":"sum","arguments":{"of":[1,2]}}"#;
        assert_eq!(serde_json::to_string(&call).unwrap(), json);
        assert_eq!(serde_json::from_str::<Part>(json).unwrap(), call);
    }
}
