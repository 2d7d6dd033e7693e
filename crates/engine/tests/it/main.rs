//! Tests of this crate's public API, in one executable, because linking takes longer than most
//! tests.

mod background;
#[path = "../common/mod.rs"]
mod common;
mod continued;
mod draft;
mod draft_distribution;
mod json_schema;
mod json_schema_validity;
mod preparation;
mod repetition;
mod resume;
mod sampling;
mod scheduler;
mod settings_of_files;
mod thinking;
mod unsent;
mod worker;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn no_modules_import_each_other() {
    hearth_test_parts::assert_no_cycles(env!("CARGO_MANIFEST_DIR"));
}
