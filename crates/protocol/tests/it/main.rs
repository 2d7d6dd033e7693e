//! Tests of this crate's public API, in one executable: linking takes longer than most of them.

mod client;
mod host;
mod values;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}
