//! Comparing two executors' outputs of a case, element by element.
//!
//! The error of an element is relative to its magnitude plus the root mean square of its tensor: it
//! is a sum of products, whose rounding errors grow with the summands, not with a sum after
//! cancellation. The maximum error counts, not the mean square (NMSE), in which one wrong column of
//! 32,000, or one wrong element, would disappear.

use super::case::{Case, Executor, Op, Output, Source};
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::MatmulPrecision;
use std::error::Error;

/// In f32, sums of a thousand products in another order differ by about 1e-6, and a fast `exp` by
/// about 1e-5; a column that is off by 1 has an error of 0.5.
const EXACT: f64 = 5e-4;
/// Keys that differ in their last bit of f32 may be rounded to adjacent values in the KV cache: in
/// q8_0 one step is 1/127 of the maximum, which affects scores and softmax.
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
    /// The case, for people.
    pub case: String,
    /// The output.
    pub output: String,
    /// Elements out of tolerance.
    pub wrong: usize,
    /// Total elements.
    pub elements: usize,
    /// The worst element: its row and column, the found value and the expected one.
    pub row: usize,
    /// See [`Mismatch::row`].
    pub column: usize,
    /// See [`Mismatch::row`].
    pub found: f32,
    /// See [`Mismatch::row`].
    pub expected: f32,
}

impl Mismatch {
    /// A sentence for people.
    pub fn sentence(&self) -> String {
        let Self {
            case,
            output,
            wrong,
            elements,
            row,
            column,
            found,
            expected,
        } = self;
        format!(
            "Its driver's results differ from the CPU's: in {case}, {wrong} of {elements} elements of {output} are \
             off, the worst at row {row}, column {column}: {found:.5} instead of {expected:.5}."
        )
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
    let (found, expected) = (device.run(case)?, cpu.run(&case.exact())?);
    if found.len() != expected.len() {
        return Err(format!(
            "{case} has {} outputs, and {} were expected",
            found.len(),
            expected.len()
        )
        .into());
    }
    let tolerance = tolerance(case);
    let mut pairs = found.iter().zip(&expected);
    let errors = pairs.clone().map(|(found, expected)| error(found, expected));
    Ok(Comparison {
        error: errors.fold(0.0, f64::max),
        mismatch: pairs.find_map(|(found, expected)| mismatch(&case.to_string(), found, expected, tolerance)),
    })
}

/// Maximum relative error of a case's elements.
pub fn tolerance(case: &Case) -> f64 {
    let cache = match &case.op {
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
        MatmulPrecision::F32 => cache,
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

/// Error of an element, relative to its magnitude plus `usual`; infinite if it is NaN or infinite.
fn share(found: f32, expected: f32, usual: f64) -> f64 {
    let (found, expected) = (f64::from(found), f64::from(expected));
    match (found - expected).abs() {
        0.0 => 0.0,
        off if off.is_finite() => off / (expected.abs() + usual).max(f64::MIN_POSITIVE),
        _ => f64::INFINITY,
    }
}

/// Root mean square of an output.
pub(super) fn usual(output: &Output) -> f64 {
    let squares: f64 = output.values.iter().map(|x| f64::from(*x).powi(2)).sum();
    (squares / output.values.len().max(1) as f64).sqrt()
}

/// The relative error of each element. `None` if the sizes differ.
fn shares<'a>(found: &'a Output, expected: &'a Output) -> Option<impl Iterator<Item = f64> + 'a> {
    let same = found.cols == expected.cols && found.values.len() == expected.values.len();
    let usual = usual(expected);
    let pairs = found.values.iter().zip(&expected.values);
    same.then(|| pairs.map(move |(found, expected)| share(*found, *expected, usual)))
}

/// Maximum relative error of an output; infinite if the sizes differ.
pub fn error(found: &Output, expected: &Output) -> f64 {
    shares(found, expected).map_or(f64::INFINITY, |shares| shares.fold(0.0, f64::max))
}

/// The mismatch of an output, if an element is out of tolerance.
pub fn mismatch(case: &str, found: &Output, expected: &Output, tolerance: f64) -> Option<Mismatch> {
    let whole = Mismatch {
        case: case.to_owned(),
        output: expected.name.clone(),
        wrong: expected.values.len(),
        elements: expected.values.len(),
        row: 0,
        column: 0,
        found: f32::NAN,
        expected: f32::NAN,
    };
    let Some(shares) = shares(found, expected) else {
        return Some(whole);
    };
    let off: Vec<(usize, f64)> = shares.enumerate().filter(|(_, share)| *share > tolerance).collect();
    let (at, _) = *off.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Mismatch {
        wrong: off.len(),
        row: at / expected.cols.max(1),
        column: at % expected.cols.max(1),
        found: found.values[at],
        expected: expected.values[at],
        ..whole
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
        let seen = mismatch("x", &actual, &expected, EXACT).expect("it is off");
        assert_eq!((seen.wrong, seen.row, seen.column, seen.found), (2, 1, 1, 0.5));
        assert_eq!(
            seen.sentence(),
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
