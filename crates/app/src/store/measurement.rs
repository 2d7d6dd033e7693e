//! Speed measurements of models: the newest result per load settings.

use super::or_zero;
use rusqlite::{Connection, Row, params};

pub(super) const MIGRATION: &str = "
CREATE TABLE measurement (
    model TEXT NOT NULL,
    model_name TEXT NOT NULL,
    device TEXT NOT NULL,
    gpu_layers INTEGER NOT NULL,
    layers_total INTEGER NOT NULL,
    kv TEXT NOT NULL,
    threads INTEGER NOT NULL,
    prompt_tokens_per_second REAL NOT NULL,
    tokens_per_second REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    measured_at INTEGER NOT NULL,
    PRIMARY KEY (model, device, gpu_layers, kv)
) STRICT, WITHOUT ROWID;
";

/// Adds the number of threads to the key and names devices by identity. Earlier rows are dropped,
/// since they named devices by their index in a list.
pub(super) const BY_THREADS: &str = "
DROP TABLE measurement;
CREATE TABLE measurement (
    model TEXT NOT NULL,
    model_name TEXT NOT NULL,
    device TEXT NOT NULL,
    gpu_layers INTEGER NOT NULL,
    layers_total INTEGER NOT NULL,
    kv TEXT NOT NULL,
    threads INTEGER NOT NULL,
    prompt_tokens_per_second REAL NOT NULL,
    tokens_per_second REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    measured_at INTEGER NOT NULL,
    PRIMARY KEY (model, device, gpu_layers, kv, threads)
) STRICT, WITHOUT ROWID;
";

/// A measurement; see [`crate::wire::Measurement`].
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Measurement {
    pub model: String,
    pub model_name: String,
    pub device: String,
    pub gpu_layers: u32,
    pub layers_total: u32,
    pub kv: String,
    pub threads: u32,
    pub prompt_tokens_per_second: f64,
    pub tokens_per_second: f64,
    pub prompt_tokens: u32,
    pub tokens: u32,
    pub measured_at: i64,
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<Measurement> {
    Ok(Measurement {
        model: row.get(0)?,
        model_name: row.get(1)?,
        device: row.get(2)?,
        gpu_layers: row.get(3)?,
        layers_total: row.get(4)?,
        kv: row.get(5)?,
        threads: row.get(6)?,
        prompt_tokens_per_second: row.get(7)?,
        tokens_per_second: row.get(8)?,
        prompt_tokens: row.get(9)?,
        tokens: row.get(10)?,
        measured_at: row.get(11)?,
    })
}

/// The newest measurements, at most `max_count`, newest first.
pub fn list(connection: &Connection, max_count: u32) -> rusqlite::Result<Vec<Measurement>> {
    connection
        .prepare_cached(
            "SELECT model, model_name, device, gpu_layers, layers_total, kv, threads, prompt_tokens_per_second,
                tokens_per_second, prompt_tokens, tokens, measured_at
            FROM measurement ORDER BY measured_at DESC, model, device, gpu_layers, kv, threads LIMIT ?1",
        )?
        .query_map(params![max_count], read_row)?
        .collect()
}

/// Saves a measurement, in place of an earlier one with the same settings.
pub fn save(connection: &Connection, measurement: &Measurement) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO measurement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            measurement.model,
            measurement.model_name,
            measurement.device,
            measurement.gpu_layers,
            measurement.layers_total,
            measurement.kv,
            measurement.threads,
            or_zero(measurement.prompt_tokens_per_second),
            or_zero(measurement.tokens_per_second),
            measurement.prompt_tokens,
            measurement.tokens,
            measurement.measured_at,
        ])?;
    Ok(())
}
