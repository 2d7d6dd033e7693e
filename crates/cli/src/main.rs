//! The program `hearth`: the command-line commands and the worker process.
//!
//! Results go to standard output, progress and messages to standard error. Exit code 0 is success,
//! 1 a failure with one line that says what failed, 2 invalid usage.

mod args;
mod commands;
mod display;
mod draft_report;
mod failure;
mod json_schema;
mod model;
mod own_output;
mod progress;
mod switch_build;
mod terminal;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Environment variable with the log filter for standard error, such as `debug` or
/// `hearth_llm=trace`.
const LOG_FILTER: &str = "HEARTH_LOG";

fn main() -> ExitCode {
    // SAFETY: the process has no other thread yet.
    #[cfg(feature = "cuda")]
    unsafe {
        hearth_llm::cuda::libdevice::find_beside_executable();
    }
    let filter = EnvFilter::try_from_env(LOG_FILTER).unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(terminal::stderr)
        .init();
    let command = Cli::parse().command;
    hearth_engine::packed::set_cache_folder(hearth_app::library::packed_folder());
    let devices = hearth_app::library::cache_folder().map(|folder| folder.join("devices.json"));
    hearth_engine::hardware::set_records_file(devices);
    let isa = hearth_kernels::Isa::requested().map_err(|error| failure::Failure::Usage(error.to_string()));
    let prefetch = hearth_kernels::Prefetch::requested().map_err(|error| failure::Failure::Usage(error.to_string()));
    let result = isa.and(prefetch).and_then(|_| match command {
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
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            if code != 0 {
                say!("hearth: {failure}");
            }
            ExitCode::from(code)
        }
    }
}
