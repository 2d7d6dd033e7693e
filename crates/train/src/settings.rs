//! How a run learns.

use crate::error::TrainError;
use crate::schedule::Schedule;
use hearth_llm::ops::Product;
use serde::{Deserialize, Serialize};

/// How a run learns: everything is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
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
    /// Whether products are made in bf16 ([`Product::Bf16`]) rather than f32 ([`Product::Exact`]).
    pub bf16: bool,
    /// Layers whose operations are on the tape at once. The inputs of each such group are kept, and all groups but the last run
    /// forwards twice; with as many as the model has, nothing runs twice.
    pub layers_on_tape: usize,
}

impl Settings {
    /// What an adapter counts for.
    pub fn scale(&self) -> f32 {
        match self.rslora {
            true => self.alpha / (self.rank as f32).sqrt(),
            false => self.alpha / self.rank as f32,
        }
    }

    /// The product that weights take part in.
    pub fn product(&self) -> Product {
        match self.bf16 {
            true => Product::Bf16,
            false => Product::Exact,
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
