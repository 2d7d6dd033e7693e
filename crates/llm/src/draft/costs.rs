//! Measured times of steps by their rows, and of drafting a token.

/// Rows whose times are measured apart.
const ROWS: usize = 64;
/// Expected time of a further row before it was measured, as a share of a step with one row.
const PRIOR_SLOPE: f64 = 0.1;
/// Times after which a new one has the least weight in the average.
const STEADY: f64 = 5.0;
/// A time counts as at most this many times a steady average, and at least its inverse: another
/// program may have used the CPU.
const OUTLIER: f64 = 1.5;
/// Weight of measured times after a step whose drafts were all declined.
const DECLINED_DECAY: f64 = 0.95;
/// Weight of the expected time of drafting, in measured times: the first ones include page faults.
const EXPECTED_WEIGHT: f64 = 2.0;
/// Steps after which a time must be measured again: a longer context makes all steps slower.
const STALE: u64 = 64;

/// Times of decode steps on this device, in seconds.
#[derive(Debug, Clone)]
pub struct StepCosts {
    steps: [Average; ROWS],
    draft: Average,
    /// Steps that were recorded.
    recorded: u64,
    /// Expected time of drafting a token, as a share of a step with one row.
    relative_draft: f64,
}

impl StepCosts {
    /// Most rows of a step whose time is measured.
    pub const MAX_ROWS: usize = ROWS;

    /// Nothing measured; drafting a token is expected to take this share of a step with one row.
    pub fn new(relative_draft: f64) -> Self {
        Self {
            steps: [Average::default(); ROWS],
            draft: Average::default(),
            recorded: 0,
            relative_draft,
        }
    }

    /// Records a decode step.
    pub fn record(&mut self, rows: usize, seconds: f64) {
        self.recorded += 1;
        let now = self.recorded;
        if let Some(step) = rows.checked_sub(1).and_then(|at| self.steps.get_mut(at)) {
            step.add(seconds, now);
        }
    }

    /// Records the drafting of tokens.
    pub fn record_draft(&mut self, tokens: usize, seconds: f64) {
        if tokens > 0 {
            self.draft.add(seconds / tokens as f64, self.recorded);
        }
    }

    /// Records that all drafts of a step were declined: the measured times of drafting and of steps
    /// with drafts fade, so that one slow draft does not decide for ever.
    pub fn record_declined(&mut self) {
        self.draft.weight *= DECLINED_DECAY;
        let (plain, now) = (self.step(1), self.recorded);
        for (rows, step) in (1..).zip(&mut self.steps).skip(1) {
            if step.weight > 0.0 && now - step.last > STALE {
                step.seconds += (1.0 - DECLINED_DECAY) * (plain * shape(rows) - step.seconds);
                step.weight = step.weight.min(1.0);
            }
        }
    }

    /// Whether a step of this many rows was measured lately.
    pub fn is_known(&self, rows: usize) -> bool {
        let step = rows.checked_sub(1).and_then(|at| self.steps.get(at));
        step.is_some_and(|step| step.weight > 0.0 && self.recorded - step.last <= STALE)
    }

    /// The expected time of a step: measured, or interpolated between measured ones. Without any, a
    /// step with one row takes 1.
    pub fn step(&self, rows: usize) -> f64 {
        let rows = rows.max(1);
        let known = || {
            (1..)
                .zip(&self.steps)
                .filter_map(|(rows, step)| Some((rows, step.seconds()?)))
        };
        let below = known().take_while(|(at, _)| *at <= rows).last();
        let above = known().find(|(at, _)| *at >= rows);
        match (below, above) {
            (None, None) => shape(rows),
            (None, Some((at, seconds))) => seconds * shape(rows) / shape(at),
            (Some((at, seconds)), None) => {
                let first = known().next().unwrap_or((at, seconds));
                // Rows that were measured tell what further ones take.
                let slope = if at > first.0 {
                    ((seconds - first.1) / (at - first.0) as f64).max(0.0)
                } else {
                    PRIOR_SLOPE * seconds / shape(at)
                };
                seconds + slope * (rows - at) as f64
            }
            (Some((low, least)), Some((high, most))) if high > low => {
                least + (most - least) * (rows - low) as f64 / (high - low) as f64
            }
            (Some((_, seconds)), Some(_)) => seconds,
        }
    }

    /// The expected time of drafting a token.
    pub fn draft(&self) -> f64 {
        let measured = self.draft.weight;
        let expected = EXPECTED_WEIGHT * (1.0 - measured / STEADY);
        (self.expected_draft() * expected + self.draft.seconds * measured) / (expected + measured)
    }

    /// The time of drafting a token before any was measured.
    fn expected_draft(&self) -> f64 {
        self.relative_draft * self.step(1)
    }
}

/// Time of a step of this many rows as a multiple of one with one row, before any was measured.
fn shape(rows: usize) -> f64 {
    1.0 + PRIOR_SLOPE * (rows - 1) as f64
}

/// A moving average of times.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    seconds: f64,
    /// Times so far, at most [`STEADY`].
    weight: f64,
    /// The number of the step that was recorded last.
    last: u64,
}

impl Average {
    fn seconds(self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.seconds)
    }

    fn add(&mut self, seconds: f64, now: u64) {
        if now - self.last > STALE / 2 {
            // The context may have another length now.
            self.weight = self.weight.min(1.0);
        }
        let seconds = if self.weight == STEADY {
            seconds.clamp(self.seconds / OUTLIER, self.seconds * OUTLIER)
        } else {
            seconds
        };
        self.weight = (self.weight + 1.0).min(STEADY);
        self.seconds += (seconds - self.seconds) / self.weight;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} instead of {expected}");
    }

    #[test]
    fn times_are_measured_or_interpolated() {
        let mut costs = StepCosts::new(0.2);
        close(costs.step(1), 1.0);
        close(costs.step(6), 1.5);
        close(costs.draft(), 0.2);
        costs.record(4, 2.6);
        close(costs.step(1), 2.0);
        costs.record(2, 2.0);
        close(costs.step(3), 2.3);
        close(costs.step(6), 3.2);
        costs.record(6, 3.0);
        close(costs.step(5), 2.8);
        let expected = 0.2 * costs.step(1);
        costs.record_draft(4, 2.0);
        close(costs.draft(), (1.6 * expected + 0.5) / 2.6);
        for _ in 0..1000 {
            costs.record_declined();
        }
        assert!((costs.draft() - 0.2 * costs.step(1)).abs() < 1e-6);
        costs.record(0, 1.0);
        costs.record(ROWS + 1, 1.0);
        assert!(costs.is_known(2) && !costs.is_known(3) && !costs.is_known(0) && !costs.is_known(ROWS + 1));
        for _ in 0..=STALE {
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
        close(costs.step(1), 1.1);
        for _ in 0..100 {
            costs.record(1, 100.0);
        }
        assert!(costs.step(1) > 90.0);
    }
}
