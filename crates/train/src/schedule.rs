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

/// Linear warm-up of the learning rate, over w steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarmUp {
    /// As in Hugging Face's `Trainer`: step i (from 0) has the factor i/w, and w is rounded up.
    FromZero,
    /// As in early versions of Hearth: step i (from 0) has the factor (i+1)/w, and w is rounded
    /// down.
    FromFirst,
}

impl Schedule {
    /// The factor of the learning rate in step `step` (from 0) of `steps`. `warmup_ratio` is the
    /// ratio of warm-up steps.
    ///
    /// With [`WarmUp::FromZero`] this is `get_cosine_schedule_with_warmup`,
    /// `get_linear_schedule_with_warmup` or `get_constant_schedule_with_warmup` of transformers,
    /// with `math.ceil(steps * warmup_ratio)` warm-up steps.
    pub(crate) fn factor(self, step: usize, steps: usize, warmup_ratio: f64, warm_up: WarmUp) -> f64 {
        let warmup_steps = warmup_ratio * steps as f64;
        let (warmup_steps, numerator) = match warm_up {
            WarmUp::FromZero => (warmup_steps.ceil() as usize, step),
            WarmUp::FromFirst => (warmup_steps.floor() as usize, step + 1),
        };
        if step < warmup_steps {
            return numerator as f64 / warmup_steps as f64;
        }
        let progress = (step - warmup_steps) as f64 / steps.saturating_sub(warmup_steps).max(1) as f64;
        match self {
            Self::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos()),
            Self::Linear => (1.0 - progress).max(0.0),
            Self::Constant => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Schedule; 3] = [Schedule::Cosine, Schedule::Linear, Schedule::Constant];

    fn assert_close(actual: f64, expected: f64, case: &str) {
        assert!((actual - expected).abs() < 1e-12, "{case}: {actual}, not {expected}");
    }

    /// A run's length and warm-up, and factors of its steps.
    struct TransformersRun {
        steps: usize,
        warmup_ratio: f64,
        /// A step, and its factor in each of [`ALL`].
        factors: &'static [(usize, [f64; 3])],
    }

    /// Factors that transformers' functions return, from `tests/fixtures/training/schedule.py`.
    const TRANSFORMERS: &[TransformersRun] = &[
        TransformersRun {
            steps: 110,
            warmup_ratio: 0.09,
            factors: &[
                (0, [0.0, 0.0, 0.0]),
                (1, [0.1, 0.1, 0.1]),
                (9, [0.9, 0.9, 0.9]),
                (10, [1.0, 1.0, 1.0]),
                (60, [0.5, 0.5, 1.0]),
                (109, [0.0002467198171342, 0.01, 1.0]),
            ],
        },
        TransformersRun {
            steps: 100,
            warmup_ratio: 0.03,
            factors: &[
                (0, [0.0, 0.0, 0.0]),
                (1, [0.3333333333333333, 0.3333333333333333, 0.3333333333333333]),
                (2, [0.6666666666666666, 0.6666666666666666, 0.6666666666666666]),
                (3, [1.0, 1.0, 1.0]),
                (50, [0.5242811110572242, 0.5154639175257731, 1.0]),
                (99, [0.00026221547724253336, 0.010309278350515464, 1.0]),
            ],
        },
        TransformersRun {
            steps: 7,
            warmup_ratio: 0.03,
            factors: &[
                (0, [0.0, 0.0, 0.0]),
                (1, [1.0, 1.0, 1.0]),
                (6, [0.06698729810778065, 0.16666666666666666, 1.0]),
            ],
        },
        TransformersRun {
            steps: 1,
            warmup_ratio: 0.03,
            factors: &[(0, [0.0, 0.0, 0.0])],
        },
        TransformersRun {
            steps: 10,
            warmup_ratio: 0.0,
            factors: &[
                (0, [1.0, 1.0, 1.0]),
                (5, [0.5, 0.5, 1.0]),
                (9, [0.024471741852423234, 0.1, 1.0]),
            ],
        },
    ];

    #[test]
    fn rates_are_those_of_transformers() {
        for run in TRANSFORMERS {
            for (step, expected) in run.factors {
                for (schedule, expected) in ALL.into_iter().zip(expected) {
                    let actual = schedule.factor(*step, run.steps, run.warmup_ratio, WarmUp::FromZero);
                    let case = format!("{schedule:?}, step {step} of {}, {}", run.steps, run.warmup_ratio);
                    assert_close(actual, *expected, &case);
                }
            }
        }
    }

    #[test]
    fn version_1_warms_up_from_the_first_step() {
        let check = |schedule: Schedule, step, expected: f64| {
            let actual = schedule.factor(step, 110, 10.9 / 110.0, WarmUp::FromFirst);
            assert_close(actual, expected, &format!("{schedule:?} {step}"));
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
