//! Statistics of measurements.

/// The two-sided 95 % quantiles of Student's t distribution with 1 to 30 degrees of freedom
/// (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The geometric mean of ratios, and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The geometric mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The geometric mean of positive ratios and its interval by Student's t distribution of their
/// logarithms; `None` with fewer than two.
pub fn interval(ratios: &[f64]) -> Option<Interval> {
    let count = ratios.len() as f64;
    let freedom = ratios.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / freedom as f64 / count).sqrt();
    // Beyond the table its last row is slightly too wide.
    let half_width = error * T_95[freedom.min(T_95.len()) - 1];
    Some(Interval {
        mean: mean.exp(),
        low: (mean - half_width).exp(),
        high: (mean + half_width).exp(),
    })
}

/// The median: of an even number of values the mean of the middle two. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(middle).copied(),
        _ => Some((sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        let cases: [(&[f64], Option<f64>); 4] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0], Some(5.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
        ];
        for (values, expected) in cases {
            assert_eq!(median(values), expected);
        }
    }

    #[test]
    fn an_interval_follows_students_t_distribution() {
        assert_eq!(interval(&[1.0]), None);
        // Logarithms 0 and ln 2: mean ln(2) / 2, standard error ln(2) / 2.
        let half = 2_f64.ln() / 2.0;
        let actual = interval(&[1.0, 2.0]).expect("two ratios");
        for (actual, expected) in [
            (actual.mean, half.exp()),
            (actual.low, (half - 12.706 * half).exp()),
            (actual.high, (half + 12.706 * half).exp()),
        ] {
            assert!((actual / expected - 1.0).abs() < 1e-12, "{actual} {expected}");
        }
        let constant = interval(&[0.97; 30]).expect("thirty ratios");
        assert!((constant.low - 0.97).abs() < 1e-12 && (constant.high - 0.97).abs() < 1e-12);
    }
}
