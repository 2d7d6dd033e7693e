//! `hearth worker`: the engine for another process.

use crate::failure::Failure;
use crate::own_output;

/// Serves until standard input ends.
pub fn run() -> Result<(), Failure> {
    // It ends with its input. A signal to all processes of a session is for the one that started it to answer, which may still want a
    // checkpoint.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        tracing::warn!(%error, "signals that end the session end this worker at once");
    }
    let served = hearth_engine::worker::serve(std::io::stdin().lock(), own_output::take()?);
    // At once: an answer that is still being made has nobody left to read it.
    std::process::exit(i32::from(served.is_err()));
}
