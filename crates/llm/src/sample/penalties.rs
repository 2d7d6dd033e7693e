//! Repetition, frequency and presence penalties.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;
use std::collections::{HashMap, VecDeque};

/// Lowers the logits of recent tokens. The repetition penalty divides positive logits and
/// multiplies negative ones (<https://arxiv.org/abs/1909.05858>). Then the frequency penalty is
/// subtracted for each occurrence, and the presence penalty once.
#[derive(Debug, Clone)]
pub(super) struct Penalties {
    repetition: f32,
    frequency: f32,
    presence: f32,
    /// The number of recent tokens that are penalized.
    last_n: usize,
    recent: VecDeque<u32>,
    /// The number of occurrences of each recent token.
    counts: HashMap<u32, u32>,
}

impl Penalties {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        params
            .has_penalties()
            .then(|| Box::new(Self::new(params)) as Box<dyn Filter>)
    }

    fn new(params: &SamplingParams) -> Self {
        Self {
            repetition: params.repetition_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            last_n: params.repeat_last_n,
            recent: VecDeque::new(),
            counts: HashMap::new(),
        }
    }
}

impl Filter for Penalties {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        if self.counts.is_empty() {
            return;
        }
        let logits = candidates.logits_mut(logits);
        for (&id, &count) in &self.counts {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = if *logit > 0.0 {
                    *logit / self.repetition
                } else {
                    *logit * self.repetition
                };
                *logit -= count as f32 * self.frequency + self.presence;
            }
        }
    }

    fn accept(&mut self, token: u32) {
        if self.recent.len() == self.last_n
            && let Some(oldest) = self.recent.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
        self.recent.push_back(token);
        *self.counts.entry(token).or_default() += 1;
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_follow_their_formulas() {
        let check = |change: fn(&mut SamplingParams), expected: [f32; 3]| {
            let mut params = SamplingParams {
                repeat_last_n: 64,
                ..SamplingParams::greedy()
            };
            change(&mut params);
            let mut penalties = Penalties::new(&params);
            [0, 0, 1].into_iter().for_each(|token| penalties.accept(token));
            let mut candidates = Candidates::default();
            candidates.begin();
            let logits = [2.0, -2.0, 3.0];
            penalties.apply(&logits, &mut candidates, &mut Draws::new(0));
            assert_eq!(candidates.logits(&logits), expected);
        };
        check(|s| s.repetition_penalty = 2.0, [1.0, -4.0, 3.0]);
        check(|s| s.frequency_penalty = 0.5, [1.0, -2.5, 3.0]);
        check(|s| s.presence_penalty = 0.5, [1.5, -2.5, 3.0]);
        check(|s| (s.frequency_penalty, s.repeat_last_n) = (0.5, 2), [1.5, -2.5, 3.0]);
    }
}
