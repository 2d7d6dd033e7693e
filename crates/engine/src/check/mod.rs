//! The device check: compares a device's results with the CPU's, op by op on synthetic inputs and
//! then in whole models, and benchmarks the device.
//!
//! Some drivers miscompile kernels. Without the check, a user would see incoherent answers or a
//! fine-tuning run whose loss does not decrease, but not the cause.

mod case;
mod cases;
mod compare;
pub(crate) mod decode_cost;
pub mod gradients;
mod models;
mod on_device;
mod reference;
mod sample;
mod step_time;

use burn::tensor::Device;
use case::Case;
use compare::{Comparison, compare, tolerance};
use hearth_formats::shape::LayerShape;
use hearth_kernels::Quant;
use hearth_llm::{Model, Place, Session, device, launches};
use hearth_protocol::{DeviceCheck, Mismatch};
use models::{load, tokens};
use on_device::OnDevice;
use sample::Sample;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use step_time::{Overheads, step_seconds};

/// The prompt is not lengthened further if its prefill takes longer than this.
const MAX_PROMPT_TIME: Duration = Duration::from_millis(50);
/// Maximum prompt length, in tokens.
const MAX_PROMPT: usize = 512;

/// Returns whether to compare the case with this name.
pub type Select<'a> = &'a mut dyn FnMut(&str) -> bool;

/// Compares the device with the CPU, and benchmarks it. With `small`, the benchmark's model is
/// small enough for a software driver.
///
/// # Errors
/// The device failed. The message has no full stop. A driver may also crash the process.
pub fn check(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    check_selected(place, small, &mut |_| true)
}

/// Like [`check`], but compares only the cases that `select` accepts. It is called once per case,
/// in order: ops, then whole models.
///
/// # Errors
/// See [`check`].
pub fn check_selected(place: Place, small: bool, select: Select) -> Result<DeviceCheck, Box<dyn Error>> {
    let (start, launches) = (Instant::now(), launches::Count::begin());
    let mismatch = match place {
        Place::Cpu => None,
        Place::Gpu(_) => find_mismatch(place, select)?,
    };
    let benchmark = match mismatch {
        None => benchmark(place, small)?,
        Some(_) => DeviceCheck::default(),
    };
    let (launched, distinct) = launches.end();
    Ok(DeviceCheck {
        mismatch,
        seconds: start.elapsed().as_secs_f64(),
        kernels_launched: launched,
        kernels_compiled: distinct,
        ..benchmark
    })
}

/// Compares ops, then whole models, and returns the first mismatch.
fn find_mismatch(place: Place, select: Select) -> Result<Option<Mismatch>, Box<dyn Error>> {
    let matrix_units = device::has_matrix_units(place)?;
    let mut cases = cases::cases(matrix_units);
    cases.retain(|case| select(&case.to_string()));
    match first_mismatch(place, cases, &mut |_, _, _| {})? {
        None => models::compare(place, matrix_units, select),
        mismatch => Ok(mismatch),
    }
}

/// Compares only the GEMMs on matrix units, which round their factors. Reports the name, error and
/// tolerance of each case, and returns the first mismatch. Does nothing on a device without matrix
/// units.
///
/// # Errors
/// The device failed.
pub fn matrix_units(place: Place, report: &mut dyn FnMut(&str, f64, f64)) -> Result<Option<Mismatch>, Box<dyn Error>> {
    if device::has_matrix_units(place)? {
        first_mismatch(place, cases::rounded(), report)
    } else {
        Ok(None)
    }
}

/// Compares the cases in order, up to the first mismatch.
fn first_mismatch(
    place: Place,
    cases: Vec<Case>,
    report: &mut dyn FnMut(&str, f64, f64),
) -> Result<Option<Mismatch>, Box<dyn Error>> {
    let (device, cpu) = (OnDevice(device::open(place)?), OnDevice(Device::flex()));
    for case in cases {
        let start = Instant::now();
        let Comparison { error, mismatch } = compare(&case, &device, &cpu)?;
        let (seconds, tolerance) = (start.elapsed().as_secs_f64(), tolerance(&case));
        tracing::debug!("{seconds:.3} s, error {error:.1e}, tolerance {tolerance:.1e}: {case}");
        report(&case.to_string(), error, tolerance);
        if let Some(mismatch) = mismatch {
            return Ok(Some(mismatch.report()));
        }
    }
    Ok(None)
}

/// Measures prefill speed, the overheads of a decode step, and decode bandwidth.
fn benchmark(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let (layers, width, ffn_width) = if small { (1, 512, 1024) } else { (4, 2048, 8192) };
    let sample = Sample::llama(layers, width, ffn_width, &[Quant::Q4_0]);
    let linears = sample.layers.iter().flat_map(LayerShape::linears);
    let layer_weights: usize = linears.map(|(_, [rows, cols])| rows * cols).sum();
    let weights = (layer_weights + width * sample.vocab) as f64;
    let bytes = weights * Quant::Q4_0.block_bytes() as f64 / Quant::Q4_0.block_elements() as f64;
    let model = load(&sample, place)?;
    let macs_per_second = weights / seconds_per_prompt_token(Arc::clone(&model))?;
    let step = step_seconds(model)?;
    let overheads = Overheads::measure(place)?;
    Ok(DeviceCheck {
        macs_per_second,
        bytes_per_second: bytes / overheads.weights_seconds(step, layers),
        step_seconds: overheads.step,
        layer_seconds: overheads.layer,
        ..DeviceCheck::default()
    })
}

/// Prefill time per token. The prompt doubles in length up to [`MAX_PROMPT`] tokens, or until it
/// takes longer than [`MAX_PROMPT_TIME`]. Each length runs twice, since the first run compiles
/// kernels.
fn seconds_per_prompt_token(model: Arc<Model>) -> Result<f64, Box<dyn Error>> {
    let mut ids = tokens(&model, MAX_PROMPT);
    let mut session = Session::new(model, 2 * MAX_PROMPT)?;
    let mut length = 16;
    loop {
        let mut seconds = 0.0;
        for first in 0..2 {
            // A different first token, so that no prefix is in the KV cache.
            ids[0] = first;
            let start = Instant::now();
            session.prefill(&ids[..length], &mut |_, _| ControlFlow::Continue(()))?;
            seconds = start.elapsed().as_secs_f64();
        }
        if length == MAX_PROMPT || seconds > MAX_PROMPT_TIME.as_secs_f64() {
            return Ok(seconds.max(1e-9) / length as f64);
        }
        length *= 2;
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
}
