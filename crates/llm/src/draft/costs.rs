//! Measured times of decode steps by their number of rows, and of drafting a token.

/// Maximum rows of a step whose time is measured.
const MAX_ROWS: usize = 64;
/// Expected time of a further row before it was measured, as a fraction of a step with one row.
const PRIOR_SLOPE: f64 = 0.1;
/// Number of measurements from which on a moving average is steady: each further measurement has
/// the weight 1 / 5.
const STEADY: f64 = 5.0;
/// Maximum ratio between a measurement and a steady average, in either direction. Measurements
/// beyond it are clamped, since another program may have used the CPU.
const MAX_RATIO: f64 = 1.5;
/// Factor of the weight of measurements for each step whose drafts were all declined.
const DECLINED_DECAY: f64 = 0.95;
/// Weight of the expected time of drafting, in measurements: the first ones include page faults.
const EXPECTED_WEIGHT: f64 = 2.0;
/// Number of steps after which a measurement is outdated: a longer context makes all steps slower.
const STALE_STEPS: u64 = 64;

/// Times of decode steps on this device, in seconds.
#[derive(Debug, Clone)]
pub struct StepCosts {
    /// The times of steps with 1, 2, … rows.
    steps: [Average; MAX_ROWS],
    /// The time of drafting a token.
    draft: Average,
    /// The number of recorded steps.
    recorded: u64,
    /// Expected time of drafting a token, as a fraction of a step with one row.
    relative_draft: f64,
}

impl StepCosts {
    /// Maximum rows of a step whose time is measured.
    pub const MAX_ROWS: usize = MAX_ROWS;

    /// Costs before any measurement. `relative_draft` is the expected time of drafting a token, as
    /// a fraction of a step with one row.
    pub fn new(relative_draft: f64) -> Self {
        Self {
            steps: [Average::default(); MAX_ROWS],
            draft: Average::default(),
            recorded: 0,
            relative_draft,
        }
    }

    /// Records the time of a decode step.
    pub fn record(&mut self, rows: usize, seconds: f64) {
        self.recorded += 1;
        let now = self.recorded;
        if let Some(step) = rows.checked_sub(1).and_then(|index| self.steps.get_mut(index)) {
            step.add(seconds, now);
        }
    }

    /// Records the time of drafting tokens.
    pub fn record_draft(&mut self, tokens: usize, seconds: f64) {
        if tokens > 0 {
            self.draft.add(seconds / tokens as f64, self.recorded);
        }
    }

    /// Records that all drafts of a step were declined. The times of drafting and of steps with
    /// drafts decay to their priors, so that a slow draft is tried again later.
    pub fn record_declined(&mut self) {
        self.draft.weight *= DECLINED_DECAY;
        let (one_row, now) = (self.step(1), self.recorded);
        for (rows, step) in (1..).zip(&mut self.steps).skip(1) {
            if step.weight > 0.0 && now - step.recorded_at > STALE_STEPS {
                step.seconds += (1.0 - DECLINED_DECAY) * (one_row * prior_ratio(rows) - step.seconds);
                step.weight = step.weight.min(1.0);
            }
        }
    }

    /// Whether the time of a step with this number of rows was measured recently.
    pub fn is_known(&self, rows: usize) -> bool {
        let step = rows.checked_sub(1).and_then(|index| self.steps.get(index));
        step.is_some_and(|step| step.weight > 0.0 && self.recorded - step.recorded_at <= STALE_STEPS)
    }

    /// The expected time of a step: measured, interpolated between two measured ones, or
    /// extrapolated. Without measurements, the time relative to a step with one row.
    pub fn step(&self, rows: usize) -> f64 {
        let rows = rows.max(1);
        let measured = || {
            (1..)
                .zip(&self.steps)
                .filter_map(|(rows, step)| Some((rows, step.seconds()?)))
        };
        let below = measured()
            .take_while(|(measured_rows, _)| *measured_rows <= rows)
            .last();
        let above = measured().find(|(measured_rows, _)| *measured_rows >= rows);
        match (below, above) {
            (None, None) => prior_ratio(rows),
            (None, Some((high, seconds))) => seconds * prior_ratio(rows) / prior_ratio(high),
            (Some((low, seconds)), None) => {
                let (first, first_seconds) = measured().next().unwrap_or((low, seconds));
                // Extrapolated from the slope between the first and the last measured number.
                let slope = if low > first {
                    ((seconds - first_seconds) / (low - first) as f64).max(0.0)
                } else {
                    PRIOR_SLOPE * seconds / prior_ratio(low)
                };
                seconds + slope * (rows - low) as f64
            }
            (Some((low, low_seconds)), Some((high, high_seconds))) if high > low => {
                low_seconds + (high_seconds - low_seconds) * (rows - low) as f64 / (high - low) as f64
            }
            (Some((_, seconds)), Some(_)) => seconds,
        }
    }

    /// The expected time of drafting a token: measured, with the prior expectation as long as there
    /// are few measurements.
    pub fn draft(&self) -> f64 {
        let measured_weight = self.draft.weight;
        let expected_weight = EXPECTED_WEIGHT * (1.0 - measured_weight / STEADY);
        (self.expected_draft() * expected_weight + self.draft.seconds * measured_weight)
            / (expected_weight + measured_weight)
    }

    /// The prior expectation of the time of drafting a token.
    fn expected_draft(&self) -> f64 {
        self.relative_draft * self.step(1)
    }
}

/// The prior expectation of the time of a step, relative to a step with one row.
fn prior_ratio(rows: usize) -> f64 {
    1.0 + PRIOR_SLOPE * (rows - 1) as f64
}

/// A moving average of times.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    seconds: f64,
    /// The number of measurements, at most [`STEADY`].
    weight: f64,
    /// The value of [`StepCosts::recorded`] at the last measurement.
    recorded_at: u64,
}

impl Average {
    /// The average; `None` without measurements.
    fn seconds(self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.seconds)
    }

    /// Adds a measurement at the recorded step `now`.
    fn add(&mut self, seconds: f64, now: u64) {
        if now - self.recorded_at > STALE_STEPS / 2 {
            // The context may have another length now.
            self.weight = self.weight.min(1.0);
        }
        let seconds = if self.weight == STEADY {
            seconds.clamp(self.seconds / MAX_RATIO, self.seconds * MAX_RATIO)
        } else {
            seconds
        };
        self.weight = (self.weight + 1.0).min(STEADY);
        self.seconds += (seconds - self.seconds) / self.weight;
        self.recorded_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} instead of {expected}");
    }

    #[test]
    fn times_are_measured_or_interpolated() {
        let mut costs = StepCosts::new(0.2);
        assert_close(costs.step(1), 1.0);
        assert_close(costs.step(6), 1.5);
        assert_close(costs.draft(), 0.2);
        costs.record(4, 2.6);
        assert_close(costs.step(1), 2.0);
        costs.record(2, 2.0);
        assert_close(costs.step(3), 2.3);
        assert_close(costs.step(6), 3.2);
        costs.record(6, 3.0);
        assert_close(costs.step(5), 2.8);
        let expected = 0.2 * costs.step(1);
        costs.record_draft(4, 2.0);
        assert_close(costs.draft(), (1.6 * expected + 0.5) / 2.6);
        for _ in 0..1000 {
            costs.record_declined();
        }
        assert!((costs.draft() - 0.2 * costs.step(1)).abs() < 1e-6);
        costs.record(0, 1.0);
        costs.record(MAX_ROWS + 1, 1.0);
        assert!(costs.is_known(2) && !costs.is_known(3) && !costs.is_known(0) && !costs.is_known(MAX_ROWS + 1));
        for _ in 0..=STALE_STEPS {
            costs.record(4, 2.6);
        }
        assert!(costs.is_known(4) && !costs.is_known(2));
    }

    #[test]
    fn one_slow_step_moves_the_average_little() {
        let mut costs = StepCosts::new(0.0);
        for _ in 0..STEADY as usize {
            costs.record(1, 1.0);
        }
        costs.record(1, 100.0);
        assert_close(costs.step(1), 1.1);
        for _ in 0..100 {
            costs.record(1, 100.0);
        }
        assert!(costs.step(1) > 90.0);
    }
}
