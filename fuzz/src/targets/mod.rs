//! One module for each target.

pub mod adapter;
pub mod chat_template;
pub mod checkpoint;
pub mod dataset;
pub mod draft;
pub mod gguf;
pub mod kv_snapshot;
pub mod model;
pub mod model_keys;
pub mod packed;
pub mod render;
pub mod request;
pub mod run_file;
pub mod tokenizer;
