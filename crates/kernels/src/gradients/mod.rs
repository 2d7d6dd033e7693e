//! Every gradient that a run of fine-tuning takes, against central differences of the f64 reference, in every arrangement of buffers
//! that its signature allows.
//!
//! What a table of this shows on one machine holds for that machine's own instructions, so a person can have it made on theirs.

mod attention;
mod elementwise;
mod linears;
mod loss;

use crate::reference::relative_error;
use crate::shape::ShapeError;
use crate::team;

/// What a gradient in f32 may be off by.
const F32: f64 = 1e-4;
/// What a gradient may be off by where factors or kept activations are rounded to bf16: a product of a few dozen numbers of
/// eight bits each, where much cancels. Over many tokens it is a tenth of that.
const BF16: f64 = 5e-2;

/// One gradient in one arrangement.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientCheck {
    /// The operation whose gradient it is.
    pub op: &'static str,
    /// Of which input, in which buffers, of what size.
    pub arrangement: String,
    /// The distance from the differences, relative to their length; infinite where there was no result.
    pub error: f64,
    /// What the error may be.
    pub tolerance: f64,
}

impl GradientCheck {
    /// Whether the error is within the tolerance.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Checks every gradient of this crate and reports each in turn. Takes some seconds.
pub fn check(report: &mut dyn FnMut(GradientCheck)) {
    let mut report = Report(report);
    elementwise::check(&mut report);
    attention::check(&mut report);
    linears::check(&mut report);
    loss::check(&mut report);
}

/// Takes what was found.
struct Report<'a>(&'a mut dyn FnMut(GradientCheck));

impl Report<'_> {
    fn compare(
        &mut self,
        op: &'static str,
        arrangement: String,
        found: Result<Vec<f32>, ShapeError>,
        expected: &[f64],
        tolerance: f64,
    ) {
        let error = found.map_or(f64::INFINITY, |found| relative_error(&found, expected));
        (self.0)(GradientCheck {
            op,
            arrangement,
            error,
            tolerance,
        });
    }

    /// Reports what kept a check from being made as one that failed; nothing where it was made.
    fn made_ready(&mut self, op: &'static str, what: &str, done: Result<(), ShapeError>) {
        if let Err(error) = done {
            self.compare(op, format!("not checked ({error}), {what}"), Err(error), &[], 0.0);
        }
    }
}

/// More rows than there are threads.
fn many_rows() -> usize {
    team::threads() + 3
}

/// Rows, columns and what they are an example of.
fn sizes() -> [(&'static str, usize, usize); 3] {
    [
        ("one element", 1, 1),
        ("one row", 1, 37),
        ("more rows than threads", many_rows(), 33),
    ]
}
