//! `hearth worker`: the engine for another process.

use crate::failure::Failure;
use crate::own_output;

/// Serves until standard input ends.
pub fn run() -> Result<(), Failure> {
    let served = hearth_engine::worker::serve(std::io::stdin().lock(), own_output::take()?);
    // At once: an answer that is still being made has nobody left to read it.
    std::process::exit(i32::from(served.is_err()));
}
