//! `hearth probe`: the graphics drivers, asked for another process.

use super::print_json;
use crate::failure::Failure;
use hearth_engine::hardware;
use std::io::Write;

/// Prints what they say.
pub fn run() -> Result<(), Failure> {
    print_json(&hardware::ask())?;
    std::io::stdout().flush()?;
    // At once: drivers that fall over while they are left have said what was asked.
    std::process::exit(0);
}
