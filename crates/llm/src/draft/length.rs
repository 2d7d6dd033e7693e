//! The length of a draft: as many tokens as are expected to pay.

use super::acceptance::Acceptance;
use super::costs::StepCosts;

/// A draft is verified if a step with one answer is expected to be this much faster than without
/// it, as a share; with several answers, each has its part of that.
const MIN_GAIN: f64 = 0.02;

/// Chooses the draft length from the measured acceptance rate and step times.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// The share of accepted tokens.
    pub acceptance: &'a Acceptance,
    /// The times of steps.
    pub costs: &'a StepCosts,
    /// Rows of the step without this draft, the sequence's own one included.
    pub rows: usize,
    /// Most tokens.
    pub most: usize,
    /// Whether to draft `most` tokens, whatever they cost: for tests and measurements.
    pub is_forced: bool,
}

impl Budget<'_> {
    /// The best length of a draft whose tokens are all of one bucket, each of which takes `draft`
    /// seconds; 0 if no length pays.
    pub fn length(&self, bucket: usize, draft: f64) -> usize {
        if self.is_forced {
            return self.most;
        }
        let share = self.acceptance.share(bucket);
        let mut best = (0, (1.0 + MIN_GAIN / self.rows.max(1) as f64) * self.speed(0, 0.0, 0.0));
        let (mut reached, mut expected) = (1.0, 0.0);
        for length in 1..=self.most {
            // A token counts if all before it are accepted.
            reached *= share;
            expected += reached;
            let speed = self.speed(length, expected, draft * length as f64);
            if speed > best.1 {
                best = (length, speed);
            }
        }
        best.0
    }

    /// Whether verifying one more token pays, which is accepted with probability `reached`, behind
    /// `before` others, of which `expected` are accepted. It takes `draft` seconds to draft it
    /// first.
    pub fn pays(&self, before: usize, expected: f64, reached: f64, draft: f64) -> bool {
        let rows = self.rows + before;
        let seconds = (self.costs.step(rows + 1) - self.costs.step(rows)).max(0.0) + draft;
        // More tokens must not lower the speed that is reached so far.
        let so_far = self.speed(before, expected, self.costs.draft() * before as f64);
        let speed = so_far.max(self.speed(0, 0.0, 0.0));
        before < self.most && (self.is_forced || reached >= seconds * speed)
    }

    /// Tokens per second of a step that verifies `length` drafted tokens, of which `expected` are
    /// accepted.
    fn speed(&self, length: usize, expected: f64, drafting: f64) -> f64 {
        let rows = self.rows.max(1);
        (rows as f64 + expected) / (self.costs.step(rows + length) + drafting).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BUCKETS;
    use super::*;

    fn length(share: f64, further_row: f64, draft: f64, rows: usize) -> usize {
        let acceptance = Acceptance::new([share; BUCKETS]);
        let mut costs = StepCosts::new(0.0);
        costs.record(1, 1.0);
        costs.record(41, 1.0 + 40.0 * further_row);
        let budget = Budget {
            acceptance: &acceptance,
            costs: &costs,
            rows,
            most: 32,
            is_forced: false,
        };
        budget.length(0, draft)
    }

    #[test]
    fn a_draft_is_as_long_as_it_pays() {
        assert_eq!(length(1.0, 0.1, 0.0, 1), 32, "always accepted, and rows are cheap");
        assert_eq!(length(0.0, 0.1, 0.0, 1), 0, "never accepted");
        assert_eq!(length(0.5, 1.0, 0.0, 1), 0, "a row takes as long as a step");
        assert_eq!(length(0.5, 0.1, 1.0, 1), 0, "drafting takes as long as a step");
        let [low, middle, high] = [0.3, 0.6, 0.9].map(|share| length(share, 0.1, 0.0, 1));
        assert!(
            0 < low && low < middle && middle < high && high < 32,
            "{low} {middle} {high}"
        );
        assert!(length(0.7, 0.1, 0.1, 1) < length(0.7, 0.1, 0.0, 1));
        assert!(
            length(0.6, 0.2, 0.0, 8) <= length(0.6, 0.2, 0.0, 1),
            "a batch is faster per row"
        );
    }

    #[test]
    fn a_token_pays_if_its_row_is_cheaper_than_a_step_times_its_chance() {
        let acceptance = Acceptance::new([0.5; BUCKETS]);
        let mut costs = StepCosts::new(0.0);
        costs.record(1, 1.0);
        costs.record(11, 2.0);
        let budget = Budget {
            acceptance: &acceptance,
            costs: &costs,
            rows: 1,
            most: 4,
            is_forced: false,
        };
        assert!(budget.pays(0, 0.0, 0.11, 0.0) && !budget.pays(0, 0.0, 0.09, 0.0));
        assert!(budget.pays(3, 0.0, 0.11, 0.0) && !budget.pays(4, 0.0, 1.0, 0.0));
        assert!(
            !budget.pays(3, 3.0, 0.11, 0.0),
            "three accepted tokens are faster without it"
        );
        assert!(!budget.pays(0, 0.0, 0.2, 0.15));
        let forced = Budget {
            is_forced: true,
            ..budget
        };
        assert!(forced.pays(3, 0.0, 0.0, 9.0) && !forced.pays(4, 0.0, 1.0, 0.0));
        assert_eq!(forced.length(0, 9.0), 4);
    }
}
