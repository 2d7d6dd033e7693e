//! How far two models' expectations of the next token are apart.

/// The Kullback-Leibler divergence of the tokens that `found` expects from those that `wanted`
/// does, both rows of logits, in nats. Infinite where either holds what is no number.
pub fn divergence(wanted: &[f32], found: &[f32]) -> f64 {
    let (norm, other) = (log_sum_exp(wanted), log_sum_exp(found));
    let terms = wanted.iter().zip(found).map(|(wanted, found)| {
        let (p, q) = (f64::from(*wanted) - norm, f64::from(*found) - other);
        p.exp() * (p - q)
    });
    let sum: f64 = terms.sum();
    // What is no number is as far off as can be.
    if sum.is_finite() { sum.max(0.0) } else { f64::INFINITY }
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - largest).exp()).sum();
    largest + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergences_are_those_of_the_distributions() {
        // Three to one, against even.
        let expected = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        let found = divergence(&[3f32.ln() + 7.0, 7.0], &[-2.0, -2.0]);
        assert!((found - expected).abs() < 1e-7, "{found}");
        assert_eq!(divergence(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(divergence(&[1.0, 2.0], &[1.0, f32::NAN]), f64::INFINITY);
    }
}
