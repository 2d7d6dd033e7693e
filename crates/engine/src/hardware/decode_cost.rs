//! The recorded decode cost of the CPU.

use super::backends::cpu_subject;
use super::records::store;
use crate::check::decode_cost::DecodeCost;
use hearth_kernels::Quant;

/// What decode costs on the CPU with weights in these formats and this process's threads: on
/// record, or else measured if `may_measure`, which takes about a second per format and is
/// recorded. `None` means that it is not on record, or cannot be measured.
pub(crate) fn decode_cost(formats: &[Quant], may_measure: bool) -> Option<DecodeCost> {
    let (subject, threads) = (cpu_subject(), hearth_kernels::team::threads());
    let known = store().decode_cost(&subject, threads);
    let is_complete = |cost: &DecodeCost| formats.iter().all(|format| cost.has(*format));
    if known.as_ref().is_some_and(is_complete) || !may_measure {
        return known.filter(is_complete);
    }
    let measured = known.map_or_else(DecodeCost::measure, Ok).and_then(|mut cost| {
        formats.iter().try_for_each(|format| cost.add(*format))?;
        Ok(cost)
    });
    match measured {
        Ok(cost) => {
            store().set_decode_cost(subject, threads, cost.clone());
            Some(cost)
        }
        Err(error) => {
            tracing::warn!(%error, "the decode speed could not be measured");
            None
        }
    }
}
