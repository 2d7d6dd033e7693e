//! The inside of a worker: what the machine has, the model that is loaded, the answers it gives.
//!
//! [`Engine`] loads a model and answers conversations; [`worker::serve`] does so for another process, over the
//! protocol. The commands of `hearth` use the engine directly.

mod adapters;
pub mod check;
mod engine;
mod generate;
pub mod hardware;
mod kept;
mod measure;
pub mod memory;
pub mod packed;
pub mod plan;
mod problem;
pub mod training;
mod turns;
pub mod worker;

pub use engine::Engine;
