//! The messages between host and worker, the client that starts and monitors a worker, and the host
//! of all workers.
//!
//! A worker is a separate process (`hearth worker`). It reads one [`Request`] per line from its
//! standard input and writes one [`Event`] per line to its standard output, both as JSON in an
//! [`Envelope`] with the request's id. Its log goes to standard error.

mod broken_line;
mod client;
mod device;
mod device_status;
mod draft;
mod estimate;
mod finding;
mod hidden_command;
mod host;
mod json_schema;
mod memory_death;
mod message;
mod messages;
mod notice;
pub mod number;
mod plan;
mod problem;
pub mod sentence;
mod stage;
mod thinking;
mod training;
mod unsent;
mod verification;

pub use broken_line::*;
pub use client::{Responses, StartError, Worker, WorkerCommand};
pub use device::*;
pub use device_status::{DeviceStatus, DriverProblem, Mismatch, ProcessFailure};
pub use draft::*;
pub use estimate::*;
pub use finding::*;
pub use hidden_command::hidden_command;
pub use host::{HostOptions, Lease, LoadError, Model, ModelHost, ModelStatus, Run, RunEvent};
pub use json_schema::{MAX_JSON_SCHEMA_BYTES, assume_objects, parse_json_schema};
pub use message::*;
pub use messages::*;
pub use notice::*;
pub use plan::*;
pub use problem::*;
pub use stage::Stage;
pub use thinking::*;
pub use training::*;
pub use unsent::*;
pub use verification::*;
