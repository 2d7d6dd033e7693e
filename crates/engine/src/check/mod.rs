//! The device check: compare a device's results with the CPU's, op by op on synthetic inputs and
//! then in whole models, and benchmark it.
//!
//! Some drivers miscompile kernels. Users would see incoherent answers, or runs without progress,
//! and not the cause.

mod case;
mod cases;
mod compare;
pub(crate) mod decode_cost;
pub mod gradients;
mod models;
mod on_device;
mod reference;
mod sample;

use burn::tensor::Device;
use case::Case;
use compare::{Comparison, compare, tolerance};
use hearth_formats::Architecture;
use hearth_kernels::Quant;
use hearth_llm::{Place, Session, device, launches};
use hearth_protocol::DeviceCheck;
use models::{load, tokens};
use on_device::OnDevice;
use sample::Sample;
use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Duration of a measurement.
const MEASURE_TIME: Duration = Duration::from_millis(200);
/// Maximum prompt length.
const MAX_PROMPT: usize = 512;

/// Compare the device with the CPU, and benchmark it. `small` uses a model that is small enough for
/// a software driver.
///
/// # Errors
/// The device failed; a sentence without its full stop. A driver may also crash the process.
pub fn check(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let (began, launches) = (Instant::now(), launches::Count::begin());
    let mismatch = match place {
        Place::Cpu => None,
        Place::Gpu(_) => find_mismatch(place)?,
    };
    let measured = match mismatch {
        None => measure(place, small)?,
        Some(_) => DeviceCheck::default(),
    };
    let (launched, distinct) = launches.end();
    Ok(DeviceCheck {
        mismatch,
        seconds: began.elapsed().as_secs_f64(),
        kernels_launched: launched,
        kernels_compiled: distinct,
        ..measured
    })
}

/// The first mismatch, in one sentence.
fn find_mismatch(place: Place) -> Result<Option<String>, Box<dyn Error>> {
    let matrix_units = device::has_matrix_units(place)?;
    match first_mismatch(place, cases::cases(matrix_units), &mut |_, _, _| {})? {
        None => models::compare(place, matrix_units),
        found => Ok(found),
    }
}

/// Compare only the GEMMs on matrix units, which round their factors. Reports the name, error and
/// tolerance of each case, and returns the first mismatch in one sentence. Does nothing on a device
/// without matrix units.
///
/// # Errors
/// The device failed.
pub fn matrix_units(place: Place, report: &mut dyn FnMut(&str, f64, f64)) -> Result<Option<String>, Box<dyn Error>> {
    match device::has_matrix_units(place)? {
        true => first_mismatch(place, cases::rounded(), report),
        false => Ok(None),
    }
}

fn first_mismatch(
    place: Place,
    cases: Vec<Case>,
    report: &mut dyn FnMut(&str, f64, f64),
) -> Result<Option<String>, Box<dyn Error>> {
    let (device, cpu) = (OnDevice(device::open(place)?), OnDevice(Device::flex()));
    for case in cases {
        let began = Instant::now();
        let Comparison { error, mismatch } = compare(&case, &device, &cpu)?;
        let (seconds, allowed) = (began.elapsed().as_secs_f64(), tolerance(&case));
        tracing::debug!("{seconds:.3} s, off by {error:.1e} of {allowed:.1e}: {case}");
        report(&case.to_string(), error, allowed);
        if let Some(mismatch) = mismatch {
            return Ok(Some(mismatch.sentence()));
        }
    }
    Ok(None)
}

/// Benchmark: the speeds of prefill and decode.
///
/// A decode step has a time of its own, one for each layer, and one for each byte of weights. Two
/// models whose weights hardly count show the first two, and a larger one the third.
fn measure(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let (layers, width, ffn_width) = if small { (1, 512, 1024) } else { (4, 2048, 8192) };
    let sample = speed_sample(layers, width, ffn_width);
    let matrices = width * (2 * width + width) + 3 * width * ffn_width;
    let weights = (layers * matrices + width * sample.vocab) as f64;
    let (macs_per_second, step) = {
        let mut run = SpeedRun::begin(&sample, place)?;
        (weights / run.seconds_per_prompt_token()?, run.seconds_per_step()?)
    };
    let overhead_of = |layers| SpeedRun::begin(&speed_sample(layers, 256, 512), place)?.seconds_per_step();
    let overheads = Overheads::of(overhead_of(FEW_LAYERS)?, overhead_of(MANY_LAYERS)?);
    let bytes = weights * Quant::Q4_0.block_bytes() as f64 / Quant::Q4_0.block_elements() as f64;
    Ok(DeviceCheck {
        macs_per_second,
        bytes_per_second: bytes / overheads.weights_seconds(step, layers),
        step_seconds: overheads.step,
        layer_seconds: overheads.layer,
        ..DeviceCheck::default()
    })
}

fn speed_sample(layers: usize, width: usize, ffn_width: usize) -> Sample {
    Sample {
        architecture: Architecture::Llama,
        layers,
        width,
        ffn_width,
        heads: width / 64,
        kv_heads: width / 128,
        vocab: 256,
        formats: &[Quant::Q4_0],
    }
}

/// Layers of the two models that show what a decode step takes beside its weights.
const FEW_LAYERS: usize = 2;
const MANY_LAYERS: usize = 10;
/// The least share of a step that is attributed to the weights, because the difference of two
/// nearly equal times is noise.
const LEAST_WEIGHTS_SHARE: f64 = 0.25;

/// What a decode step takes beside its weights, in seconds.
struct Overheads {
    step: f64,
    layer: f64,
}

impl Overheads {
    /// From the steps of models with [`FEW_LAYERS`] and [`MANY_LAYERS`].
    fn of(few: f64, many: f64) -> Self {
        let layer = ((many - few) / (MANY_LAYERS - FEW_LAYERS) as f64).max(0.0);
        Self {
            step: (few - FEW_LAYERS as f64 * layer).max(0.0),
            layer,
        }
    }

    /// The part of a step of this duration that the weights take.
    fn weights_seconds(&self, step: f64, layers: usize) -> f64 {
        let beside = self.step + layers as f64 * self.layer;
        (step - beside).max(LEAST_WEIGHTS_SHARE * step).max(1e-9)
    }
}

/// A session whose speed is measured.
struct SpeedRun {
    session: Session,
    ids: Vec<u32>,
}

impl SpeedRun {
    fn begin(sample: &Sample, place: Place) -> Result<Self, Box<dyn Error>> {
        let model = load(sample, place)?;
        let ids = tokens(&model, MAX_PROMPT);
        let session = Session::new(model, 2 * MAX_PROMPT)?;
        Ok(Self { session, ids })
    }

    /// Of the longest prompt that is fast enough; each length runs twice, since the first run
    /// compiles kernels.
    fn seconds_per_prompt_token(&mut self) -> Result<f64, Box<dyn Error>> {
        let mut prompt = 16;
        loop {
            let mut seconds = 0.0;
            for first in 0..2 {
                // A different first token, so that no prefix is in the KV cache.
                self.ids[0] = first;
                let began = Instant::now();
                self.session
                    .prefill(&self.ids[..prompt], &mut |_, _| ControlFlow::Continue(()))?;
                seconds = began.elapsed().as_secs_f64();
            }
            if prompt == MAX_PROMPT || seconds > MEASURE_TIME.as_secs_f64() / 4.0 {
                return Ok(seconds.max(1e-9) / prompt as f64);
            }
            prompt *= 2;
        }
    }

    /// Of decode, after a step that compiles kernels.
    fn seconds_per_step(&mut self) -> Result<f64, Box<dyn Error>> {
        self.session.push_greedy(self.ids[0])?;
        let (began, mut steps) = (Instant::now(), 0);
        while steps < MAX_PROMPT - 1 && (steps < 4 || began.elapsed() < MEASURE_TIME) {
            self.session.push_greedy(self.ids[steps])?;
            steps += 1;
        }
        Ok(began.elapsed().as_secs_f64() / steps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_measured() {
        let check = check(Place::Cpu, true).expect("it runs");
        assert!(check.bytes_per_second > 0.0 && check.macs_per_second > 0.0, "{check:?}");
        assert!(check.step_seconds >= 0.0 && check.layer_seconds >= 0.0, "{check:?}");
    }

    /// A device that takes 0.6 ms a step, 0.1 ms a layer and 1 ms for 100 MB.
    #[test]
    fn overheads_and_bandwidth_are_separated() {
        let step = |layers: f64, bytes: f64| 6e-4 + 1e-4 * layers + bytes * 1e-11;
        let overheads = Overheads::of(step(FEW_LAYERS as f64, 0.0), step(MANY_LAYERS as f64, 0.0));
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(close(overheads.step, 6e-4) && close(overheads.layer, 1e-4));
        assert!(close(overheads.weights_seconds(step(4.0, 1e8), 4), 1e-3));
    }

    #[test]
    fn noise_makes_no_time_negative() {
        let overheads = Overheads::of(2e-3, 1e-3);
        assert!(overheads.layer == 0.0 && overheads.step == 2e-3);
        assert!(overheads.weights_seconds(1e-3, 4) > 0.0);
    }
}
