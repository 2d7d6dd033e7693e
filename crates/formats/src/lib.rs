//! File formats: GGUF with its tokenizer and chat template, adapters, datasets.
//!
//! Files are untrusted: every length, offset, count and type is checked before it is used. The
//! error for a malformed file names the file and the location. This crate does not depend on Burn,
//! the kernels or the network.

pub mod adapter;
mod architecture;
mod byte_size;
pub mod characters;
pub mod chat_template;
pub mod dataset;
pub mod durable;
mod evidence;
pub mod fence;
mod free_space;
pub mod gguf;
mod hex;
pub mod interrupt;
mod other_architectures;
mod regular;
pub mod shape;
mod shortened;
pub mod tokenizer;
mod web_page;

pub use architecture::{Architecture, listed};
pub use byte_size::byte_size;
pub use free_space::free_space;
pub use hex::hex;
pub use regular::read_regular;
pub use shortened::shortened;
pub use web_page::is_web_page;
