//! Going on with a run: on the model that it was begun on, by the rules that it was begun by, or not at all.

use hearth_engine::training::{Wish, Wishes, train};
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader};
use hearth_protocol::{
    DataSource, GpuLayers, Precision, Problem, StepReport, TrainRequest, TrainSettings, TrainingEvent,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/models")
        .join(name)
        .with_extension("gguf")
}

/// Rewrites the fixture `llama`, with one byte of one tensor changed if there is a name.
fn write_model(path: &Path, changed: Option<&str>) {
    let gguf = Gguf::open(fixture("llama")).expect("the fixture opens");
    let header = |info: &hearth_formats::gguf::TensorInfo| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    };
    let headers: Vec<_> = gguf.tensors().map(header).collect();
    let file = fs::File::create(path).expect("a file");
    let mut writer = GgufWriter::begin(file, gguf.metadata(), &headers).expect("a header");
    for header in &headers {
        let mut bytes = gguf.tensor(&header.name).expect("it is there").bytes().to_vec();
        if changed == Some(header.name.as_str()) {
            bytes[0] ^= 1;
        }
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("it is whole");
}

/// A run of four steps on `model.gguf`, stopped after two.
struct Stopped {
    folder: TempDir,
}

const STEPS: u32 = 4;

impl Stopped {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line = |i: usize| format!("{{\"text\": \"Tale {i}: once there was a fox number {i} in the wood.\"}}\n");
        fs::write(folder.path().join("data.jsonl"), (0..12).map(line).collect::<String>()).expect("it is written");
        let stopped = Self { folder };
        write_model(&stopped.path("model.gguf"), None);
        let steps = stopped.run("model.gguf", false, Some(2)).expect("it begins");
        assert_eq!(steps.len(), 2);
        stopped
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_file(&self) -> PathBuf {
        self.path("run/run.json")
    }

    /// The steps that are made.
    fn run(&self, model: &str, resume: bool, stop_after: Option<u32>) -> Result<Vec<StepReport>, Problem> {
        let request = TrainRequest {
            id: 1,
            model: self.path(model),
            data: DataSource {
                path: self.path("data.jsonl"),
                mapping: None,
                skip_broken: false,
            },
            out: self.path("run"),
            settings: TrainSettings {
                rank: 4,
                learning_rate: 1e-2,
                warmup: 0.5,
                max_steps: Some(STEPS),
                epochs: Some(9.0),
                precision: Precision::F32,
                ..TrainSettings::default()
            },
            resume,
            threads: Some(2),
            device: Some("cpu".to_owned()),
            build: None,
            gpu_layers: GpuLayers::Auto,
            low_priority: false,
        };
        let (wishes, mut steps) = (Wishes::default(), Vec::new());
        train(&request, &wishes, &mut |event| {
            if let TrainingEvent::Step(step) = event {
                if Some(step.step) == stop_after {
                    wishes.set(Wish::Stop);
                }
                steps.push(step);
            }
        })?;
        Ok(steps)
    }

    /// Every file of the run, to the bit.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path("run")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(files.insert(path.clone(), fs::read(&path).expect("a file"))),
                }
            }
        }
        files
    }

    /// That it is refused to go on, in these words, and that nothing of the run changes.
    #[track_caller]
    fn is_refused(&self, model: &str, says: &[&str]) {
        let before = self.files();
        assert!(before.len() > 3, "{:?}", before.keys());
        let problem = self.run(model, true, None).expect_err("it is refused");
        for says in says.iter().chain(&["Nothing was changed"]) {
            assert!(problem.message.contains(says), "{says}: {}", problem.message);
        }
        assert!(self.files() == before, "something was changed: {}", problem.message);
    }

    /// Changes the run's description.
    fn edit(&self, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
        let text = fs::read_to_string(self.run_file()).expect("a run");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        change(json.as_object_mut().expect("an object"));
        fs::write(self.run_file(), json.to_string()).expect("it is written");
    }
}

#[test]
fn another_base_is_refused_by_what_differs_and_nothing_is_touched() {
    let stopped = Stopped::new();
    for (changed, says) in [
        ("blk.1.ffn_down.weight", "same sizes and norms but other weights"),
        ("blk.1.ffn_norm.weight", "other weights of the same sizes"),
    ] {
        write_model(&stopped.path("other.gguf"), Some(changed));
        stopped.is_refused("other.gguf", &["'model.gguf'", says]);
    }
    fs::copy(fixture("qwen2"), stopped.path("other.gguf")).expect("a copy");
    stopped.is_refused("other.gguf", &["architecture"]);
    // On its own it still goes on.
    let steps = stopped.run("model.gguf", true, None).expect("it goes on");
    assert_eq!(steps.iter().map(|step| step.step).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn the_same_weights_in_another_file_do() {
    let stopped = Stopped::new();
    // Rewritten at another time, under another name.
    write_model(&stopped.path("moved.gguf"), None);
    assert_eq!(stopped.run("moved.gguf", true, None).expect("it goes on").len(), 2);
}

#[test]
fn a_run_from_before_bases_were_written_down_goes_on() {
    let stopped = Stopped::new();
    stopped.edit(|run| assert!(run.remove("base").is_some()));
    assert_eq!(stopped.run("model.gguf", true, None).expect("it goes on").len(), 2);
    // From here on its base is known.
    write_model(&stopped.path("other.gguf"), Some("blk.1.ffn_norm.weight"));
    stopped.is_refused("other.gguf", &["other weights of the same sizes"]);
}

#[test]
fn a_run_from_before_settings_had_a_version_keeps_its_learning_rates() {
    let stopped = Stopped::new();
    let rates = |steps: &[StepReport]| -> Vec<f64> { steps.iter().map(|step| step.learning_rate / 1e-2).collect() };
    // Its checkpoint has the new settings; without one the run restarts with the settings of its run.json.
    fs::remove_file(stopped.path("run/checkpoint.safetensors")).expect("a checkpoint");
    let new = rates(&stopped.run("model.gguf", true, None).expect("it goes on"));
    assert_eq!(new, [0.0, 0.5, 1.0, 0.5]);
    fs::remove_file(stopped.path("run/checkpoint.safetensors")).expect("a checkpoint");
    stopped.edit(|run| {
        assert!(
            run["settings"]
                .as_object_mut()
                .expect("settings")
                .remove("version")
                .is_some()
        )
    });
    let old = rates(&stopped.run("model.gguf", true, None).expect("it goes on"));
    assert_eq!(old, [0.5, 1.0, 1.0, 0.5]);
    // And from its own checkpoint.
    assert!(stopped.run("model.gguf", true, None).expect("it goes on").is_empty());
}

#[test]
fn a_run_that_cannot_be_read_is_refused_and_not_begun_anew() {
    let stopped = Stopped::new();
    let text = fs::read(stopped.run_file()).expect("a run");
    fs::write(stopped.run_file(), &text[..text.len() / 2]).expect("it is written");
    stopped.is_refused("model.gguf", &["run.json cannot be read"]);
    fs::remove_file(stopped.run_file()).expect("it is there");
    stopped.is_refused("model.gguf", &["run.json is gone"]);
}
