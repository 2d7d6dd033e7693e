//! Tests of this crate's public API, in one executable: linking takes longer than most of them.

mod attention;
mod batch_invariance;
mod blocks;
mod blocks_dot;
mod common;
mod elementwise;
mod gradients;
mod levels;
mod linear;
mod own_process;
mod prefetch;
mod quants_page;
mod reference;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}
