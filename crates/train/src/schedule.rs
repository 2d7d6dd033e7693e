//! The learning rate over the steps of a run.

use serde::{Deserialize, Serialize};

/// Decay of the learning rate after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Half a cosine, to 0. <https://arxiv.org/abs/1608.03983>
    Cosine,
    /// Linear, to 0.
    Linear,
    /// None.
    Constant,
}

/// Warm-up of the learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarmUp {
    /// As in Hugging Face's `Trainer`: from 0 in the first step, over the ratio of the steps
    /// rounded up.
    FromZero,
    /// As in early versions of Hearth: from 1/w over w steps, over the ratio of the steps rounded
    /// down.
    FromFirst,
}

impl Schedule {
    /// The factor of the learning rate in step `step` (from 0) of `steps`, with warm-up over the
    /// ratio `warmup`.
    ///
    /// With [`WarmUp::FromZero`] this is `get_cosine_schedule_with_warmup`,
    /// `get_linear_schedule_with_warmup` or `get_constant_schedule_with_warmup` of transformers,
    /// over `math.ceil(steps * warmup)` steps.
    pub(crate) fn factor(self, step: usize, steps: usize, warmup: f64, rise: WarmUp) -> f64 {
        let share = warmup * steps as f64;
        let (rising, risen) = match rise {
            WarmUp::FromZero => (share.ceil() as usize, step),
            WarmUp::FromFirst => (share.floor() as usize, step + 1),
        };
        if step < rising {
            return risen as f64 / rising as f64;
        }
        let done = (step - rising) as f64 / steps.saturating_sub(rising).max(1) as f64;
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

    const ALL: [Schedule; 3] = [Schedule::Cosine, Schedule::Linear, Schedule::Constant];

    fn close(actual: f64, expected: f64, what: &str) {
        assert!((actual - expected).abs() < 1e-12, "{what}: {actual}, not {expected}");
    }

    /// Factors of transformers' own functions, by `tests/fixtures/training/schedule.py`: steps,
    /// warm-up ratio, a step, and the factor of each of the three.
    const TRANSFORMERS: &[(usize, f64, usize, [f64; 3])] = &[
        (110, 0.09, 0, [0.0, 0.0, 0.0]),
        (110, 0.09, 1, [0.1, 0.1, 0.1]),
        (110, 0.09, 9, [0.9, 0.9, 0.9]),
        (110, 0.09, 10, [1.0, 1.0, 1.0]),
        (110, 0.09, 60, [0.5, 0.5, 1.0]),
        (110, 0.09, 109, [0.0002467198171342, 0.01, 1.0]),
        (100, 0.03, 0, [0.0, 0.0, 0.0]),
        (
            100,
            0.03,
            1,
            [0.3333333333333333, 0.3333333333333333, 0.3333333333333333],
        ),
        (
            100,
            0.03,
            2,
            [0.6666666666666666, 0.6666666666666666, 0.6666666666666666],
        ),
        (100, 0.03, 3, [1.0, 1.0, 1.0]),
        (100, 0.03, 50, [0.5242811110572242, 0.5154639175257731, 1.0]),
        (100, 0.03, 99, [0.00026221547724253336, 0.010309278350515464, 1.0]),
        (7, 0.03, 0, [0.0, 0.0, 0.0]),
        (7, 0.03, 1, [1.0, 1.0, 1.0]),
        (7, 0.03, 6, [0.06698729810778065, 0.16666666666666666, 1.0]),
        (1, 0.03, 0, [0.0, 0.0, 0.0]),
        (10, 0.0, 0, [1.0, 1.0, 1.0]),
        (10, 0.0, 5, [0.5, 0.5, 1.0]),
        (10, 0.0, 9, [0.024471741852423234, 0.1, 1.0]),
    ];

    #[test]
    fn rates_are_those_of_transformers() {
        for (steps, warmup, step, expected) in TRANSFORMERS {
            for (schedule, expected) in ALL.into_iter().zip(expected) {
                let actual = schedule.factor(*step, *steps, *warmup, WarmUp::FromZero);
                close(
                    actual,
                    *expected,
                    &format!("{schedule:?}, step {step} of {steps}, {warmup}"),
                );
            }
        }
    }

    #[test]
    fn rates_of_runs_begun_before_are_what_they_were() {
        let check = |schedule: Schedule, step, expected: f64| {
            let actual = schedule.factor(step, 110, 10.9 / 110.0, WarmUp::FromFirst);
            close(actual, expected, &format!("{schedule:?} {step}"));
        };
        for schedule in ALL {
            check(schedule, 0, 0.1);
            check(schedule, 9, 1.0);
            check(schedule, 10, 1.0);
        }
        check(Schedule::Cosine, 60, 0.5);
        check(Schedule::Linear, 60, 0.5);
        check(Schedule::Constant, 109, 1.0);
        check(Schedule::Linear, 109, 0.01);
        assert_eq!(Schedule::Linear.factor(0, 1, 0.0, WarmUp::FromFirst), 1.0);
    }
}
