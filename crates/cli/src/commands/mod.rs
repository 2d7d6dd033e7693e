//! The commands, one per file.

pub mod bench;
pub mod chat;
pub mod devices;
pub mod doctor;
pub mod export;
mod gradients;
pub mod list;
pub mod perplexity;
pub mod plan;
pub mod probe;
pub mod pull;
pub mod run;
pub mod tokenize;
pub mod train;
pub mod worker;

use crate::failure::Failure;
use serde::Serialize;
use std::io::Write;

/// Print one object as the last line.
fn print_json(object: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(object).map_err(Failure::new)?;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Peak resident memory in MiB; a command is one process.
fn peak_rss_mb() -> Option<f64> {
    hearth_engine::memory::peak().map(|bytes| bytes as f64 / f64::from(1 << 20))
}
