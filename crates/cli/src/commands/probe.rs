//! `hearth probe`: the graphics drivers asked, or files read, for another process.

use crate::args::Probe;
use crate::failure::Failure;
use crate::own_output;
use hearth_app::library::probe::{self, Question};
use hearth_engine::hardware;
use std::io::Write;

/// Prints what they say, or what a check of a device found, or what files are.
pub fn run(args: &Probe) -> Result<(), Failure> {
    let mut output = own_output::take()?;
    if args.files {
        return Ok(probe::serve(std::io::stdin().lock(), output, Question::answer)?);
    }
    let answer = match &args.check {
        None => serde_json::to_vec(&hardware::ask()),
        // Another word than a number is the processor's.
        Some(device) => serde_json::to_vec(&hardware::check_here(device.parse().ok(), args.small)),
    };
    let mut line = answer.map_err(Failure::new)?;
    line.push(b'\n');
    output.write_all(&line)?;
    // At once: drivers that fall over while they are left have said what was asked.
    std::process::exit(0);
}
