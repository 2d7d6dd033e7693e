//! Comparing two executors' outputs of a case, element by element.
//!
//! The error of an element is relative to its magnitude plus the root mean square of its tensor. An
//! element is a sum of products, and its rounding error grows with the products, which may cancel
//! in the sum. The maximum error is compared, not the mean square (NMSE), in which one wrong column
//! of 32,000, or one wrong element, would disappear.

use super::case::{Case, Executor, Op, Output, Source};
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::MatmulPrecision;
use std::error::Error;

/// Tolerance in f32: sums of a thousand products in another order differ by about 1e-6, and a fast
/// `exp` by about 1e-5. A column index that is off by 1 has an error of 0.5.
const EXACT: f64 = 5e-4;
/// Tolerances of attention over a KV cache. Keys that differ in the last bit of f32 may be rounded
/// to adjacent values in the cache, which affects scores and softmax. In q8_0 the distance of
/// adjacent values is 1/127 of the maximum.
const F16_CACHE: f64 = 1e-3;
const Q8_0_CACHE: f64 = 1e-2;
/// Error of a dot product whose factors are rounded to f16, as in kernels for matrix units. The
/// error of a factor is 2e-4 (root mean square over its 11 bits). The error of a product, and of a
/// sum of products of either sign, is 1.4 times as large. The maximum of millions of such errors is
/// five and a half standard deviations.
const ROUNDED: f64 = 6.0 * 2.8e-4;

/// A mismatch of two executors.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Name of the case.
    pub case: String,
    /// Name of the output.
    pub output: String,
    /// Elements out of tolerance.
    pub wrong: usize,
    /// Total elements.
    pub elements: usize,
    /// Row of the worst element.
    pub row: usize,
    /// Column of the worst element.
    pub column: usize,
    /// Value of the worst element on the device.
    pub actual: f32,
    /// Value of the worst element on the CPU.
    pub expected: f32,
}

impl Mismatch {
    /// Converts it to the protocol's mismatch.
    pub fn report(&self) -> hearth_protocol::Mismatch {
        hearth_protocol::Mismatch::Elements {
            case: self.case.clone(),
            output: self.output.clone(),
            wrong: self.wrong as u64,
            elements: self.elements as u64,
            row: self.row as u64,
            column: self.column as u64,
            actual: format!("{:.5}", self.actual),
            expected: format!("{:.5}", self.expected),
        }
    }
}

/// Comparison of two executors on a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Maximum error of an element, as in [`tolerance`].
    pub error: f64,
    /// The first output with an element out of tolerance.
    pub mismatch: Option<Mismatch>,
}

/// Runs a case on both executors, on `cpu` in f32.
///
/// # Errors
/// An executor failed.
pub fn compare(case: &Case, device: &dyn Executor, cpu: &dyn Executor) -> Result<Comparison, Box<dyn Error>> {
    let (actual, expected) = (device.run(case)?, cpu.run(&case.exact())?);
    if actual.len() != expected.len() {
        return Err(format!(
            "{case} has {} outputs, and {} were expected",
            actual.len(),
            expected.len()
        )
        .into());
    }
    let tolerance = tolerance(case);
    let mut pairs = actual.iter().zip(&expected);
    let errors = pairs.clone().map(|(actual, expected)| error(actual, expected));
    Ok(Comparison {
        error: errors.fold(0.0, f64::max),
        mismatch: pairs.find_map(|(actual, expected)| mismatch(&case.to_string(), actual, expected, tolerance)),
    })
}

/// Maximum relative error of a case's elements.
pub fn tolerance(case: &Case) -> f64 {
    let exact = match &case.op {
        Op::Argmax { .. } => return 0.0,
        Op::Attend { source, .. } => match source {
            Source::Cache {
                format: KvFormat::F16, ..
            } => F16_CACHE,
            Source::Cache {
                format: KvFormat::Q8_0, ..
            } => Q8_0_CACHE,
            Source::Batch(_) => EXACT,
        },
        _ => EXACT,
    };
    match case.precision {
        MatmulPrecision::F32 => exact,
        MatmulPrecision::Int8Activations | MatmulPrecision::Bf16 => ROUNDED * rounded_products(case).sqrt(),
    }
}

/// Number of GEMMs with rounded factors that an output of a case depends on; their errors are
/// independent.
fn rounded_products(case: &Case) -> f64 {
    match (&case.op, case.backward) {
        // Gate, up and down.
        (Op::FeedForward { .. }, false) => 3.0,
        // Gate and up of the forward pass, for the activation's gradient; then down, gate and up of
        // the backward pass.
        (Op::FeedForward { .. }, true) => 5.0,
        _ => 1.0,
    }
}

/// Error of an element, relative to its magnitude plus the root mean square of its tensor. Infinite
/// if the difference is NaN or infinite.
fn relative_error(actual: f32, expected: f32, rms: f64) -> f64 {
    let (actual, expected) = (f64::from(actual), f64::from(expected));
    match (actual - expected).abs() {
        0.0 => 0.0,
        difference if difference.is_finite() => difference / (expected.abs() + rms).max(f64::MIN_POSITIVE),
        _ => f64::INFINITY,
    }
}

/// Root mean square of an output.
pub(super) fn root_mean_square(output: &Output) -> f64 {
    let squares: f64 = output.values.iter().map(|x| f64::from(*x).powi(2)).sum();
    (squares / output.values.len().max(1) as f64).sqrt()
}

/// The relative error of each element. `None` if the sizes differ.
fn relative_errors<'a>(actual: &'a Output, expected: &'a Output) -> Option<impl Iterator<Item = f64> + 'a> {
    let same_size = actual.cols == expected.cols && actual.values.len() == expected.values.len();
    let rms = root_mean_square(expected);
    let pairs = actual.values.iter().zip(&expected.values);
    same_size.then(|| pairs.map(move |(actual, expected)| relative_error(*actual, *expected, rms)))
}

/// Maximum relative error of an output. Infinite if the sizes differ.
pub fn error(actual: &Output, expected: &Output) -> f64 {
    relative_errors(actual, expected).map_or(f64::INFINITY, |errors| errors.fold(0.0, f64::max))
}

/// The mismatch of an output, if an element is out of tolerance.
pub fn mismatch(case: &str, actual: &Output, expected: &Output, tolerance: f64) -> Option<Mismatch> {
    let all_wrong = Mismatch {
        case: case.to_owned(),
        output: expected.name.clone(),
        wrong: expected.values.len(),
        elements: expected.values.len(),
        row: 0,
        column: 0,
        actual: f32::NAN,
        expected: f32::NAN,
    };
    let Some(errors) = relative_errors(actual, expected) else {
        return Some(all_wrong);
    };
    let wrong: Vec<(usize, f64)> = errors.enumerate().filter(|(_, error)| *error > tolerance).collect();
    let (worst, _) = *wrong.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Mismatch {
        wrong: wrong.len(),
        row: worst / expected.cols.max(1),
        column: worst % expected.cols.max(1),
        actual: actual.values[worst],
        expected: expected.values[worst],
        ..all_wrong
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(values: &[f32]) -> Output {
        Output {
            name: "the output".to_owned(),
            cols: 2,
            values: values.to_vec(),
        }
    }

    #[test]
    fn elements_out_of_tolerance_are_counted_and_the_worst_is_named() {
        let expected = output(&[1.0, -2.0, 0.5, 0.0]);
        assert_eq!(mismatch("x", &expected, &expected, 0.0), None);
        let actual = output(&[1.0, -2.1, 0.5, 0.5]);
        let worst = mismatch("x", &actual, &expected, EXACT).expect("it is off");
        assert_eq!((worst.wrong, worst.row, worst.column, worst.actual), (2, 1, 1, 0.5));
        assert_eq!(
            worst.report().to_string(),
            "Its driver's results differ from the CPU's: in x, 2 of 4 elements of the output are off, the worst at row \
             1, column 1: 0.50000 instead of 0.00000."
        );
        for wrong in [f32::NAN, f32::INFINITY] {
            assert!(mismatch("x", &output(&[1.0, -2.0, 0.5, wrong]), &expected, 1.0).is_some());
        }
        assert!(mismatch("x", &output(&[1.0, -2.0]), &expected, 1.0).is_some());
        assert!(error(&actual, &expected) > 0.3 && error(&output(&[]), &expected).is_infinite());
    }
}
