//! What is said to a worker, and the client that starts and watches one.
//!
//! A worker is a process of its own (`hearth worker`). It reads one [`Request`] a line from its
//! standard input and writes one [`Event`] a line to its standard output, both as JSON; its log goes to
//! standard error. Nothing here knows how an answer is made.

mod client;
mod device;
mod memory_death;
mod messages;
pub mod number;
mod plan;
mod training;

pub use client::{Gone, Said, StartError, Worker, WorkerCommand};
pub use device::*;
pub use messages::*;
pub use plan::*;
pub use training::*;
