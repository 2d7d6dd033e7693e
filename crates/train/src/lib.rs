//! Fine-tuning: adapters learn from examples, on the very file that answers.
//!
//! A [`Run`] owns the adapters ([`Parameters`]), their optimiser and its place in the data;
//! everything else it is told. It knows nothing of datasets' formats, of processes or of windows:
//! examples come as tokens, and what happens is told to a callback.

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
pub use parameters::{Parameters, linear_named};
pub use run::{Control, End, EndReason, Report, Run, Step};
pub use schedule::Schedule;
pub use settings::Settings;
