//! Checks that `docs/MODELS.md` lists what each architecture was checked with.
//! `HEARTH_UPDATE_DOCS=1` writes it.

use crate::fixtures::repository;
use hearth_formats::Architecture;
use hearth_formats::gguf::Gguf;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const COMMAND: &str = "HEARTH_UPDATE_DOCS=1 cargo test --release --workspace --test it models_page";

/// Entries of a folder under `tests/fixtures`, in order.
fn entries(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join("tests/fixtures").join(folder)).expect("a folder");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

/// Whether the tiny model of this name has this architecture.
fn is_of(name: &str, architecture: Architecture) -> bool {
    let path = repository().join("tests/fixtures/models").join(name);
    let gguf = Gguf::open(path.with_extension("gguf")).expect("a model");
    gguf.architecture().expect("its architecture") == architecture.name()
}

/// The tiny models next to which logits are compared, and with what.
fn logits(architecture: Architecture) -> String {
    let [mut both, mut transformers] = [0, 0];
    for path in entries("models") {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "json") && is_of(&name, architecture) {
            match json(&path).get("references") {
                Some(_) => both += 1,
                None => transformers += 1,
            }
        }
    }
    let counted = [(both, "transformers and llama.cpp"), (transformers, "transformers")];
    let cells = counted.iter().filter(|(count, _)| *count > 0);
    cells
        .map(|(count, by)| format!("{count} × {by}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The references of training, by PyTorch and PEFT.
fn training(architecture: Architecture) -> String {
    let count = |folder: &str| {
        let runs = entries(folder).into_iter().map(|path| path.join("run.json"));
        let models = runs.filter(|run| run.exists()).map(|run| json(&run)["model"].clone());
        models
            .filter(|model| is_of(model.as_str().expect("a name"), architecture))
            .count()
    };
    let counted = [
        (count("training/gradients"), "gradients"),
        (count("training"), "20 steps"),
    ];
    let cells = counted.iter().filter(|(count, _)| *count > 0);
    let cells: Vec<_> = cells.map(|(count, what)| format!("{count} × {what}")).collect();
    if cells.is_empty() {
        "no references".to_owned()
    } else {
        cells.join(", ")
    }
}

fn page() -> String {
    let mut page = format!(
        "# Models\n\n\
         What each architecture was checked with. This page is written from `crates/formats/src/evidence.rs` and the\n\
         files in `tests/fixtures`, by `{COMMAND}`.\n\n\
         | architecture | models | logits | training | real weights |\n\
         |---|---|---|---|---|\n"
    );
    for &architecture in Architecture::ALL {
        let [models, logits, training] = [
            architecture.models().to_owned(),
            logits(architecture),
            training(architecture),
        ];
        let real = architecture
            .real_file()
            .map_or_else(|| "none yet".to_owned(), |file| format!("`{file}`"));
        writeln!(page, "| `{architecture}` | {models} | {logits} | {training} | {real} |").expect("a string grows");
    }
    page.push_str(
        "\n\
         - **Logits**: tiny models with random weights, in several \
         shapes, and their logits by `transformers`, or by\n  \
         `transformers` and llama.cpp where both agree. \
         `tests/fixtures/models/architectures.py` and `make.py` there say\n  \
         how they were made, and where the two differ.\n\
         - **Training**: gradients of an adapter by PyTorch, and losses of \
         20 steps by PEFT, for the same tiny models\n  \
         (`tests/fixtures/training`). An architecture without references trains by the same operations.\n\
         - **Real weights**: a file that people use, which answered and \
         was trained. Without one, the window says so in\n  \
         the model's details: a property of real files that the tiny models do not have may be missed.\n\
         - **CPU and GPU**: all of them run and train on the CPU \
         and on GPUs. Before a GPU is used, the device check\n  \
         compares each operation, forward and backward, with the CPU, and the logits of tiny models\n  \
         (`crates/engine/src/check`). Tests run it on \
         a software GPU; [GPU.md](GPU.md#tested-hardware) lists hardware.\n\
         - [QUANTS.md](QUANTS.md) lists the weight types.\n",
    );
    page
}

#[test]
fn the_page_lists_every_architecture() {
    let path = repository().join("docs/MODELS.md");
    if std::env::var_os("HEARTH_UPDATE_DOCS").is_some() {
        fs::write(&path, page()).expect("the page is written");
    }
    let actual = fs::read_to_string(&path)
        .expect("the page exists")
        .replace("\r\n", "\n");
    assert_eq!(actual, page(), "run {COMMAND}");
}
