//! The argmax.

/// Logits compared per iteration: the widest vectors' width.
pub(super) const LANES: usize = 16;

/// The argmax over finite logits; the lowest id of equals.
pub fn greedy(logits: &[f32]) -> Option<u32> {
    let finite = |logit: f32| if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    let mut peaks = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (peak, &logit) in peaks.iter_mut().zip(chunk) {
            let logit = finite(logit);
            *peak = if logit > *peak { logit } else { *peak };
        }
    }
    let peak = rest
        .iter()
        .map(|&logit| finite(logit))
        .chain(peaks)
        .fold(f32::NEG_INFINITY, f32::max);
    if peak == f32::NEG_INFINITY {
        return None;
    }
    logits.iter().position(|&logit| logit == peak).map(|id| id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, ranked};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn greedy_is_the_first_of_the_largest_logits(logits in logits()) {
            prop_assert_eq!(greedy(&logits), ranked(&logits).first().map(|c| c.id));
        }
    }
}
