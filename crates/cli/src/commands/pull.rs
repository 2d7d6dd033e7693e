//! `hearth pull`: downloads a model from the catalog, the Hugging Face hub, Ollama's registry or an
//! address.

use crate::args::Pull;
use crate::failure::Failure;
use crate::progress::Progress as ProgressLine;
use crate::say;
use crate::terminal::stdout;
use hearth_app::library::{self, Progress};
use hearth_engine::plan::estimate_fit;
use hearth_formats::byte_size;
use hearth_protocol::Verdict;
use std::io::Write;
use std::ops::ControlFlow;

/// Prints a note if it is uncertain that a model of this size fits.
fn warn_if_unfit(size: u64) {
    let (estimate, reason) = estimate_fit(size);
    if estimate.verdict != Verdict::Fits {
        say!("note: {reason}");
    }
}

/// Downloads the model and prints its path.
pub fn run(args: &Pull) -> Result<(), Failure> {
    let (library, _) = library::open().map_err(Failure::new)?;
    let hub = library::hub_of_settings().map_err(Failure::new)?;
    let mut is_checked = false;
    let mut line = ProgressLine::new();
    let path = library.pull(&hub, &args.name, &mut |progress| {
        match progress {
            Progress::Loading { done, total } => {
                if !std::mem::replace(&mut is_checked, true) {
                    warn_if_unfit(total);
                }
                let fraction = done as f32 / total.max(1) as f32;
                line.show(fraction, format!("{} of {}", byte_size(done), byte_size(total)));
            }
            Progress::Checking => line.show(1.0, "verifying the checksum"),
            Progress::Changed => line.print_line(
                "note: it changed on the server since it was downloaded; the new version replaces the one here",
            ),
        }
        ControlFlow::Continue(())
    });
    drop(line);
    writeln!(stdout(), "{}", path.map_err(Failure::new)?.display())?;
    Ok(())
}
