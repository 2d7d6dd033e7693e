//! Whether a device computes what the processor does, and how fast it is: on models that are made up.
//!
//! Drivers compile kernels, and some compile them wrongly. A person would see answers that make no sense, or a run that learns
//! nothing, and not why.

mod sample;

use hearth_kernels::Quant;
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::Product;
use hearth_llm::{Config, LoadOptions, Model, Place, Placement, Session};
use hearth_protocol::DeviceCheck;
use hearth_train::{Control, Example, Report, Run, Schedule, Settings};
use sample::{Random, Sample};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logits may be off by this share of the greatest: a cache in f16 turns a last bit of f32 into about as much.
const LOGITS_OFF: f32 = 4e-3;
/// The same of a loss.
const LOSS_OFF: f64 = 1e-3;
/// The same of both, where factors may be rounded to 16 bits, as they are for matrix units.
const ROUNDED_OFF: f64 = 2e-2;

/// What a run teaches.
const LINEARS: [&str; 7] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
];

/// Something is measured again and again for this long.
const LONG_ENOUGH: Duration = Duration::from_millis(200);
/// The longest prompt.
const LONGEST: usize = 512;

/// Every format but plain f32, in two blocks.
const FORMATS: &[Quant] = &[
    Quant::Q4_K,
    Quant::Q8_0,
    Quant::Q6_K,
    Quant::Q4_0,
    Quant::Q4_1,
    Quant::Q5_K,
    Quant::F16,
    Quant::Q5_0,
    Quant::Q5_1,
    Quant::Q2_K,
    Quant::Q3_K,
    Quant::IQ4_NL,
    Quant::IQ4_XS,
    Quant::BF16,
];

/// Models whose answers are compared: with and without norms of heads, windows, and gates of both kinds.
const COMPARED: [Sample; 3] = [compared("llama"), compared("qwen3"), compared("gemma3")];

const fn compared(architecture: &'static str) -> Sample {
    Sample {
        architecture,
        blocks: 2,
        width: 256,
        ffn_width: 512,
        heads: 4,
        kv_heads: 2,
        vocab: 320,
        formats: FORMATS,
    }
}

/// Compares the device with the processor, and measures it. `small` measures on a model that a driver in software gets through.
///
/// # Errors
/// The device fails, in a sentence without its full stop. A driver may also end the process.
pub fn check(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let wrong = match place {
        Place::Cpu => None,
        Place::Gpu(_) => compare(place)?,
    };
    let (bytes_per_second, products_per_second) = match wrong {
        None => measure(place, small)?,
        Some(_) => (0.0, 0.0),
    };
    Ok(DeviceCheck {
        wrong,
        bytes_per_second,
        products_per_second,
    })
}

/// The first thing that the device computes otherwise, in one sentence.
fn compare(place: Place) -> Result<Option<String>, Box<dyn Error>> {
    for sample in &COMPARED {
        let (here, there) = (load(sample, Place::Cpu)?, load(sample, place)?);
        for (format, product, most) in [
            (KvFormat::F16, Product::Exact, LOGITS_OFF),
            (KvFormat::Q8_0, Product::Exact, LOGITS_OFF),
            (KvFormat::F16, Product::Fast, ROUNDED_OFF as f32),
        ] {
            let expected = logits(&here, format, Product::Exact)?;
            let off = largest_error(&logits(&there, format, product)?, &expected);
            if off > most {
                return Ok(Some(format!(
                    "Its driver computes something else than the processor does: the answers of a sample of {} with a cache in \
                     {format:?} are off by {:.1} %.",
                    sample.architecture,
                    off * 100.0
                )));
            }
        }
    }
    let sample = &COMPARED[0];
    let expected = losses(sample, Place::Cpu, false)?;
    for (bf16, most) in [(false, LOSS_OFF), (true, ROUNDED_OFF)] {
        let found = losses(sample, place, bf16)?;
        let pairs = expected.iter().zip(&found);
        let off = pairs.map(|(a, b)| (a - b).abs() / a).fold(0.0, f64::max);
        if off > most || found.iter().any(|loss| !loss.is_finite()) {
            return Ok(Some(format!(
                "Its driver computes something else than the processor does: a sample learns otherwise, by {:.1} %.",
                off * 100.0
            )));
        }
    }
    Ok(None)
}

fn load(sample: &Sample, place: Place) -> Result<Arc<Model>, Box<dyn Error>> {
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
    Ok(Arc::new(Model::load(&gguf, &options, &mut |_, _| {
        ControlFlow::Continue(())
    })?))
}

fn tokens(model: &Model, count: usize) -> Vec<u32> {
    let mut random = Random(2);
    (0..count).map(|_| random.token(model.config().vocab)).collect()
}

/// Logits after a prompt of many tokens, one of few, and single ones.
fn logits(model: &Arc<Model>, format: KvFormat, product: Product) -> Result<Vec<f32>, Box<dyn Error>> {
    let ids = tokens(model, 83);
    let session = Session::with_cache(Arc::clone(model), ids.len(), format)?;
    let mut session = session.with_product(product);
    let mut logits = Vec::new();
    for part in [&ids[..75], &ids[75..80], &ids[80..81], &ids[81..82], &ids[82..]] {
        logits.extend(session.extend(part)?);
    }
    Ok(logits)
}

/// The largest difference, as a share of the greatest number; infinite where something is not a number.
fn largest_error(found: &[f32], expected: &[f32]) -> f32 {
    let greatest = expected.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let pairs = found.iter().zip(expected);
    let worst = pairs.fold(0.0_f32, |worst, (a, b)| match (a - b).abs() {
        off if off.is_finite() => worst.max(off),
        _ => f32::INFINITY,
    });
    match found.len() == expected.len() {
        true => worst / greatest,
        false => f32::INFINITY,
    }
}

/// The losses of a few steps of fine-tuning: those after the first tell what the gradients were.
fn losses(sample: &Sample, place: Place, bf16: bool) -> Result<Vec<f64>, Box<dyn Error>> {
    let model = load(sample, place)?;
    let ids = tokens(&model, 96);
    let examples = ids.chunks(24).map(|ids| Example {
        ids: ids.to_vec(),
        trained: vec![true; ids.len()],
    });
    let settings = Settings {
        version: Settings::VERSION,
        rank: 4,
        alpha: 8.0,
        dropout: 0.0,
        rslora: false,
        targets: LINEARS.map(str::to_owned).to_vec(),
        learning_rate: 1e-2,
        schedule: Schedule::Constant,
        warmup: 0.0,
        weight_decay: 0.0,
        max_gradient_norm: 1.0,
        epochs: 4.0,
        max_steps: Some(4),
        batch: 2,
        accumulation: 1,
        seed: 1,
        shuffle: false,
        eval_every: usize::MAX,
        patience: 0,
        checkpoint_every: usize::MAX,
        bf16,
        layers_on_tape: sample.blocks,
    };
    let mut losses = Vec::new();
    Run::new(model, settings, examples.collect(), Vec::new(), None)?.go(&mut |report| {
        if let Report::Step(step) = report {
            losses.push(step.loss);
        }
        Control::Continue
    })?;
    Ok(losses)
}

/// Bytes of weights read in a second while single tokens go through, and weights that meet a token in a second while many do.
fn measure(place: Place, small: bool) -> Result<(f64, f64), Box<dyn Error>> {
    let (blocks, width, ffn_width) = if small { (1, 512, 1024) } else { (4, 2048, 8192) };
    let sample = Sample {
        architecture: "llama",
        blocks,
        width,
        ffn_width,
        heads: width / 64,
        kv_heads: width / 128,
        vocab: 256,
        formats: &[Quant::Q4_0],
    };
    let model = load(&sample, place)?;
    let matrices = width * (2 * width + width) + 3 * width * ffn_width;
    let weights = (blocks * matrices + width * sample.vocab) as f64;
    let mut ids = tokens(&model, LONGEST);
    let mut session = Session::new(Arc::clone(&model), 2 * LONGEST)?;

    // As long a prompt as the device gets through in no time; each length once before it counts, since kernels are translated.
    let mut prompt = 16;
    let seconds = loop {
        let mut seconds = 0.0;
        for first in 0..2 {
            // Another first token, so that nothing of it is in the cache.
            ids[0] = first;
            let began = Instant::now();
            session.prefill(&ids[..prompt], &mut |_, _| ControlFlow::Continue(()))?;
            seconds = began.elapsed().as_secs_f64();
        }
        if prompt == LONGEST || seconds > LONG_ENOUGH.as_secs_f64() / 4.0 {
            break seconds;
        }
        prompt *= 2;
    };
    let products = weights * prompt as f64 / seconds.max(1e-9);

    session.push_for_likeliest(ids[0])?;
    let (began, mut steps) = (Instant::now(), 0);
    while steps < LONGEST - 1 && (steps < 4 || began.elapsed() < LONG_ENOUGH) {
        session.push_for_likeliest(ids[steps])?;
        steps += 1;
    }
    let bytes = weights * Quant::Q4_0.block_bytes() as f64 / Quant::Q4_0.block_elements() as f64;
    Ok((bytes * steps as f64 / began.elapsed().as_secs_f64(), products))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_measured() {
        let check = check(Place::Cpu, true).expect("it runs");
        assert!(
            check.bytes_per_second > 0.0 && check.products_per_second > 0.0,
            "{check:?}"
        );
    }

    #[test]
    fn what_is_wrong_is_seen() {
        let expected = [1.0, -2.0, 0.5];
        assert_eq!(largest_error(&expected, &expected), 0.0);
        assert!(largest_error(&[1.0, -2.0, 0.6], &expected) > LOGITS_OFF);
        assert!(largest_error(&[1.0, f32::NAN, 0.5], &expected) > LOGITS_OFF);
        assert!(largest_error(&[1.0, -2.0], &expected) > LOGITS_OFF);
    }

    /// Another model computes something else, so the comparison can fail.
    #[test]
    fn every_weight_counts() {
        let logits = |sample: &Sample| {
            logits(
                &load(sample, Place::Cpu).expect("it loads"),
                KvFormat::F16,
                Product::Exact,
            )
            .expect("it runs")
        };
        let other = Sample {
            formats: &FORMATS[1..],
            ..compared("llama")
        };
        assert!(largest_error(&logits(&other), &logits(&COMPARED[0])) > LOGITS_OFF);
        assert!(logits(&COMPARED[2]).iter().all(|logit| logit.is_finite()));
    }
}
