//! How a run is cut to fit the data and the machine.

use crate::plan::{Planned, Training};
use hearth_formats::adapter::LinearName;
use hearth_llm::ops::logit_rows;
use hearth_llm::{Config, Place};
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

/// The settings of a run of these examples, which are `lengths` tokens long. A GPU sees batches of `most_tokens` at most. Precision and
/// tape are those of the processor, until [`settle`] knows where the layers lie.
pub fn settings(
    asked: &TrainSettings,
    config: &Config,
    lengths: &[usize],
    targets: Vec<String>,
    most_tokens: Option<usize>,
) -> Settings {
    let count = lengths.len().max(1);
    let mean = (lengths.iter().sum::<usize>() / count).max(1);
    let a_step = EXAMPLES_A_STEP
        .iter()
        .find(|(least, _)| count >= *least)
        .map_or(1, |(_, examples)| *examples);
    let chosen = || {
        let fits = |batch: &usize| most_tokens.is_none_or(|most| longest_batch(lengths, *batch) <= most);
        let batch = (TOKENS_A_BATCH / mean).clamp(1, a_step);
        (1..=batch).rev().find(fits).unwrap_or(batch)
    };
    let batch = asked.batch.map_or_else(chosen, |batch| batch as usize);
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
    settings.layers_on_tape = match asked.checkpointing {
        Checkpointing::Operations => config.n_layers,
        Checkpointing::Layers | Checkpointing::Auto => 1,
    };
    settings
}

/// Chooses what was not asked for and depends on where the layers lie: the tape as it was planned, and bf16 where every device that has
/// layers is `fast` at it.
pub fn settle(settings: &mut Settings, asked: &TrainSettings, planned: &Planned, fast: impl Fn(Place) -> bool) {
    if let (Checkpointing::Auto, Some(training)) = (asked.checkpointing, planned.training) {
        settings.layers_on_tape = training.blocks_at_once;
    }
    if asked.precision == Precision::Auto {
        let placement = &planned.placement;
        settings.bf16 = (0..placement.layers()).all(|layer| fast(placement.of(layer)));
    }
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
        tokens: tokens as u64,
        operations: bytes_a_layer(config, tokens, false) as u64,
        operations_on_cpu: bytes_a_layer(config, tokens, settings.bf16) as u64,
        blocks_at_once: settings.layers_on_tape,
        largest_of_a_block: (tokens * widest(config) * F32) as u64,
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

/// Columns of the widest matrix of a block: gate and up side by side, or Q, K and V.
fn widest(config: &Config) -> usize {
    (2 * config.ffn_width).max((config.heads + 2 * config.kv_heads) * config.head_dim)
}

/// Tokens of the longest batch whose matrices fit the device's limit on the bytes of a buffer binding.
pub fn tokens_seen(config: &Config, largest_buffer: u64) -> usize {
    largest_buffer as usize / (widest(config) * size_of::<f32>())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Asked, Bytes, planned};
    use hearth_formats::gguf::Gguf;
    use hearth_protocol::{DeviceInfo, GpuLayers};
    use std::path::Path;

    fn model() -> (Bytes, Config) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
        let gguf = Gguf::open(file).expect("the fixture opens");
        let config = Config::from_gguf(&gguf).expect("a model");
        (Bytes::of(&gguf, &config), config)
    }

    /// A processor, and a card with room for everything.
    fn devices() -> [DeviceInfo; 2] {
        let device = |id: &str, kind: &str| DeviceInfo {
            id: id.to_owned(),
            kind: kind.to_owned(),
            memory_total: Some(1 << 40),
            memory_free: Some(1 << 40),
            usable: true,
            ..DeviceInfo::default()
        };
        [device("cpu", "cpu"), device("gpu0", "discrete")]
    }

    /// What the processor is fast at says nothing of a GPU, and the other way round.
    #[test]
    fn bf16_is_chosen_by_the_devices_that_have_layers() {
        let (bytes, config) = model();
        let chosen = |precision, layers, cpu: bool, gpu: bool| {
            let asked = TrainSettings {
                precision,
                ..TrainSettings::default()
            };
            let mut settings = settings(&asked, &config, &[64; 8], Vec::new(), None);
            let wanted = Asked {
                gpu_layers: layers,
                training: Some(needs(&settings, &config, 64)),
                ..Asked::default()
            };
            let planned = planned(&bytes, &config, &wanted, &devices()).expect("a plan");
            settle(&mut settings, &asked, &planned, |place| match place {
                Place::Cpu => cpu,
                Place::Gpu(_) => gpu,
            });
            settings.bf16
        };
        for (layers, cpu, gpu, expected) in [
            (GpuLayers::All, true, false, false),
            (GpuLayers::All, false, true, true),
            (GpuLayers::Count(0), true, false, true),
            (GpuLayers::Count(0), false, true, false),
            (GpuLayers::Count(2), true, false, false),
            (GpuLayers::Count(2), false, true, false),
            (GpuLayers::Count(2), true, true, true),
        ] {
            let found = chosen(Precision::Auto, layers, cpu, gpu);
            assert_eq!(found, expected, "{layers}, processor {cpu}, GPU {gpu}");
            // What a person asks for stays.
            assert!(chosen(Precision::Bf16, layers, false, false));
            assert!(!chosen(Precision::F32, layers, true, true));
        }
    }

    #[test]
    fn a_batch_is_chosen_of_which_a_kernel_sees_all() {
        let (_, config) = model();
        let lengths = [64, 64, 64, 64, 512, 512, 512, 512];
        let batch = |asked: Option<u32>, most_tokens| {
            let asked = TrainSettings {
                batch: asked,
                ..TrainSettings::default()
            };
            settings(&asked, &config, &lengths, Vec::new(), most_tokens).batch
        };
        let free = batch(None, None);
        assert!(free > 1, "{free}");
        assert_eq!(batch(None, Some(free * 512)), free);
        assert_eq!(batch(None, Some(free * 512 - 1)), free - 1);
        assert_eq!(batch(None, Some(512)), 1);
        // One that was asked for stays, and the plan says what is the matter with it.
        assert_eq!(batch(Some(8), Some(512)), 8);
        assert_eq!(tokens_seen(&config, 4 * widest(&config) as u64 * 7), 7);
    }
}
