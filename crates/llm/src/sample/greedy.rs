//! Greedy sampling: the argmax of the logits.

/// Logits that are compared per iteration: the f32 lanes of the widest SIMD registers.
pub(super) const LANES: usize = 16;

/// The argmax over finite logits, and of equal logits the lowest id. `None` if no logit is finite.
pub fn greedy(logits: &[f32]) -> Option<u32> {
    let finite_or_min = |logit: f32| if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    let mut lane_maxima = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (max, &logit) in lane_maxima.iter_mut().zip(chunk) {
            let logit = finite_or_min(logit);
            *max = if logit > *max { logit } else { *max };
        }
    }
    let max = rest
        .iter()
        .map(|&logit| finite_or_min(logit))
        .chain(lane_maxima)
        .fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        return None;
    }
    logits.iter().position(|&logit| logit == max).map(|id| id as u32)
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
