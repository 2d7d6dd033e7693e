//! Use cases, wire types, the store and the library of models.
//!
//! [`App`] has one method per action of a person and emits events. It knows neither windows nor
//! Burn: models run and train in worker processes.

mod adapters;
mod app;
mod caches;
mod chat;
mod conversations;
mod convert;
mod datasets;
mod hardware;
pub mod library;
mod models;
pub mod power;
mod prompt_cache;
mod ratings;
mod report;
mod runs;
mod saving;
mod shared;
pub mod store;
mod task;
mod title;
mod tune;
pub mod wire;

pub use app::{App, Options};
pub use datasets::DATASET_EXTENSIONS;
