//! Settings of a run.

use crate::error::TrainError;
use crate::schedule::{Schedule, WarmUp};
use hearth_llm::ops::MatmulPrecision;
use serde::{Deserialize, Serialize};

/// The settings of a run, all resolved.
///
/// Old runs stay resumable, so a new field has a `#[serde(default)]` with the behavior before it
/// existed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The version of the settings' semantics: [`Settings::VERSION`] in a new run. A resumed run
    /// keeps its version; runs older than this field have version 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Rank of the adapters.
    pub rank: usize,
    /// The scale of an adapter is alpha / rank, or alpha / sqrt(rank) with [`Settings::rslora`].
    pub alpha: f32,
    /// Dropout probability of an adapter's inputs, at least 0 and below 1.
    pub dropout: f32,
    /// Rank-stabilized scaling. <https://arxiv.org/abs/2312.03732>
    pub rslora: bool,
    /// Target modules, by their GGUF names.
    pub targets: Vec<String>,
    /// The peak learning rate.
    pub learning_rate: f64,
    /// Decay of the learning rate after warm-up.
    pub schedule: Schedule,
    /// Warm-up, as a ratio of all steps.
    pub warmup: f64,
    /// Weight decay of AdamW.
    pub weight_decay: f64,
    /// Maximum gradient norm; 0 disables clipping.
    pub max_gradient_norm: f64,
    /// Maximum epochs.
    pub epochs: f64,
    /// Maximum steps. `None` means no limit.
    pub max_steps: Option<usize>,
    /// Batch size, in examples.
    pub batch: usize,
    /// Gradient accumulation: batches per step.
    pub accumulation: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Whether the examples are shuffled each epoch.
    pub shuffle: bool,
    /// Steps between evaluations.
    pub eval_every: usize,
    /// Early stopping: the number of evaluations without improvement after which the run ends; 0
    /// disables it.
    pub patience: usize,
    /// Steps between checkpoints.
    pub checkpoint_every: usize,
    /// Whether matmuls use bf16 ([`MatmulPrecision::Bf16`]) rather than f32
    /// ([`MatmulPrecision::F32`]).
    pub bf16: bool,
    /// Layers per gradient-checkpointing group. The inputs of each group are saved, and all groups
    /// but the last run forward twice. With all layers in one group nothing is recomputed.
    pub layers_on_tape: usize,
}

/// The version of settings that were written without one.
fn first_version() -> u32 {
    1
}

/// The semantics that depend on [`Settings::version`].
struct Semantics {
    warm_up: WarmUp,
    /// Added to the norm in gradient clipping, before the division.
    norm_epsilon: f64,
}

impl Settings {
    /// The current version: since 2, warm-up and gradient clipping are as in Hugging Face's
    /// `Trainer`.
    pub const VERSION: u32 = 2;

    fn semantics(&self) -> Semantics {
        match self.version {
            1 => Semantics {
                warm_up: WarmUp::FromFirst,
                norm_epsilon: 0.0,
            },
            _ => Semantics {
                warm_up: WarmUp::FromZero,
                // The epsilon of `torch.nn.utils.clip_grad_norm_`.
                norm_epsilon: 1e-6,
            },
        }
    }

    /// The learning rate of step `step`, counted from 0, of `steps`.
    pub fn learning_rate_at(&self, step: usize, steps: usize) -> f64 {
        let warm_up = self.semantics().warm_up;
        self.learning_rate * self.schedule.factor(step, steps, self.warmup, warm_up)
    }

    /// The clipping factor of a gradient with this norm.
    pub fn clip_factor(&self, norm: f64) -> f64 {
        if self.max_gradient_norm == 0.0 {
            return 1.0;
        }
        (self.max_gradient_norm / (norm + self.semantics().norm_epsilon)).min(1.0)
    }

    /// The scale of an adapter.
    pub fn scale(&self) -> f32 {
        if self.rslora {
            self.alpha / (self.rank as f32).sqrt()
        } else {
            self.alpha / self.rank as f32
        }
    }

    /// The precision of matmuls with weights.
    pub fn precision(&self) -> MatmulPrecision {
        if self.bf16 {
            MatmulPrecision::Bf16
        } else {
            MatmulPrecision::F32
        }
    }

    /// Examples per step.
    pub fn examples_per_step(&self) -> usize {
        self.batch * self.accumulation
    }

    /// Steps per epoch of `examples` examples.
    pub fn steps_per_epoch(&self, examples: usize) -> usize {
        examples.div_ceil(self.examples_per_step().max(1)).max(1)
    }

    /// Total steps over `examples` examples.
    pub fn steps(&self, examples: usize) -> usize {
        let steps = (self.epochs * self.steps_per_epoch(examples) as f64).ceil();
        // A product beyond `usize` saturates, so that `max_steps` decides.
        (steps as usize).min(self.max_steps.unwrap_or(usize::MAX)).max(1)
    }

    /// Checks that each value is in range.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), TrainError> {
        let invalid =
            |what: &'static str, found: f64, needed: &'static str| TrainError::Setting { what, found, needed };
        let at_least_one = |what, value: usize| match value {
            0 => Err(invalid(what, 0.0, "at least 1")),
            _ => Ok(()),
        };
        if !(1..=Self::VERSION).contains(&self.version) {
            let needed = "a version that this Hearth knows: resume the run with the newer Hearth that started it";
            return Err(invalid("The version of the settings", f64::from(self.version), needed));
        }
        at_least_one("The rank", self.rank)?;
        at_least_one("The batch size", self.batch)?;
        at_least_one("The number of accumulated batches", self.accumulation)?;
        at_least_one("The evaluation interval", self.eval_every)?;
        at_least_one("The checkpoint interval", self.checkpoint_every)?;
        at_least_one("The number of layers on the tape", self.layers_on_tape)?;
        if self.max_steps == Some(0) {
            return Err(invalid("The number of steps", 0.0, "at least 1"));
        }
        let positive = |what, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(invalid(what, value, "a number above 0"))
            }
        };
        positive("The alpha", f64::from(self.alpha))?;
        positive("The learning rate", self.learning_rate)?;
        positive("The number of epochs", self.epochs)?;
        let fraction = |what, value: f64| {
            if (0.0..1.0).contains(&value) {
                Ok(())
            } else {
                Err(invalid(what, value, "at least 0 and below 1"))
            }
        };
        fraction("The dropout", f64::from(self.dropout))?;
        fraction("The weight decay", self.weight_decay)?;
        if !(0.0..=1.0).contains(&self.warmup) {
            return Err(invalid("The warm-up", self.warmup, "a ratio from 0 to 1"));
        }
        if self.max_gradient_norm.is_finite() && self.max_gradient_norm >= 0.0 {
            Ok(())
        } else {
            Err(invalid(
                "The maximum gradient norm",
                self.max_gradient_norm,
                "0 or more",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings as written before they had a version.
    const VERSION_1: &str = r#"{
        "rank": 16, "alpha": 32.0, "dropout": 0.0, "rslora": false, "targets": [], "learning_rate": 0.0002,
        "schedule": "cosine", "warmup": 0.03, "weight_decay": 0.0, "max_gradient_norm": 1.0, "epochs": 3.0,
        "max_steps": null, "batch": 2, "accumulation": 4, "seed": 42, "shuffle": true, "eval_every": 12, "patience": 3,
        "checkpoint_every": 6, "bf16": false, "layers_on_tape": 30
    }"#;

    #[test]
    fn version_1_keeps_its_warm_up_and_clipping() {
        let settings: Settings = serde_json::from_str(VERSION_1).expect("they are read");
        assert_eq!(settings.version, 1);
        settings.check().expect("they are valid");
        // Warm-up of 3 steps, from 1/3.
        let rates = [0, 2, 3].map(|step| settings.learning_rate_at(step, 100) / settings.learning_rate);
        assert_eq!(rates, [1.0 / 3.0, 1.0, 1.0]);
        assert_eq!([0.5, 1.0, 4.0].map(|norm| settings.clip_factor(norm)), [1.0, 1.0, 0.25]);
        // Serialization keeps the version.
        let reread: Settings =
            serde_json::from_str(&serde_json::to_string(&settings).expect("JSON")).expect("they are read");
        assert_eq!(reread, settings);
    }

    #[test]
    fn version_2_matches_transformers_and_torch() {
        let settings = Settings {
            version: Settings::VERSION,
            ..serde_json::from_str(VERSION_1).expect("they are read")
        };
        let rates = [0, 2, 3].map(|step| settings.learning_rate_at(step, 100) / settings.learning_rate);
        assert_eq!(rates, [0.0, 2.0 / 3.0, 1.0]);
        // torch.nn.utils.clip_grad_norm_(parameters, 1.0), as `tests/fixtures/training/schedule.py`
        // prints it in f64.
        for (norm, expected) in [
            (0.25, 1.0),
            (0.9999995, 0.99999950000025),
            (1.0, 0.9999990000010001),
            (3.0, 0.33333322222225925),
            (10000.0, 9.999999999e-05),
        ] {
            let actual = settings.clip_factor(norm);
            assert!((actual - expected).abs() < 1e-14, "{norm}: {actual}, not {expected}");
        }
        let unclipped = Settings {
            max_gradient_norm: 0.0,
            ..settings
        };
        assert_eq!(unclipped.clip_factor(1e9), 1.0);
    }

    #[test]
    fn unknown_versions_are_refused() {
        for version in [0, Settings::VERSION + 1] {
            let unknown = Settings {
                version,
                ..serde_json::from_str(VERSION_1).expect("they are read")
            };
            let error = unknown.check().expect_err("it is refused").to_string();
            assert!(error.contains("newer"), "{error}");
        }
    }
}
