//! Models on Burn: operations, layers, the KV pool, the sampler; one file per architecture.
//!
//! A [`Model`] is loaded from a GGUF file; a [`Session`] is one sequence of tokens in it. The same
//! model and operations serve inference and training.

mod adapter;
pub mod arch;
mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
mod decoder;
mod detokenize;
pub mod device;
mod divergence;
mod error;
mod free_space;
#[cfg(feature = "wgpu")]
pub mod gpus;
mod kv;
mod kv_snapshot;
pub mod launches;
mod layer;
mod model;
pub mod ops;
mod packed;
mod pass;
#[cfg(feature = "gpu")]
mod per_device;
mod placement;
mod sampling;
mod session;
mod stop;
pub mod threads;
mod weights;

pub use adapter::{AdapterError, LoraPart};
pub use config::Config;
pub use decoder::Decoder;
pub use detokenize::Detokenizer;
pub use divergence::divergence;
pub use error::{CacheError, LoadError, SessionError};
pub use free_space::free_space;
pub use kv::KvPool;
pub use kv_snapshot::{SavedCells, SnapshotError, SnapshotKey};
pub use layer::Layer;
pub use model::{LoadOptions, Model};
pub use pass::{Memory, Pass};
pub use placement::{Place, Placement, Share};
pub use sampling::{Sampler, SamplingError, SamplingParams, greedy};
pub use session::{Prefilled, Session};
pub use stop::{Passed, StopTexts};
