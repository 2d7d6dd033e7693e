//! Small model files for tests, and the commands of the fake probe and the fake worker.

// Each test uses a part of this module.
#![allow(dead_code)]

use hearth_app::library::probe::ProbeCommand;
use hearth_formats::gguf::{GgufWriter, Metadata, TensorHeader, TensorType};
use hearth_protocol::WorkerCommand;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes a model of one tensor. Returns its path.
pub fn model(folder: &Path, file: &str) -> PathBuf {
    write(folder, file, "weight", &[])
}

/// Writes a model of two shards. Returns their paths.
pub fn split_model(folder: &Path, name: &str) -> [PathBuf; 2] {
    [0, 1].map(|part: u16| {
        let file = format!("{name}-{:05}-of-00002.gguf", part + 1);
        let keys = [("split.no", part), ("split.count", 2), ("split.tensors.count", 2)];
        write(folder, &file, &format!("weight{part}"), &keys)
    })
}

fn write(folder: &Path, file: &str, tensor: &str, keys: &[(&str, u16)]) -> PathBuf {
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture", "llama");
    metadata.insert("general.name", "A tiny model");
    metadata.insert("llama.context_length", 2048u32);
    for &(key, value) in keys {
        metadata.insert(key, value);
    }
    let header = TensorHeader {
        name: tensor.into(),
        shape: vec![8],
        kind: TensorType::F32,
    };
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &[header]).expect("a header");
    writer.tensor(&[0; 32]).expect("a tensor");
    let path = folder.join(file);
    fs::create_dir_all(folder).expect("a folder");
    fs::write(&path, writer.finish().expect("a file")).expect("a written file");
    path
}

/// The command that starts the fake probe.
pub fn probe() -> ProbeCommand {
    ProbeCommand {
        program: env!("CARGO_BIN_EXE_fake-probe").into(),
        environment: Vec::new(),
        timeout: None,
    }
}

/// The command that starts the fake worker: an executable of `hearth-protocol`, so cargo does not
/// build it for a test of this crate alone.
pub fn worker() -> WorkerCommand {
    let file = format!("fake-worker{}", std::env::consts::EXE_SUFFIX);
    let executable = Path::new(env!("CARGO_BIN_EXE_fake-probe")).with_file_name(file);
    assert!(
        executable.is_file(),
        "{} has not been built: add `--bin fake-worker` to the command that runs this test, or run `cargo xtask test`",
        executable.display()
    );
    WorkerCommand::new(executable)
}
