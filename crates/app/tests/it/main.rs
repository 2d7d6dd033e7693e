//! Tests of this crate's public API, in one executable: linking takes longer than most of them.

mod adapters;
mod announcing;
mod app;
mod archive;
mod chat;
mod comparison;
mod data_harness;
mod downloads;
mod harness;
mod hostile_archive;
mod hub;
mod hub_patience;
mod hub_token;
mod import;
mod import_bounds;
mod import_ids;
mod import_names;
mod library;
mod organizing;
mod presets;
mod probe;
mod ranges;
mod relocation;
mod slow_models;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod tune;
mod unsent;
mod updates;
mod versions;
mod wire;
mod wire_sentences;
mod wire_strings;
mod wire_types;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}
