//! Detects that an answer repeats itself: its last tokens have a period, which means that each
//! equals the one a fixed number of tokens before it.

pub(crate) mod exemption;
#[cfg(test)]
mod tests;

/// Longest period, in tokens.
const MAX_PERIOD: usize = 256;

/// Minimum number of repetitions of a period, so that a refrain or a few equal paragraphs are none.
const MIN_TIMES: usize = 8;

/// Limit of a repetition that the prompt asks for, as a multiple of the usual one.
const EXEMPT_LIMITS: usize = 16;

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
    /// A period whose repetition the prompt asks for, while it lasts.
    exempt: Option<ExemptPeriod>,
}

#[derive(Debug, Clone, Copy)]
struct ExemptPeriod {
    period: usize,
    /// Repeated tokens after which the answer ends.
    max_count: usize,
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
    /// repeated tokens have reached the limit. `times_asked` returns the number of repetitions of
    /// these tokens that the prompt asks for, or `None` if it does not ask. They may begin anywhere
    /// in the period.
    pub fn push(&mut self, answer: &[u32], times_asked: impl FnOnce(&[u32]) -> Option<usize>) -> bool {
        let Some((last, before)) = answer.split_last() else {
            return false;
        };
        for (count, earlier) in self.counts.iter_mut().zip(before.iter().rev()) {
            *count = if earlier == last { *count + 1 } else { 0 };
        }
        // While a period lasts, its multiples are periods too, and no shorter one can begin.
        if let Some(exempt) = self.exempt {
            let count = self.count(exempt.period);
            if count > 0 {
                return count >= exempt.max_count;
            }
            self.exempt = None;
        }
        let Some(period) = (1..=MAX_PERIOD).find(|&period| self.count(period) >= self.max_count(period)) else {
            return false;
        };
        let Some(times) = times_asked(&answer[answer.len() - period..]) else {
            return true;
        };
        let max_count = period
            .saturating_mul(times)
            .max(self.limit.saturating_mul(EXEMPT_LIMITS));
        self.exempt = Some(ExemptPeriod { period, max_count });
        self.count(period) >= max_count
    }

    fn count(&self, period: usize) -> usize {
        self.counts[period - 1]
    }

    /// Repeated tokens after which an answer with this period ends.
    fn max_count(&self, period: usize) -> usize {
        self.limit.max(period.saturating_mul(self.times.max(MIN_TIMES)))
    }
}
