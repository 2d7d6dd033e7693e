//! The tiny random models of `tests/fixtures/models`, and their reference logits. `make.py` and
//! `architectures.py` there describe the files.

use hearth_formats::gguf::Gguf;
use hearth_llm::{LoadOptions, Model};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum distance from the reference logits of a position. The cosine of the two is then above
/// 0.9999; but a cosine does not see a factor of all logits.
pub const MAX_DISTANCE: f64 = 0.01;

/// A model, and its logits in `transformers`.
pub struct Fixture {
    pub name: String,
    pub ids: Vec<u32>,
    pub vocab: usize,
    pub references: Vec<Reference>,
    gguf: Gguf,
}

/// Logits after some of the first tokens.
pub struct Reference {
    /// The context that the model is loaded for, in tokens; `None` if it changes nothing.
    pub context: Option<usize>,
    /// The number of fed tokens.
    pub fed: usize,
    /// Positions and logits after them.
    pub rows: Vec<(usize, Vec<f32>)>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

impl Fixture {
    pub fn read(name: &str) -> Self {
        let base = folder().join(name);
        let text = fs::read_to_string(base.with_extension("json")).expect("the description");
        let description: Value = serde_json::from_str(&text).expect("JSON");
        let vocab = description["vocab"].as_u64().expect("a number") as usize;
        let ids = indices(&description["ids"]);
        let bytes = fs::read(base.with_extension("logits")).expect("the logits");
        let references = match description["references"].as_array() {
            Some(listed) => compact(listed, &bytes, vocab),
            None => vec![complete(&bytes, vocab)],
        };
        Self {
            name: name.to_owned(),
            ids: ids.iter().map(|id| *id as u32).collect(),
            vocab,
            references,
            gguf: Gguf::open(base.with_extension("gguf")).expect("the model opens"),
        }
    }

    /// The model for a context of this many tokens, on the CPU.
    pub fn model(&self, context: Option<usize>) -> Arc<Model> {
        self.load(&LoadOptions {
            context,
            ..LoadOptions::default()
        })
    }

    pub fn load(&self, options: &LoadOptions) -> Arc<Model> {
        let model = Model::load(&self.gguf, options, &mut |_| ControlFlow::Continue(()));
        Arc::new(model.expect("it loads"))
    }
}

impl Reference {
    /// Panics unless the logits of all positions, which are consecutive rows, are those expected.
    pub fn assert_near(&self, case: &str, actual: &[f32]) {
        let vocab = actual.len() / self.fed;
        for (position, expected) in &self.rows {
            let distance = distance(&actual[position * vocab..][..vocab], expected);
            assert!(
                distance < MAX_DISTANCE,
                "{case}, position {position}: a distance of {distance}"
            );
        }
    }
}

/// The names of all models in the folder, sorted.
pub fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).expect("the folder");
    let paths = files.map(|file| file.expect("it can be listed").path());
    let models = paths.filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<_> = models.map(stem).collect();
    names.sort_unstable();
    names
}

/// The file of `make.py`: a row in f32 for every token.
fn complete(bytes: &[u8], vocab: usize) -> Reference {
    let (logits, _) = bytes.as_chunks();
    let logits: Vec<f32> = logits.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let rows: Vec<_> = logits.chunks_exact(vocab).map(<[f32]>::to_vec).enumerate().collect();
    Reference {
        context: None,
        fed: rows.len(),
        rows,
    }
}

/// The file of `architectures.py`: rows in f16 for the listed positions. Where `transformers` and
/// llama.cpp differ, Hearth follows `transformers`.
fn compact(listed: &[Value], bytes: &[u8], vocab: usize) -> Vec<Reference> {
    let mut rows = bytes.chunks_exact(size_of::<half::f16>() * vocab);
    let mut references: Vec<Reference> = Vec::new();
    for value in listed {
        let context = value["context"].as_u64().map(|context| context as usize);
        let fed = value["fed"].as_u64().expect("a number") as usize;
        let positions = indices(&value["positions"]);
        let read: Vec<_> = positions.into_iter().zip(rows.by_ref().map(half_row)).collect();
        if value["by"] == "llama.cpp" {
            continue;
        }
        let same = references
            .iter_mut()
            .find(|other| (other.context, other.fed) == (context, fed));
        match same {
            Some(same) => same.rows.extend(read),
            None => references.push(Reference {
                context,
                fed,
                rows: read,
            }),
        }
    }
    assert!(rows.next().is_none(), "logits of no position");
    references
}

fn half_row(bytes: &[u8]) -> Vec<f32> {
    let (logits, _) = bytes.as_chunks();
    logits
        .iter()
        .map(|bytes| half::f16::from_le_bytes(*bytes).to_f32())
        .collect()
}

fn indices(list: &Value) -> Vec<usize> {
    let list = list.as_array().expect("a list").iter();
    list.map(|index| index.as_u64().expect("an index") as usize).collect()
}

/// The length of the difference, relative to the length of `expected`. NaN if a number is.
pub fn distance(actual: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let square = |x: f64| x * x;
    let difference = actual
        .iter()
        .zip(expected)
        .map(|(a, e)| square(f64::from(*a) - f64::from(*e)));
    let length = expected.iter().map(|e| square(f64::from(*e)));
    (difference.sum::<f64>() / length.sum::<f64>()).sqrt()
}
