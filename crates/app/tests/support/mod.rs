//! Small model files for tests, and the commands of the fake probe and the fake worker.

// Each executable uses a part of this module.
#![allow(dead_code)]

pub mod hub;
pub mod keychain;

use hearth_app::{Options, library::probe::ProbeCommand, power::AlwaysOn};
use hearth_formats::gguf::{GgufWriter, Metadata, Strings, TensorHeader, TensorType};
use hearth_protocol::WorkerCommand;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Writes a model of one tensor. Returns its path.
pub fn model(folder: &Path, file: &str) -> PathBuf {
    write(folder, file, &metadata(), "weight", 8)
}

/// Writes a model with this name.
pub fn named_model(folder: &Path, file: &str, name: &str) -> PathBuf {
    let mut metadata = metadata();
    metadata.insert("general.name", name);
    write(folder, file, &metadata, "weight", 8)
}

/// Writes a model of one tensor with this number of parameters, and a vocabulary.
pub fn model_with_vocabulary(folder: &Path, file: &str, parameters: usize, tokens: &[&str]) -> PathBuf {
    let mut metadata = metadata();
    metadata.insert("tokenizer.ggml.model", "gpt2");
    metadata.insert("tokenizer.ggml.tokens", tokens.iter().collect::<Strings>());
    write(folder, file, &metadata, "weight", parameters)
}

/// Writes a model of two shards. Returns their paths.
pub fn split_model(folder: &Path, name: &str) -> [PathBuf; 2] {
    [0, 1].map(|part: u16| {
        let file = format!("{name}-{:05}-of-00002.gguf", part + 1);
        let mut metadata = metadata();
        for (key, value) in [("split.no", part), ("split.count", 2), ("split.tensors.count", 2)] {
            metadata.insert(key, value);
        }
        write(folder, &file, &metadata, &format!("weight{part}"), 8)
    })
}

/// The metadata of every model here.
pub fn metadata() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture", "llama");
    metadata.insert("general.name", "A tiny model");
    metadata.insert("llama.context_length", 2048u32);
    metadata
}

/// Writes a model of one tensor. Returns its path.
pub fn write(folder: &Path, file: &str, metadata: &Metadata, tensor: &str, parameters: usize) -> PathBuf {
    let header = TensorHeader {
        name: tensor.into(),
        shape: vec![parameters as u64],
        kind: TensorType::F32,
    };
    let mut writer = GgufWriter::begin(Vec::new(), metadata, &[header]).expect("a header");
    writer.tensor(&vec![0; parameters * 4]).expect("a tensor");
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

/// Options of an app over a data folder, without models and without a worker.
pub fn options(data: &Path) -> Options {
    Options {
        base: data.to_owned(),
        data: data.to_owned(),
        bundled: Vec::new(),
        samples: Vec::new(),
        packed: None,
        metadata_file: None,
        programs: Vec::new(),
        worker: WorkerCommand::new("no worker"),
        probe: probe(),
        power: Arc::new(AlwaysOn),
        keychain: Arc::new(keychain::FakeKeychain::missing()),
        idle_unload: None,
        chat_idle_delay: Duration::ZERO,
        remeasure_delay: Duration::from_millis(10),
        shutdown_timeout: Duration::from_secs(1),
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
