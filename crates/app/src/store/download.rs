//! Downloads: their sources and states. The bytes are in the download folder.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE download (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    remote TEXT,
    state TEXT NOT NULL,
    detail TEXT,
    added_at INTEGER NOT NULL
) STRICT;
";

/// State of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits, or is in progress.
    Queued,
    /// The user paused it.
    Paused,
    /// Failed, with the problem as JSON.
    Failed(String),
    /// Complete, with the path of its first file.
    Done(String),
}

/// One download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Id.
    pub id: i64,
    /// The requested source; unique.
    pub source: String,
    /// Display name.
    pub name: String,
    /// Its files as JSON. `None` means that the hub has not listed them yet.
    pub remote: Option<String>,
    /// State.
    pub state: State,
}

const COLUMNS: &str = "id, source, name, remote, state, detail";

fn row(row: &Row<'_>) -> rusqlite::Result<Download> {
    let detail = || row.get::<_, Option<String>>(5).map(Option::unwrap_or_default);
    Ok(Download {
        id: row.get(0)?,
        source: row.get(1)?,
        name: row.get(2)?,
        remote: row.get(3)?,
        state: match row.get::<_, String>(4)?.as_str() {
            "queued" => State::Queued,
            "failed" => State::Failed(detail()?),
            "done" => State::Done(detail()?),
            _ => State::Paused,
        },
    })
}

fn columns(state: &State) -> (&'static str, Option<&str>) {
    match state {
        State::Queued => ("queued", None),
        State::Paused => ("paused", None),
        State::Failed(problem) => ("failed", Some(problem)),
        State::Done(path) => ("done", Some(path)),
    }
}

/// All downloads, newest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Download>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM download ORDER BY added_at DESC, id DESC"
        ))?
        .query_map([], row)?
        .collect()
}

/// The download with this id.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Download>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM download WHERE id = ?1"))?
        .query_row(params![id], row)
        .optional()
}

/// Queues a download. A download from the same source is queued again. Returns its id.
pub fn queue(connection: &Connection, source: &str, name: &str, now: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO download (source, name, state, added_at) VALUES (?1, ?2, 'queued', ?3)
            ON CONFLICT (source) DO UPDATE SET state = 'queued', detail = NULL, added_at = ?3 RETURNING id",
        )?
        .query_row(params![source, name, now], |row| row.get(0))
}

/// Sets the name and the files that the hub listed. Returns `false` if the download was removed.
pub fn set_remote(connection: &Connection, id: i64, name: &str, remote: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE download SET name = ?2, remote = ?3 WHERE id = ?1";
    changed(connection, sql, &[&id, &name, &remote])
}

/// Sets the state. Returns `false` if the download was removed.
pub fn set_state(connection: &Connection, id: i64, state: &State) -> rusqlite::Result<bool> {
    let (state, detail) = columns(state);
    let sql = "UPDATE download SET state = ?2, detail = ?3 WHERE id = ?1";
    changed(connection, sql, &[&id, &state, &detail])
}

/// Removes a download from the list. Returns `false` if there is none.
pub fn remove(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    changed(connection, "DELETE FROM download WHERE id = ?1", &[&id])
}
