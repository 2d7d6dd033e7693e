//! `hearth worker`: runs the engine for another Hearth process.

use crate::failure::Failure;
use crate::own_output;

/// Serves requests until standard input ends.
pub fn run() -> Result<(), Failure> {
    // The worker exits when its input ends. It ignores signals to the whole session, so that the
    // host may still request a checkpoint.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        tracing::warn!(%error, "signals to the session will kill this worker");
    }
    let result = hearth_engine::worker::serve(std::io::stdin().lock(), own_output::take()?);
    // Exit immediately: the output of a generation in progress has no reader any more.
    std::process::exit(i32::from(result.is_err()));
}
