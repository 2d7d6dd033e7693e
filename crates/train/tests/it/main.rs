//! Tests of this crate's public API, in one executable: linking takes longer than most of them.

mod exports;
mod imported;
mod merge;
#[path = "../../../llm/tests/nvfp4_pair/mod.rs"]
mod nvfp4_pair;
mod run;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}
