//! Compares whole synthetic models with the CPU: logits of a session, and losses of a run.

use super::Select;
use super::case::{Output, RANKS};
use super::cases::VOCAB;
use super::compare::mismatch;
use super::sample::{Random, Sample, layer_shape};
use hearth_formats::Architecture;
use hearth_kernels::Quant;
use hearth_kernels::attention::KvFormat;
use hearth_kernels::reference::noise;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{Config, LoadOptions, LoraPart, Model, Place, Placement, Session};
use hearth_protocol::Mismatch;
use hearth_train::{Control, Example, Report, Run, Schedule, Settings};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tolerance of logits (see [`super::compare`]): a KV cell rounded to the adjacent value affects
/// all later tokens.
const LOGITS_TOLERANCE: f64 = 2e-2;
/// Tolerance of logits on matrix units, which round factors.
const ROUNDED_LOGITS_TOLERANCE: f64 = 1e-1;
/// Relative tolerance of a loss, in f32 and with rounded factors.
const LOSS_TOLERANCE: f64 = 1e-3;
const ROUNDED_LOSS_TOLERANCE: f64 = 2e-2;

const FORMATS: &[Quant] = &[
    Quant::Q4_K,
    Quant::Q8_0,
    Quant::Q6_K,
    Quant::Q4_0,
    Quant::Q4_1,
    Quant::F16,
    Quant::Q5_K,
];

/// Tokens per pass. The last pass attends to 300 tokens before it.
const PASSES: [usize; 5] = [129, 129, 33, 9, 1];

/// Models with and without head norms and sliding windows, with both activations; then small ones
/// with scales, a temperature, softcaps, norms over all heads and layers without RoPE. And their KV
/// cache types.
fn models() -> [(Sample, KvFormat); 8] {
    [
        (synthetic(Architecture::Llama, 2, 576, 768, 9, 3), KvFormat::F16),
        (synthetic(Architecture::Qwen3, 1, 960, 1280, 15, 5), KvFormat::Q8_0),
        (synthetic(Architecture::Gemma3, 2, 576, 768, 9, 3), KvFormat::F16),
        (synthetic(Architecture::Granite, 1, 320, 384, 5, 1), KvFormat::F16),
        (synthetic(Architecture::Mistral3, 1, 320, 384, 5, 1), KvFormat::F16),
        (synthetic(Architecture::Gemma2, 2, 320, 384, 5, 1), KvFormat::F16),
        (synthetic(Architecture::Olmo2, 1, 320, 384, 5, 1), KvFormat::F16),
        (synthetic(Architecture::SmolLm3, 4, 320, 384, 5, 1), KvFormat::F16),
    ]
}

fn synthetic(
    architecture: Architecture,
    layers: usize,
    width: usize,
    ffn_width: usize,
    heads: usize,
    kv_heads: usize,
) -> Sample {
    Sample {
        architecture,
        layers: vec![layer_shape(width, ffn_width, heads, kv_heads); layers],
        vocab: VOCAB,
        formats: FORMATS,
    }
}

/// The first mismatch of the selected samples.
///
/// # Errors
/// The device failed.
pub fn compare(place: Place, matrix_units: bool, select: Select) -> Result<Option<Mismatch>, Box<dyn Error>> {
    let models = models();
    for (sample, format) in &models {
        let name = format!("a sample of {} with a cache in {format:?}", sample.architecture);
        if !select(&name) {
            continue;
        }
        let expected = logits(sample, Place::Cpu, *format, MatmulPrecision::F32)?;
        let actual = logits(sample, place, *format, MatmulPrecision::Int8Activations)?;
        let tolerance = if matrix_units {
            ROUNDED_LOGITS_TOLERANCE
        } else {
            LOGITS_TOLERANCE
        };
        if let Some(mismatch) = mismatch(&name, &actual, &expected, tolerance) {
            return Ok(Some(mismatch.report()));
        }
    }
    if !select("a sample run") {
        return Ok(None);
    }
    let sample = &models[0].0;
    let expected = losses(sample, Place::Cpu, false)?;
    let mut precisions = vec![(false, LOSS_TOLERANCE)];
    if matrix_units {
        precisions.push((true, ROUNDED_LOSS_TOLERANCE));
    }
    for (bf16, tolerance) in precisions {
        let actual = losses(sample, place, bf16)?;
        let pairs = expected.iter().zip(&actual);
        let error = pairs
            .map(|(expected, actual)| (expected - actual).abs() / expected)
            .fold(0.0, f64::max);
        if error > tolerance || actual.len() != expected.len() || actual.iter().any(|loss| !loss.is_finite()) {
            return Ok(Some(Mismatch::Losses {
                percent: format!("{:.1}", error * 100.0),
            }));
        }
    }
    Ok(None)
}

/// Loads a sample with all layers on one device.
///
/// # Errors
/// The device failed.
pub fn load(sample: &Sample, place: Place) -> Result<Arc<Model>, Box<dyn Error>> {
    let gguf = sample.gguf()?;
    let layers = Config::from_gguf(&gguf)?.layers();
    let placement = match place {
        Place::Cpu => Placement::cpu(layers),
        Place::Gpu(number) => Placement::offload(layers, layers, &[(number, 1)]),
    };
    let options = LoadOptions {
        placement: Some(placement),
        ..LoadOptions::default()
    };
    Ok(Arc::new(Model::load(&gguf, &options, &mut |_| {
        ControlFlow::Continue(())
    })?))
}

/// Random tokens.
pub fn tokens(model: &Model, count: usize) -> Vec<u32> {
    let mut random = Random(2);
    (0..count).map(|_| random.token(model.config().vocab)).collect()
}

/// An adapter on every linear layer, whose elements are about as large as the weights.
fn adapter(sample: &Sample) -> Vec<LoraPart> {
    let random = |seed, count, inputs: usize| {
        let bound = (3.0 / inputs as f32).sqrt();
        noise(seed, count).into_iter().map(|x| bound * x).collect()
    };
    let mut parts = Vec::new();
    for (layer, shape) in sample.layers.iter().enumerate() {
        for (linear, [outputs, inputs]) in shape.linears() {
            let (seed, rank) = (parts.len() as u64 * 10 + 1, RANKS[parts.len() % RANKS.len()]);
            parts.push(LoraPart {
                layer,
                linear,
                rank,
                a: random(seed, rank * inputs, inputs),
                b: random(seed + 1, outputs * rank, rank),
                scale: 0.5,
            });
        }
    }
    parts
}

/// Logits of all tokens, in passes of many sizes, with an adapter.
fn logits(
    sample: &Sample,
    place: Place,
    format: KvFormat,
    precision: MatmulPrecision,
) -> Result<Output, Box<dyn Error>> {
    let model = Arc::new(load(sample, place)?.adapted(&adapter(sample))?);
    let ids = tokens(&model, PASSES.iter().sum());
    let session = Session::with_cache(model, ids.len(), format)?;
    let mut session = session.with_precision(precision);
    let (mut values, mut position) = (Vec::new(), 0);
    for pass in PASSES {
        values.extend(session.extend(&ids[position..position + pass])?);
        position += pass;
    }
    Ok(Output {
        name: "the logits".to_owned(),
        cols: sample.vocab,
        values,
    })
}

/// Losses of three steps of fine-tuning. Those after the first depend on the gradients.
fn losses(sample: &Sample, place: Place, bf16: bool) -> Result<Vec<f64>, Box<dyn Error>> {
    let model = load(sample, place)?;
    let ids = tokens(&model, 4 * 33);
    let examples = ids.chunks(33).map(|ids| Example {
        ids: ids.to_vec(),
        trained: vec![true; ids.len()],
    });
    let settings = Settings {
        version: Settings::VERSION,
        rank: 16,
        alpha: 32.0,
        dropout: 0.1,
        rslora: false,
        targets: Vec::new(),
        learning_rate: 1e-2,
        schedule: Schedule::Constant,
        warmup: 0.0,
        weight_decay: 0.0,
        max_gradient_norm: 1.0,
        epochs: 4.0,
        max_steps: Some(3),
        batch: 2,
        accumulation: 1,
        seed: 1,
        shuffle: false,
        eval_every: usize::MAX,
        patience: 0,
        checkpoint_every: usize::MAX,
        bf16,
        layers_on_tape: sample.layers.len(),
    };
    let mut losses = Vec::new();
    Run::new(model, settings, examples.collect(), Vec::new(), None)?.run(&mut |report| {
        if let Report::Step(step) = report {
            losses.push(step.loss);
        }
        Control::Continue
    })?;
    Ok(losses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_llm::arch::{LayerSpec, MixerSpec, describe};
    use std::collections::BTreeSet;

    fn on_cpu(sample: &Sample) -> Output {
        logits(sample, Place::Cpu, KvFormat::F16, MatmulPrecision::F32).expect("it runs")
    }

    /// The comparison can fail.
    #[test]
    fn logits_of_another_model_are_a_mismatch() {
        let expected = on_cpu(&models()[0].0);
        assert_eq!(mismatch("itself", &expected, &expected, LOGITS_TOLERANCE), None);
        let other = Sample {
            formats: &FORMATS[1..],
            ..synthetic(Architecture::Llama, 2, 576, 768, 9, 3)
        };
        let actual = on_cpu(&other);
        assert!(mismatch("another", &actual, &expected, ROUNDED_LOGITS_TOLERANCE).is_some());
        assert!(on_cpu(&models()[2].0).values.iter().all(|logit| logit.is_finite()));
    }

    /// Every norm, activation, pairing and window that an architecture has is in a sample, and
    /// every further change of scores, logits and the residual stream.
    #[test]
    fn the_samples_cover_every_architecture() {
        let parts = |sample: &Sample| {
            let gguf = sample.gguf().expect("a file");
            let config = Config::from_gguf(&gguf).expect("a model");
            let spec = describe(&gguf, &config).expect("it is described");
            let layer_parts = |layer: &LayerSpec| {
                let norms = layer.norms.lengths(&layer.shape);
                let mut parts: Vec<String> = norms.into_iter().map(|(norm, _)| norm.to_owned()).collect();
                let (before, over_heads) = (layer.norms.before_mixer, layer.norms.over_heads);
                parts.push(format!("norm before: {}, over heads: {over_heads}", before.is_some()));
                let MixerSpec::Attention { heads, temperature, .. } = layer.mixer.expect("attention");
                parts.push(format!("temperature: {}", temperature.is_some()));
                parts.push(format!("softcap: {}", heads.softcap.is_some()));
                parts.push(format!("residual scale: {}", layer.residual_scale != 1.0));
                parts.push(format!("{:?}", layer.feed_forward));
                parts.push(format!("{:?}", layer.rope().map(|rope| rope.pairing)));
                let window = layer.heads().and_then(|heads| heads.window);
                parts.push(format!("window: {}", window.is_some()));
                parts
            };
            spec.layers.iter().flat_map(layer_parts).collect::<BTreeSet<_>>()
        };
        let covered: BTreeSet<_> = models().iter().flat_map(|(sample, _)| parts(sample)).collect();
        for architecture in Architecture::ALL {
            // Six layers are the longest pattern of windows.
            let actual = parts(&synthetic(*architecture, 6, 64, 64, 2, 1));
            assert!(actual.is_subset(&covered), "{architecture}: {actual:?}");
        }
    }

    #[test]
    fn rounded_factors_are_within_tolerance() {
        let (sample, format) = &models()[0];
        let exact = logits(sample, Place::Cpu, *format, MatmulPrecision::F32).expect("it runs");
        let bf16 = logits(sample, Place::Cpu, *format, MatmulPrecision::Bf16).expect("it runs");
        assert_eq!(mismatch("bf16", &bf16, &exact, ROUNDED_LOGITS_TOLERANCE), None);
    }
}
