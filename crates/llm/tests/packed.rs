//! Packed weights that were kept from an earlier load: the same answers, and whatever happens to
//! their file costs time alone.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use hearth_kernels::Quant;
use hearth_llm::{LoadOptions, Model, Session};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A model in Q4_0 with its embedding in F32, which keeps its order, and a folder for what is made
/// of it.
struct Kept {
    folder: tempfile::TempDir,
}

impl Kept {
    fn new() -> Self {
        let kept = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        quantize(&kept.model());
        kept
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model.gguf")
    }

    fn packed_in(&self) -> PathBuf {
        self.folder.path().join("cache/packed")
    }

    /// The logits after some tokens, of a model that was loaded just now.
    fn logits(&self, packed_in: Option<PathBuf>) -> Vec<f32> {
        let gguf = Gguf::open(self.model()).expect("it opens");
        let options = LoadOptions {
            packed_in,
            ..LoadOptions::default()
        };
        let model = Model::load(&gguf, &options, &mut |_, _| ControlFlow::Continue(())).expect("it loads");
        drop(gguf);
        let mut session = Session::new(Arc::new(model), 16).expect("a session");
        session.extend(&[1, 2, 3, 5, 8]).expect("it runs")
    }

    /// Loads with the folder, and proves that the logits are those of a load without one.
    fn check(&self) {
        assert!(self.logits(Some(self.packed_in())) == self.logits(None));
    }

    /// What the folder holds, by name.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.packed_in()).expect("the folder was made");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        files
    }

    /// The one file in it.
    fn file(&self) -> PathBuf {
        match &*self.files() {
            [file] => file.clone(),
            files => panic!("one file was expected: {files:?}"),
        }
    }
}

/// The fixture `llama` with its matrices in Q4_0, but for the embedding.
fn quantize(path: &Path) {
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
        let bytes = gguf.tensor(&info.name).expect("it is there").bytes();
        let bytes = match is_matrix(&info.name) {
            false => bytes.to_vec(),
            true => {
                let (numbers, _) = bytes.as_chunks();
                let numbers: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
                let mut blocks = vec![0; Quant::Q4_0.row_bytes(numbers.len()).expect("whole blocks")];
                Quant::Q4_0.quantize_row(&numbers, &mut blocks).expect("it fits");
                blocks
            }
        };
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("it is whole");
}

/// Flips a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("the file");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn a_second_load_takes_what_the_first_packed() {
    let kept = Kept::new();
    kept.check();
    let file = kept.file();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let before = fs::read(&file).expect("the file");
    File::options()
        .append(true)
        .open(&file)
        .expect("the file")
        .set_modified(long_ago)
        .expect("a time");
    kept.check();
    assert!(fs::read(kept.file()).expect("the file") == before);
    let used = fs::metadata(&file).and_then(|about| about.modified()).expect("a time");
    assert!(used > long_ago, "it was not marked as used");
}

#[test]
fn a_damaged_file_is_made_again() {
    let kept = Kept::new();
    kept.check();
    let (file, whole) = (kept.file(), fs::read(kept.file()).expect("the file"));
    let table = whole.len() - 10;
    for at in [0, 9, 17, table] {
        flip(&file, at);
        kept.check();
        assert!(fs::read(kept.file()).expect("the file") == whole, "{at}");
    }
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).expect("it is cut");
        kept.check();
        assert!(fs::read(kept.file()).expect("the file") == whole, "{length}");
    }
    // Among the weights, in the embedding and in what is packed: what is sound is taken, the rest
    // packed, and the next load makes it anew.
    let table_at = u64::from_le_bytes(whole.as_chunks().0[1]) as usize;
    for at in [1000, table_at - 100] {
        flip(&file, at);
        kept.check();
        assert!(kept.files().is_empty(), "{at}");
        kept.check();
        assert!(fs::read(kept.file()).expect("the file") == whole, "{at}");
    }
}

#[test]
fn another_model_at_the_same_place_is_packed_anew() {
    let kept = Kept::new();
    kept.check();
    let file = kept.file();
    let about = fs::metadata(kept.model()).expect("the model");
    // In the last matrix' last scale, with the times as they were.
    let length = about.len() as usize;
    flip(&kept.model(), length - 400);
    let model = File::options().append(true).open(kept.model()).expect("the model");
    model.set_modified(about.modified().expect("a time")).expect("a time");
    kept.check();
    assert_eq!(kept.files().len(), 2);
    // The same bytes, written anew.
    fs::remove_file(&file).expect("it goes");
    model
        .set_modified(SystemTime::now() + Duration::from_secs(5))
        .expect("a time");
    kept.check();
    assert_eq!(kept.files().len(), 2);
}

#[test]
fn a_folder_that_cannot_be_written_to_costs_time_alone() {
    let kept = Kept::new();
    // Not even root can make a folder in a file.
    let packed_in = kept.model().join("packed");
    assert!(kept.logits(Some(packed_in)) == kept.logits(None));
}

#[test]
fn a_load_that_is_given_up_leaves_nothing() {
    let kept = Kept::new();
    let gguf = Gguf::open(kept.model()).expect("it opens");
    let options = LoadOptions {
        packed_in: Some(kept.packed_in()),
        ..LoadOptions::default()
    };
    let mut left = 6;
    let given_up = Model::load(&gguf, &options, &mut |_, _| {
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(given_up.is_err());
    assert!(kept.files().is_empty());
}
