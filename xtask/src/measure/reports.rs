//! Reports that programs print with `--json`, or write to a log.

use crate::process::Outcome;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The report of `hearth bench`.
#[derive(Debug, Deserialize)]
pub struct BenchReport {
    /// Median speed of prefill in tokens per second; none without a prompt.
    pub prompt_tok_s: Option<f64>,
    /// Median speed of decode in tokens per second; none without generated tokens.
    pub gen_tok_s: Option<f64>,
    /// Seconds of loading.
    pub load_s: f64,
    /// Maximum resident set size in MB; none if the system does not report it.
    pub peak_rss_mb: Option<f64>,
    /// The ID of the device.
    pub device: String,
}

/// The report of `hearth train`.
#[derive(Debug, Deserialize, Serialize)]
pub struct TrainReport {
    /// Tokens per second over all steps.
    pub tok_s: f64,
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// Maximum resident set size in MB; none if the system does not report it.
    pub peak_rss_mb: Option<f64>,
}

/// The report of `hearth plan`.
#[derive(Debug, Deserialize)]
pub struct PlanReport {
    /// Layers of the model, the output layer included.
    pub layers_total: u64,
    /// The devices, and the weights on each.
    pub devices: Vec<PlannedDevice>,
}

/// A device of a plan.
#[derive(Debug, Deserialize)]
pub struct PlannedDevice {
    /// Its ID.
    pub id: String,
    /// Bytes of weights.
    pub weights: f64,
}

/// A line of a training run's `log.jsonl`.
#[derive(Debug, Deserialize)]
pub struct TrainLog {
    /// Tokens of the step.
    pub tokens: f64,
    /// Speed of the step.
    pub tokens_per_second: f64,
}

/// A line of `llama-bench -o jsonl`.
#[derive(Debug, Deserialize)]
pub struct LlamaResult {
    /// The commit it was built from.
    pub build_commit: String,
    /// Its backends.
    pub backends: String,
    /// Its GPU; empty without one.
    pub gpu_info: String,
    /// Tokens of the prompt; 0 if decode was measured.
    pub n_prompt: u64,
    /// Generated tokens; 0 if prefill was measured.
    pub n_gen: u64,
    /// CPU threads.
    pub n_threads: u64,
    /// Mean speed in tokens per second.
    pub avg_ts: f64,
    /// The speed of each repetition.
    pub samples_ts: Vec<f64>,
}

impl TrainLog {
    /// Reads the log in a run's folder.
    ///
    /// # Errors
    /// If it cannot be read, or a line is not a step.
    pub fn read(run: &Path) -> Outcome<Vec<Self>> {
        let file = run.join("log.jsonl");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        text.lines()
            .map(|line| parse(&file.display().to_string(), line))
            .collect()
    }
}

/// Parses a report.
///
/// # Errors
/// If it is not JSON or lacks a field; the message names `source`.
pub fn parse<T: DeserializeOwned>(source: &str, json: &str) -> Outcome<T> {
    serde_json::from_str(json).map_err(|error| format!("{source}: the report could not be read ({error}): {json}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_an_error() {
        let whole = r#"{"prompt_tok_s":null,"gen_tok_s":25.5,"load_s":0.5,"peak_rss_mb":100.0,"device":"cpu"}"#;
        let report: BenchReport = parse("hearth bench", whole).expect("a report");
        assert_eq!((report.prompt_tok_s, report.gen_tok_s), (None, Some(25.5)));
        let partial = whole.replace("load_s", "load_ms");
        let error = parse::<BenchReport>("hearth bench", &partial).expect_err("a missing field");
        assert!(error.contains("hearth bench") && error.contains("load_s"), "{error}");
    }
}
