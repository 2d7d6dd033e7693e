//! Whether a device computes what the processor does, and how fast it is: operation by operation over inputs that are made up, then in
//! whole models.
//!
//! Drivers compile kernels, and some compile them wrongly. A person would see answers that make no sense, or a run that learns
//! nothing, and not why.

mod case;
mod cases;
mod compare;
pub mod gradients;
mod models;
mod on_device;
mod reference;
mod sample;

use burn::tensor::Device;
use case::Case;
use compare::{Comparison, compare, tolerance};
use hearth_kernels::Quant;
use hearth_llm::{Place, Session, device, launches};
use hearth_protocol::DeviceCheck;
use models::{load, tokens};
use on_device::OnDevice;
use sample::Sample;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something is measured again and again for this long.
const LONG_ENOUGH: Duration = Duration::from_millis(200);
/// The longest prompt.
const LONGEST: usize = 512;

/// Compares the device with the processor, and measures it. `small` measures on a model that a driver in software gets through.
///
/// # Errors
/// The device fails, in a sentence without its full stop. A driver may also end the process.
pub fn check(place: Place, small: bool) -> Result<DeviceCheck, Box<dyn Error>> {
    let (began, launches) = (Instant::now(), launches::Count::begin());
    let wrong = match place {
        Place::Cpu => None,
        Place::Gpu(_) => differs(place)?,
    };
    let (bytes_per_second, products_per_second) = match wrong {
        None => measure(place, small)?,
        Some(_) => (0.0, 0.0),
    };
    let (launched, distinct) = launches.end();
    Ok(DeviceCheck {
        wrong,
        bytes_per_second,
        products_per_second,
        seconds: began.elapsed().as_secs_f64(),
        kernels_launched: launched,
        kernels_compiled: distinct,
    })
}

/// The first thing that the device computes otherwise, in one sentence.
fn differs(place: Place) -> Result<Option<String>, Box<dyn Error>> {
    let matrix_units = device::has_matrix_units(place)?;
    match first_mismatch(place, cases::cases(matrix_units), &mut |_, _, _| {})? {
        None => models::compare(place, matrix_units),
        found => Ok(found),
    }
}

/// Compares the products alone whose factors matrix units round. Reports of each case its name, its error and the error that is allowed, and
/// returns the first mismatch in one sentence. A device without matrix units is asked nothing.
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
    let (there, here) = (OnDevice(device::open(place)?), OnDevice(Device::flex()));
    for case in cases {
        let began = Instant::now();
        let Comparison { error, mismatch } = compare(&case, &there, &here)?;
        let (seconds, allowed) = (began.elapsed().as_secs_f64(), tolerance(&case));
        tracing::debug!("{seconds:.3} s, off by {error:.1e} of {allowed:.1e}: {case}");
        report(&case.to_string(), error, allowed);
        if let Some(mismatch) = mismatch {
            return Ok(Some(mismatch.sentence()));
        }
    }
    Ok(None)
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
}
