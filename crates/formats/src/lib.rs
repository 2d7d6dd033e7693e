//! What a model's file says: GGUF itself, the tokenizer and the chat template that it carries.
//!
//! A file comes from anywhere, so nothing in it is believed before it is checked: each length, offset, count and type.
//! What is wrong becomes one error that names the file and the place. Knows nothing of Burn, kernels or the network.

pub mod adapter;
pub mod chat_template;
pub mod dataset;
pub mod durable;
pub mod gguf;
mod regular;
pub mod tokenizer;
