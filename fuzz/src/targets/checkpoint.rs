//! Arbitrary bytes as a checkpoint: refused, or the run continues.

use super::model::load;
use crate::seeds::{self, Seed, VOCAB};
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_llm::Model;
use hearth_train::{Control, Example, Run, Schedule, Settings, latest_checkpoint};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let gguf = Gguf::from_bytes(seeds::model("llama", TensorType::F32)).expect("a model");
    Arc::new(load(&gguf).expect("it loads"))
});

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fn begun(folder: Option<PathBuf>) -> Run {
    let settings = Settings {
        version: Settings::VERSION,
        rank: 1,
        alpha: 2.0,
        dropout: 0.0,
        rslora: false,
        targets: vec!["attn_q".to_owned(), "ffn_down".to_owned()],
        learning_rate: 1e-3,
        schedule: Schedule::Cosine,
        warmup: 0.1,
        weight_decay: 0.01,
        max_gradient_norm: 1.0,
        epochs: 2.0,
        max_steps: None,
        batch: 1,
        accumulation: 1,
        seed: 1,
        shuffle: true,
        eval_every: 1,
        patience: 0,
        checkpoint_every: 1,
        bf16: false,
        layers_on_tape: 1,
    };
    let example = |first: u32| Example {
        ids: (first..first + 6).map(|id| id % VOCAB as u32).collect(),
        trained: vec![false, true, true, true, true, true],
    };
    let examples = (0..3).map(example).collect();
    Run::new(MODEL.clone(), settings, examples, vec![example(9)], folder).expect("a run")
}

pub fn run(bytes: &[u8]) -> bool {
    let path = FOLDER.path().join("checkpoint.safetensors");
    fs::write(&path, bytes).expect("it is written");
    let mut run = begun(None);
    if run.resume(&path).is_err() {
        return false;
    }
    let made = run.losses().len();
    // One step, if one is left. Values in the file may make it diverge.
    let mut steps = 0;
    let went_on = run.run(&mut |report| {
        steps += usize::from(matches!(report, hearth_train::Report::Step(_)));
        if steps > 0 { Control::Stop } else { Control::Continue }
    });
    if went_on.is_ok() {
        assert_eq!(run.losses().len(), made + steps);
    }
    true
}

pub fn seeds() -> Vec<Seed> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = begun(Some(folder.path().to_owned()));
    let mut steps = 0;
    run.run(&mut |report| {
        steps += usize::from(matches!(report, hearth_train::Report::Step(_)));
        if steps == 2 { Control::Stop } else { Control::Continue }
    })
    .expect("it runs");
    let path = latest_checkpoint(folder.path()).expect("a checkpoint");
    vec![Seed::new("two steps", fs::read(path).expect("it is read"))]
}
