//! The source of a conversation's title. A generated title replaces an automatic one only.

use super::changed;
use rusqlite::{Connection, params};

/// Rows of earlier versions have no source. Their title is automatic if it is the first words.
pub(super) const MIGRATION: &str = "
ALTER TABLE conversation ADD COLUMN titled TEXT;
";

/// The source of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleSource {
    /// The first words of the first message.
    FirstWords,
    /// A model.
    Generated,
    /// The user, or another conversation or program.
    User,
}

impl TitleSource {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FirstWords => "first_words",
            Self::Generated => "generated",
            Self::User => "user",
        }
    }
}

/// SQL condition for a conversation (`?1`) with an automatic title and the answer (`?3`) that it is
/// titled after. `?2` is the first words.
const IS_REPLACEABLE: &str = "id = ?1 AND deleted_at IS NULL
    AND (titled = 'first_words' OR titled IS NULL AND title = ?2)
    AND EXISTS (SELECT 1 FROM message WHERE id = ?3 AND conversation = ?1)";

/// Whether a conversation exists and has an automatic title, and the answer exists.
pub fn is_replaceable(connection: &Connection, id: i64, first_words: &str, answer: i64) -> rusqlite::Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM conversation WHERE {IS_REPLACEABLE})");
    connection
        .prepare_cached(&sql)?
        .query_row(params![id, first_words, answer], |row| row.get(0))
}

/// Replaces an automatic title with one generated from an answer. Returns `false` if it is not
/// automatic, or the answer is deleted.
pub fn replace_automatic(
    connection: &Connection,
    id: i64,
    first_words: &str,
    answer: i64,
    title: &str,
) -> rusqlite::Result<bool> {
    let sql = format!("UPDATE conversation SET title = ?4, titled = ?5 WHERE {IS_REPLACEABLE}");
    let generated = TitleSource::Generated.name();
    changed(connection, &sql, params![id, first_words, answer, title, generated])
}

/// Whether an answer exists and all other answers of its conversation failed or are unfinished.
pub fn is_first_answer(connection: &Connection, conversation: i64, answer: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM message WHERE id = ?2 AND conversation = ?1)
                AND NOT EXISTS (SELECT 1 FROM message WHERE conversation = ?1 AND id <> ?2 AND role = 'assistant'
                AND state NOT IN ('failed', 'unfinished'))",
        )?
        .query_row(params![conversation, answer], |row| row.get(0))
}
