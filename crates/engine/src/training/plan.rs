//! How a run is cut to fit the data and the machine.

use crate::hardware;
use crate::plan::Training;
use hearth_formats::adapter::LinearName;
use hearth_llm::Config;
use hearth_llm::ops::logit_rows;
use hearth_protocol::{Checkpointing, Precision, Schedule, TrainSettings};
use hearth_train::{Settings, linear_named};

/// Tokens that go through the model together, about: more make the products no faster.
const TOKENS_A_BATCH: usize = 1024;
/// Examples a step by how many there are in all: few examples want many small steps.
const EXAMPLES_A_STEP: [(usize, usize); 3] = [(512, 16), (128, 8), (0, 4)];
/// Times through the data, and through data so few that this would make less than so many steps. An early stop ends what is too much.
const EPOCHS: f64 = 3.0;
const MOST_EPOCHS: f64 = 8.0;
const FEW_STEPS: usize = 120;
/// Evaluations of a run, about, and checkpoints.
const EVALUATIONS: usize = 10;
const CHECKPOINTS: usize = 20;
/// Steps after which a checkpoint is made at the latest.
const MOST_STEPS_A_CHECKPOINT: usize = 50;
/// The share of free memory that activations may take.
const SHARE: f64 = 0.5;

/// The settings of a run of these examples, which are `lengths` tokens long.
pub fn settings(asked: &TrainSettings, config: &Config, lengths: &[usize], targets: Vec<String>) -> Settings {
    let count = lengths.len().max(1);
    let mean = (lengths.iter().sum::<usize>() / count).max(1);
    let a_step = EXAMPLES_A_STEP
        .iter()
        .find(|(least, _)| count >= *least)
        .map_or(1, |(_, examples)| *examples);
    let batch = asked
        .batch
        .map_or_else(|| (TOKENS_A_BATCH / mean).clamp(1, a_step), |batch| batch as usize);
    // Who names the batch means the step by it, unless the accumulation is named too.
    let accumulation = match (asked.accumulation, asked.batch) {
        (Some(accumulation), _) => accumulation as usize,
        (None, Some(_)) => 1,
        (None, None) => a_step.div_ceil(batch),
    };
    let bf16 = match asked.precision {
        Precision::Auto => hearth_kernels::bf16_is_fast(),
        Precision::F32 => false,
        Precision::Bf16 => true,
    };
    let mut settings = Settings {
        version: Settings::VERSION,
        rank: asked.rank as usize,
        alpha: asked.alpha,
        dropout: asked.dropout,
        rslora: asked.rslora,
        targets,
        learning_rate: shortest(asked.learning_rate),
        schedule: match asked.schedule {
            Schedule::Cosine => hearth_train::Schedule::Cosine,
            Schedule::Linear => hearth_train::Schedule::Linear,
            Schedule::Constant => hearth_train::Schedule::Constant,
        },
        warmup: shortest(asked.warmup),
        weight_decay: shortest(asked.weight_decay),
        max_gradient_norm: shortest(asked.max_gradient_norm),
        epochs: asked
            .epochs
            .map_or_else(|| epochs(count, batch * accumulation), shortest),
        max_steps: asked.max_steps.map(|steps| steps as usize),
        batch,
        accumulation,
        seed: asked.seed,
        shuffle: asked.shuffle,
        eval_every: 1,
        patience: asked.patience as usize,
        checkpoint_every: 1,
        bf16,
        layers_on_tape: 1,
    };
    let steps = settings.steps(count);
    let every = |asked: Option<u32>, times: usize| asked.map_or_else(|| steps.div_ceil(times), |n| n as usize);
    settings.eval_every = every(asked.eval_every, EVALUATIONS);
    settings.checkpoint_every = every(asked.checkpoint_every, CHECKPOINTS).min(MOST_STEPS_A_CHECKPOINT);
    let tokens = longest_batch(lengths, batch);
    settings.layers_on_tape = match asked.checkpointing {
        Checkpointing::Operations => config.n_layers,
        Checkpointing::Layers => 1,
        Checkpointing::Auto => layers_that_fit(config, tokens, bf16),
    };
    settings
}

/// What a run of these settings takes where its layers lie, on examples whose longest batch has so many tokens. A GPU keeps f32.
pub fn needs(settings: &Settings, config: &Config, tokens: usize) -> Training {
    const F32: usize = size_of::<f32>();
    // The adapter, its gradient, and two means.
    const COPIES: usize = 4;
    let context = config.heads * config.head_dim;
    let kv = config.kv_heads * config.head_dim;
    let (width, inside) = (config.width, config.ffn_width);
    let sides = |linear: LinearName| match linear {
        LinearName::AttnQ => (width, context),
        LinearName::AttnK | LinearName::AttnV => (width, kv),
        LinearName::AttnOutput => (context, width),
        LinearName::FfnGate | LinearName::FfnUp => (width, inside),
        LinearName::FfnDown => (inside, width),
    };
    let trained = |linear: &LinearName| {
        settings.targets.is_empty()
            || settings
                .targets
                .iter()
                .any(|target| linear_named(target) == Some(*linear))
    };
    let numbers = LinearName::ALL.iter().copied().filter(trained).map(sides);
    let numbers: usize = numbers
        .map(|(inputs, outputs)| settings.rank * (inputs + outputs))
        .sum();
    let logits = tokens.min(logit_rows(config.vocab)) * config.vocab * F32;
    Training {
        operations: bytes_a_layer(config, tokens, false) as u64,
        blocks_at_once: settings.layers_on_tape,
        a_block: ((tokens * width + COPIES * numbers) * F32) as u64,
        output: logits as u64,
    }
}

/// Tokens of the longest batch that these examples can make.
pub fn longest_batch(lengths: &[usize], batch: usize) -> usize {
    let mut longest = lengths.to_vec();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    longest.iter().take(batch).sum()
}

/// Times through so many examples, where a step sees `a_step` of them.
fn epochs(examples: usize, a_step: usize) -> f64 {
    let steps_an_epoch = examples.div_ceil(a_step.max(1)).max(1);
    (FEW_STEPS.div_ceil(steps_an_epoch) as f64).clamp(EPOCHS, MOST_EPOCHS)
}

/// The number that a person typed, which an f32 only approaches: 2e-4 and not 1.99999995e-4.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// As many layers as half of the free memory holds the operations of.
fn layers_that_fit(config: &Config, tokens: usize, bf16: bool) -> usize {
    let Some(memory) = hardware::memory() else {
        return config.n_layers;
    };
    let a_layer = bytes_a_layer(config, tokens, bf16).max(1);
    let fit = (memory.free as f64 * SHARE) as usize / a_layer;
    fit.clamp(1, config.n_layers)
}

/// Bytes that a layer's operations keep for their backward: in half width the residual stream twice, the context, gate and up; in f32 queries, keys and values, the logarithms of attention and, where it is not that already, the
/// context again.
pub fn bytes_a_layer(config: &Config, tokens: usize, bf16: bool) -> usize {
    let width = if bf16 { 2 } else { 4 };
    let context = config.heads * config.head_dim;
    let qkv = (config.heads + 2 * config.kv_heads) * config.head_dim;
    let again = if bf16 { context } else { 0 };
    tokens * ((2 * config.width + context + 2 * config.ffn_width) * width + 4 * (qkv + config.heads + again))
}
