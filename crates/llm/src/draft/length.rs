//! The length of a draft, chosen for the highest expected speed.

use super::acceptance::Acceptance;
use super::costs::StepCosts;

/// Minimum expected gain in speed by a draft, as a fraction, in a step with one row. In a step with
/// several rows, the minimum is divided by their number.
const MIN_GAIN: f64 = 0.02;

/// Chooses the draft length from the measured acceptance rate and step times.
#[derive(Debug, Clone, Copy)]
pub struct LengthPolicy<'a> {
    /// The acceptance rate.
    pub acceptance: &'a Acceptance,
    /// The times of steps and of drafting.
    pub costs: &'a StepCosts,
    /// Rows of the step without this draft, including the row of the sequence.
    pub rows: usize,
    /// Maximum tokens of the draft.
    pub max_tokens: usize,
    /// Whether to draft `max_tokens` tokens at any cost, for tests and measurements.
    pub is_forced: bool,
}

impl LengthPolicy<'_> {
    /// The length with the highest expected speed, for a draft whose tokens are all of one bucket
    /// and take `draft_seconds` each; 0 if no length pays.
    pub fn length(&self, bucket: usize, draft_seconds: f64) -> usize {
        if self.is_forced {
            return self.max_tokens;
        }
        let rate = self.acceptance.rate(bucket);
        let (mut best_length, mut best_speed) =
            (0, (1.0 + MIN_GAIN / self.rows.max(1) as f64) * self.speed(0, 0.0, 0.0));
        let (mut probability, mut expected) = (1.0, 0.0);
        for length in 1..=self.max_tokens {
            // A token is accepted only if all tokens before it are.
            probability *= rate;
            expected += probability;
            let speed = self.speed(length, expected, draft_seconds * length as f64);
            if speed > best_speed {
                (best_length, best_speed) = (length, speed);
            }
        }
        best_length
    }

    /// Whether to verify one more token, which takes `draft_seconds` to draft and is accepted with
    /// this probability. The draft has `length` tokens before it, of which `expected` are expected
    /// to be accepted.
    pub fn pays(&self, length: usize, expected: f64, probability: f64, draft_seconds: f64) -> bool {
        let rows = self.rows + length;
        let added_seconds = (self.costs.step(rows + 1) - self.costs.step(rows)).max(0.0) + draft_seconds;
        // The token must not lower the speed of the draft so far, or without a draft.
        let draft_speed = self.speed(length, expected, self.costs.draft() * length as f64);
        let speed = draft_speed.max(self.speed(0, 0.0, 0.0));
        length < self.max_tokens && (self.is_forced || probability >= added_seconds * speed)
    }

    /// Tokens per second of a step that verifies `length` tokens, of which `expected` are expected
    /// to be accepted. Drafting all of them takes `draft_seconds`.
    fn speed(&self, length: usize, expected: f64, draft_seconds: f64) -> f64 {
        let rows = self.rows.max(1);
        (rows as f64 + expected) / (self.costs.step(rows + length) + draft_seconds).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BUCKETS;
    use super::*;

    /// The length at an acceptance rate. A step takes 1 s and `row_seconds` more per further row.
    fn length(rate: f64, row_seconds: f64, draft_seconds: f64, rows: usize) -> usize {
        let acceptance = Acceptance::new([rate; BUCKETS]);
        let mut costs = StepCosts::new(0.0);
        costs.record(1, 1.0);
        costs.record(41, 1.0 + 40.0 * row_seconds);
        let policy = LengthPolicy {
            acceptance: &acceptance,
            costs: &costs,
            rows,
            max_tokens: 32,
            is_forced: false,
        };
        policy.length(0, draft_seconds)
    }

    #[test]
    fn the_length_follows_acceptance_and_costs() {
        assert_eq!(length(1.0, 0.1, 0.0, 1), 32, "always accepted, and rows are cheap");
        assert_eq!(length(0.0, 0.1, 0.0, 1), 0, "never accepted");
        assert_eq!(length(0.5, 1.0, 0.0, 1), 0, "a row takes as long as a step");
        assert_eq!(length(0.5, 0.1, 1.0, 1), 0, "drafting takes as long as a step");
        let [low, middle, high] = [0.3, 0.6, 0.9].map(|rate| length(rate, 0.1, 0.0, 1));
        assert!(
            0 < low && low < middle && middle < high && high < 32,
            "{low} {middle} {high}"
        );
        assert!(length(0.7, 0.1, 0.1, 1) < length(0.7, 0.1, 0.0, 1));
        assert!(
            length(0.6, 0.2, 0.0, 8) <= length(0.6, 0.2, 0.0, 1),
            "in a batch, a further row gains less"
        );
    }

    #[test]
    fn a_token_pays_if_its_probability_exceeds_the_relative_cost_of_its_row() {
        let acceptance = Acceptance::new([0.5; BUCKETS]);
        let mut costs = StepCosts::new(0.0);
        costs.record(1, 1.0);
        costs.record(11, 2.0);
        let policy = LengthPolicy {
            acceptance: &acceptance,
            costs: &costs,
            rows: 1,
            max_tokens: 4,
            is_forced: false,
        };
        assert!(policy.pays(0, 0.0, 0.11, 0.0) && !policy.pays(0, 0.0, 0.09, 0.0));
        assert!(policy.pays(3, 0.0, 0.11, 0.0) && !policy.pays(4, 0.0, 1.0, 0.0));
        assert!(
            !policy.pays(3, 3.0, 0.11, 0.0),
            "the step with three accepted tokens is faster without the fourth"
        );
        assert!(!policy.pays(0, 0.0, 0.2, 0.15));
        let forced = LengthPolicy {
            is_forced: true,
            ..policy
        };
        assert!(forced.pays(3, 0.0, 0.0, 9.0) && !forced.pays(4, 0.0, 1.0, 0.0));
        assert_eq!(forced.length(0, 9.0), 4);
    }
}
