//! Runs `hearth` and programs of llama.cpp, and reads what they measured.

mod guard;
mod hearth;
pub mod landed;
mod llama_completion;
mod llama_cpp;
mod pairs;
mod process_run;
mod reports;
mod samples;
mod stats;

pub use guard::guard;
pub use hearth::{Bench, Hearth, Measured, measure};
pub use llama_cpp::{LlamaBench, LlamaCpp};
pub use pairs::pairs;
pub use reports::{BenchReport, PlanReport, TrainLog, TrainReport};
pub use samples::samples;
pub use stats::median;
