//! Matches imported conversations with conversations of the store.
//!
//! A conversation is identified in every import by its origin: its id in its program, or a digest
//! of its messages. Many programs number their conversations, so an id counts only if no two
//! conversations can have it, or if the first messages agree.

use super::{HEARTH, tree::Tree};
use crate::{
    store::{
        conversation::{self, Known},
        deleted_message, message,
    },
    title,
};
use hearth_formats::hex;
use hearth_protocol::{Part, Role};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    io,
};

/// Most bytes of an id. A longer one is replaced by its digest.
const MAX_ID: usize = 1024;

/// The prefix of a digest in an origin.
const DIGEST: &str = "sha256-";

/// Digest of a role and parts.
pub(super) type Key = [u8; 16];

/// The messages of a conversation, deleted ones included.
#[derive(Default)]
pub(super) struct Existing {
    /// Ids by parent and digest, in order; several may be equal.
    pub by_place: HashMap<(Option<i64>, Key), Vec<i64>>,
    /// Ids of deleted messages.
    pub deleted: HashSet<i64>,
}

/// Most messages in [`KnownMessages`], about 100 bytes each.
const MAX_KNOWN: usize = 500_000;

/// A cache of the messages of the conversations in an import, so that a conversation with several
/// elements is read once.
#[derive(Default)]
pub(super) struct KnownMessages {
    by_conversation: HashMap<i64, Existing>,
    /// The number of messages that were read or added.
    count: usize,
    /// The number of rows that the connection had changed at the end of the last transaction.
    changes: u64,
}

impl KnownMessages {
    /// Clears the cache if other code may have written since. Must be called when a transaction
    /// begins.
    pub fn begin(&mut self, t: &Connection) {
        if self.changes != t.total_changes() || self.count > MAX_KNOWN {
            *self = Self::default();
        }
    }

    /// Records the connection's number of changes. Must be called after the last write of a
    /// transaction.
    pub fn end(&mut self, t: &Connection) {
        self.changes = t.total_changes();
    }

    /// The messages of a conversation.
    pub fn existing(&mut self, t: &Connection, conversation: i64) -> rusqlite::Result<&mut Existing> {
        Ok(match self.by_conversation.entry(conversation) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let existing = existing(t, conversation)?;
                self.count += existing.by_place.values().map(Vec::len).sum::<usize>();
                entry.insert(existing)
            }
        })
    }

    /// Counts messages that were added.
    pub fn added(&mut self, count: usize) {
        self.count += count;
    }

    /// Whether a conversation has one of these first messages, or none at all.
    fn begins_with(&mut self, t: &Connection, conversation: i64, root_keys: &[Key]) -> rusqlite::Result<bool> {
        let existing = self.existing(t, conversation)?;
        let by_place = &existing.by_place;
        Ok(by_place.is_empty() || root_keys.iter().any(|key| by_place.contains_key(&(None, *key))))
    }
}

/// The conversation that an import adds to, or its new origin.
pub(super) struct Identity {
    pub origin: String,
    pub known: Option<Known>,
}

impl Identity {
    /// Finds the conversation. `id`: the conversation's id in its program (`format`), or empty. An
    /// export of Hearth contains the origin itself. `keys`: the keys of the tree's nodes.
    pub fn find(
        t: &Connection,
        format: &str,
        id: &str,
        tree: &Tree,
        keys: &[Key],
        messages: &mut KnownMessages,
    ) -> rusqlite::Result<Self> {
        let origin = origin(format, id, keys);
        let root_keys = root_keys(tree, keys);
        let identity = Self::load(t, origin)?;
        let is_same = match &identity.known {
            Some(known) if !is_unique(&identity.origin) => messages.begins_with(t, known.id, &root_keys)?,
            _ => true,
        };
        if is_same {
            return Ok(identity);
        }
        // Another conversation with the same number.
        let digest = root_keys.first().map(hex).unwrap_or_default();
        Self::load(t, format!("{}:{DIGEST}{digest}", identity.origin))
    }

    fn load(t: &Connection, origin: String) -> rusqlite::Result<Self> {
        let known = conversation::by_origin(t, &origin)?;
        Ok(Self { origin, known })
    }
}

fn origin(format: &str, id: &str, keys: &[Key]) -> String {
    let short = if id.len() > MAX_ID {
        &format!("{DIGEST}{}", &hex(Sha256::digest(id))[..32])
    } else {
        id
    };
    match (format, short) {
        (HEARTH, id) if !id.is_empty() => id.to_owned(),
        (format, "") => {
            let mut digest = Sha256::new();
            keys.iter().for_each(|key| digest.update(key));
            format!("{format}:{DIGEST}{}", &hex(digest.finalize())[..32])
        }
        (format, id) => format!("{format}:{id}"),
    }
}

/// Whether no two conversations have this origin: it ends with a digest, 128 random bits as Hearth
/// writes them, or a UUID.
fn is_unique(origin: &str) -> bool {
    let id = origin.rsplit(':').next().unwrap_or_default();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = || {
        let lengths = id.split('-').map(str::len);
        lengths.eq([8, 4, 4, 4, 12]) && id.split('-').all(is_hex)
    };
    id.starts_with(DIGEST) || (id.len() == 32 && is_hex(id)) || is_uuid()
}

/// The digests of the messages without a parent.
fn root_keys(tree: &Tree, keys: &[Key]) -> Vec<Key> {
    let roots = tree.nodes.iter().zip(keys).filter(|(node, _)| node.parent.is_none());
    roots.map(|(_, key)| *key).collect()
}

/// The digest of a message.
pub(super) fn key(role: Role, parts: &[Part]) -> Key {
    let mut digest = Sha256::new();
    digest.update(role.name());
    // Writing plain data to a digest never fails.
    let _ = serde_json::to_writer(DigestWriter(&mut digest), parts);
    let mut key = Key::default();
    key.copy_from_slice(&digest.finalize()[..16]);
    key
}

/// Writes into a digest.
struct DigestWriter<'a>(&'a mut Sha256);

impl io::Write for DigestWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn existing(t: &Connection, conversation: i64) -> rusqlite::Result<Existing> {
    let mut existing = Existing::default();
    let mut add = |id, parent, role, mut parts: Vec<Part>| {
        // Early versions saved imported names unshortened.
        parts.iter_mut().for_each(title::shorten_names);
        existing
            .by_place
            .entry((parent, key(role, &parts)))
            .or_default()
            .push(id);
    };
    for row in message::of_conversation(t, conversation)? {
        add(row.id, row.parent, row.role, row.parts);
    }
    let deleted = deleted_message::of_conversation(t, conversation)?;
    let deleted_ids = deleted.iter().map(|message| message.id).collect();
    for message in deleted {
        add(message.id, message.parent, message.role, message.parts);
    }
    existing.deleted = deleted_ids;
    // Of equal messages, the first one in the export is the oldest.
    existing.by_place.values_mut().for_each(|ids| ids.sort_unstable());
    Ok(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_random_ids_are_unique() {
        for origin in [
            "claude:6f9b1a3c-0d5e-4c6f-8a7b-112233445566",
            "hearth:00112233445566778899aabbccddeeff",
            "openai:sha256-00112233445566778899aabbccddeeff",
            "openai:1:sha256-00112233445566778899aabbccddeeff",
        ] {
            assert!(is_unique(origin), "{origin}");
        }
        for origin in [
            "openai:1",
            "lmstudio:1735732800123",
            "llamacpp:conv-1735732800123",
            "openai:",
            "",
            "jan:6f9b1a3c-0d5e-4c6f-8a7b-11223344556",
            "jan:6f9b1a3c-0d5e-4c6f-8a7b-11223344556g",
        ] {
            assert!(!is_unique(origin), "{origin}");
        }
        let long = origin("openai", &"x".repeat(MAX_ID + 1), &[]);
        assert!(long.starts_with("openai:sha256-") && long.len() < 60, "{long}");
    }
}
