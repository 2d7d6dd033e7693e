//! Gradient checks: compares every gradient of a fine-tuning run with central differences of the
//! f64 reference, in every arrangement of buffers that its signature allows.
//!
//! Results hold for the instruction set of the machine, so `hearth doctor --gradients` runs the
//! checks on the user's machine.

mod attention;
mod elementwise;
mod linears;
mod loss;

use crate::reference::relative_error;
use crate::shape::ShapeError;
use crate::team;

/// Tolerance of a gradient in f32.
const F32: f64 = 1e-4;
/// Tolerance of a gradient with operands or saved activations in bf16: sums of a few dozen products
/// of 8-bit mantissas, with much cancellation. Over many tokens the error is ten times smaller.
const BF16: f64 = 5e-2;

/// Result of checking one gradient in one arrangement.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientCheck {
    /// The operation.
    pub op: &'static str,
    /// Description of the input, the buffers and the size.
    pub arrangement: String,
    /// Relative error against central differences; infinite if there was no result.
    pub error: f64,
    /// Maximum allowed error.
    pub tolerance: f64,
}

impl GradientCheck {
    /// Returns `true` if the error is within the tolerance.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Checks every gradient of this crate and reports each result. Takes some seconds.
pub fn check(report: &mut dyn FnMut(GradientCheck)) {
    let mut report = Report(report);
    elementwise::check(&mut report);
    attention::check(&mut report);
    linears::check(&mut report);
    loss::check(&mut report);
}

/// Receives the results.
struct Report<'a>(&'a mut dyn FnMut(GradientCheck));

impl Report<'_> {
    /// Compares a gradient and reports the result.
    fn compare(
        &mut self,
        op: &'static str,
        arrangement: String,
        actual: Result<Vec<f32>, ShapeError>,
        expected: &[f64],
        tolerance: f64,
    ) {
        let error = actual.map_or(f64::INFINITY, |actual| relative_error(&actual, expected));
        (self.0)(GradientCheck {
            op,
            arrangement,
            error,
            tolerance,
        });
    }

    /// Reports a check that could not run as failed; does nothing on success.
    fn report_setup(&mut self, op: &'static str, case: &str, result: Result<(), ShapeError>) {
        if let Err(error) = result {
            self.compare(op, format!("not checked ({error}), {case}"), Err(error), &[], 0.0);
        }
    }
}

/// A number of rows greater than the number of threads.
fn many_rows() -> usize {
    team::threads() + 3
}

/// Tested sizes: a description, rows and columns.
fn sizes() -> [(&'static str, usize, usize); 3] {
    [
        ("one element", 1, 1),
        ("one row", 1, 37),
        ("more rows than threads", many_rows(), 33),
    ]
}
