//! What a model forgot: its perplexity on a small general text, which no run learns from.

use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::Model;
use hearth_llm::ops::Product;
use hearth_train::{Batch, Example, loss};

/// Written for this; about six hundred words on everyday things.
const GENERAL: &str = include_str!("../../../../assets/probe/general.txt");
/// Tokens of it that see each other.
const CHUNK: usize = 256;

/// Perplexity of the general text.
pub fn perplexity(model: &Model, tokenizer: &Tokenizer, product: Product) -> f64 {
    let ids = tokenizer.encode(GENERAL, Special::Text);
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let examples: Vec<Example> = ids
        .chunks(CHUNK)
        .map(|chunk| {
            let ids: Vec<u32> = bos.into_iter().chain(chunk.iter().copied()).collect();
            let trained = vec![true; ids.len()];
            Example { ids, trained }
        })
        .collect();
    let batch = Batch::of(&examples);
    (loss(model.decoder(), &batch, product) / batch.trained.max(1) as f64).exp()
}
