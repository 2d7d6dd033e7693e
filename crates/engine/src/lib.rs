//! The engine of a worker: hardware, memory plan, the loaded model, generation and fine-tuning.
//!
//! [`Engine`] loads a model and generates answers. [`worker::serve`] does so for another process,
//! over the protocol. The commands of `hearth` use the engine directly.

mod adapters;
mod answer;
mod chat;
pub mod check;
mod context_trim;
mod continued;
mod draft;
mod drafting;
mod engine;
mod generate;
pub mod hardware;
mod json_numbers;
mod json_schema;
mod measure;
pub mod memory;
pub mod notices;
mod numbers;
pub mod packed;
pub mod plan;
mod prepare;
mod problem;
mod prompt_cache;
mod repetition;
mod sampling;
mod scheduler;
mod schema_pattern;
mod text_stream;
mod texts;
mod thinking;
pub mod training;
mod unsent;
pub mod worker;

pub use engine::Engine;
