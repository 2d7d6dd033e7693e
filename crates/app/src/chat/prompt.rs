//! The prompt of a conversation.

use crate::{
    convert::from_json,
    store::message::{Message, State},
    wire::{Problem, ProblemCode},
};
use hearth_protocol::{self as protocol, Part, Role};

/// Trims a system prompt. Returns `None` if it is blank.
pub(crate) fn trimmed(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// The system prompt, then the branch. Empty answers, which have failed, are omitted and the user
/// messages around them joined, because many chat templates reject consecutive turns of one role. A
/// message that was refused because it does not fit is omitted: with it, every later one would be
/// refused, too.
pub(crate) fn prompt(system: Option<&str>, branch: &[Message]) -> Vec<protocol::Message> {
    let mut turns: Vec<protocol::Message> = Vec::new();
    turns.extend(system.map(|text| protocol::Message::of_text(Role::System, text)));
    for message in branch {
        if message.role == Role::Assistant && is_empty_answer(&message.parts) {
            if was_too_long(&message.state) {
                turns.pop_if(|turn| turn.role == Role::User);
            }
            continue;
        }
        match turns.last_mut() {
            Some(last) if last.role == message.role => last.parts.extend(message.parts.iter().cloned()),
            _ => turns.push(protocol::Message {
                role: message.role,
                parts: message.parts.clone(),
            }),
        }
    }
    turns
}

/// Whether an answer failed because its prompt does not fit.
fn was_too_long(state: &State) -> bool {
    let State::Failed(problem) = state else {
        return false;
    };
    from_json(Some(problem)).is_some_and(|problem: Problem| problem.code == ProblemCode::PromptTooLong)
}

/// Whether an answer has no parts other than blank text and thinking.
fn is_empty_answer(parts: &[Part]) -> bool {
    !parts.iter().any(|part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        part => !matches!(part, Part::Thinking { .. }),
    })
}

#[cfg(test)]
mod tests {
    use super::{prompt, trimmed};
    use crate::store::message::{Message, State};
    use hearth_protocol::{self as protocol, Part, Role};
    use proptest::prelude::*;

    fn message(role: Role, content: &str) -> Message {
        Message {
            id: 0,
            conversation: 0,
            parent: None,
            role,
            parts: vec![Part::Text {
                text: content.to_owned(),
            }],
            state: State::Complete,
            created_at: 0,
            model: None,
            stats: None,
            dropped: None,
            adapters: None,
            comparison: None,
            better: false,
            rating: None,
            settings: None,
            edited: false,
            overrides: None,
        }
    }

    #[test]
    fn user_messages_around_a_failed_answer_are_joined() {
        let branch = [
            message(Role::User, "one"),
            message(Role::Assistant, ""),
            message(Role::User, "two"),
            message(Role::Assistant, "half"),
        ];
        let turns = prompt(trimmed(" Be brief. "), &branch);
        let texts: Vec<String> = turns.iter().map(protocol::Message::text).collect();
        assert_eq!(texts, ["Be brief.", "one\n\ntwo", "half"]);
        assert_eq!(
            prompt(trimmed("  "), &branch[..1]).len(),
            1,
            "a blank system prompt is left out"
        );
    }

    #[test]
    fn a_message_that_does_not_fit_is_omitted_once_it_is_refused() {
        let refused = |code: &str| Message {
            state: State::Failed(format!(r#"{{"code":"{code}","message":"A problem."}}"#)),
            ..message(Role::Assistant, "")
        };
        let texts = |code: &str| -> Vec<String> {
            let branch = [
                message(Role::User, "one"),
                message(Role::Assistant, "1"),
                message(Role::User, "long"),
                refused(code),
                message(Role::User, "two"),
            ];
            prompt(None, &branch).iter().map(protocol::Message::text).collect()
        };
        assert_eq!(texts("promptTooLong"), ["one", "1", "two"]);
        assert_eq!(texts("template"), ["one", "1", "long\n\ntwo"]);
    }

    proptest! {
        #[test]
        fn roles_alternate_and_no_text_is_lost(turns in prop::collection::vec((any::<bool>(), "[a-z]{0,3}"), 0..20)) {
            let branch: Vec<Message> = turns
                .iter()
                .map(|(user, text)| message(if *user { Role::User } else { Role::Assistant }, text))
                .collect();
            let prompt = prompt(Some("system"), &branch);
            prop_assert!(prompt.windows(2).all(|pair| pair[0].role != pair[1].role));
            prop_assert_eq!(prompt[0].role, Role::System);
            let expected: String = turns.iter().map(|(_, text)| text.as_str()).collect();
            let text: String = prompt[1..].iter().map(protocol::Message::text).collect::<String>().replace('\n', "");
            prop_assert_eq!(text, expected);
        }
    }
}
