//! The distribution of the next token after all filters.

use super::candidates::Candidates;
use super::greedy::greedy;

/// Tokens and their probabilities. Tokens that are not listed have the probability 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Tokens and their weights, in the order of the draw.
    tokens: Vec<(u32, f64)>,
    /// The sum of the weights.
    total: f64,
}

impl Distribution {
    /// The tokens with their probabilities, which sum to 1.
    pub fn probabilities(&self) -> impl ExactSizeIterator<Item = (u32, f64)> {
        self.tokens.iter().map(|(id, weight)| (*id, weight / self.total))
    }

    /// The probability of a token.
    pub fn probability(&self, id: u32) -> f64 {
        self.probabilities()
            .find(|(token, _)| *token == id)
            .map_or(0.0, |(_, probability)| probability)
    }

    /// The token at which the cumulative probability exceeds `unit`, a number in 0..1; `None` if
    /// there are no tokens.
    pub fn draw(&self, unit: f64) -> Option<u32> {
        let mut remaining = unit * self.total;
        for (id, weight) in &self.tokens {
            remaining -= weight;
            if remaining < 0.0 {
                return Some(*id);
            }
        }
        // Rounding can move a draw past the last token with a probability.
        let last = self.tokens.iter().rev().find(|(_, weight)| *weight > 0.0);
        last.map(|(id, _)| *id)
    }

    /// Sets the distribution to the softmax of the candidates' logits. Returns whether there are
    /// candidates.
    pub(super) fn set(&mut self, candidates: &mut Candidates, logits: &[f32]) -> bool {
        self.tokens.clear();
        let temperature = f64::from(candidates.temperature);
        if temperature == 0.0 {
            let first = if candidates.is_listed() {
                candidates.list(logits).iter().min_by(|a, b| a.order(b)).map(|c| c.id)
            } else {
                greedy(candidates.logits(logits))
            };
            self.tokens.extend(first.map(|id| (id, 1.0)));
        } else {
            let list = candidates.list(logits);
            let max = list.iter().map(|c| c.logit).reduce(f32::max).unwrap_or(0.0);
            let weight = |logit: f32| (f64::from(logit - max) / temperature).exp();
            self.tokens.extend(list.iter().map(|c| (c.id, weight(c.logit))));
        }
        self.total = self.tokens.iter().map(|(_, weight)| weight).sum();
        !self.tokens.is_empty()
    }
}
