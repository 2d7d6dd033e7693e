//! `docs/QUANTS.md` lists the formats of the table. `HEARTH_UPDATE_DOCS=1` writes it.

use hearth_kernels::Quant;
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/QUANTS.md");

fn page() -> String {
    let mut page = String::from(
        "# Quantisation types\n\n\
         Types of weights that Hearth runs, trains on, and merges into, on the CPU and on GPUs. A row that is not\n\
         whole blocks is stored in the type named last. This page is written from the table in\n\
         `crates/kernels/src/blocks/table.rs` by\n\
         `HEARTH_UPDATE_DOCS=1 cargo test -p hearth-kernels --test kernels page`.\n\n\
         The scale of a whole NVFP4 tensor (`NAME.scale`) is applied where a file has it. Merging into NVFP4 writes\n\
         it for attention, and for feed-forward layers without biases in the architectures in which llama.cpp\n\
         applies it: `llama` and `qwen3`. Other weights with a standard deviation below 0.01 lose precision, and\n\
         below 0.003 most of it: choose MXFP4 or another type for such models. Merging into another type multiplies\n\
         it in.\n\n\
         | type | bits per weight | weights per block | bytes per block | GGUF type | file type | otherwise |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for quant in Quant::ALL {
        let (elements, bytes) = (quant.block_elements(), quant.block_bytes());
        let bits = 8.0 * bytes as f64 / elements as f64;
        let (gguf, file) = (quant.gguf_id(), quant.file_type());
        let next = if quant.fallback() == quant {
            ""
        } else {
            quant.fallback().name()
        };
        writeln!(
            page,
            "| {quant} | {bits} | {elements} | {bytes} | {gguf} | {file} | {next} |"
        )
        .expect("a string grows");
    }
    page
}

#[test]
fn the_page_lists_every_format() {
    if std::env::var_os("HEARTH_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, page()).expect("the page is written");
    }
    let found = std::fs::read_to_string(PAGE)
        .expect("the page is there")
        .replace("\r\n", "\n");
    assert_eq!(
        found,
        page(),
        "run HEARTH_UPDATE_DOCS=1 cargo test -p hearth-kernels --test kernels page"
    );
}
