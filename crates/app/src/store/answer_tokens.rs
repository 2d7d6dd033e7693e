//! The tokens of answers, with which they are continued token for token. An answer without them is
//! continued by its text.

use rusqlite::{Connection, OptionalExtension, params};

/// Sets the tokens of an answer.
pub fn set(connection: &Connection, message: i64, ids: &[u32]) -> rusqlite::Result<()> {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    connection
        .prepare_cached("UPDATE message SET tokens = ?2 WHERE id = ?1")?
        .execute(params![message, bytes])?;
    Ok(())
}

/// The tokens of an answer. Empty if they are unknown.
pub fn get(connection: &Connection, message: i64) -> rusqlite::Result<Vec<u32>> {
    let bytes: Option<Option<Vec<u8>>> = connection
        .prepare_cached("SELECT tokens FROM message WHERE id = ?1")?
        .query_row(params![message], |row| row.get(0))
        .optional()?;
    let bytes = bytes.flatten().unwrap_or_default();
    let (chunks, _) = bytes.as_chunks::<4>();
    Ok(chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
}
