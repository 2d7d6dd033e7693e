//! Fine-tuning, from a dataset file to an evaluated adapter.

mod auto_settings;
mod best_adapter;
mod control;
mod data;
mod export;
mod findings;
mod folder;
mod priority;
mod probe;
mod reporter;
mod run;
mod verify;

pub use control::RunControl;
pub use data::inspect;
pub use export::{export, export_types};
pub use folder::{RunFile, RunFolder};
pub(crate) use folder::{adapter_path, open_adapter};
pub use priority::lower;
pub use run::train;
