//! Runs of llama.cpp's `llama-completion`, which can apply an adapter.

use crate::process::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A `llama-completion`.
#[derive(Debug, Clone)]
pub struct LlamaCompletion {
    program: PathBuf,
}

impl LlamaCompletion {
    /// The program at `program`.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    /// Decodes `tokens` tokens on the CPU, after a first one that belongs to prefill.
    pub fn decode(&self, model: &Path, tokens: usize, threads: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-m").arg(model).args(["-p", "Once", "-n"]);
        command.arg((tokens + 1).to_string()).arg("-t").arg(threads.to_string());
        command.args([
            "-c",
            "256",
            "-ngl",
            "0",
            "--temp",
            "0",
            "--ignore-eos",
            "-no-cnv",
            "--perf",
        ]);
        command
    }
}

/// Tokens per second of the decode that the program reports on standard error: `eval time = ...
/// ms / N runs ( ... ms per token, S tokens per second)`.
///
/// # Errors
/// If it reports none.
pub fn decode_speed(report: &str) -> Outcome<f64> {
    let is_decode = |line: &&str| line.contains("eval time =") && !line.contains("prompt eval time");
    let line = report
        .lines()
        .find(is_decode)
        .ok_or("`llama-completion` reported no decode.")?;
    let speed = line
        .split(',')
        .next_back()
        .and_then(|end| end.split_whitespace().next());
    speed
        .and_then(|speed| speed.parse().ok())
        .ok_or_else(|| format!("`llama-completion` reported no speed: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_decode_is_read() {
        let report = "common_perf_print: prompt eval time =  20.00 ms /  2 tokens ( 10.00 ms per token, 100.00 tokens \
                      per second)\n\
                      common_perf_print:        eval time = 320.00 ms / 32 runs   ( 8.00 ms per token, 125.00 tokens \
                      per second)\n\
                      common_perf_print:       total time = 350.00 ms / 34 tokens";
        assert_eq!(decode_speed(report), Ok(125.0));
        assert!(decode_speed("").is_err());
        let broken = report.replace("125.00", "fast");
        assert!(decode_speed(&broken).is_err_and(|error| error.contains("fast")));
    }
}
