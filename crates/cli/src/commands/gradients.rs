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

#[derive(Debug, Serialize)]
struct Row {
    op: &'static str,
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

/// Checks all gradients and prints a table: kernels and ops on the CPU, ops on a GPU.
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
        written: Ok(()),
    };
    if place == Place::Cpu {
        gradients::check(&mut |check| table.take(check));
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        check::gradients::check(place, &mut |check| table.take(check)).map_err(|error| error.to_string())
    }));
    let ran = ran.unwrap_or_else(|_| Err("the check crashed".to_owned()));
    ran.map_err(|what| Failure::new(format!("The gradients of {device} could not be checked: {what}.")))?;
    let Table { out, rows, written } = table;
    written?;
    finish(device, out, rows)
}

/// The results so far, printed as they arrive.
struct Table {
    out: Option<Output<StdoutLock<'static>>>,
    rows: Vec<Row>,
    written: std::io::Result<()>,
}

impl Table {
    fn take(&mut self, check: GradientCheck) {
        let row = Row::from(check);
        if let (Some(out), Ok(())) = (&mut self.out, &self.written) {
            let mark = if row.ok { "ok  " } else { "FAIL" };
            let (op, arrangement) = (row.op, &row.arrangement);
            self.written = writeln!(
                out,
                "{mark} {op:<24} {arrangement:<52} {:.1e} of {:.0e}",
                row.error, row.tolerance
            );
        }
        self.rows.push(row);
    }
}

fn finish(device: &str, out: Option<Output<StdoutLock<'static>>>, checks: Vec<Row>) -> Result<(), Failure> {
    let (all, failed) = (checks.len(), checks.iter().filter(|row| !row.ok).count());
    let instructions = hardware::instructions();
    match out {
        None => print_json(&Report {
            device: device.to_owned(),
            instructions,
            checks,
        })?,
        Some(mut out) => {
            let right = all - failed;
            writeln!(
                out,
                "{right} of {all} gradients on {device} are correct ({instructions})."
            )?;
        }
    }
    let on = if device == hardware::CPU {
        "this machine"
    } else {
        device
    };
    match failed {
        0 => Ok(()),
        n => Err(Failure::new(format!(
            "{n} of {all} gradients are incorrect on {on}. Do not train on it, and please report this."
        ))),
    }
}
