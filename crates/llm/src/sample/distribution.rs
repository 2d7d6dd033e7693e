//! The distribution after the filters: tokens and their probabilities.

use super::candidates::Candidates;
use super::greedy::greedy;

/// Tokens and their probabilities. Tokens that it does not name have the probability 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Token and weight, in the order of the draw; the weights sum to `total`.
    tokens: Vec<(u32, f64)>,
    total: f64,
}

impl Distribution {
    /// The tokens with their probabilities, which sum to 1.
    pub fn probabilities(&self) -> impl ExactSizeIterator<Item = (u32, f64)> {
        self.tokens.iter().map(|(id, weight)| (*id, weight / self.total))
    }

    /// The probability of a token.
    pub fn probability(&self, id: u32) -> f64 {
        let of = self.probabilities().find(|(token, _)| *token == id);
        of.map_or(0.0, |(_, probability)| probability)
    }

    /// The token at `unit`, from 0 to 1, of the cumulated probabilities; `None` if there are no
    /// tokens.
    pub fn draw(&self, unit: f64) -> Option<u32> {
        let mut left = unit * self.total;
        for (id, weight) in &self.tokens {
            left -= weight;
            if left < 0.0 {
                return Some(*id);
            }
        }
        // Rounding can move a draw past the last token that has a probability.
        let possible = self.tokens.iter().rev().find(|(_, weight)| *weight > 0.0);
        possible.map(|(id, _)| *id)
    }

    /// Sets it to what filters left; returns whether there is any token.
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
            let peak = list.iter().map(|c| c.logit).reduce(f32::max).unwrap_or(0.0);
            let weight = |logit: f32| (f64::from(logit - peak) / temperature).exp();
            self.tokens.extend(list.iter().map(|c| (c.id, weight(c.logit))));
        }
        self.total = self.tokens.iter().map(|(_, weight)| weight).sum();
        !self.tokens.is_empty()
    }
}
