//! A map from bytes to tokens that does not copy the bytes.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Byte strings in one allocation, one per token.
#[derive(Debug, Default)]
pub(super) struct ByteStrings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteStrings {
    /// Adds the string that `write` appends.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The string of a token. `None` if the id is out of range.
    pub fn get(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.bytes[start..end])
    }

    /// As [`ByteStrings::get`], empty if the id is out of range.
    fn key(&self, id: u32) -> &[u8] {
        self.get(id).unwrap_or_default()
    }
}

/// A hash table from bytes to tokens.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Lookup {
    /// An empty table with capacity for `count` tokens.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            table: HashTable::with_capacity(count),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds a token. Returns the existing token as an error if one has the same bytes.
    pub fn insert(&mut self, id: u32, strings: &ByteStrings) -> Result<(), u32> {
        let key = strings.key(id);
        let hash = self.hasher.hash_one(key);
        if let Some(&other) = self.table.find(hash, |&other| strings.key(other) == key) {
            return Err(other);
        }
        self.table
            .insert_unique(hash, id, |&other| self.hasher.hash_one(strings.key(other)));
        Ok(())
    }

    /// The token with these bytes.
    pub fn get(&self, key: &[u8], strings: &ByteStrings) -> Option<u32> {
        self.table
            .find(self.hasher.hash_one(key), |&id| strings.key(id) == key)
            .copied()
    }
}
