//! Checks that `docs/QUANTS.md` lists the formats of the table. `HEARTH_UPDATE_DOCS=1` writes it.

use hearth_kernels::Quant;
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/QUANTS.md");

fn page() -> String {
    let mut page = String::from(
        "# Quantization types\n\n\
         Weight types that Hearth runs, trains adapters on and merges into, on the CPU and on GPUs. A row whose\n\
         length is not a multiple of the block is stored in the fallback type. This page is generated from the\n\
         table in `crates/kernels/src/blocks/table.rs` by\n\
         `HEARTH_UPDATE_DOCS=1 cargo test -p hearth-kernels --test kernels quants_page`.\n\n\
         | type | bits per weight | weights per block | bytes per block | GGUF type | file type | fallback |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for quant in Quant::ALL {
        let (elements, bytes) = (quant.block_elements(), quant.block_bytes());
        let bits = 8.0 * bytes as f64 / elements as f64;
        let (gguf, file) = (quant.gguf_id(), quant.file_type());
        let fallback = if quant.fallback() == quant {
            ""
        } else {
            quant.fallback().name()
        };
        writeln!(
            page,
            "| {quant} | {bits} | {elements} | {bytes} | {gguf} | {file} | {fallback} |"
        )
        .expect("writing to a string does not fail");
    }
    page.push_str(
        "\n## Tensor scales of NVFP4\n\n\
         An NVFP4 tensor may have a scale for the whole tensor (`NAME.scale`). Hearth applies it to every linear\n\
         layer that has one.\n\n\
         - Merging into NVFP4 writes a scale for weights that have one in the base, for attention, and for\n  \
         feed-forward layers without biases in the architectures in which llama.cpp applies it: `llama` and\n  \
         `qwen3`.\n\
         - Weights without a scale lose precision if their standard deviation is below 0.01, and most of it below\n  \
         0.003. Choose MXFP4 or another type for such models.\n\
         - Merging into another type multiplies the scale into the weights.\n",
    );
    page
}

#[test]
fn the_page_lists_every_format() {
    if std::env::var_os("HEARTH_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, page()).expect("the page is written");
    }
    let actual = std::fs::read_to_string(PAGE)
        .expect("the page exists")
        .replace("\r\n", "\n");
    assert_eq!(
        actual,
        page(),
        "run HEARTH_UPDATE_DOCS=1 cargo test -p hearth-kernels --test kernels quants_page"
    );
}
