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

/// A byte count for people.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Peak resident memory in MiB; a command is one process.
fn peak_rss_mb() -> Option<f64> {
    hearth_engine::memory::peak().map(|bytes| bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        let check = |n, text: &str| assert_eq!(bytes(n), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check(98_362_432, "93.8 MiB");
        check(u64::MAX, "16777216 TiB");
    }
}
