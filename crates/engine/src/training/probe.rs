//! Measures forgetting: perplexity on a short general text that no run trains on.

use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::Model;
use hearth_llm::ops::MatmulPrecision;
use hearth_train::{Batch, Example, loss};

/// About six hundred words on everyday topics, written for this purpose.
const GENERAL_TEXT: &str = include_str!("../../../../assets/probe/general.txt");
/// Tokens per chunk.
const CHUNK: usize = 256;

/// Perplexity on the general text.
pub fn perplexity(model: &Model, tokenizer: &Tokenizer, precision: MatmulPrecision) -> f64 {
    let ids = tokenizer.encode(GENERAL_TEXT, Special::Text);
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let examples: Vec<Example> = ids
        .chunks(CHUNK)
        .map(|chunk| {
            let ids: Vec<u32> = bos.into_iter().chain(chunk.iter().copied()).collect();
            let trained = vec![true; ids.len()];
            Example { ids, trained }
        })
        .collect();
    let batch = Batch::new(&examples);
    (loss(model.decoder(), &batch, precision) / batch.trained.max(1) as f64).exp()
}
