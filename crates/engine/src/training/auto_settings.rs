//! Chooses the automatic settings of a run from the data and the machine.

use crate::plan::{ModelPlan, Training};
use hearth_formats::shape::Module;
use hearth_llm::arch::{DecoderSpec, LayerSpec};
use hearth_llm::ops::logit_rows;
use hearth_llm::{Config, Place};
use hearth_protocol::{Checkpointing, Precision, Schedule, TrainSettings};
use hearth_train::Settings;

/// Approximate tokens per batch. More tokens do not make GEMMs faster.
const TOKENS_PER_BATCH: usize = 1024;
/// Examples per step by minimum number of examples: small datasets need many small steps.
const EXAMPLES_PER_STEP: [(usize, usize); 3] = [(512, 16), (128, 8), (0, 4)];
/// Epochs, and their maximum for datasets that would take fewer than `FEW_STEPS` steps. Early
/// stopping prevents overfitting.
const EPOCHS: f64 = 3.0;
const MAX_EPOCHS: f64 = 8.0;
const FEW_STEPS: usize = 120;
/// Approximate number of evaluations and checkpoints of a run.
const EVALUATIONS: usize = 10;
const CHECKPOINTS: usize = 20;
/// Maximum steps between checkpoints.
const MAX_STEPS_PER_CHECKPOINT: usize = 50;

/// Chooses the settings of a run on examples of these `lengths` in tokens. `max_tokens_per_batch`
/// is the limit due to a GPU's buffer limit. Precision and tape are chosen for the CPU;
/// [`apply_placement`] changes them for the placement.
pub fn choose(
    requested: &TrainSettings,
    config: &Config,
    lengths: &[usize],
    targets: Vec<String>,
    max_tokens_per_batch: Option<usize>,
) -> Settings {
    let count = lengths.len().max(1);
    let mean = (lengths.iter().sum::<usize>() / count).max(1);
    let per_step = EXAMPLES_PER_STEP
        .iter()
        .find(|(min, _)| count >= *min)
        .map_or(1, |(_, examples)| *examples);
    let automatic_batch = || {
        let fits = |batch: &usize| max_tokens_per_batch.is_none_or(|max| longest_batch(lengths, *batch) <= max);
        let batch = (TOKENS_PER_BATCH / mean).clamp(1, per_step);
        (1..=batch).rev().find(fits).unwrap_or(batch)
    };
    let batch = requested.batch.map_or_else(automatic_batch, |batch| batch as usize);
    // A requested batch is a whole step, unless accumulation is requested, too.
    let accumulation = match (requested.accumulation, requested.batch) {
        (Some(accumulation), _) => accumulation as usize,
        (None, Some(_)) => 1,
        (None, None) => per_step.div_ceil(batch),
    };
    let bf16 = match requested.precision {
        Precision::Auto => hearth_kernels::bf16_is_fast(),
        Precision::F32 => false,
        Precision::Bf16 => true,
    };
    let mut settings = Settings {
        version: Settings::VERSION,
        rank: requested.rank as usize,
        alpha: requested.alpha,
        dropout: requested.dropout,
        rslora: requested.rslora,
        targets,
        learning_rate: shortest_decimal(requested.learning_rate),
        schedule: match requested.schedule {
            Schedule::Cosine => hearth_train::Schedule::Cosine,
            Schedule::Linear => hearth_train::Schedule::Linear,
            Schedule::Constant => hearth_train::Schedule::Constant,
        },
        warmup: shortest_decimal(requested.warmup),
        weight_decay: shortest_decimal(requested.weight_decay),
        max_gradient_norm: shortest_decimal(requested.max_gradient_norm),
        epochs: requested
            .epochs
            .map_or_else(|| epochs(count, batch * accumulation), shortest_decimal),
        max_steps: requested.max_steps.map(|steps| steps as usize),
        batch,
        accumulation,
        seed: requested.seed,
        shuffle: requested.shuffle,
        eval_every: 1,
        patience: requested.patience as usize,
        checkpoint_every: 1,
        bf16,
        layers_on_tape: 1,
    };
    let steps = settings.steps(count);
    let every = |requested: Option<u32>, count: usize| requested.map_or_else(|| steps.div_ceil(count), |n| n as usize);
    settings.eval_every = every(requested.eval_every, EVALUATIONS);
    settings.checkpoint_every = every(requested.checkpoint_every, CHECKPOINTS).min(MAX_STEPS_PER_CHECKPOINT);
    settings.layers_on_tape = match requested.checkpointing {
        Checkpointing::Operations => config.n_layers(),
        Checkpointing::Layers | Checkpointing::Auto => 1,
    };
    settings
}

/// Sets the automatic settings that depend on the placement: the planned tape, and bf16 if it is
/// fast on every device with layers.
pub fn apply_placement(
    settings: &mut Settings,
    requested: &TrainSettings,
    model_plan: &ModelPlan,
    is_fast_at_bf16: impl Fn(Place) -> bool,
) {
    if let (Checkpointing::Auto, Some(training)) = (requested.checkpointing, model_plan.training) {
        settings.layers_on_tape = training.layers_at_once;
    }
    if requested.precision == Precision::Auto {
        let placement = &model_plan.placement;
        settings.bf16 = (0..placement.layers()).all(|layer| is_fast_at_bf16(placement.place(layer)));
    }
}

/// Memory of a run with these settings and this many tokens in its longest batch. If layers differ,
/// all count as the largest one. GPUs save activations in f32.
pub fn memory_need(settings: &Settings, config: &Config, spec: &DecoderSpec, tokens: usize) -> Training {
    const F32: usize = size_of::<f32>();
    // The adapter, its gradient, and the two moments of AdamW.
    const COPIES: usize = 4;
    let is_target = |module: Module| {
        let is_in = |target: &String| {
            let target = Module::named(target).map(Module::parts).unwrap_or_default();
            module.parts().iter().any(|part| target.contains(part))
        };
        settings.targets.is_empty() || settings.targets.iter().any(is_in)
    };
    let parameters = |layer: &LayerSpec| {
        let modules = config.architecture.modules(&layer.shape);
        let targets = modules.filter(|(module, _)| is_target(*module));
        targets
            .map(|(_, [outputs, inputs])| settings.rank * (outputs + inputs))
            .sum::<usize>()
    };
    let saved_bytes = |bf16| spec.largest(|layer| layer.saved_bytes(tokens, bf16)) as u64;
    let logits = tokens.min(logit_rows(config.vocab)) * config.vocab * F32;
    Training {
        tokens: tokens as u64,
        operations: saved_bytes(false),
        saved_per_layer_cpu: saved_bytes(settings.bf16),
        layers_at_once: settings.layers_on_tape,
        largest_activation: (tokens * spec.largest(LayerSpec::widest) * F32) as u64,
        fixed_per_layer: ((tokens * config.width + COPIES * spec.largest(parameters)) * F32) as u64,
        output: logits as u64,
    }
}

/// Tokens of the longest possible batch of these examples.
pub fn longest_batch(lengths: &[usize], batch: usize) -> usize {
    let mut descending = lengths.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    descending.iter().take(batch).sum()
}

/// Epochs for this many examples, with `per_step` examples in a step.
fn epochs(examples: usize, per_step: usize) -> f64 {
    let steps_per_epoch = examples.div_ceil(per_step.max(1)).max(1);
    (FEW_STEPS.div_ceil(steps_per_epoch) as f64).clamp(EPOCHS, MAX_EPOCHS)
}

/// The shortest decimal that rounds to this f32: 2e-4 and not 1.99999995e-4.
fn shortest_decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Maximum tokens of a batch whose activations are within a buffer limit in bytes.
pub fn max_batch_tokens(spec: &DecoderSpec, largest_buffer: u64) -> usize {
    largest_buffer as usize / (spec.largest(LayerSpec::widest) * size_of::<f32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ModelBytes, PlanOptions, compute_plan};
    use hearth_formats::gguf::Gguf;
    use hearth_llm::arch::describe;
    use hearth_protocol::{DeviceInfo, GpuLayers};
    use std::path::Path;

    fn model() -> (ModelBytes, Config, DecoderSpec) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
        let gguf = Gguf::open(file).expect("the fixture opens");
        let config = Config::from_gguf(&gguf).expect("a model");
        let spec = describe(&gguf, &config).expect("it is described");
        (
            ModelBytes::from_header(&gguf, &config).expect("its sizes"),
            config,
            spec,
        )
    }

    /// A CPU, and a GPU with ample memory.
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

    /// bf16 may be fast on the CPU and slow on the GPU, and vice versa.
    #[test]
    fn bf16_is_chosen_by_the_devices_that_have_layers() {
        let (bytes, config, spec) = model();
        let chosen = |precision, layers, cpu: bool, gpu: bool| {
            let requested = TrainSettings {
                precision,
                ..TrainSettings::default()
            };
            let mut settings = choose(&requested, &config, &[64; 8], Vec::new(), None);
            let options = PlanOptions {
                gpu_layers: layers,
                training: Some(memory_need(&settings, &config, &spec, 64)),
                ..PlanOptions::default()
            };
            let model_plan = compute_plan(&bytes, &config, &options, &devices()).expect("a plan");
            apply_placement(&mut settings, &requested, &model_plan, |place| match place {
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
            let actual = chosen(Precision::Auto, layers, cpu, gpu);
            assert_eq!(actual, expected, "{layers}, CPU {cpu}, GPU {gpu}");
            // A requested precision does not depend on the devices.
            assert!(chosen(Precision::Bf16, layers, false, false));
            assert!(!chosen(Precision::F32, layers, true, true));
        }
    }

    #[test]
    fn the_automatic_batch_is_within_the_buffer_limit() {
        let (_, config, spec) = model();
        let lengths = [64, 64, 64, 64, 512, 512, 512, 512];
        let batch = |requested: Option<u32>, max_tokens_per_batch| {
            let requested = TrainSettings {
                batch: requested,
                ..TrainSettings::default()
            };
            choose(&requested, &config, &lengths, Vec::new(), max_tokens_per_batch).batch
        };
        let unlimited = batch(None, None);
        assert!(unlimited > 1, "{unlimited}");
        assert_eq!(batch(None, Some(unlimited * 512)), unlimited);
        assert_eq!(batch(None, Some(unlimited * 512 - 1)), unlimited - 1);
        assert_eq!(batch(None, Some(512)), 1);
        // A requested batch is not reduced. The plan will refuse it.
        assert_eq!(batch(Some(8), Some(512)), 8);
        assert_eq!(
            max_batch_tokens(&spec, 4 * spec.largest(LayerSpec::widest) as u64 * 7),
            7
        );
    }
}
