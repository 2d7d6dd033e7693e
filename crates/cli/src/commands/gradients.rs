//! `hearth doctor --gradients`: checks every backward kernel on this machine against finite
//! differences.

use super::print_json;
use crate::args::Doctor;
use crate::failure::Failure;
use crate::switch_build::to_build_for;
use crate::terminal::{Output, stdout};
use hearth_engine::{check, hardware};
use hearth_kernels::gradients::{self, GradientCheck};
use hearth_llm::Place;
use serde::Serialize;
use std::io::{StdoutLock, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    device: String,
    instructions: &'static str,
    checks: Vec<Row>,
}

/// Result of one gradient check.
#[derive(Debug, Serialize)]
struct Row {
    op: &'static str,
    /// Options and sizes of the operation.
    arrangement: String,
    error: f64,
    tolerance: f64,
    ok: bool,
}

impl From<GradientCheck> for Row {
    fn from(check: GradientCheck) -> Self {
        Self {
            ok: check.passed(),
            op: check.op,
            arrangement: check.arrangement,
            error: check.error,
            tolerance: check.tolerance,
        }
    }
}

/// Checks all gradients and prints a table. The CPU's kernels and ops are checked, or a GPU's ops.
pub fn run(args: &Doctor) -> Result<(), Failure> {
    let json = args.output.json;
    let device = args.options.device.as_deref().unwrap_or(hardware::CPU);
    if device != hardware::CPU {
        to_build_for(device, &args.options)?;
    }
    let place = hardware::place(device)?;
    let mut table = Table {
        out: (!json).then(stdout),
        rows: Vec::new(),
        write_result: Ok(()),
    };
    if place == Place::Cpu {
        gradients::check(&mut |check| table.add(check));
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        check::gradients::check(place, &mut |check| table.add(check)).map_err(|error| error.to_string())
    }));
    let result = result.unwrap_or_else(|_| Err("the check crashed".to_owned()));
    result.map_err(|reason| Failure::new(format!("The gradients of {device} could not be checked: {reason}.")))?;
    let Table {
        out,
        rows,
        write_result,
    } = table;
    write_result?;
    finish(device, out, rows)
}

/// The results so far. Each one is printed immediately, unless the output is JSON.
struct Table {
    out: Option<Output<StdoutLock<'static>>>,
    rows: Vec<Row>,
    write_result: std::io::Result<()>,
}

impl Table {
    /// Adds a result and prints it.
    fn add(&mut self, check: GradientCheck) {
        let row = Row::from(check);
        if let (Some(out), Ok(())) = (&mut self.out, &self.write_result) {
            let mark = if row.ok { "ok  " } else { "FAIL" };
            let (op, arrangement) = (row.op, &row.arrangement);
            self.write_result = writeln!(
                out,
                "{mark} {op:<24} {arrangement:<52} {:.1e} of {:.0e}",
                row.error, row.tolerance
            );
        }
        self.rows.push(row);
    }
}

/// Prints the summary or the JSON output.
///
/// # Errors
/// A gradient is incorrect, or printing failed.
fn finish(device: &str, out: Option<Output<StdoutLock<'static>>>, checks: Vec<Row>) -> Result<(), Failure> {
    let total = checks.len();
    let failed = checks.iter().filter(|row| !row.ok).count();
    let instructions = hardware::instructions();
    match out {
        None => print_json(&Report {
            device: device.to_owned(),
            instructions,
            checks,
        })?,
        Some(mut out) => {
            let passed = total - failed;
            writeln!(
                out,
                "{passed} of {total} gradients on {device} are correct ({instructions})."
            )?;
        }
    }
    let device_name = if device == hardware::CPU {
        "this machine"
    } else {
        device
    };
    match failed {
        0 => Ok(()),
        _ => Err(Failure::new(format!(
            "{failed} of {total} gradients are incorrect on {device_name}. Do not train on it, and please report this."
        ))),
    }
}
