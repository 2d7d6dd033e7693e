//! `hearth probe`: the graphics drivers asked, or files read, for another process.

use super::print_json;
use crate::args::Probe;
use crate::failure::Failure;
use hearth_app::library::probe::{self, Question};
use hearth_engine::hardware;
use std::io::Write;

/// Prints what they say, or what a check of a device found, or what files are.
pub fn run(args: &Probe) -> Result<(), Failure> {
    if args.files {
        let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
        return Ok(probe::serve(input, output, Question::answer)?);
    }
    match &args.check {
        None => print_json(&hardware::ask())?,
        // Another word than a number is the processor's.
        Some(device) => print_json(&hardware::check_here(device.parse().ok(), args.small))?,
    }
    std::io::stdout().flush()?;
    // At once: drivers that fall over while they are left have said what was asked.
    std::process::exit(0);
}
