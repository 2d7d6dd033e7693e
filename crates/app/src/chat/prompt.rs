//! What a model is shown of a conversation.

use crate::store::message::{Message, Role};
use hearth_protocol as protocol;

/// The system prompt, then the branch. Answers that failed before they said anything are left out, and what the person
/// said before and after such a hole becomes one message: many templates refuse two turns of one side in a row.
pub(crate) fn prompt(system: Option<&str>, branch: &[Message]) -> Vec<protocol::Message> {
    let mut turns: Vec<protocol::Message> = Vec::new();
    let system = system.map(str::trim).filter(|text| !text.is_empty());
    turns.extend(system.map(|text| protocol::Message {
        role: protocol::Role::System,
        content: text.to_owned(),
    }));
    for message in branch {
        let role = match message.role {
            Role::System => protocol::Role::System,
            Role::User => protocol::Role::User,
            Role::Assistant => protocol::Role::Assistant,
        };
        if role == protocol::Role::Assistant && message.content.trim().is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(last) if last.role == role => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => turns.push(protocol::Message {
                role,
                content: message.content.clone(),
            }),
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::prompt;
    use crate::store::message::{Message, Role, State};
    use hearth_protocol as protocol;
    use proptest::prelude::*;

    fn message(role: Role, content: &str) -> Message {
        Message {
            id: 0,
            conversation: 0,
            parent: None,
            role,
            content: content.to_owned(),
            state: State::Complete,
            created_at: 0,
            model: None,
            stats: None,
            left_out: None,
            adapters: None,
            comparison: None,
            better: false,
            rating: None,
        }
    }

    #[test]
    fn a_failed_answer_leaves_no_hole() {
        let branch = [
            message(Role::User, "one"),
            message(Role::Assistant, ""),
            message(Role::User, "two"),
            message(Role::Assistant, "half"),
        ];
        let turns = prompt(Some(" Be brief. "), &branch);
        let texts: Vec<&str> = turns.iter().map(|turn| turn.content.as_str()).collect();
        assert_eq!(texts, ["Be brief.", "one\n\ntwo", "half"]);
        assert_eq!(
            prompt(Some("  "), &branch[..1]).len(),
            1,
            "an empty system prompt is none"
        );
    }

    proptest! {
        #[test]
        fn sides_alternate_and_no_word_is_lost(turns in prop::collection::vec((any::<bool>(), "[a-z]{0,3}"), 0..20)) {
            let branch: Vec<Message> = turns
                .iter()
                .map(|(user, text)| message(if *user { Role::User } else { Role::Assistant }, text))
                .collect();
            let shown = prompt(Some("system"), &branch);
            prop_assert!(shown.windows(2).all(|pair| pair[0].role != pair[1].role));
            prop_assert_eq!(shown[0].role, protocol::Role::System);
            let all: String = turns.iter().map(|(_, text)| text.as_str()).collect();
            let kept: String = shown[1..].iter().flat_map(|turn| turn.content.chars()).filter(|c| *c != '\n').collect();
            prop_assert_eq!(kept, all);
        }
    }
}
