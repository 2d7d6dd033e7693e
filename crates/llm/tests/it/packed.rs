//! Packed weights from the cache give the same logits, and an invalid cache file costs only time.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::Quant;
use hearth_llm::{LoadOptions, Model, Session};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A model in Q4_0 and a folder for its packed weights. The embedding is in F32, which is copied
/// and not repacked.
struct PackedModel {
    folder: tempfile::TempDir,
}

impl PackedModel {
    fn new() -> Self {
        let packed_model = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        write_model(&packed_model.model());
        packed_model
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model.gguf")
    }

    fn packed_in(&self) -> PathBuf {
        self.folder.path().join("cache/packed")
    }

    /// Loads the model and returns its logits after some tokens.
    fn logits(&self, packed_in: Option<PathBuf>) -> Vec<f32> {
        let gguf = Gguf::open(self.model()).expect("it opens");
        let options = LoadOptions {
            packed_in,
            ..LoadOptions::default()
        };
        let model = Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(())).expect("it loads");
        drop(gguf);
        let mut session = Session::new(Arc::new(model), 16).expect("a session");
        session.extend(&[1, 2, 3, 5, 8]).expect("it runs")
    }

    /// Checks that loads with and without the folder give the same logits.
    fn check(&self) {
        assert!(self.logits(Some(self.packed_in())) == self.logits(None));
    }

    /// The files in the folder, sorted.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.packed_in()).expect("the folder");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        files
    }

    /// The only file in the folder.
    fn file(&self) -> PathBuf {
        match &*self.files() {
            [file] => file.clone(),
            files => panic!("one file was expected: {files:?}"),
        }
    }
}

/// Writes the fixture `llama` with its matrices in Q4_0, except for the embedding.
fn write_model(path: &Path) {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let is_matrix = |name: &str| name.ends_with("weight") && !name.contains("norm") && !name.contains("embd");
    let headers = gguf.tensors().map(|info| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: if is_matrix(&info.name) {
            TensorType::Q4_0
        } else {
            info.kind
        },
    });
    let file = File::create(path).expect("a file");
    let mut writer = GgufWriter::begin(file, gguf.metadata(), &headers.collect::<Vec<_>>()).expect("a header");
    for info in gguf.tensors() {
        let bytes = gguf.tensor(&info.name).expect("a tensor").bytes();
        let bytes = if is_matrix(&info.name) {
            let (numbers, _) = bytes.as_chunks();
            let numbers: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
            let mut blocks = vec![0; Quant::Q4_0.row_bytes(numbers.len()).expect("whole blocks")];
            Quant::Q4_0.quantize_row(&numbers, &mut blocks).expect("it fits");
            blocks
        } else {
            bytes.to_vec()
        };
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("a complete file");
}

/// Flips a bit of the byte at `offset`.
fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).expect("the file");
    bytes[offset] ^= 0x10;
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn a_second_load_uses_the_packed_weights() {
    let packed_model = PackedModel::new();
    packed_model.check();
    let file = packed_model.file();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let before = fs::read(&file).expect("the file");
    File::options()
        .append(true)
        .open(&file)
        .expect("the file")
        .set_modified(long_ago)
        .expect("a time");
    packed_model.check();
    assert!(fs::read(packed_model.file()).expect("the file") == before);
    let last_used = fs::metadata(&file)
        .and_then(|metadata| metadata.modified())
        .expect("a time");
    assert!(last_used > long_ago, "the time of last use was not set");
}

#[test]
fn a_corrupt_file_is_rewritten() {
    let packed_model = PackedModel::new();
    packed_model.check();
    let file = packed_model.file();
    let valid = fs::read(&file).expect("the file");
    let in_table = valid.len() - 10;
    for offset in [0, 9, 17, in_table] {
        flip(&file, offset);
        packed_model.check();
        assert!(fs::read(packed_model.file()).expect("the file") == valid, "{offset}");
    }
    for length in [0, 10, valid.len() / 2, valid.len() - 1] {
        fs::write(&file, &valid[..length]).expect("it is truncated");
        packed_model.check();
        assert!(fs::read(packed_model.file()).expect("the file") == valid, "{length}");
    }
    // In the embedding and in the last matrix. The load uses the valid matrices, packs the others
    // and deletes the file, and the next load writes it again.
    let table_offset = u64::from_le_bytes(valid.as_chunks().0[1]) as usize;
    for offset in [1000, table_offset - 100] {
        flip(&file, offset);
        packed_model.check();
        assert!(packed_model.files().is_empty(), "{offset}");
        packed_model.check();
        assert!(fs::read(packed_model.file()).expect("the file") == valid, "{offset}");
    }
}

#[test]
fn another_model_at_the_same_path_is_packed_again() {
    let packed_model = PackedModel::new();
    packed_model.check();
    let file = packed_model.file();
    let metadata = fs::metadata(packed_model.model()).expect("the model");
    // Changes a scale in the last matrix, but no file time.
    let length = metadata.len() as usize;
    flip(&packed_model.model(), length - 400);
    let model = File::options()
        .append(true)
        .open(packed_model.model())
        .expect("the model");
    model
        .set_modified(metadata.modified().expect("a time"))
        .expect("a time");
    packed_model.check();
    assert_eq!(packed_model.files().len(), 2);
    // Changes the file time, but no bytes.
    fs::remove_file(&file).expect("it is deleted");
    model
        .set_modified(SystemTime::now() + Duration::from_secs(5))
        .expect("a time");
    packed_model.check();
    assert_eq!(packed_model.files().len(), 2);
}

#[test]
fn an_unwritable_folder_costs_only_time() {
    let packed_model = PackedModel::new();
    // Not even root can create a folder in a file.
    let packed_in = packed_model.model().join("packed");
    assert!(packed_model.logits(Some(packed_in)) == packed_model.logits(None));
}

#[test]
fn a_cancelled_load_leaves_no_file() {
    let packed_model = PackedModel::new();
    let gguf = Gguf::open(packed_model.model()).expect("it opens");
    let options = LoadOptions {
        packed_in: Some(packed_model.packed_in()),
        ..LoadOptions::default()
    };
    let mut remaining_calls = 6;
    let result = Model::load(&gguf, &options, &mut |_| {
        remaining_calls -= 1;
        if remaining_calls == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(result.is_err());
    assert!(packed_model.files().is_empty());
}
