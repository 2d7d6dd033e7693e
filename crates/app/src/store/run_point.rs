//! The steps of runs: the points of their curves.

use super::or_zero;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

pub(super) const MIGRATION: &str = "
CREATE TABLE run_point (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    epoch REAL NOT NULL,
    loss REAL,
    learning_rate REAL NOT NULL,
    gradient_norm REAL,
    tokens_per_second REAL NOT NULL,
    memory INTEGER NOT NULL,
    seconds_left REAL NOT NULL,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
";

/// A step of a run: a point of its curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunPoint {
    /// The step, from 1.
    pub step: u32,
    /// Epochs so far.
    pub epoch: f32,
    /// Mean loss per trained token.
    pub loss: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm before clipping.
    pub gradient_norm: f64,
    /// Tokens per second in this step.
    pub tokens_per_second: f64,
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Estimated seconds left.
    pub seconds_left: f64,
}

const COLUMNS: &str = "step, epoch, loss, learning_rate, gradient_norm, tokens_per_second, memory, seconds_left";

/// Reads a row. SQLite stores NaN as NULL.
fn read_row(row: &Row<'_>) -> rusqlite::Result<RunPoint> {
    Ok(RunPoint {
        step: row.get(0)?,
        epoch: row.get(1)?,
        loss: row.get::<_, Option<f64>>(2)?.unwrap_or(f64::NAN),
        learning_rate: row.get(3)?,
        gradient_norm: row.get::<_, Option<f64>>(4)?.unwrap_or(f64::NAN),
        tokens_per_second: row.get(5)?,
        memory: row.get::<_, i64>(6)?.unsigned_abs(),
        seconds_left: row.get(7)?,
    })
}

/// All points of a run, in order.
pub fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Vec<RunPoint>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM run_point WHERE run = ?1 ORDER BY step"))?
        .query_map(params![run], read_row)?
        .collect()
}

/// The last point of a run.
pub fn last(connection: &Connection, run: i64) -> rusqlite::Result<Option<RunPoint>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run_point WHERE run = ?1 ORDER BY step DESC LIMIT 1"
        ))?
        .query_row(params![run], read_row)
        .optional()
}

/// Removes the steps after `step`: the run was resumed from an earlier step and has ended before
/// them.
pub fn remove_after(connection: &Connection, run: i64, step: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM run_point WHERE run = ?1 AND step > ?2")?
        .execute(params![run, step])
        .map(drop)
}

/// Adds consecutive steps and removes earlier rows from the first of them on: a resumed run repeats
/// those steps.
pub fn add(connection: &Connection, run: i64, points: &[RunPoint]) -> rusqlite::Result<()> {
    let Some(first) = points.first() else { return Ok(()) };
    connection
        .prepare_cached("DELETE FROM run_point WHERE run = ?1 AND step >= ?2")?
        .execute(params![run, first.step])?;
    let mut insert = connection.prepare_cached(&format!(
        "INSERT INTO run_point (run, {COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    ))?;
    for point in points {
        insert.execute(params![
            run,
            point.step,
            or_zero(point.epoch.into()),
            point.loss,
            or_zero(point.learning_rate),
            point.gradient_norm,
            or_zero(point.tokens_per_second),
            i64::try_from(point.memory).unwrap_or(i64::MAX),
            or_zero(point.seconds_left)
        ])?;
    }
    Ok(())
}
