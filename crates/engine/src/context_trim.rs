//! Trims a conversation to the context. The oldest turns are dropped first, each as a whole (the
//! user's message and its answers). The system prompt and the newest turn are never dropped.

use crate::numbers::saturating_u32;
use hearth_protocol::{DroppedTurns, Message, Role};

/// A conversation that fits the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrimmedPrompt {
    /// Its tokens, including the template's.
    pub ids: Vec<u32>,
    /// The dropped turns, if any.
    pub dropped: Option<DroppedTurns>,
}

/// The reason why a conversation could not be trimmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrimError<E> {
    /// The system prompt and the newest turn alone do not fit.
    TooLong {
        /// Their tokens.
        needed: usize,
    },
    /// The messages could not be encoded.
    Encode(E),
}

impl<E> From<E> for TrimError<E> {
    fn from(error: E) -> Self {
        Self::Encode(error)
    }
}

/// Trims `messages` to `capacity` tokens, counted by `encode`.
///
/// The number of tokens to drop is rounded up to a multiple of a quarter of `capacity`, so that the
/// next few requests of a conversation share a prefix and reuse the KV cache.
pub(crate) fn trim<E>(
    messages: &[Message],
    capacity: usize,
    mut encode: impl FnMut(&[Message]) -> Result<Vec<u32>, E>,
) -> Result<TrimmedPrompt, TrimError<E>> {
    let all = encode(messages)?;
    if all.len() <= capacity {
        return Ok(TrimmedPrompt {
            ids: all,
            dropped: None,
        });
    }
    let system = messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    let (system, rest) = messages.split_at(system);
    let starts = turn_starts(rest);
    let after_dropping = |turns: usize| [system, &rest[starts[turns]..]].concat();
    let granularity = (capacity / 4).max(1);
    let excess = (all.len() - capacity).div_ceil(granularity).saturating_mul(granularity);
    let target = all.len().saturating_sub(excess).min(capacity);

    // Binary search for the fewest turns to drop. Invariant: dropping `low` turns is too few;
    // dropping `high` is enough, or leaves only the newest turn.
    let (mut low, mut high) = (0, starts.len().saturating_sub(1));
    let mut best = None;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        let ids = encode(&after_dropping(middle))?;
        if ids.len() <= target {
            (high, best) = (middle, Some(ids));
        } else {
            low = middle;
        }
    }
    let ids = match best {
        Some(ids) => ids,
        None if high == 0 => all.clone(),
        None => encode(&after_dropping(high))?,
    };
    if ids.len() > capacity {
        return Err(TrimError::TooLong { needed: ids.len() });
    }
    let dropped = DroppedTurns {
        messages: saturating_u32(starts[high]),
        tokens: saturating_u32(all.len() - ids.len()),
    };
    Ok(TrimmedPrompt {
        ids,
        dropped: Some(dropped),
    })
}

/// Indices at which turns start: the first message, and each user message that follows a message of
/// the model.
fn turn_starts(messages: &[Message]) -> Vec<usize> {
    let start = |(index, message): (usize, &Message)| {
        let continues_turn = index > 0 && messages[index - 1].role == Role::User;
        (index == 0 || (message.role == Role::User && !continues_turn)).then_some(index)
    };
    messages.iter().enumerate().filter_map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// One token per character, after the role's letter.
    fn encode(messages: &[Message]) -> Result<Vec<u32>, Infallible> {
        let letter = |role| match role {
            Role::System => 's',
            Role::User => 'u',
            Role::Assistant => 'a',
        };
        let text: String = messages
            .iter()
            .map(|m| format!("{}{}", letter(m.role), m.text()))
            .collect();
        Ok(text.chars().map(u32::from).collect())
    }

    /// Parses a conversation such as `s:kind u:hello a:hi`.
    fn conversation(text: &str) -> Vec<Message> {
        let message = |word: &str| {
            let (role, content) = word.split_once(':').unwrap();
            let role = match role {
                "s" => Role::System,
                "u" => Role::User,
                _ => Role::Assistant,
            };
            Message::of_text(role, content)
        };
        text.split(' ').map(message).collect()
    }

    #[test]
    fn the_oldest_turns_are_dropped_and_the_system_prompt_stays() {
        let check = |capacity: usize, text: &str, expected: &str, messages: u32| {
            let trimmed = trim(&conversation(text), capacity, encode).unwrap();
            let expected: String = expected.chars().filter(|c| !": ".contains(*c)).collect();
            let ids: String = trimmed.ids.iter().filter_map(|&id| char::from_u32(id)).collect();
            assert_eq!(ids, expected);
            assert_eq!(trimmed.dropped.map_or(0, |dropped| dropped.messages), messages);
        };
        check(99, "s:k u:one a:two u:now", "s:k u:one a:two u:now", 0);
        check(12, "s:k u:one a:two u:now", "s:k u:now", 2);
        check(12, "u:one a:two u:now", "u:one a:two u:now", 0);
        check(11, "u:one a:two u:now", "u:now", 2);
        // Two user messages in a row are one turn.
        check(9, "u:1 a:2 u:3 u:4 a:5 u:6 u:7", "u:6 u:7", 5);
        // A greeting of the model starts a turn, too.
        check(9, "a:hello u:one a:two u:now", "u:now", 3);
    }

    #[test]
    fn a_message_that_does_not_fit_is_refused_with_its_length() {
        let conversation = conversation("s:k u:one a:two u:toolong");
        assert_eq!(trim(&conversation, 9, encode), Err(TrimError::TooLong { needed: 10 }));
        assert_eq!(
            trim(&[], 9, |_| Ok::<_, Infallible>(vec![0; 12])),
            Err(TrimError::TooLong { needed: 12 })
        );
    }

    #[test]
    fn dropped_turns_stay_dropped_while_the_conversation_grows_a_little() {
        let text = |turns: usize| (0..turns).map(|_| "u:abc a:abc").collect::<Vec<_>>().join(" ") + " u:now";
        let dropped = |turns| {
            trim(&conversation(&text(turns)), 64, encode)
                .unwrap()
                .dropped
                .map_or(0, |dropped| dropped.messages)
        };
        assert_eq!([7, 8, 9, 10].map(dropped), [0, 4, 4, 8]);
    }

    proptest! {
        #[test]
        fn it_fits_or_reports_that_the_newest_turn_cannot(
            lengths in prop::collection::vec(0_usize..30, 0..12), system: bool, capacity in 1_usize..120,
        ) {
            let mut messages: Vec<Message> = lengths.iter().enumerate().map(|(index, &length)| {
                let role = if index % 2 == 0 { Role::User } else { Role::Assistant };
                Message::of_text(role, "x".repeat(length))
            }).collect();
            if system {
                messages.insert(0, Message::of_text(Role::System, "kind"));
            }
            let all = encode(&messages).unwrap();
            match trim(&messages, capacity, encode) {
                Ok(TrimmedPrompt { ids, dropped }) => {
                    prop_assert!(ids.len() <= capacity);
                    let count = dropped.map_or(0, |dropped| dropped.messages as usize);
                    prop_assert_eq!(dropped.map_or(0, |dropped| dropped.tokens as usize), all.len() - ids.len());
                    messages.drain(usize::from(system)..usize::from(system) + count);
                    prop_assert_eq!(ids, encode(&messages).unwrap());
                }
                Err(TrimError::TooLong { needed }) => {
                    prop_assert!(needed > capacity);
                    let newest = messages.len().saturating_sub(if lengths.len() % 2 == 0 { 2 } else { 1 });
                    let system = &messages[..usize::from(system && newest > 0)];
                    let expected = [system, &messages[newest.max(system.len())..]].concat();
                    prop_assert_eq!(needed, encode(&expected).unwrap().len());
                }
                Err(TrimError::Encode(never)) => match never {},
            }
        }
    }
}
