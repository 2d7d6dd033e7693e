//! `hearth probe`: queries the graphics drivers or reads files for another Hearth process.

use crate::args::Probe;
use crate::failure::Failure;
use crate::own_output;
use hearth_app::library::probe::{self, ProbeRequest};
use hearth_engine::hardware;
use std::io::Write;

/// Prints the GPUs, the result of a device check, or the metadata of files.
pub fn run(args: &Probe) -> Result<(), Failure> {
    let mut output = own_output::take()?;
    if args.files {
        return Ok(probe::serve(std::io::stdin().lock(), output, ProbeRequest::execute)?);
    }
    hardware::exit_with_parent();
    let json = match &args.check {
        None => serde_json::to_vec(&hardware::query()),
        // A text that is not a number means the CPU.
        Some(device) => serde_json::to_vec(&hardware::check_here(device.parse().ok(), args.small)),
    };
    let mut line = json.map_err(Failure::new)?;
    line.push(b'\n');
    output.write_all(&line)?;
    // Exit immediately: some drivers crash during cleanup.
    std::process::exit(0);
}
