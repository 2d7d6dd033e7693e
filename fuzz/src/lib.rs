//! Fuzz targets: one function for each kind of input that comes from outside, and one table of them.
//!
//! A further target is one row of [`TARGETS`]. The test `replay` runs every seed, every file of `fuzz/corpus/NAME` and mutations of them on
//! the stable compiler, on each system; `cargo xtask fuzz` runs the same functions under libFuzzer.

pub mod inputs;
pub mod limits;
pub mod mutate;
mod seeds;
mod targets;

pub use seeds::Seed;

/// One kind of input from outside.
pub struct Target {
    /// Its name, that of its folder in `fuzz/corpus` too.
    pub name: &'static str,
    /// Reads an input and uses what was read. Returns whether it was read; panics where what was read is unsound.
    pub run: fn(&[u8]) -> bool,
    /// Inputs to start from, made of the fixtures. Each of them is read.
    pub seeds: fn() -> Vec<Seed>,
    /// Memory that one input may take, in MiB.
    pub memory_mib: usize,
    /// The longest input that the fuzzer makes, in bytes.
    pub longest: usize,
    /// Mutations of each seed that the test `replay` tries.
    pub mutations: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    row("gguf", targets::gguf::run, targets::gguf::seeds, 256, 1 << 16, 200),
    row("model", targets::model::run, targets::model::seeds, 512, 1 << 15, 100),
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
];

const fn row(
    name: &'static str,
    run: fn(&[u8]) -> bool,
    seeds: fn() -> Vec<Seed>,
    memory_mib: usize,
    longest: usize,
    mutations: usize,
) -> Target {
    Target {
        name,
        run,
        seeds,
        memory_mib,
        longest,
        mutations,
    }
}
