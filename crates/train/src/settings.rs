//! How a run learns.

use crate::error::TrainError;
use crate::schedule::{Schedule, WarmUp};
use hearth_llm::ops::MatmulPrecision;
use serde::{Deserialize, Serialize};

/// How a run learns: everything is chosen.
///
/// Runs that were begun are gone on with for ever, so a new field has a `#[serde(default)]` that
/// means what runs did before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// By which rules the other numbers are read: [`Settings::VERSION`] for a new run. A run goes
    /// on by those that it began with; one from before there was this number has 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Rank of the adapters.
    pub rank: usize,
    /// An adapter counts for alpha / rank, or alpha / sqrt(rank) with [`Settings::rslora`].
    pub alpha: f32,
    /// Share of an adapter's inputs that is dropped.
    pub dropout: f32,
    /// Rank-stabilised scaling. <https://arxiv.org/abs/2312.03732>
    pub rslora: bool,
    /// Linears with an adapter, as a GGUF names them.
    pub targets: Vec<String>,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// How the learning rate falls.
    pub schedule: Schedule,
    /// Share of the steps in which it rises.
    pub warmup: f64,
    /// AdamW's decoupled decay.
    pub weight_decay: f64,
    /// The gradient is scaled down to this norm; 0: never.
    pub max_gradient_norm: f64,
    /// Times through the data.
    pub epochs: f64,
    /// Steps, at most.
    pub max_steps: Option<usize>,
    /// Examples that go through the model together.
    pub batch: usize,
    /// Batches a step.
    pub accumulation: usize,
    /// Where all that is drawn comes from.
    pub seed: u64,
    /// Whether the order of the examples is drawn anew each epoch.
    pub shuffle: bool,
    /// Steps from one evaluation to the next.
    pub eval_every: usize,
    /// Evaluations without a better loss after which the run ends; 0: never.
    pub patience: usize,
    /// Steps from one checkpoint to the next.
    pub checkpoint_every: usize,
    /// Whether products are made in bf16 ([`MatmulPrecision::Bf16`]) rather than f32
    /// ([`MatmulPrecision::F32`]).
    pub bf16: bool,
    /// Layers whose operations are on the tape at once. The inputs of each such group are kept, and
    /// all groups but the last run forwards twice; with as many as the model has, nothing runs
    /// twice.
    pub layers_on_tape: usize,
}

/// The version of settings that do not name theirs.
fn first_version() -> u32 {
    1
}

/// The rules of one version.
struct Rules {
    warm_up: WarmUp,
    /// Added to a norm before the greatest allowed one is divided by it.
    beside_norm: f64,
}

impl Settings {
    /// The newest rules: since 2 the learning rate rises, and gradients are clipped, as in Hugging
    /// Face's `Trainer`.
    pub const VERSION: u32 = 2;

    fn rules(&self) -> Rules {
        match self.version {
            1 => Rules {
                warm_up: WarmUp::FromFirst,
                beside_norm: 0.0,
            },
            _ => Rules {
                warm_up: WarmUp::FromZero,
                // That of `torch.nn.utils.clip_grad_norm_`.
                beside_norm: 1e-6,
            },
        }
    }

    /// The learning rate of step `step`, counted from 0, of `steps`.
    pub fn learning_rate_of(&self, step: usize, steps: usize) -> f64 {
        let rise = self.rules().warm_up;
        self.learning_rate * self.schedule.factor(step, steps, self.warmup, rise)
    }

    /// What a gradient of this norm is multiplied with.
    pub fn clip_factor(&self, norm: f64) -> f64 {
        match self.max_gradient_norm {
            0.0 => 1.0,
            most => (most / (norm + self.rules().beside_norm)).min(1.0),
        }
    }

    /// What an adapter counts for.
    pub fn scale(&self) -> f32 {
        match self.rslora {
            true => self.alpha / (self.rank as f32).sqrt(),
            false => self.alpha / self.rank as f32,
        }
    }

    /// The product that weights take part in.
    pub fn precision(&self) -> MatmulPrecision {
        match self.bf16 {
            true => MatmulPrecision::Bf16,
            false => MatmulPrecision::F32,
        }
    }

    /// Examples a step.
    pub fn examples_a_step(&self) -> usize {
        self.batch * self.accumulation
    }

    /// Steps of one time through `examples` examples.
    pub fn steps_an_epoch(&self, examples: usize) -> usize {
        examples.div_ceil(self.examples_a_step().max(1)).max(1)
    }

    /// Steps in all, over `examples` examples.
    pub fn steps(&self, examples: usize) -> usize {
        let steps = (self.epochs * self.steps_an_epoch(examples) as f64).ceil();
        // A float beyond the greatest integer becomes that: then the steps asked for decide.
        (steps as usize).min(self.max_steps.unwrap_or(usize::MAX)).max(1)
    }

    /// # Errors
    /// A number makes no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |what: &'static str, found: f64, needed: &'static str| TrainError::Setting { what, found, needed };
        let at_least_one = |what, n: usize| match n {
            0 => Err(bad(what, 0.0, "at least 1")),
            _ => Ok(()),
        };
        if !(1..=Self::VERSION).contains(&self.version) {
            let needed = "one that this Hearth knows: the run was begun by a newer one, which has to go on with it";
            return Err(bad("The version of the settings", f64::from(self.version), needed));
        }
        at_least_one("The rank", self.rank)?;
        at_least_one("The batch", self.batch)?;
        at_least_one("The accumulation", self.accumulation)?;
        at_least_one("The steps between evaluations", self.eval_every)?;
        at_least_one("The steps between checkpoints", self.checkpoint_every)?;
        at_least_one("The layers on the tape", self.layers_on_tape)?;
        if self.max_steps == Some(0) {
            return Err(bad("The number of steps", 0.0, "at least 1"));
        }
        let positive = |what, x: f64| match x.is_finite() && x > 0.0 {
            true => Ok(()),
            false => Err(bad(what, x, "a number above 0")),
        };
        positive("alpha", f64::from(self.alpha))?;
        positive("The learning rate", self.learning_rate)?;
        positive("The number of epochs", self.epochs)?;
        let share = |what, x: f64| match (0.0..1.0).contains(&x) {
            true => Ok(()),
            false => Err(bad(what, x, "at least 0 and below 1")),
        };
        share("The dropout", f64::from(self.dropout))?;
        share("The weight decay", self.weight_decay)?;
        match (0.0..=1.0).contains(&self.warmup) {
            true => {}
            false => return Err(bad("The warm-up", self.warmup, "a share from 0 to 1")),
        }
        match self.max_gradient_norm.is_finite() && self.max_gradient_norm >= 0.0 {
            true => Ok(()),
            false => Err(bad("The greatest gradient norm", self.max_gradient_norm, "0 or more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Hearth wrote settings before they had a version.
    const BEFORE: &str = r#"{
        "rank": 16, "alpha": 32.0, "dropout": 0.0, "rslora": false, "targets": [], "learning_rate": 0.0002,
        "schedule": "cosine", "warmup": 0.03, "weight_decay": 0.0, "max_gradient_norm": 1.0, "epochs": 3.0,
        "max_steps": null, "batch": 2, "accumulation": 4, "seed": 42, "shuffle": true, "eval_every": 12, "patience": 3,
        "checkpoint_every": 6, "bf16": false, "layers_on_tape": 30
    }"#;

    #[test]
    fn settings_of_a_run_begun_before_keep_its_rules() {
        let before: Settings = serde_json::from_str(BEFORE).expect("they are read");
        assert_eq!(before.version, 1);
        before.check().expect("they make sense");
        // 3 of 100 steps rise, the first to a third.
        let rates = [0, 2, 3].map(|step| before.learning_rate_of(step, 100) / before.learning_rate);
        assert_eq!(rates, [1.0 / 3.0, 1.0, 1.0]);
        assert_eq!([0.5, 1.0, 4.0].map(|norm| before.clip_factor(norm)), [1.0, 1.0, 0.25]);
        // What is written says so, that it stays so.
        let again: Settings =
            serde_json::from_str(&serde_json::to_string(&before).expect("JSON")).expect("they are read");
        assert_eq!(again, before);
    }

    #[test]
    fn new_settings_are_those_of_transformers_and_torch() {
        let new = Settings {
            version: Settings::VERSION,
            ..serde_json::from_str(BEFORE).expect("they are read")
        };
        let rates = [0, 2, 3].map(|step| new.learning_rate_of(step, 100) / new.learning_rate);
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
            let found = new.clip_factor(norm);
            assert!((found - expected).abs() < 1e-14, "{norm}: {found}, not {expected}");
        }
        let never = Settings {
            max_gradient_norm: 0.0,
            ..new
        };
        assert_eq!(never.clip_factor(1e9), 1.0);
    }

    #[test]
    fn rules_that_are_not_known_are_refused() {
        for version in [0, Settings::VERSION + 1] {
            let unknown = Settings {
                version,
                ..serde_json::from_str(BEFORE).expect("they are read")
            };
            let error = unknown.check().expect_err("it is refused").to_string();
            assert!(error.contains("newer"), "{error}");
        }
    }
}
