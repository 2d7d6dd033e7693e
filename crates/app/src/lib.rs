//! Use cases, wire types, the store and the library of models.
//!
//! [`App`] is the whole of it: one method for each thing a person can do, and an event for whatever happens meanwhile. It
//! knows neither a window nor a model; the model runs in a worker process of its own.

mod app;
mod chat;
mod conversations;
mod convert;
pub mod library;
mod models;
mod shared;
pub mod store;
mod title;
pub mod wire;

pub use app::{App, Options};
