//! Fine-tuning, from a file of examples to an adapter that was tried.

mod data;
mod export;
mod folder;
mod plan;
mod priority;
mod probe;
mod run;
mod verify;
mod wish;

pub use data::inspect;
pub use export::export;
pub use folder::{RunFile, RunFolder};
pub(crate) use folder::{adapter_path, open_adapter};
pub use priority::lower;
pub use run::train;
pub use wish::{Wish, Wishes};
