//! The recorded decode cost of the CPU.

use super::backends::cpu_subject;
use super::memory::memory;
use super::prefetch::use_recorded_prefetches;
use super::records::store;
use crate::check::decode_cost::DecodeCost;
use hearth_kernels::Quant;
use hearth_llm::threads::{self, Threads};
use std::error::Error;

/// Free memory below which nothing is measured: the largest synthetic model, its file and its
/// packed weights.
const MIN_FREE: u64 = 2 << 30;

/// The CPU's decode cost with weights in these formats and `count` threads. If it is not on record,
/// it is measured if `may_measure`, which takes about a second per format. `None` means that it is
/// not on record and was not, or cannot be, measured.
pub(crate) fn decode_cost(formats: &[Quant], count: usize, may_measure: bool) -> Option<DecodeCost> {
    let subject = cpu_subject();
    let known = store().decode_cost(&subject, count);
    let is_complete = |cost: &DecodeCost| formats.iter().all(|format| cost.has(*format));
    if known.as_ref().is_some_and(is_complete) || !may_measure {
        return known.filter(is_complete);
    }
    if memory().is_some_and(|memory| memory.free < MIN_FREE) {
        tracing::info!("too little memory is free to measure the decode speed");
        return None;
    }
    let threads = threads::set_until_drop(Threads::Fixed(count));
    use_recorded_prefetches();
    let measured = known.map_or_else(DecodeCost::measure, Ok).map(|mut cost| {
        // Formats that were measured before one failed are on record, too.
        let failure = add(&mut cost, formats).err();
        (cost, failure)
    });
    drop(threads);
    let warn = |error: Box<dyn Error>| tracing::warn!(%error, "the decode speed could not be measured");
    let (cost, failure) = measured.map_err(warn).ok()?;
    failure.map(warn);
    store().add_decode_cost(subject, count, cost.clone());
    Some(cost).filter(is_complete)
}

fn add(cost: &mut DecodeCost, formats: &[Quant]) -> Result<(), Box<dyn Error>> {
    formats.iter().try_for_each(|format| cost.add(*format))
}
