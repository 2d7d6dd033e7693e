//! The learning rate over the steps of a run.

use serde::{Deserialize, Serialize};

/// How the learning rate falls after its rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Along half a cosine, to nothing. <https://arxiv.org/abs/1608.03983>
    Cosine,
    /// Along a line, to nothing.
    Linear,
    /// Not at all.
    Constant,
}

impl Schedule {
    /// What the learning rate of step `step` (from 0) of `steps` is multiplied with, where the first `warmup` share of them rises:
    /// from 1/w to 1 over w steps, so that the first step already learns.
    pub fn factor(self, step: usize, steps: usize, warmup: f64) -> f64 {
        let rising = (warmup * steps as f64).floor() as usize;
        if step < rising {
            return (step + 1) as f64 / rising as f64;
        }
        let done = (step - rising) as f64 / (steps - rising).max(1) as f64;
        match self {
            Self::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos()),
            Self::Linear => (1.0 - done).max(0.0),
            Self::Constant => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_then_falls() {
        let check = |schedule: Schedule, step, expected: f64| {
            let found = schedule.factor(step, 110, 10.0 / 110.0);
            assert!((found - expected).abs() < 1e-12, "{schedule:?} {step}: {found}");
        };
        for schedule in [Schedule::Cosine, Schedule::Linear, Schedule::Constant] {
            check(schedule, 0, 0.1);
            check(schedule, 9, 1.0);
            check(schedule, 10, 1.0);
        }
        check(Schedule::Cosine, 60, 0.5);
        check(Schedule::Linear, 60, 0.5);
        check(Schedule::Constant, 109, 1.0);
        check(Schedule::Linear, 109, 0.01);
        assert_eq!(Schedule::Linear.factor(0, 1, 0.0), 1.0);
    }
}
