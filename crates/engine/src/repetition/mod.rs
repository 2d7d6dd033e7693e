//! Detects that an answer repeats itself: its last tokens have a period, which means that each
//! equals the one a fixed number of tokens before it.

pub(crate) mod exemption;
#[cfg(test)]
mod tests;

/// Longest period, in tokens.
const MAX_PERIOD: usize = 256;

/// Minimum number of repetitions of a period, so that a refrain or a few equal paragraphs are none.
const MIN_TIMES: usize = 8;

/// The repeated tokens of an answer.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// Repeated tokens after which an answer ends.
    limit: usize,
    /// Number of repetitions that the user may have asked for.
    times: usize,
    /// For each period from 1, the number of tokens at the end that equal the token one period
    /// before.
    counts: Vec<usize>,
    /// A period whose repetition the user asked for, while it lasts.
    exempt: Option<usize>,
}

impl Repetition {
    /// Counts from the next token on. `times` is the number of repetitions that the user may have
    /// asked for.
    pub fn new(limit: u32, times: usize) -> Self {
        Self {
            limit: limit as usize,
            times,
            counts: vec![0; MAX_PERIOD],
            exempt: None,
        }
    }

    /// Counts the last of an answer's tokens. Returns whether the answer ends after it, because the
    /// repeated tokens have reached the limit. `is_asked` tells whether the user asked for the
    /// repetition of these tokens, which may begin anywhere in the period.
    pub fn push(&mut self, answer: &[u32], is_asked: impl FnOnce(&[u32]) -> bool) -> bool {
        let Some((last, before)) = answer.split_last() else {
            return false;
        };
        for (count, earlier) in self.counts.iter_mut().zip(before.iter().rev()) {
            *count = if earlier == last { *count + 1 } else { 0 };
        }
        // While a period lasts, its multiples are periods too, and no shorter one can begin.
        if self.exempt.is_some_and(|period| self.count(period) > 0) {
            return false;
        }
        self.exempt = None;
        let Some(period) = (1..=MAX_PERIOD).find(|&period| self.count(period) >= self.max_count(period)) else {
            return false;
        };
        if is_asked(&answer[answer.len() - period..]) {
            self.exempt = Some(period);
        }
        self.exempt.is_none()
    }

    fn count(&self, period: usize) -> usize {
        self.counts[period - 1]
    }

    /// Repeated tokens after which an answer with this period ends.
    fn max_count(&self, period: usize) -> usize {
        self.limit.max(period.saturating_mul(self.times.max(MIN_TIMES)))
    }
}
