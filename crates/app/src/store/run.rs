//! Fine-tuning runs. Deleting one only marks it, so that it can be restored; its row is removed
//! with its files.

use super::changed;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::PathBuf;

pub(super) const MIGRATION: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    model_name TEXT NOT NULL,
    dataset INTEGER REFERENCES dataset (id) ON DELETE SET NULL,
    dataset_name TEXT NOT NULL,
    data_path TEXT NOT NULL,
    mapping TEXT,
    skip_broken INTEGER NOT NULL,
    settings TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('unfinished', 'finished', 'stopped', 'failed', 'interrupted')),
    detail TEXT,
    plan TEXT,
    outcome TEXT,
    checkpoint INTEGER,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    deleted_at INTEGER
) STRICT;
CREATE INDEX run_of_dataset ON run (dataset);
";

/// Whether the user has seen the end of a run.
pub(super) const SEEN: &str = "
ALTER TABLE run ADD COLUMN seen INTEGER NOT NULL DEFAULT 1;
";

/// State of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Active; becomes interrupted after a crash.
    Unfinished,
    /// Finished.
    Finished,
    /// The user stopped it.
    Stopped,
    /// Failed; the problem as the caller's JSON.
    Failed(String),
    /// Interrupted; the problem as the caller's JSON. `None` means by the end of the app.
    Interrupted(Option<String>),
}

impl State {
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Unfinished => ("unfinished", None),
            Self::Finished => ("finished", None),
            Self::Stopped => ("stopped", None),
            Self::Failed(problem) => ("failed", Some(problem)),
            Self::Interrupted(problem) => ("interrupted", problem.as_deref()),
        }
    }
}

/// One run, without its curves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Id.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// Id of the model, in the library.
    pub model: String,
    /// The model's name when the run was created.
    pub model_name: String,
    /// Id of the dataset. `None` means that it was purged.
    pub dataset: Option<i64>,
    /// The dataset's name when the run was created.
    pub dataset_name: String,
    /// The dataset's file when the run was created.
    pub data_path: PathBuf,
    /// Column mapping, as the caller's JSON.
    pub mapping: Option<String>,
    /// Whether malformed lines are skipped.
    pub skip_broken: bool,
    /// Settings, as the caller's JSON.
    pub settings: String,
    /// State.
    pub state: State,
    /// Plan, as the caller's JSON.
    pub plan: Option<String>,
    /// Outcome, as the caller's JSON.
    pub outcome: Option<String>,
    /// The step of its last checkpoint.
    pub checkpoint: Option<u32>,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// Whether the user has seen its end. True for an active run.
    pub seen: bool,
}

const COLUMNS: &str = "id, name, model, model_name, dataset, dataset_name, data_path, mapping, skip_broken, settings, \
    state, detail, plan, outcome, checkpoint, created_at, ended_at, seen";

fn row(row: &Row<'_>) -> rusqlite::Result<Run> {
    let detail: Option<String> = row.get(11)?;
    Ok(Run {
        id: row.get(0)?,
        name: row.get(1)?,
        model: row.get(2)?,
        model_name: row.get(3)?,
        dataset: row.get(4)?,
        dataset_name: row.get(5)?,
        data_path: PathBuf::from(row.get::<_, String>(6)?),
        mapping: row.get(7)?,
        skip_broken: row.get(8)?,
        settings: row.get(9)?,
        state: match row.get_ref(10)?.as_str()? {
            "unfinished" => State::Unfinished,
            "finished" => State::Finished,
            "stopped" => State::Stopped,
            "failed" => State::Failed(detail.unwrap_or_default()),
            _ => State::Interrupted(detail),
        },
        plan: row.get(12)?,
        outcome: row.get(13)?,
        checkpoint: row.get(14)?,
        created_at: row.get(15)?,
        ended_at: row.get(16)?,
        seen: row.get(17)?,
    })
}

/// All rows that are not deleted, newest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<Run>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run WHERE deleted_at IS NULL ORDER BY id DESC"
        ))?
        .query_map([], row)?
        .collect()
}

/// Returns one that is not deleted.
pub fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Run>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run WHERE id = ?1 AND deleted_at IS NULL"
        ))?
        .query_row(params![id], row)
        .optional()
}

/// A new run; see [`Run`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct New<'a> {
    pub name: &'a str,
    pub model: &'a str,
    pub model_name: &'a str,
    pub dataset: i64,
    pub dataset_name: &'a str,
    pub data_path: &'a str,
    pub mapping: Option<&'a str>,
    pub skip_broken: bool,
    pub settings: &'a str,
    pub created_at: i64,
}

/// Skips ids up to `number`, because the folder with this number is left from another store's run.
pub fn skip_to(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'run', 0
         WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'run')",
        [],
    )?;
    let raise = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'run' AND seq < ?1";
    connection.execute(raise, params![number]).map(drop)
}

/// Creates an unfinished run; ids are never reused.
pub fn create(connection: &Connection, new: &New<'_>) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO run (name, model, model_name, dataset, dataset_name, data_path, mapping, skip_broken, \
             settings, state, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'unfinished', ?10)",
        )?
        .execute(params![
            new.name,
            new.model,
            new.model_name,
            new.dataset,
            new.dataset_name,
            new.data_path,
            new.mapping,
            new.skip_broken,
            new.settings,
            new.created_at
        ])?;
    Ok(connection.last_insert_rowid())
}

/// Progress of an active run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress<'a> {
    /// State.
    pub state: State,
    /// Plan, as the caller's JSON.
    pub plan: Option<&'a str>,
    /// Outcome, as the caller's JSON.
    pub outcome: Option<&'a str>,
    /// The step of its last checkpoint.
    pub checkpoint: Option<u32>,
    /// Milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// See [`Run::seen`].
    pub seen: bool,
}

/// Saves a run's progress. Returns `false` if it does not exist.
pub fn save(connection: &Connection, id: i64, progress: &Progress<'_>) -> rusqlite::Result<bool> {
    let (state, detail) = progress.state.columns();
    changed(
        connection,
        "UPDATE run SET state = ?2, detail = ?3, plan = ?4, outcome = ?5, checkpoint = ?6, ended_at = ?7, seen = ?8
         WHERE id = ?1",
        params![
            id,
            state,
            detail,
            progress.plan,
            progress.outcome,
            progress.checkpoint,
            progress.ended_at,
            progress.seen
        ],
    )
}

/// Marks the end of a run as seen. Returns `false` if it does not exist.
pub fn see(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE run SET seen = 1 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id])
}

/// Renames a row. Returns `false` if it does not exist.
pub fn rename(connection: &Connection, id: i64, name: &str) -> rusqlite::Result<bool> {
    let sql = "UPDATE run SET name = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, name])
}

/// Marks a row as deleted. Returns `false` if it does not exist.
pub fn delete(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE run SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL";
    changed(connection, sql, params![id, now])
}

/// Undoes a deletion. Returns `false` if it was not deleted.
pub fn restore(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE run SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL";
    changed(connection, sql, params![id])
}

/// Ids of runs deleted before a time.
pub fn deleted(connection: &Connection, before: i64) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT id FROM run WHERE deleted_at < ?1")?
        .query_map(params![before], |row| row.get(0))?
        .collect()
}

/// Removes a deleted run, with its curves and its adapter.
pub fn remove(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    changed(
        connection,
        "DELETE FROM run WHERE id = ?1 AND deleted_at IS NOT NULL",
        params![id],
    )
}

/// Marks runs that a crash left unfinished as interrupted. Returns their number.
pub(super) fn interrupt_unfinished(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE run SET state = 'interrupted', seen = 0 WHERE state = 'unfinished'",
        [],
    )
}
