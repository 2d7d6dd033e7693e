//! Tests the resume of a run, which requires its original base model and keeps its original
//! settings.

use hearth_engine::training::{RunControl, RunFolder, export, train};
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader};
use hearth_protocol::{
    DataSource, ExportFormat, ExportRequest, GpuLayers, Notice, Outcome, Precision, Problem, RunCommand, StepReport,
    TrainRequest, TrainSettings, TrainingEvent,
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

/// Writes the fixture `llama`, with one byte of the tensor `changed` changed.
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
        let mut bytes = gguf.tensor(&header.name).expect("it exists").bytes().to_vec();
        if changed == Some(header.name.as_str()) {
            bytes[0] ^= 1;
        }
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("it is complete");
}

/// A run of four steps on `model.gguf` that was stopped after two steps.
struct StoppedRun {
    folder: TempDir,
}

const STEPS: u32 = 4;

impl StoppedRun {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line = |i: usize| format!("{{\"text\": \"Tale {i}: once there was a fox number {i} in the wood.\"}}\n");
        fs::write(folder.path().join("data.jsonl"), (0..12).map(line).collect::<String>()).expect("it is written");
        let stopped = Self { folder };
        write_model(&stopped.path("model.gguf"), None);
        let steps = stopped.train("model.gguf", false, Some(2)).expect("it begins");
        assert_eq!(steps.len(), 2);
        stopped
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_file(&self) -> PathBuf {
        self.path("run/run.json")
    }

    /// A run of Hearth at commit ba366ad that was stopped after four steps; see
    /// `tests/fixtures/v0/make.py`.
    fn from_v0() -> Self {
        let stopped = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let fixtures = fixture("llama").parent().expect("a folder").join("../v0");
        fs::create_dir_all(stopped.path("run/adapter")).expect("a folder");
        for file in [
            "run.json",
            "log.jsonl",
            "checkpoint.safetensors",
            "adapter/adapter_config.json",
            "adapter/adapter_model.safetensors",
            "adapter/hearth.json",
        ] {
            fs::copy(fixtures.join("run").join(file), stopped.path("run").join(file)).expect("a copy");
        }
        fs::copy(fixtures.join("tales.jsonl"), stopped.path("data.jsonl")).expect("a copy");
        fs::copy(fixture("llama"), stopped.path("model.gguf")).expect("a copy");
        stopped
    }

    /// Trains, and returns the steps.
    fn train(&self, model: &str, resume: bool, stop_after: Option<u32>) -> Result<Vec<StepReport>, Problem> {
        let (mut steps, control) = (Vec::new(), RunControl::default());
        train(&self.request(model, resume), &control, &mut |event| {
            if let TrainingEvent::Step(step) = event {
                if Some(step.step) == stop_after {
                    control.set(RunCommand::Stop);
                }
                steps.push(step);
            }
        })?;
        Ok(steps)
    }

    /// Resumes the run to its end. Returns the plan's notices and the outcome.
    fn finish(&self) -> Result<(Vec<Notice>, Outcome), Problem> {
        let mut notices = Vec::new();
        let outcome = train(
            &self.request("model.gguf", true),
            &RunControl::default(),
            &mut |event| {
                if let TrainingEvent::Planned(plan) = event {
                    notices = plan.notices;
                }
            },
        )?;
        Ok((notices, outcome.expect("it was not suspended")))
    }

    fn request(&self, model: &str, resume: bool) -> TrainRequest {
        TrainRequest {
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
        }
    }

    /// The saved adapter.
    fn adapter(&self) -> AdapterFile {
        let gguf = Gguf::open(self.path("model.gguf")).expect("the model opens");
        let base = BaseShape::from_gguf(&gguf).expect("its sizes");
        AdapterFile::open(&RunFolder(self.path("run")).adapter(), &base).expect("an adapter")
    }

    /// The contents of all files of the run.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path("run")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    drop(files.insert(path.clone(), fs::read(&path).expect("a file")))
                }
            }
        }
        files
    }

    /// Asserts that a resume is refused with a message that contains these texts, and that no file
    /// of the run changes.
    #[track_caller]
    fn assert_refused(&self, model: &str, expected: &[&str]) {
        let before = self.files();
        assert!(before.len() > 3, "{:?}", before.keys());
        let problem = self.train(model, true, None).expect_err("it is refused");
        for text in expected.iter().chain(&["Nothing was changed"]) {
            assert!(problem.to_string().contains(text), "{text}: {problem}");
        }
        assert!(self.files() == before, "something was changed: {problem}");
    }

    /// Edits `run.json`.
    fn edit(&self, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
        let text = fs::read_to_string(self.run_file()).expect("a run");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        change(json.as_object_mut().expect("an object"));
        fs::write(self.run_file(), json.to_string()).expect("it is written");
    }
}

#[test]
fn another_base_model_is_refused_with_the_difference_and_no_changes() {
    let stopped = StoppedRun::new();
    for (changed, expected) in [
        ("blk.1.ffn_down.weight", "same sizes and norms but different weights"),
        ("blk.1.ffn_norm.weight", "different weights of the same sizes"),
    ] {
        write_model(&stopped.path("other.gguf"), Some(changed));
        stopped.assert_refused("other.gguf", &["'model.gguf'", expected]);
    }
    fs::copy(fixture("qwen2"), stopped.path("other.gguf")).expect("a copy");
    stopped.assert_refused("other.gguf", &["architecture"]);
    // With the original base model, the run resumes.
    let steps = stopped.train("model.gguf", true, None).expect("it continues");
    assert_eq!(steps.iter().map(|step| step.step).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn the_same_weights_in_another_file_are_accepted() {
    let stopped = StoppedRun::new();
    // Another file name and modification time.
    write_model(&stopped.path("moved.gguf"), None);
    assert_eq!(stopped.train("moved.gguf", true, None).expect("it continues").len(), 2);
}

#[test]
fn a_run_without_a_recorded_base_model_resumes() {
    let stopped = StoppedRun::new();
    stopped.edit(|run| assert!(run.remove("base").is_some()));
    assert_eq!(stopped.train("model.gguf", true, None).expect("it continues").len(), 2);
    // The resume has recorded the base model.
    write_model(&stopped.path("other.gguf"), Some("blk.1.ffn_norm.weight"));
    stopped.assert_refused("other.gguf", &["different weights of the same sizes"]);
}

#[test]
fn a_run_without_a_settings_version_keeps_its_learning_rates() {
    let stopped = StoppedRun::new();
    let rates = |steps: &[StepReport]| -> Vec<f64> { steps.iter().map(|step| step.learning_rate / 1e-2).collect() };
    // The checkpoint has the new settings. Without it, the run restarts with the settings of
    // run.json.
    fs::remove_file(stopped.path("run/checkpoint.safetensors")).expect("a checkpoint");
    let new = rates(&stopped.train("model.gguf", true, None).expect("it continues"));
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
    let old = rates(&stopped.train("model.gguf", true, None).expect("it continues"));
    assert_eq!(old, [0.5, 1.0, 1.0, 0.5]);
    // The run also resumes from a checkpoint with these settings.
    assert!(
        stopped
            .train("model.gguf", true, None)
            .expect("it continues")
            .is_empty()
    );
}

#[test]
fn an_unreadable_run_is_refused_and_not_restarted() {
    let stopped = StoppedRun::new();
    let text = fs::read(stopped.run_file()).expect("a run");
    fs::write(stopped.run_file(), &text[..text.len() / 2]).expect("it is written");
    stopped.assert_refused("model.gguf", &["run.json cannot be read"]);
    fs::write(stopped.run_file(), b"\xff\xfe{}").expect("it is written");
    stopped.assert_refused("model.gguf", &["run.json cannot be read"]);
    fs::remove_file(stopped.run_file()).expect("it exists");
    stopped.assert_refused("model.gguf", &["run.json is missing"]);
    fs::create_dir(stopped.run_file()).expect("a folder");
    stopped.assert_refused("model.gguf", &["run.json cannot be read"]);
}

#[test]
fn no_run_overwrites_another() {
    let stopped = StoppedRun::new();
    let before = stopped.files();
    let refused = |resume: bool| {
        let problem = stopped.train("model.gguf", resume, None).expect_err("it is refused");
        problem.to_string()
    };
    assert!(refused(false).contains("Resume that run"));
    let notes = stopped.path("run/adapter/notes.txt");
    fs::write(&notes, "the user's").expect("it is written");
    assert!(refused(true).contains("notes.txt"));
    fs::remove_file(notes).expect("it exists");
    let other = fs::File::open(stopped.path("run/.lock")).expect("a lock");
    other.try_lock().expect("it is free");
    assert!(refused(true).contains("Another Hearth process"));
    assert!(stopped.files() == before);
    drop(other);
    stopped.train("model.gguf", true, None).expect("it continues");
}

#[test]
fn a_run_of_a_newer_hearth_is_refused_without_changes() {
    let stopped = StoppedRun::new();
    let text = fs::read(stopped.run_file()).expect("a run");
    let changes: [(&str, serde_json::Value); 2] = [("version", 3.into()), ("schedule", "spiral".into())];
    for (field, value) in changes {
        stopped.edit(|run| run["settings"][field] = value);
        stopped.assert_refused("model.gguf", &["the version of Hearth that wrote it"]);
        fs::write(stopped.run_file(), &text).expect("it is written");
    }
    let path = stopped.path("run/checkpoint.safetensors");
    let old = fs::read(&path).expect("a checkpoint");
    let version = br#"{\"version\":1,"#;
    let start = old
        .windows(version.len())
        .position(|bytes| bytes == version)
        .expect("a version");
    let mut new = old.clone();
    new[start + version.len() - 2] = b'2';
    fs::write(&path, &new).expect("it is written");
    stopped.assert_refused(
        "model.gguf",
        &["version 2", "resume it with the version of Hearth that wrote it"],
    );
    fs::write(&path, &old[..old.len() - 7]).expect("it is written");
    stopped.assert_refused("model.gguf", &["corrupt"]);
    fs::write(&path, &old).expect("it is written");
    assert_eq!(stopped.train("model.gguf", true, None).expect("it continues").len(), 2);
}

#[test]
fn a_run_of_v0_resumes() {
    let stopped = StoppedRun::from_v0();
    let before = stopped.adapter();
    let manifest = before.manifest.expect("hearth.json");
    assert_eq!((manifest.base.file.as_str(), manifest.seed), ("llama.gguf", 42));
    assert_eq!(manifest.metrics["best_step"], 4);
    let run = RunFolder(stopped.path("run"));
    let losses = run.losses();
    let run_file = run.read().expect("a run");
    assert_eq!(
        (
            run_file.settings.version,
            run_file.settings.rank,
            run_file.sequence,
            run_file.prompts.len()
        ),
        (1, 1, 64, 3)
    );
    assert_eq!((losses.len(), run_file.base, run_file.init), (4, None, None));
    write_model(&stopped.path("other.gguf"), Some("blk.1.ffn_norm.weight"));

    let steps = stopped.train("model.gguf", true, Some(6)).expect("it continues");
    // The run keeps its original settings, in which the learning rate rises from the first of 120
    // steps.
    let rates: Vec<f64> = steps.iter().map(|step| step.learning_rate / 2e-4 * 120.0).collect();
    assert!(
        rates.len() == 2 && (rates[0] - 5.0).abs() < 1e-9 && (rates[1] - 6.0).abs() < 1e-9,
        "{rates:?}"
    );
    assert_eq!(run.losses()[..4], losses);
    stopped.adapter();
    stopped.assert_refused("other.gguf", &["different weights of the same sizes"]);
}

#[test]
fn a_run_with_a_lost_adapter_resumes_from_its_checkpoint_with_a_notice() {
    let stopped = StoppedRun::new();
    let (notices, outcome) = stopped.finish().expect("it ends");
    assert!(notices.is_empty() && outcome.eval_loss.is_some(), "{notices:?}");
    // The adapter may be lost after a kill between two renames of an early version.
    for name in ["run/adapter/adapter_config.json", "run/adapter"] {
        let path = stopped.path(name);
        let result = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        result.expect("it is removed");
        let (notices, outcome) = stopped.finish().expect("it ends");
        assert!(
            notices
                .iter()
                .any(|notice| notice.to_string().contains("last checkpoint")),
            "{notices:?}"
        );
        assert_eq!((outcome.steps, outcome.eval_loss), (STEPS, None));
        let scores = stopped.adapter().manifest.expect("hearth.json").metrics;
        assert!(scores["eval_loss"].is_null() && scores["general_after"].is_number());
    }
}

/// Replaces the loss of an evaluation in a checkpoint by 0, so that no later evaluation is better.
fn make_unbeatable(checkpoint: &Path, loss: f64) {
    let mut bytes = fs::read(checkpoint).expect("a checkpoint");
    let start = bytes.windows(8).position(|bytes| bytes == loss.to_le_bytes());
    bytes[start.expect("the loss")..][..8].fill(0);
    fs::write(checkpoint, bytes).expect("it is written");
}

/// Asserts the step and the validation loss of the saved adapter in the outcome and in its
/// manifest.
#[track_caller]
fn assert_score(outcome: &Outcome, adapter: &AdapterFile, (step, loss): (u32, f64)) {
    let metrics = &adapter.manifest.as_ref().expect("hearth.json").metrics;
    assert_eq!(
        (outcome.best_step, metrics["best_step"].as_u64()),
        (step, Some(u64::from(step)))
    );
    for actual in [outcome.eval_loss, metrics["eval_loss"].as_f64()] {
        // JSON may round the loss.
        assert!(
            actual.is_some_and(|actual| (actual - loss).abs() < 1e-12),
            "{actual:?}, not {loss}"
        );
    }
}

#[test]
fn the_score_after_a_stop_between_evaluations_is_of_the_saved_adapter() {
    let stopped = StoppedRun::new();
    fs::remove_dir_all(stopped.path("run")).expect("a run");
    let (control, mut losses) = (RunControl::default(), BTreeMap::new());
    let mut request = stopped.request("model.gguf", false);
    request.settings.eval_every = Some(2);
    train(&request, &control, &mut |event| match event {
        TrainingEvent::Step(step) if step.step == 3 => control.set(RunCommand::Stop),
        TrainingEvent::Evaluated { step, loss, .. } => drop(losses.insert(step, loss.expect("a number"))),
        _ => {}
    })
    .expect("it ends");
    assert!(losses[&3] < losses[&2], "{losses:?}");
    let adapter = stopped.adapter();
    make_unbeatable(&stopped.path("run/checkpoint.safetensors"), losses[&2]);

    let (_, outcome) = stopped.finish().expect("it continues");
    assert_eq!(outcome.steps, STEPS);
    assert_eq!(stopped.adapter().tensors, adapter.tensors);
    assert_score(&outcome, &stopped.adapter(), (3, losses[&3]));
}

#[test]
fn the_score_after_a_kill_before_a_checkpoint_is_of_the_saved_adapter() {
    let stopped = StoppedRun::new();
    fs::remove_dir_all(stopped.path("run")).expect("a run");
    let mut request = stopped.request("model.gguf", false);
    (request.settings.eval_every, request.settings.checkpoint_every) = (Some(1), Some(1));
    let checkpoint = stopped.path("run/checkpoint.safetensors");
    let (mut losses, mut saved) = (BTreeMap::new(), None);
    let mut checkpoint_2 = Vec::new();
    train(&request, &RunControl::default(), &mut |event| match event {
        TrainingEvent::Evaluated { step, loss, .. } => drop(losses.insert(step, loss.expect("a number"))),
        TrainingEvent::Checkpointed { step: 2 } => checkpoint_2 = fs::read(&checkpoint).expect("a checkpoint"),
        TrainingEvent::Checkpointed { step: 3 } => saved = Some(stopped.files()),
        _ => {}
    })
    .expect("it ends");
    assert!(losses[&3] < losses[&2], "{losses:?}");
    for (path, bytes) in saved.expect("step 3") {
        fs::write(path, bytes).expect("it is written");
    }
    let adapter = stopped.adapter();
    let resume_and_check = |expected| {
        fs::write(&checkpoint, &checkpoint_2).expect("it is written");
        make_unbeatable(&checkpoint, losses[&2]);
        let (_, outcome) = stopped.finish().expect("it continues");
        assert_eq!(stopped.adapter().tensors, adapter.tensors);
        assert_score(&outcome, &stopped.adapter(), expected);
    };
    resume_and_check((3, losses[&3]));

    // Early versions recorded no score before the end of a run, so the best score of the history is
    // used.
    let manifest = stopped.path("run/adapter/hearth.json");
    let text = fs::read(&manifest).expect("hearth.json");
    let mut json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    json["metrics"] = serde_json::Value::Null;
    fs::write(&manifest, json.to_string()).expect("it is written");
    resume_and_check((2, 0.0));
}

#[test]
fn a_suspended_run_has_no_outcome_and_resumes_from_its_step() {
    let uninterrupted = StoppedRun::new();
    uninterrupted.finish().expect("it ends");
    for last in [0, 1, STEPS] {
        let suspended = StoppedRun::new();
        fs::remove_dir_all(suspended.path("run")).expect("a run");
        let control = RunControl::default();
        let mut steps = Vec::new();
        let outcome = train(
            &suspended.request("model.gguf", false),
            &control,
            &mut |event| match event {
                TrainingEvent::Preparing { .. } if last == 0 => control.set(RunCommand::Suspend),
                TrainingEvent::Step(step) => {
                    steps.push(step.step);
                    if step.step == last {
                        control.set(RunCommand::Suspend);
                        // A later command has no effect.
                        control.set(RunCommand::Stop);
                    }
                }
                _ => {}
            },
        );
        assert_eq!((outcome.expect("it ends"), steps.len() as u32), (None, last));
        let (_, outcome) = suspended.finish().expect("it continues");
        assert_eq!(outcome.steps, STEPS);
        let losses = |run: &StoppedRun| RunFolder(run.path("run")).losses();
        assert_eq!(losses(&suspended), losses(&uninterrupted));
        assert_eq!(suspended.adapter().tensors, uninterrupted.adapter().tensors);
    }
}

#[test]
fn a_run_stopped_before_its_first_step_ends_and_keeps_an_older_adapter() {
    let stopped = StoppedRun::new();
    let before = stopped.adapter();
    // Without a checkpoint, the run restarts.
    fs::remove_file(stopped.path("run/checkpoint.safetensors")).expect("a checkpoint");
    let control = RunControl::default();
    let outcome = train(&stopped.request("model.gguf", true), &control, &mut |event| {
        if matches!(event, TrainingEvent::Evaluated { .. }) {
            control.set(RunCommand::Stop);
        }
    });
    assert_eq!(outcome.expect("it ends").expect("an outcome").steps, 0);
    assert_eq!(stopped.adapter(), before);
}

#[test]
fn a_run_started_from_an_adapter_restarts_from_it() {
    let stopped = StoppedRun::new();
    stopped.finish().expect("it ends");
    let mut request = stopped.request("model.gguf", false);
    request.settings.init = Some(stopped.path("run"));
    request.out = stopped.path("second");
    let losses = |request: &TrainRequest| {
        let outcome = train(request, &RunControl::default(), &mut |_| {});
        outcome.expect("it ends");
        RunFolder(request.out.clone()).losses()
    };
    let first = losses(&request);
    // As after a kill before the first checkpoint.
    fs::remove_file(stopped.path("second/checkpoint.safetensors")).expect("a checkpoint");
    (request.resume, request.settings.init) = (true, None);
    assert_eq!(losses(&request), first);
}

#[test]
fn an_export_replaces_an_adapter_and_no_other_files() {
    let stopped = StoppedRun::new();
    let out = stopped.path("out");
    let export = || {
        let request = ExportRequest {
            model: stopped.path("model.gguf"),
            adapter: stopped.path("run"),
            format: ExportFormat::Peft,
            out: out.clone(),
            name: None,
            verify: false,
        };
        export(&request, &mut |_, _| std::ops::ControlFlow::Continue(()))
    };
    fs::create_dir(&out).expect("a folder");
    fs::write(out.join("README.md"), "mine").expect("it is written");
    export().expect("beside other files");
    let problem = export().expect_err("it is refused");
    assert!(problem.to_string().contains("beside other files"), "{problem}");
    assert_eq!(fs::read_to_string(out.join("README.md")).expect("it exists"), "mine");
    fs::remove_file(out.join("README.md")).expect("it is removed");
    fs::write(out.join("adapter_config.json"), "another adapter's").expect("it is written");
    export().expect("an adapter alone is replaced");
    assert_eq!(fs::read_dir(&out).expect("a folder").count(), 3);
    assert_eq!(fs::read_dir(stopped.folder.path()).expect("a folder").count(), 4);
}

#[test]
fn an_export_does_not_replace_its_inputs_under_other_names() {
    let stopped = StoppedRun::new();
    let [model, weights] = ["model.gguf", "run/adapter/adapter_model.safetensors"].map(|name| stopped.path(name));
    let export = |out: PathBuf, format| {
        let request = ExportRequest {
            model: model.clone(),
            adapter: stopped.path("run"),
            format,
            out,
            name: None,
            verify: false,
        };
        export(&request, &mut |_, _| std::ops::ControlFlow::Continue(()))
    };
    let before = [&model, &weights].map(|path| fs::read(path).expect("an input"));
    fs::hard_link(&model, stopped.path("hard.gguf")).expect("a link");
    fs::hard_link(&weights, stopped.path("weights.gguf")).expect("a link");
    fs::hard_link(&model, stopped.path("beside.Modelfile")).expect("a link");
    let mut cases = vec![
        ("hard.gguf", "is the model"),
        ("run/../model.gguf", "is the model"),
        ("weights.gguf", "is the adapter"),
        ("run/adapter/adapter_model.safetensors", "is the adapter"),
        ("beside.gguf", "is the model"),
    ];
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("model.gguf", stopped.path("soft.gguf")).expect("a link");
        symlink("run/adapter", stopped.path("soft")).expect("a link");
        cases.extend([
            ("soft.gguf", "is the model"),
            ("soft/adapter_model.safetensors", "is the adapter"),
        ]);
    }
    for (out, expected) in cases {
        let problem = export(stopped.path(out), ExportFormat::GgufLora).expect_err(out);
        assert!(problem.to_string().contains(expected), "{out}: {problem}");
    }
    assert!([&model, &weights].map(|path| fs::read(path).expect("an input")) == before);
}

#[cfg(unix)]
#[test]
fn an_export_to_a_link_replaces_its_target() {
    let stopped = StoppedRun::new();
    let [target, link] = ["target.gguf", "link.gguf"].map(|name| stopped.path(name));
    std::os::unix::fs::symlink("target.gguf", &link).expect("a link");
    let export = |format| {
        let request = ExportRequest {
            model: stopped.path("model.gguf"),
            adapter: stopped.path("run"),
            format,
            out: link.clone(),
            name: None,
            verify: false,
        };
        export(&request, &mut |_, _| std::ops::ControlFlow::Continue(()))
    };
    for format in [ExportFormat::GgufLora, ExportFormat::Gguf { kind: None }] {
        fs::write(&target, "old").expect("written");
        export(format.clone()).expect("exported");
        assert!(link.is_symlink() && fs::read(&target).expect("a file").starts_with(b"GGUF"));
        fs::remove_file(&target).expect("removed");
        let problem = export(format).expect_err("a broken link");
        assert!(problem.to_string().contains("symbolic link"), "{problem}");
    }
}
