//! Tests of this crate's public API, in one executable: linking takes longer than testing.

mod chat_templates;
mod control_tokens;
mod fixtures;
mod gguf_files;
mod hostile_gguf;
mod jinja;
mod round_trips;
mod thinking;
mod tokenizer_fixtures;
