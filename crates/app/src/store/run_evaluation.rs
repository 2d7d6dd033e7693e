//! The evaluations of runs.

use rusqlite::{Connection, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE run_evaluation (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    loss REAL,
    best INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
";

/// An evaluation; see [`crate::wire::RunEvaluation`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Evaluation {
    pub step: u32,
    pub loss: Option<f64>,
    pub best: bool,
}

/// All of a run, in order.
pub fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Vec<Evaluation>> {
    connection
        .prepare_cached("SELECT step, loss, best FROM run_evaluation WHERE run = ?1 ORDER BY step")?
        .query_map(params![run], |row| {
            Ok(Evaluation {
                step: row.get(0)?,
                loss: row.get(1)?,
                best: row.get(2)?,
            })
        })?
        .collect()
}

/// Adds an evaluation and removes earlier rows from its step on: a resumed run repeats those steps.
pub fn add(connection: &Connection, run: i64, evaluation: &Evaluation) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM run_evaluation WHERE run = ?1 AND step >= ?2")?
        .execute(params![run, evaluation.step])?;
    connection
        .prepare_cached("INSERT INTO run_evaluation (run, step, loss, best) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run, evaluation.step, evaluation.loss, evaluation.best])?;
    Ok(())
}
