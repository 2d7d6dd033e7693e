//! The evaluations of runs.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

pub(super) const MIGRATION: &str = "
CREATE TABLE run_evaluation (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    loss REAL,
    best INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
";

/// An evaluation on the validation split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunEvaluation {
    /// Step after which it was made; 0 before the first.
    pub step: u32,
    /// Mean loss per token. `None` means NaN or infinite.
    pub loss: Option<f64>,
    /// Whether it is the best so far; the best adapter is saved.
    pub best: bool,
}

/// All evaluations of a run, in order.
pub fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Vec<RunEvaluation>> {
    connection
        .prepare_cached("SELECT step, loss, best FROM run_evaluation WHERE run = ?1 ORDER BY step")?
        .query_map(params![run], |row| {
            Ok(RunEvaluation {
                step: row.get(0)?,
                loss: row.get(1)?,
                best: row.get(2)?,
            })
        })?
        .collect()
}

/// Removes the evaluations after `step`: the run was resumed from an earlier step and has ended
/// before them.
pub fn remove_after(connection: &Connection, run: i64, step: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM run_evaluation WHERE run = ?1 AND step > ?2")?
        .execute(params![run, step])
        .map(drop)
}

/// Adds an evaluation and removes earlier rows from its step on: a resumed run repeats those steps.
pub fn add(connection: &Connection, run: i64, evaluation: &RunEvaluation) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM run_evaluation WHERE run = ?1 AND step >= ?2")?
        .execute(params![run, evaluation.step])?;
    connection
        .prepare_cached("INSERT INTO run_evaluation (run, step, loss, best) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run, evaluation.step, evaluation.loss, evaluation.best])?;
    Ok(())
}
