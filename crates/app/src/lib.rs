//! Use cases, wire types, the store and the library of models.
//!
//! [`App`] is the whole of it: one method for each thing a person can do, and an event for whatever happens meanwhile. It
//! knows neither a window nor a model; models run, and learn, in worker processes of their own.

mod adapters;
mod app;
mod caches;
mod chat;
mod conversations;
mod convert;
mod datasets;
mod hardware;
mod kept;
pub mod library;
mod models;
pub mod power;
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
pub use datasets::DATA_ENDINGS;
