//! Tests of this crate's public API, in one executable: linking takes longer than most of them.

mod adapter_answers;
mod adapters;
mod announcing;
mod answers;
mod archive;
mod branches;
mod caches;
mod chat;
mod comparison;
mod conversations;
mod data_harness;
mod datasets;
mod deleted_messages;
mod devices;
mod downloads;
mod exports;
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
mod loading;
mod merged_adapters;
mod model_drafts;
mod organizing;
mod own_models;
mod presets;
mod probe;
mod ranges;
mod released_stores;
mod relocation;
mod run_adapters;
mod run_names;
mod run_pauses;
mod run_recovery;
mod runs;
mod settings;
mod slow_models;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod titles;
mod unseen_runs;
mod unsent;
mod unwritable_store;
mod updates;
mod versions;
mod wire;
mod wire_sentences;
mod wire_strings;
mod wire_types;
mod worker_failures;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}
