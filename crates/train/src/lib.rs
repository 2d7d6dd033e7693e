//! Fine-tuning: trains LoRA adapters on the quantized model that also answers.
//!
//! A [`Run`] owns the adapters ([`Parameters`]), their optimizer and its position in the data;
//! everything else is passed in. It knows no dataset formats, processes or windows: examples are
//! tokens, and progress is reported to a callback.

mod adamw;
mod batch;
mod checkpoint;
mod error;
mod gradient;
mod merge;
mod order;
mod parameters;
mod run;
mod schedule;
mod settings;

pub use batch::{Batch, Example};
pub use checkpoint::latest as latest_checkpoint;
pub use error::TrainError;
pub use gradient::loss;
pub use merge::{MergeError, QuantRecipe, merge};
pub use parameters::Parameters;
pub use run::{Control, End, EndReason, Report, Run, Step};
pub use schedule::Schedule;
pub use settings::Settings;
