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
mod step_time;

use burn::tensor::Device;
use case::Case;
use compare::{Comparison, compare, tolerance};
use hearth_kernels::Quant;
use hearth_llm::{Model, Place, Session, device, launches};
use hearth_protocol::DeviceCheck;
use models::{load, tokens};
use on_device::OnDevice;
use sample::Sample;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use step_time::{Overheads, step_seconds};

/// Duration of a prompt after which none of twice its length is measured.
const MAX_PROMPT_TIME: Duration = Duration::from_millis(50);
/// Maximum prompt length.
const MAX_PROMPT: usize = 512;

/// Whether to compare the case of this name.
pub type Select<'a> = &'a mut dyn FnMut(&str) -> bool;

/// Compares the device with the CPU, and benchmarks it. `small` uses a model that is small enough
/// for a software driver.
///
/// # Errors
/// The device failed; a sentence without its full stop. A driver may also crash the process.
pub fn check(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    check_selected(place, small, &mut |_| true)
}

/// The same, comparing selected cases: ops, then whole models. `select` gets each name once, in
/// order.
///
/// # Errors
/// See [`check`].
pub fn check_selected(place: Place, small: bool, select: Select) -> Result<DeviceCheck, Box<dyn Error>> {
    let (began, launches) = (Instant::now(), launches::Count::begin());
    let mismatch = match place {
        Place::Cpu => None,
        Place::Gpu(_) => find_mismatch(place, select)?,
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
fn find_mismatch(place: Place, select: Select) -> Result<Option<String>, Box<dyn Error>> {
    let matrix_units = device::has_matrix_units(place)?;
    let mut cases = cases::cases(matrix_units);
    cases.retain(|case| select(&case.to_string()));
    match first_mismatch(place, cases, &mut |_, _, _| {})? {
        None => models::compare(place, matrix_units, select),
        found => Ok(found),
    }
}

/// Compares only the GEMMs on matrix units, which round their factors. Reports the name, error and
/// tolerance of each case, and returns the first mismatch in one sentence. Does nothing on a device
/// without matrix units.
///
/// # Errors
/// The device failed.
pub fn matrix_units(place: Place, report: &mut dyn FnMut(&str, f64, f64)) -> Result<Option<String>, Box<dyn Error>> {
    if device::has_matrix_units(place)? {
        first_mismatch(place, cases::rounded(), report)
    } else {
        Ok(None)
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

/// Benchmark: the speed of prefill, and of decode the overheads and the bandwidth of weights.
fn measure(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let (layers, width, ffn_width) = if small { (1, 512, 1024) } else { (4, 2048, 8192) };
    let sample = Sample {
        ffn_width,
        ..Sample::llama(layers, width, &[Quant::Q4_0])
    };
    let matrices = width * (2 * width + width) + 3 * width * ffn_width;
    let weights = (layers * matrices + width * sample.vocab) as f64;
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

/// With the longest prompt that is fast enough; each length runs twice, since the first run
/// compiles kernels.
fn seconds_per_prompt_token(model: Arc<Model>) -> Result<f64, Box<dyn Error>> {
    let mut ids = tokens(&model, MAX_PROMPT);
    let mut session = Session::new(model, 2 * MAX_PROMPT)?;
    let mut prompt = 16;
    loop {
        let mut seconds = 0.0;
        for first in 0..2 {
            // A different first token, so that no prefix is in the KV cache.
            ids[0] = first;
            let began = Instant::now();
            session.prefill(&ids[..prompt], &mut |_, _| ControlFlow::Continue(()))?;
            seconds = began.elapsed().as_secs_f64();
        }
        if prompt == MAX_PROMPT || seconds > MAX_PROMPT_TIME.as_secs_f64() {
            return Ok(seconds.max(1e-9) / prompt as f64);
        }
        prompt *= 2;
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
