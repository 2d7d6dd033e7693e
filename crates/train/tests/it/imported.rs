//! Adapters of PEFT for each family in `tests/fixtures/training/gradients`: imported, exported and
//! merged, they compute the logits of PEFT.

use crate::exports;
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use hearth_kernels::Quant;
use hearth_llm::{LoadOptions, LoraPart, Model};
use hearth_train::{QuantRecipe, merge};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Minimum cosine similarity of the logits at one position.
const MIN_COSINE: f64 = 0.9999;
/// Maximum difference of a logit, relative to the largest of the position. It sees factors, which a
/// cosine does not. The F16 of keys and values makes up to 3e-3.
const MAX_DIFFERENCE: f32 = 1e-2;

struct Fixture {
    name: &'static str,
    /// The folder of the adapter.
    folder: PathBuf,
    gguf: Gguf,
    base: BaseShape,
    ids: Vec<u32>,
    vocab: usize,
    /// The logits of PEFT.
    logits: Vec<f32>,
}

impl Fixture {
    fn read(name: &'static str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let folder = fixtures.join("training/gradients").join(name);
        let gguf = Gguf::open(fixtures.join(format!("models/{name}.gguf"))).expect("the model opens");
        let json = fs::read_to_string(folder.join("run.json")).expect("the run");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let logits = fs::read(folder.join("logits")).expect("the logits");
        let mut values = vec![0.0; logits.len() / 2];
        Quant::F16.dequantize_row(&logits, &mut values).expect("F16");
        Self {
            name,
            base: BaseShape::from_gguf(&gguf).expect("its sizes"),
            gguf,
            ids: serde_json::from_value(json["ids"].clone()).expect("ids"),
            vocab: json["vocab"].as_u64().expect("a number") as usize,
            logits: values,
            folder,
        }
    }

    fn adapter(&self, path: &Path) -> AdapterFile {
        AdapterFile::open(path, &self.base).unwrap_or_else(|error| panic!("{error}"))
    }

    fn load(&self, gguf: &Gguf) -> Model {
        let options = LoadOptions {
            context: Some(self.ids.len()),
            ..LoadOptions::default()
        };
        Model::load(gguf, &options, &mut |_| ControlFlow::Continue(())).expect("it loads")
    }

    fn adapted(&self, path: &Path) -> Model {
        let parts = LoraPart::from_file(&self.adapter(path), 1.0);
        self.load(&self.gguf).adapted(&parts).expect("it fits")
    }

    /// The lowest cosine similarity with PEFT's logits, and the largest relative difference.
    fn agreement(&self, model: Model) -> (f64, f32) {
        let actual = exports::logits(model, &self.ids);
        assert_eq!(actual.len(), self.logits.len());
        assert!(actual.iter().all(|logit| logit.is_finite()), "{}", self.name);
        let rows = actual
            .chunks_exact(self.vocab)
            .zip(self.logits.chunks_exact(self.vocab));
        rows.fold((1.0, 0.0), |(lowest, largest), (actual, expected)| {
            (
                cosine(actual, expected).min(lowest),
                difference(actual, expected).max(largest),
            )
        })
    }

    fn assert_same_as_peft(&self, what: &str, model: Model) {
        let (name, (cosine, difference)) = (self.name, self.agreement(model));
        println!(
            "{name}, {what}: cosine 1 - {:.0e}, difference {difference:.0e}",
            1.0 - cosine
        );
        assert!(cosine >= MIN_COSINE, "{name}, {what}: cosine {cosine}");
        assert!(difference <= MAX_DIFFERENCE, "{name}, {what}: difference {difference}");
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The largest difference, relative to the largest magnitude in `expected`.
fn difference(actual: &[f32], expected: &[f32]) -> f32 {
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let differences = &mut actual.iter().zip(expected).map(|(a, b)| a - b);
    largest(differences) / largest(&mut expected.iter().copied())
}

fn check(name: &'static str) {
    let fixture = Fixture::read(name);
    let (plain, _) = fixture.agreement(fixture.load(&fixture.gguf));
    assert!(plain < 0.99, "{name}: without the adapter, the cosine is {plain}");

    let converted = fixture.folder.join("adapter.gguf");
    fixture.assert_same_as_peft("PEFT's folder", fixture.adapted(&fixture.folder));
    fixture.assert_same_as_peft("llama.cpp's file", fixture.adapted(&converted));

    let temporary = tempfile::tempdir().expect("a folder");
    let out = exports::folder(&temporary, "imported");
    let adapter = fixture.adapter(&fixture.folder);
    let [peft, gguf, merged] = ["", ".gguf", ".merged.gguf"].map(|end| out.join(format!("{name}{end}")));
    adapter.write_peft(&peft, &fixture.base).expect("it is written");
    adapter.write_gguf(&gguf, &fixture.base).expect("it is written");
    fixture.assert_same_as_peft("an exported folder", fixture.adapted(&peft));
    fixture.assert_same_as_peft("an exported file", fixture.adapted(&gguf));

    let progress = &mut |_: f32| ControlFlow::Continue(());
    merge(&fixture.gguf, &adapter, QuantRecipe::Same, name, &merged, progress).expect("it is merged");
    let merged = Gguf::open(merged).expect("the merged file opens");
    fixture.assert_same_as_peft("a merged file", fixture.load(&merged));
}

macro_rules! families {
    ($($name:ident: $folder:literal),*) => {$(
        #[test]
        fn $name() {
            check($folder);
        }
    )*};
}

families!(
    gemma2: "gemma2",
    granite: "granite",
    mistral: "mistral",
    mistral3: "mistral3",
    olmo2: "olmo2",
    phi3: "phi3-3",
    smollm3: "smollm3"
);
