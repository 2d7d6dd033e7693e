//! `hearth`: the commands, and the worker itself.
//!
//! Standard output is for what was asked for; progress and messages go to standard error. A command ends with 0, with
//! 1 after one line that says what failed, or with 2 where it was typed wrong.

mod args;
mod commands;
mod failure;
mod hand_over;
mod model;
mod own_output;
mod progress;
mod terminal;

use args::{Cli, Command};
use clap::Parser;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Says what is logged to standard error: `debug`, `hearth_llm=trace` and so on.
const LOG: &str = "HEARTH_LOG";

fn main() -> ExitCode {
    // SAFETY: the process has no other thread yet.
    #[cfg(feature = "cuda")]
    unsafe {
        hearth_llm::cuda::libdevice::find_beside_executable();
    }
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let command = Cli::parse().command;
    hearth_engine::packed::keep_in(hearth_app::library::packed_folder());
    let devices = hearth_app::library::cache_folder().map(|folder| folder.join("devices.json"));
    hearth_engine::hardware::keep_in(devices);
    let done = match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Perplexity(args) => commands::perplexity::run(&args),
        Command::Tokenize(args) => commands::tokenize::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::List => commands::list::run(),
        Command::Train(args) => commands::train::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Pull(args) => commands::pull::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Worker => commands::worker::run(),
        Command::Probe(args) => commands::probe::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            if code != 0 {
                eprintln!("hearth: {failure}");
            }
            ExitCode::from(code)
        }
    }
}
