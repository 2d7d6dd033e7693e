//! Fuzz targets: one function for each kind of untrusted input, and one table of them. To add a
//! target, add a row to [`TARGETS`]. The test `replay` runs every seed, every file of
//! `fuzz/corpus/NAME` and mutations of them on stable Rust, on every system; `cargo xtask fuzz`
//! runs the same functions under libFuzzer.

pub mod inputs;
pub mod limits;
pub mod mutate;
mod seeds;
mod targets;

pub use seeds::Seed;

/// A kind of untrusted input.
pub struct Target {
    /// Its name, and the name of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Parses an input and uses the result. Returns whether it was accepted. Panics if the result
    /// is invalid.
    pub run: fn(&[u8]) -> bool,
    /// Initial inputs, made from fixtures. Each must be accepted.
    pub seeds: fn() -> Vec<Seed>,
    /// Memory limit per input, in MiB.
    pub memory_mib: usize,
    /// Maximum length of generated inputs, in bytes.
    pub max_len: usize,
    /// Number of mutations of each seed in the test `replay`.
    pub mutations: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    row("gguf", targets::gguf::run, targets::gguf::seeds, 256, 1 << 16, 200),
    row("model", targets::model::run, targets::model::seeds, 512, 1 << 15, 100),
    row(
        "model_keys",
        targets::model_keys::run,
        targets::model_keys::seeds,
        512,
        128,
        100,
    ),
    row(
        "tokenizer",
        targets::tokenizer::run,
        targets::tokenizer::seeds,
        256,
        4096,
        100,
    ),
    row(
        "chat_template",
        targets::chat_template::run,
        targets::chat_template::seeds,
        640,
        1 << 15,
        20,
    ),
    row("render", targets::render::run, targets::render::seeds, 640, 4096, 50),
    row(
        "dataset",
        targets::dataset::run,
        targets::dataset::seeds,
        512,
        1 << 14,
        200,
    ),
    row(
        "adapter",
        targets::adapter::run,
        targets::adapter::seeds,
        256,
        1 << 15,
        200,
    ),
    row("packed", targets::packed::run, targets::packed::seeds, 256, 1 << 15, 50),
    row(
        "kv_snapshot",
        targets::kv_snapshot::run,
        targets::kv_snapshot::seeds,
        256,
        1 << 14,
        100,
    ),
    row(
        "checkpoint",
        targets::checkpoint::run,
        targets::checkpoint::seeds,
        256,
        1 << 14,
        100,
    ),
    row(
        "run_file",
        targets::run_file::run,
        targets::run_file::seeds,
        256,
        1 << 13,
        300,
    ),
    row(
        "request",
        targets::request::run,
        targets::request::seeds,
        256,
        1 << 13,
        100,
    ),
    row("draft", targets::draft::run, targets::draft::seeds, 512, 64, 20),
];

const fn row(
    name: &'static str,
    run: fn(&[u8]) -> bool,
    seeds: fn() -> Vec<Seed>,
    memory_mib: usize,
    max_len: usize,
    mutations: usize,
) -> Target {
    Target {
        name,
        run,
        seeds,
        memory_mib,
        max_len,
        mutations,
    }
}
