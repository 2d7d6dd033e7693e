//! Kullback-Leibler divergence between two models' distributions of the next token.

/// Kullback-Leibler divergence `KL(expected || actual)` of two rows of logits, in nats. Infinite if
/// a row has a value that is not finite.
pub fn divergence(expected: &[f32], actual: &[f32]) -> f64 {
    let (expected_norm, actual_norm) = (log_sum_exp(expected), log_sum_exp(actual));
    let terms = expected.iter().zip(actual).map(|(expected, actual)| {
        let log_p = f64::from(*expected) - expected_norm;
        let log_q = f64::from(*actual) - actual_norm;
        log_p.exp() * (log_p - log_q)
    });
    let sum: f64 = terms.sum();
    // Rounding can make the sum slightly negative.
    if sum.is_finite() { sum.max(0.0) } else { f64::INFINITY }
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - max).exp()).sum();
    max + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_matches_its_definition() {
        // Odds of 3 : 1 against even odds.
        let expected = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        let actual = divergence(&[3f32.ln() + 7.0, 7.0], &[-2.0, -2.0]);
        assert!((actual - expected).abs() < 1e-7, "{actual}");
        assert_eq!(divergence(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(divergence(&[1.0, 2.0], &[1.0, f32::NAN]), f64::INFINITY);
    }
}
