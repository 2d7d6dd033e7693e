//! Tests of this crate's public API on the CPU. They are one executable, because linking takes
//! longer than most of them.

mod batch;
mod batch_invariance;
mod fused;
mod kv_snapshot;
mod layer;
mod layer_sizes;
mod logit_softcap;
mod logits;
#[path = "../shared/lora.rs"]
mod lora;
mod nvfp4;
#[path = "../nvfp4_pair/mod.rs"]
mod nvfp4_pair;
#[path = "../../../kernels/tests/it/own_process.rs"]
mod own_process;
mod packed;
#[path = "../shared/reference.rs"]
mod reference;
mod residual;
mod rope_scaling;
#[allow(dead_code, reason = "no test draws tokens from it")]
#[path = "../../../engine/src/check/sample.rs"]
mod sample;
mod sampler;
mod sliding_window;
mod unusual_values;

#[test]
fn every_test_file_is_compiled() {
    hearth_test_parts::assert_all_compiled(env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn no_modules_import_each_other() {
    hearth_test_parts::assert_no_cycles(env!("CARGO_MANIFEST_DIR"));
}
