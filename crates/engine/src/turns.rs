//! Which turns of a conversation go into the context.
//!
//! What does not fit leaves from the oldest end, a whole turn (what the person said and what came of it) at a
//! time; the system prompt and the newest turn always stay.

use hearth_protocol::{LeftOut, Message, Role};

/// A conversation as it goes into the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    /// Its tokens, template included.
    pub ids: Vec<u32>,
    /// What was left out, if anything.
    pub left_out: Option<LeftOut>,
}

/// Why a conversation does not go into the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misfit<E> {
    /// The system prompt and the newest turn alone are too long.
    TooLong {
        /// Tokens they take.
        needed: usize,
    },
    /// The messages could not be encoded.
    Encode(E),
}

impl<E> From<E> for Misfit<E> {
    fn from(error: E) -> Self {
        Self::Encode(error)
    }
}

/// Fits `messages` into `room` tokens, counted by `encode`.
///
/// When turns have to leave, they leave in portions of a quarter of the room. So the next few requests of the same
/// conversation keep the same beginning, and the cache need not read it all anew each time.
pub(crate) fn fit<E>(
    messages: &[Message],
    room: usize,
    mut encode: impl FnMut(&[Message]) -> Result<Vec<u32>, E>,
) -> Result<Fitted, Misfit<E>> {
    let all = encode(messages)?;
    if all.len() <= room {
        return Ok(Fitted {
            ids: all,
            left_out: None,
        });
    }
    let system = messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    let (system, rest) = messages.split_at(system);
    let starts = turn_starts(rest);
    let without = |turns: usize| [system, &rest[starts[turns]..]].concat();
    let portion = (room / 4).max(1);
    let excess = (all.len() - room).div_ceil(portion).saturating_mul(portion);
    let target = all.len().saturating_sub(excess).min(room);

    // The fewest turns whose absence is enough: `low` leave too much, `high` little enough or only the newest.
    let (mut low, mut high) = (0, starts.len().saturating_sub(1));
    let mut best = None;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        let ids = encode(&without(middle))?;
        if ids.len() <= target {
            (high, best) = (middle, Some(ids));
        } else {
            low = middle;
        }
    }
    let ids = match best {
        Some(ids) => ids,
        None if high == 0 => all.clone(),
        None => encode(&without(high))?,
    };
    if ids.len() > room {
        return Err(Misfit::TooLong { needed: ids.len() });
    }
    let left_out = LeftOut {
        messages: count(starts[high]),
        tokens: count(all.len() - ids.len()),
    };
    Ok(Fitted {
        ids,
        left_out: Some(left_out),
    })
}

/// Where turns start: at the beginning, and at every message of the person that follows one of the model.
fn turn_starts(messages: &[Message]) -> Vec<usize> {
    let starts = |(index, message): (usize, &Message)| {
        let follows = index > 0 && messages[index - 1].role == Role::User;
        (index == 0 || (message.role == Role::User && !follows)).then_some(index)
    };
    messages.iter().enumerate().filter_map(starts).collect()
}

/// As the protocol counts; what would not fit a u32 cannot fit memory either.
pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// A token a character, with the role's letter before it.
    fn encode(messages: &[Message]) -> Result<Vec<u32>, Infallible> {
        let letter = |role| match role {
            Role::System => 's',
            Role::User => 'u',
            Role::Assistant => 'a',
        };
        let text: String = messages
            .iter()
            .map(|m| format!("{}{}", letter(m.role), m.content))
            .collect();
        Ok(text.chars().map(u32::from).collect())
    }

    /// `s:be kind u:hello a:hi` and so on.
    fn conversation(text: &str) -> Vec<Message> {
        let message = |word: &str| {
            let (role, content) = word.split_once(':').unwrap();
            let role = match role {
                "s" => Role::System,
                "u" => Role::User,
                _ => Role::Assistant,
            };
            Message {
                role,
                content: content.to_owned(),
            }
        };
        text.split(' ').map(message).collect()
    }

    #[test]
    fn the_oldest_turns_leave_and_the_system_prompt_stays() {
        let check = |room: usize, text: &str, kept: &str, messages: u32| {
            let fitted = fit(&conversation(text), room, encode).unwrap();
            let kept: String = kept.chars().filter(|c| !": ".contains(*c)).collect();
            let ids: String = fitted.ids.iter().filter_map(|&id| char::from_u32(id)).collect();
            assert_eq!(ids, kept);
            assert_eq!(fitted.left_out.map_or(0, |left| left.messages), messages);
        };
        check(99, "s:k u:one a:two u:now", "s:k u:one a:two u:now", 0);
        check(12, "s:k u:one a:two u:now", "s:k u:now", 2);
        check(12, "u:one a:two u:now", "u:one a:two u:now", 0);
        check(11, "u:one a:two u:now", "u:now", 2);
        // Two messages of the person in a row are one turn.
        check(9, "u:1 a:2 u:3 u:4 a:5 u:6 u:7", "u:6 u:7", 5);
        // What begins with the model's greeting begins with a turn all the same.
        check(9, "a:hello u:one a:two u:now", "u:now", 3);
    }

    #[test]
    fn a_message_longer_than_the_room_is_refused_with_its_length() {
        let conversation = conversation("s:k u:one a:two u:toolong");
        assert_eq!(fit(&conversation, 9, encode), Err(Misfit::TooLong { needed: 10 }));
        assert_eq!(
            fit(&[], 9, |_| Ok::<_, Infallible>(vec![0; 12])),
            Err(Misfit::TooLong { needed: 12 })
        );
    }

    #[test]
    fn what_left_stays_out_while_the_conversation_grows_a_little() {
        let text = |turns: usize| (0..turns).map(|_| "u:abc a:abc").collect::<Vec<_>>().join(" ") + " u:now";
        let left = |turns| {
            fit(&conversation(&text(turns)), 64, encode)
                .unwrap()
                .left_out
                .map_or(0, |l| l.messages)
        };
        assert_eq!([7, 8, 9, 10].map(left), [0, 4, 4, 8]);
    }

    proptest! {
        #[test]
        fn it_fits_or_says_that_the_newest_turn_cannot(
            lengths in prop::collection::vec(0_usize..30, 0..12), system: bool, room in 1_usize..120,
        ) {
            let mut messages: Vec<Message> = lengths.iter().enumerate().map(|(index, &length)| Message {
                role: if index % 2 == 0 { Role::User } else { Role::Assistant },
                content: "x".repeat(length),
            }).collect();
            if system {
                messages.insert(0, Message { role: Role::System, content: "kind".into() });
            }
            let all = encode(&messages).unwrap();
            match fit(&messages, room, encode) {
                Ok(Fitted { ids, left_out }) => {
                    prop_assert!(ids.len() <= room);
                    let left = left_out.map_or(0, |left| left.messages as usize);
                    prop_assert_eq!(left_out.map_or(0, |left| left.tokens as usize), all.len() - ids.len());
                    messages.drain(usize::from(system)..usize::from(system) + left);
                    prop_assert_eq!(ids, encode(&messages).unwrap());
                }
                Err(Misfit::TooLong { needed }) => {
                    prop_assert!(needed > room);
                    let newest = messages.len().saturating_sub(if lengths.len() % 2 == 0 { 2 } else { 1 });
                    let system = &messages[..usize::from(system && newest > 0)];
                    let kept = [system, &messages[newest.max(system.len())..]].concat();
                    prop_assert_eq!(needed, encode(&kept).unwrap().len());
                }
                Err(Misfit::Encode(never)) => match never {},
            }
        }
    }
}
