//! Small model files that a test may do anything to.

use hearth_formats::gguf::{GgufWriter, Metadata, TensorHeader, TensorType};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes a model of one tensor and says where.
pub fn model(folder: &Path, file: &str) -> PathBuf {
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture", "llama");
    metadata.insert("general.name", "A tiny model");
    metadata.insert("llama.context_length", 2048u32);
    let header = TensorHeader {
        name: "weight".into(),
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
