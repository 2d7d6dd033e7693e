//! Tests of GGUF files, tokenizers and chat templates through the public API.

mod chat_templates;
mod control_tokens;
mod gguf_files;
mod hostile_gguf;
mod interrupts;
mod jinja;
mod models_page;
mod quoted_letters;
mod round_trips;
mod thinking;
mod tokenizer_fixtures;
mod unknown_bytes;
mod unsent;
