//! Models on Burn: operations, layers, the KV cache, the sampler; one file per architecture.
//!
//! A [`Model`] is loaded from a GGUF file. A [`Session`] is a model with one sequence of tokens in
//! its KV cache. Inference and training use the same model and operations.

mod adapter;
pub mod arch;
mod batch;
mod cache;
mod chunk;
mod cpu_matrices;
#[cfg(feature = "cuda")]
pub mod cuda;
mod decoder;
mod detokenize;
pub mod device;
mod divergence;
pub mod draft;
mod error;
#[cfg(feature = "wgpu")]
pub mod gpus;
mod header_keys;
mod kv_snapshot;
pub mod launches;
mod layer;
mod model;
pub mod ops;
mod packed;
#[cfg(feature = "gpu")]
mod per_device;
mod placement;
mod sample;
mod session;
mod step;
mod stop;
pub mod threads;
mod weights;

pub use adapter::{AdapterError, LoraPart};
pub use arch::Config;
pub use batch::Batch;
pub use cache::{Cache, CacheSize, LayerCells, LayerGroup, Sequence};
pub use chunk::Chunk;
pub use decoder::Decoder;
pub use detokenize::Detokenizer;
pub use divergence::divergence;
pub use error::{CacheError, LoadError, SessionError};
pub use kv_snapshot::{SavedCells, SnapshotError, SnapshotKey};
pub use layer::Layer;
pub use model::{LoadOptions, Model};
pub use placement::{Place, Placement, Share};
pub use sample::{
    Constraint, Distribution, MAX_STRING_BYTES, MAX_STRINGS, Sampler, SamplingError, SamplingParams, StringParams,
    Vocabulary, greedy,
};
pub use session::{Prefilled, Session, SessionRows, common_prefix, step_sessions};
pub use step::{Output, Rows, Want, step};
pub use stop::{Passed, StopStrings};
