//! `hearth perplexity`: the perplexity of a model on a text.

use super::print_json;
use super::tokenize::read_text;
use crate::args::Perplexity;
use crate::failure::Failure;
use crate::model::{ChosenDraft, ChosenModel, load, set_adapters};
use crate::progress::Progress;
use crate::terminal::stdout;
use hearth_formats::tokenizer::Special;
use hearth_llm::ops::MatmulPrecision;
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    perplexity: f64,
    stderr: f64,
    chunks: usize,
    tok_s: f64,
}

/// Scores the file in chunks and prints the perplexity.
pub fn run(args: &Perplexity) -> Result<(), Failure> {
    let text = read_text(&args.file)?;
    let mut engine = load(
        &ChosenModel::find(&args.load.model)?,
        &args.load.options,
        Some(args.ctx),
        ChosenDraft::NONE,
    )?;
    set_adapters(&mut engine, &args.adapters)?;
    let context = args.ctx as usize;
    let bos = engine.tokenizer().bos().filter(|_| engine.tokenizer().add_bos());
    let ids: Vec<u32> = bos
        .into_iter()
        .chain(engine.tokenizer().encode(&text, Special::Text))
        .collect();
    let chunks = ids.len() / context;
    if chunks == 0 {
        let (file, count) = (args.file.display(), ids.len());
        let message = format!(
            "{file} has {count} tokens, fewer than one chunk of {context}. Use a longer text or a smaller --ctx."
        );
        return Err(Failure::new(message));
    }
    let precision = if args.exact {
        MatmulPrecision::F32
    } else {
        MatmulPrecision::Int8Activations
    };
    let mut session = engine.new_session(context)?.with_precision(precision);
    let mut progress = Progress::new();
    let mut scores = Scores::default();
    let start = Instant::now();
    for (index, chunk) in ids.chunks_exact(context).enumerate() {
        progress.show(index as f32 / chunks as f32, "scoring");
        let mut chunk = chunk.to_vec();
        if let Some(bos) = bos {
            chunk[0] = bos;
        }
        // The tokens of the first half are only context.
        session
            .score(&chunk, context / 2 + 1)
            .map_err(Failure::new)?
            .into_iter()
            .for_each(|score| scores.add(score));
    }
    drop(progress);
    let (perplexity, stderr) = scores.perplexity();
    let tok_s = (chunks * context) as f64 / start.elapsed().as_secs_f64();
    let report = Report {
        perplexity,
        stderr,
        chunks,
        tok_s,
    };
    if args.output.json {
        return print_json(&report);
    }
    writeln!(
        stdout(),
        "perplexity {perplexity:.4} +/- {stderr:.4} over {chunks} chunks, {tok_s:.0} tokens/s"
    )?;
    Ok(())
}

/// Sums over the scored tokens.
#[derive(Default)]
struct Scores {
    count: f64,
    /// Sum of the negative log-likelihoods.
    sum: f64,
    /// Sum of their squares.
    squares: f64,
}

impl Scores {
    fn add(&mut self, log_probability: f64) {
        self.count += 1.0;
        self.sum -= log_probability;
        self.squares += log_probability * log_probability;
    }

    /// The exponential of the mean negative log-likelihood, and its standard error to first order.
    fn perplexity(&self) -> (f64, f64) {
        let mean = self.sum / self.count;
        let perplexity = mean.exp();
        let variance = (self.squares / self.count - mean * mean).max(0.0);
        let stderr = if self.count > 1.0 {
            (variance / (self.count - 1.0)).sqrt() * perplexity
        } else {
            0.0
        };
        (perplexity, stderr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_of_a_uniform_distribution_is_its_size() {
        let mut scores = Scores::default();
        (0..10).for_each(|_| scores.add((1.0_f64 / 8.0).ln()));
        let (perplexity, stderr) = scores.perplexity();
        assert!(
            (perplexity - 8.0).abs() < 1e-9 && stderr < 1e-6,
            "{perplexity} {stderr}"
        );
        let mut scores = Scores::default();
        [0.5_f64, 0.125].into_iter().for_each(|p| scores.add(p.ln()));
        let (perplexity, stderr) = scores.perplexity();
        // Negative log-likelihoods of 1 and 3 bits: mean 2, standard deviation 1.
        assert!(
            (perplexity - 4.0).abs() < 1e-9 && (stderr - 4.0 * 2.0_f64.ln()).abs() < 1e-9,
            "{perplexity} {stderr}"
        );
    }

    #[test]
    fn the_json_has_the_documented_fields() {
        let report = Report {
            perplexity: 2.0,
            stderr: 0.5,
            chunks: 3,
            tok_s: 10.0,
        };
        let expected = serde_json::json!({"perplexity": 2.0, "stderr": 0.5, "chunks": 3, "tok_s": 10.0});
        assert_eq!(serde_json::to_value(report).unwrap(), expected);
    }
}
