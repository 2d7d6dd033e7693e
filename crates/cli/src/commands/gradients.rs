//! `hearth doctor --gradients`: every backward on this machine, against finite differences.

use super::print_json;
use crate::failure::Failure;
use hearth_engine::hardware;
use hearth_kernels::gradients::{self, GradientCheck};
use serde::Serialize;
use std::io::Write;

/// What scripts read.
#[derive(Debug, Serialize)]
struct Report {
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

/// Checks them all, and prints a table.
pub fn run(json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let (mut checks, mut written) = (Vec::new(), Ok(()));
    gradients::check(&mut |check| {
        let row = Row::from(check);
        if !json && written.is_ok() {
            let mark = if row.ok { "ok  " } else { "FAIL" };
            let (op, arrangement) = (row.op, &row.arrangement);
            written = writeln!(
                out,
                "{mark} {op:<24} {arrangement:<52} {:.1e} of {:.0e}",
                row.error, row.tolerance
            );
        }
        checks.push(row);
    });
    written?;
    let (all, failed) = (checks.len(), checks.iter().filter(|row| !row.ok).count());
    if json {
        drop(out);
        let instructions = hardware::instructions();
        print_json(&Report { instructions, checks })?;
    } else {
        writeln!(
            out,
            "{} of {all} gradients are those of finite differences ({}).",
            all - failed,
            hardware::instructions()
        )?;
    }
    match failed {
        0 => Ok(()),
        n => Err(Failure::new(format!(
            "{n} of {all} gradients are wrong on this machine: do not train on it, and please report it."
        ))),
    }
}
