//! Models added by their path; the files are not copied.

use super::changed;
use rusqlite::{Connection, params};
use std::{collections::HashMap, path::PathBuf};

pub(super) const MIGRATION: &str = "
CREATE TABLE model (
    path TEXT PRIMARY KEY,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The adapter that was merged into a model. The model has its name.
pub(super) const ADAPTER: &str = "
ALTER TABLE model ADD COLUMN adapter INTEGER REFERENCES adapter (id) ON DELETE SET NULL;
";

/// The paths, oldest first.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<PathBuf>> {
    connection
        .prepare_cached("SELECT path FROM model ORDER BY added_at, path")?
        .query_map([], |row| row.get::<_, String>(0).map(PathBuf::from))?
        .collect()
}

/// Adds a path; an existing one is unchanged.
pub fn add(connection: &Connection, path: &str, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO model (path, added_at) VALUES (?1, ?2) ON CONFLICT (path) DO NOTHING")?
        .execute(params![path, now])?;
    Ok(())
}

/// Sets the adapter that was merged into a model. Returns `false` if the path does not exist.
pub fn set_adapter(connection: &Connection, path: &str, adapter: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE model SET adapter = ?2 WHERE path = ?1";
    changed(connection, sql, params![path, adapter])
}

/// The adapter in a merged model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Name.
    pub name: String,
    /// Its run. `None` if it was not trained here.
    pub run: Option<MergedRun>,
}

/// The run of an adapter in a merged model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRun {
    /// Settings, as the caller's JSON.
    pub settings: String,
    /// Id of its model, in the library.
    pub model: String,
    /// The model's name when the run was created.
    pub model_name: String,
}

/// The adapters in merged models, by path.
pub fn merged(connection: &Connection) -> rusqlite::Result<HashMap<PathBuf, Merged>> {
    connection
        .prepare_cached(
            "SELECT model.path, adapter.name, run.settings, run.model, run.model_name
                FROM model JOIN adapter ON adapter.id = model.adapter LEFT JOIN run ON run.id = adapter.run",
        )?
        .query_map([], |row| {
            let run = match row.get(2)? {
                Some(settings) => Some(MergedRun {
                    settings,
                    model: row.get(3)?,
                    model_name: row.get(4)?,
                }),
                None => None,
            };
            let name = row.get(1)?;
            Ok((row.get::<_, String>(0)?.into(), Merged { name, run }))
        })?
        .collect()
}

/// Removes a path. Returns `false` if it does not exist.
pub fn remove(connection: &Connection, path: &str) -> rusqlite::Result<bool> {
    Ok(connection
        .prepare_cached("DELETE FROM model WHERE path = ?1")?
        .execute(params![path])?
        > 0)
}
