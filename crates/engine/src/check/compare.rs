//! Whether two executors make the same of a case, element by element.
//!
//! An element may be off by a share of itself plus the root mean square of its tensor: it is a sum of products whose roundings grow with
//! what is summed, and where much cancels the sum itself is no measure. The greatest such error counts, and not the mean of squares
//! (NMSE), in which one wrong column of 32,000, or one wrong element, would disappear.

use super::case::{Case, Executor, Op, Output, Source};
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::Product;
use std::error::Error;

/// In f32, sums of a thousand products in another order are off by some 1e-6 and `exp` of a fast kind by some 1e-5; a column that is wrong
/// by 1 is off by 0.5 here.
const EXACT: f64 = 5e-4;
/// Keys that differ in their last bit of f32 may be rounded to neighbouring numbers of a cache: in q8_0 one step is 1/127 of the greatest,
/// which a score feels, and softmax with it.
const F16_CACHE: f64 = 1e-3;
const Q8_0_CACHE: f64 = 1e-2;
/// What rounding both factors of a product to f16, as kernels for matrix units do, makes of a sum of many: a factor is off by 2e-4 (root
/// mean square over its 11 bits, whatever its size), a product by 1.4 times that, and so is the sum of products of either sign. The
/// greatest of millions of such errors is five and a half standard deviations.
const ROUNDED: f64 = 6.0 * 2.8e-4;

/// What two executors make otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The operation, as a person is told of it.
    pub case: String,
    /// Which of its outputs.
    pub output: String,
    /// Elements that are off.
    pub wrong: usize,
    /// Elements in all.
    pub elements: usize,
    /// The worst of them: its row and column, what was found, and what was expected.
    pub row: usize,
    /// See [`Mismatch::row`].
    pub column: usize,
    /// See [`Mismatch::row`].
    pub found: f32,
    /// See [`Mismatch::row`].
    pub expected: f32,
}

impl Mismatch {
    /// What a person is told.
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
            "Its driver computes something else than the processor does: in {case}, {wrong} of {elements} numbers of {output} are \
             off, most of all that of row {row}, column {column}: {found:.5} instead of {expected:.5}."
        )
    }
}

/// What two executors make of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The greatest error of an element, in the measure of [`tolerance`].
    pub error: f64,
    /// The first output of which an element is off by more than it may be.
    pub mismatch: Option<Mismatch>,
}

/// Runs a case on both, here without rounding any factor.
///
/// # Errors
/// One of them failed.
pub fn compare(case: &Case, there: &dyn Executor, here: &dyn Executor) -> Result<Comparison, Box<dyn Error>> {
    let (found, expected) = (there.run(case)?, here.run(&case.exact())?);
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

/// The share of a case's elements that they may be off by.
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
    match case.product {
        Product::Exact => cache,
        Product::Fast | Product::Bf16 => ROUNDED * rounded_products(case).sqrt(),
    }
}

/// Products of rounded factors that an output of a case is made through; their errors are independent.
fn rounded_products(case: &Case) -> f64 {
    match (&case.op, case.backward) {
        // Gate, up and down.
        (Op::FeedForward { .. }, false) => 3.0,
        // Those of the forward's that the activation's gradient is made of, back through down, and back through gate and up.
        (Op::FeedForward { .. }, true) => 5.0,
        _ => 1.0,
    }
}

/// How far an element is off, as a share of itself plus what is `usual`; infinite where it is no number.
fn share(found: f32, expected: f32, usual: f64) -> f64 {
    let (found, expected) = (f64::from(found), f64::from(expected));
    match (found - expected).abs() {
        0.0 => 0.0,
        off if off.is_finite() => off / (expected.abs() + usual).max(f64::MIN_POSITIVE),
        _ => f64::INFINITY,
    }
}

/// The root mean square.
pub(super) fn usual(output: &Output) -> f64 {
    let squares: f64 = output.values.iter().map(|x| f64::from(*x).powi(2)).sum();
    (squares / output.values.len().max(1) as f64).sqrt()
}

/// Each element's share, in order; none where the two are not of one size.
fn shares<'a>(found: &'a Output, expected: &'a Output) -> Option<impl Iterator<Item = f64> + 'a> {
    let same = found.cols == expected.cols && found.values.len() == expected.values.len();
    let usual = usual(expected);
    let pairs = found.values.iter().zip(&expected.values);
    same.then(|| pairs.map(move |(found, expected)| share(*found, *expected, usual)))
}

/// The greatest share of an output; infinite where the two are not of one size.
pub fn error(found: &Output, expected: &Output) -> f64 {
    shares(found, expected).map_or(f64::INFINITY, |shares| shares.fold(0.0, f64::max))
}

/// The worst element of an output, where one is off by more than `tolerance` allows.
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
    fn what_is_off_is_counted_and_the_worst_is_named() {
        let expected = output(&[1.0, -2.0, 0.5, 0.0]);
        assert_eq!(mismatch("x", &expected, &expected, 0.0), None);
        let found = output(&[1.0, -2.1, 0.5, 0.5]);
        let seen = mismatch("x", &found, &expected, EXACT).expect("it is off");
        assert_eq!((seen.wrong, seen.row, seen.column, seen.found), (2, 1, 1, 0.5));
        assert_eq!(
            seen.sentence(),
            "Its driver computes something else than the processor does: in x, 2 of 4 numbers of the output are off, most of all that \
             of row 1, column 1: 0.50000 instead of 0.00000."
        );
        for wrong in [f32::NAN, f32::INFINITY] {
            assert!(mismatch("x", &output(&[1.0, -2.0, 0.5, wrong]), &expected, 1.0).is_some());
        }
        assert!(mismatch("x", &output(&[1.0, -2.0]), &expected, 1.0).is_some());
        assert!(error(&found, &expected) > 0.3 && error(&output(&[]), &expected).is_infinite());
    }
}
