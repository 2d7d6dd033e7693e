//! The recorded decode cost of the CPU.

use super::backends::cpu_subject;
use super::memory::memory;
use super::prefetch::use_recorded_prefetches;
use super::records::store;
use crate::check::decode_cost::DecodeCost;
use hearth_kernels::Quant;
use hearth_llm::threads::{self, Threads};
use std::error::Error;

/// Free memory below which nothing is measured. It is enough for the largest synthetic model, its
/// file and its packed weights.
const MIN_FREE: u64 = 2 << 30;

/// The CPU's decode cost with weights in these formats and `thread_count` threads. Measures a cost
/// that is not on record if `may_measure`, which takes about a second per format. `None` means that
/// the cost is neither on record nor measured.
pub(crate) fn decode_cost(formats: &[Quant], thread_count: usize, may_measure: bool) -> Option<DecodeCost> {
    let subject = cpu_subject();
    let recorded = store().decode_cost(&subject, thread_count);
    let is_complete = |cost: &DecodeCost| formats.iter().all(|format| cost.has(*format));
    if recorded.as_ref().is_some_and(is_complete) || !may_measure {
        return recorded.filter(is_complete);
    }
    if memory().is_some_and(|memory| memory.free < MIN_FREE) {
        tracing::info!("too little memory is free to measure the decode speed");
        return None;
    }
    let threads = threads::set_until_drop(Threads::Fixed(thread_count));
    use_recorded_prefetches();
    let result = recorded.map_or_else(DecodeCost::measure, Ok).map(|mut cost| {
        // If one format fails, those measured before it are recorded.
        let failure = add(&mut cost, formats).err();
        (cost, failure)
    });
    drop(threads);
    let warn = |error: Box<dyn Error>| tracing::warn!(%error, "the decode speed could not be measured");
    let (cost, failure) = result.map_err(warn).ok()?;
    failure.map(warn);
    store().add_decode_cost(subject, thread_count, cost.clone());
    Some(cost).filter(is_complete)
}

fn add(cost: &mut DecodeCost, formats: &[Quant]) -> Result<(), Box<dyn Error>> {
    formats.iter().try_for_each(|format| cost.add(*format))
}
