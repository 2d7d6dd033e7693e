//! Tests a run and its exports with a fault at every disk operation: a kill that loses unsynced
//! data, a disk that is full from this operation on, and a failed operation.
//!
//! The C library's functions that change files are interposed, so that every write of any module is
//! counted. The fault is injected into a child process. Then this process checks the files and
//! continues the run.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod faults;

use faults::Fault;
use hearth_engine::training::{RunControl, RunFolder, export, train};
use hearth_formats::adapter::{AdapterFile, BaseShape, MERGED_KEY};
use hearth_formats::gguf::Gguf;
use hearth_protocol::{
    DataSource, ExportFormat, ExportRequest, GpuLayers, Precision, Problem, TrainRequest, TrainSettings, TrainingEvent,
};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Environment variables of a child process: the fault, and the folder.
const FAULT: &str = "HEARTH_TEST_FAULT";
const FOLDER: &str = "HEARTH_TEST_FOLDER";
/// Maximum number of concurrent child processes.
const MAX_CHILDREN: usize = 3;

/// A folder with the inputs, and a subfolder `work`, into which faults are injected.
struct Work {
    folder: PathBuf,
}

/// File or folder names of the exports.
const EXPORTS: [&str; 3] = ["peft", "lora.gguf", "merged.gguf"];

impl Work {
    fn new(folder: &Path) -> Self {
        let text: String = (0..6)
            .map(|i| format!("{{\"text\": \"Tale {i}: a fox number {i}.\"}}\n"))
            .collect();
        fs::write(folder.join("data.jsonl"), text).expect("it is written");
        Self {
            folder: folder.to_owned(),
        }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.folder.join("work").join(name)
    }

    fn model(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf")
    }

    /// Records that a result was reported, so that it must persist.
    fn confirm(&self, result: &str) {
        let mut confirmed = self.confirmed();
        confirmed.push(result.to_owned());
        fs::write(self.folder.join("confirmed"), confirmed.join("\n")).expect("it is written");
    }

    fn confirmed(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("confirmed")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn is_confirmed(&self, result: &str) -> bool {
        self.confirmed().iter().any(|confirmed| confirmed == result)
    }

    /// Does the training and the exports that are not confirmed yet. Returns the steps.
    fn execute(&self) -> Result<Vec<u32>, Problem> {
        let mut steps = Vec::new();
        if !self.is_confirmed("run") {
            train(
                &self.train_request(),
                &RunControl::default(),
                &mut |event| match event {
                    TrainingEvent::Step(step) => steps.push(step.step),
                    TrainingEvent::Checkpointed { step } => self.confirm(&format!("checkpoint {step}")),
                    _ => {}
                },
            )?;
            self.confirm("run");
        }
        let formats = [
            ExportFormat::Peft,
            ExportFormat::GgufLora,
            ExportFormat::Gguf { kind: None },
        ];
        for (name, format) in EXPORTS.into_iter().zip(formats) {
            if !self.is_confirmed(name) {
                let request = ExportRequest {
                    model: self.model(),
                    adapter: self.work("run"),
                    format,
                    out: self.work(name),
                    name: None,
                    verify: false,
                };
                export(&request, &mut |_, _| ControlFlow::Continue(()))?;
                self.confirm(name);
            }
        }
        Ok(steps)
    }

    fn train_request(&self) -> TrainRequest {
        TrainRequest {
            model: self.model(),
            data: DataSource {
                path: self.folder.join("data.jsonl"),
                mapping: None,
                skip_broken: false,
            },
            out: self.work("run"),
            settings: TrainSettings {
                rank: 1,
                targets: vec!["q_proj".to_owned()],
                learning_rate: 1e-2,
                max_steps: Some(3),
                epochs: Some(9.0),
                batch: Some(2),
                sequence: Some(24),
                eval_split: 0.3,
                eval_every: Some(2),
                checkpoint_every: Some(1),
                patience: 0,
                precision: Precision::F32,
                ..TrainSettings::default()
            },
            resume: true,
            threads: Some(1),
            device: Some("cpu".to_owned()),
            build: None,
            gpu_layers: GpuLayers::Auto,
            low_priority: false,
        }
    }

    /// The contents of all files in `work`, without times and speeds.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.folder.join("work")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                let name = path
                    .strip_prefix(self.folder.join("work"))
                    .expect("it is in it")
                    .to_owned();
                let mut bytes = if path.is_dir() {
                    folders.push(path);
                    continue;
                } else {
                    fs::read(&path).expect("a file")
                };
                match name.file_name().and_then(|name| name.to_str()) {
                    // Every start or resume creates this empty file.
                    Some(".lock") => continue,
                    Some("hearth.json") => bytes = without_field(&bytes, "created"),
                    Some("lora.gguf") => blank_created(&mut bytes),
                    Some("merged.gguf") => blank_merged_id(&mut bytes),
                    // The path of the data differs.
                    Some("run.json") => bytes = without_field(&bytes, "data"),
                    // Both contain durations. The losses are compared separately.
                    Some("checkpoint.safetensors" | "log.jsonl") => bytes.clear(),
                    _ => {}
                }
                files.insert(name, bytes);
            }
        }
        files
    }

    /// Checks the files after a fault: confirmed files are final, and no file is incomplete.
    fn check(&self, reference: &Reference) {
        let files = self.files();
        let under = |name: &str, files: &BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
            let matching = files.iter().filter(|(path, _)| path.starts_with(name));
            matching.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
        };
        for name in EXPORTS {
            if self.work(name).exists() || self.is_confirmed(name) {
                assert!(
                    under(name, &files) == under(name, &reference.files),
                    "{name} is not complete"
                );
            }
        }
        let run = RunFolder(self.work("run"));
        if run.adapter().exists() {
            AdapterFile::read_peft(&run.adapter(), &reference.base).expect("a complete adapter");
        }
        if self.is_confirmed("run") {
            assert!(under("run/adapter", &files) == under("run/adapter", &reference.files));
            assert_eq!(run.losses(), reference.losses);
        }
        if run.0.join("run.json").exists() {
            run.read().expect("a complete run.json");
        }
    }

    /// Continues without a fault, and asserts the result of an uninterrupted run. If
    /// `may_leave_temporary`, temporary files that could not be removed may remain.
    fn assert_continues(&self, reference: &Reference, may_leave_temporary: bool) {
        let confirmed = self.confirmed().iter().rev().find_map(|result| {
            let step = result.strip_prefix("checkpoint ")?;
            step.parse::<u32>().ok()
        });
        let steps = self.execute().expect("it continues");
        if let (Some(first), Some(confirmed)) = (steps.first(), confirmed) {
            assert!(
                *first > confirmed,
                "step {first} was repeated after {confirmed} was confirmed"
            );
        }
        let mut files = self.files();
        if may_leave_temporary {
            let is_temporary = |path: &Path| path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
            files.retain(|path, _| !is_temporary(path));
        }
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&files), names(&reference.files));
        for (path, bytes) in &files {
            assert!(*bytes == reference.files[path], "{} differs", path.display());
        }
        assert_eq!(RunFolder(self.work("run")).losses(), reference.losses);
    }
}

/// Blanks the creation time in the manifest of a GGUF adapter.
fn blank_created(bytes: &mut [u8]) {
    const FIELD: &[u8] = br#""created":""#;
    const TIME: usize = "2026-01-01T00:00:00Z".len();
    if let Some(start) = bytes.windows(FIELD.len()).position(|window| window == FIELD)
        && let Some(time) = bytes.get_mut(start + FIELD.len()..start + FIELD.len() + TIME)
    {
        time.fill(b'-');
    }
}

/// Blanks the id of the adapter in a merged model: a hash of its manifest, with the creation time.
fn blank_merged_id(bytes: &mut [u8]) {
    // The type of the value, the type and number of its elements, and the length of the first one.
    const BEFORE: usize = 4 + 4 + 8 + 8;
    const ID: usize = 32;
    let key = MERGED_KEY.as_bytes();
    if let Some(start) = bytes.windows(key.len()).position(|window| window == key)
        && let Some(id) = bytes
            .get_mut(start + key.len() + BEFORE..)
            .and_then(|rest| rest.get_mut(..ID))
    {
        id.fill(b'-');
    }
}

/// Removes a field from a JSON object.
fn without_field(bytes: &[u8], field: &str) -> Vec<u8> {
    let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    json.as_object_mut().map(|fields| fields.remove(field));
    json.to_string().into_bytes()
}

/// The result of an uninterrupted run.
struct Reference {
    files: BTreeMap<PathBuf, Vec<u8>>,
    losses: Vec<f64>,
    base: BaseShape,
    /// The kinds of the run's disk operations.
    operations: Vec<faults::Kind>,
}

impl Reference {
    fn new(cannot_exchange: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let work = Work::new(folder.path());
        let count = Fault::Count { cannot_exchange };
        assert!(start(&work.folder, &count).wait().expect("it ends").success());
        let gguf = Gguf::open(work.model()).expect("the model opens");
        let losses = RunFolder(work.work("run")).losses();
        assert!(losses.len() == 3 && work.is_confirmed("merged.gguf"));
        let reference = Self {
            files: work.files(),
            losses,
            base: BaseShape::from_gguf(&gguf).expect("its sizes"),
            operations: faults::read_kinds(&folder.path().join("operations")),
        };
        work.check(&reference);
        reference
    }
}

/// Starts a child process that executes the work in a folder with a fault.
fn start(folder: &Path, fault: &Fault) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "a_child_with_a_fault", "--ignored", "--nocapture"])
        .env(FAULT, fault.to_string())
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// The program that [`start`] starts; not a test.
#[test]
#[ignore = "started by the other tests"]
fn a_child_with_a_fault() {
    let fault: Fault = std::env::var(FAULT).expect("a fault").parse().expect("a fault");
    let work = Work {
        folder: std::env::var_os(FOLDER).expect("a folder").into(),
    };
    faults::arm(&work.folder.join("work"), fault.clone());
    let result = work.execute();
    let kinds = faults::disarm();
    match fault {
        Fault::Count { .. } => {
            result.expect("nothing failed");
            faults::write_kinds(&work.folder.join("operations"), &kinds);
        }
        // The work may succeed in spite of the fault, or fail with a sentence.
        _ => {
            if let Err(problem) = result {
                fs::write(work.folder.join("problem"), problem.to_string()).expect("it is written");
            }
        }
    }
}

/// Held by a test while it runs. Tests are sequential, because each also trains in this process.
static TURN: Mutex<()> = Mutex::new(());

/// Tests a fault at each of these operations that is selected in this run.
fn test_faults(test: &str, reference: &Reference, operations: &[usize], fault: impl Fn(usize) -> Fault) {
    for group in faults::select(test, &reference.operations, operations).chunks(MAX_CHILDREN) {
        let children: Vec<(usize, TempDir, Child)> = group
            .iter()
            .map(|index| {
                let folder = tempfile::tempdir().expect("a folder");
                Work::new(folder.path());
                let child = start(folder.path(), &fault(*index));
                (*index, folder, child)
            })
            .collect();
        for (index, folder, mut child) in children {
            let work = Work {
                folder: folder.path().to_owned(),
            };
            let status = child.wait().expect("it ends");
            let description = format!("{} ({:?})", fault(index), reference.operations[index]);
            let _printer = PanicMessage(&description);
            match fault(index) {
                Fault::Kill { .. } => assert_eq!(status.code(), Some(faults::KILLED), "{description}"),
                _ => assert!(status.success(), "{description}: {status}"),
            }
            if let Ok(sentence) = fs::read_to_string(folder.path().join("problem")) {
                assert!(
                    sentence.len() > 20 && sentence.ends_with('.'),
                    "{description}: {sentence}"
                );
            }
            work.check(reference);
            work.assert_continues(reference, matches!(fault(index), Fault::Broken { .. }));
        }
    }
}

/// Prints the description of a fault if its test panics.
struct PanicMessage<'a>(&'a str);

impl Drop for PanicMessage<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with the fault {}", self.0);
        }
    }
}

#[test]
fn a_kill_at_every_operation_loses_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = Reference::new(false);
    let all: Vec<usize> = (0..reference.operations.len()).collect();
    assert!(all.len() > 50, "{:?}", reference.operations);
    let cannot_exchange = false;
    test_faults("a_kill_at_every_operation_loses_nothing", &reference, &all, |at| {
        Fault::Kill { at, cannot_exchange }
    });
}

#[test]
fn a_kill_loses_nothing_without_atomic_exchange_of_folders() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = Reference::new(true);
    let renames: Vec<usize> = (0..reference.operations.len())
        .filter(|index| reference.operations[*index] == faults::Kind::Rename)
        .collect();
    // The process is killed before and after each rename.
    let mut around: Vec<usize> = renames.iter().flat_map(|index| [*index, *index + 1]).collect();
    around.dedup();
    around.retain(|index| *index < reference.operations.len());
    let cannot_exchange = true;
    test_faults(
        "a_kill_loses_nothing_without_atomic_exchange_of_folders",
        &reference,
        &around,
        |at| Fault::Kill { at, cannot_exchange },
    );
}

#[test]
fn a_disk_that_is_full_from_any_write_on_loses_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = Reference::new(false);
    let writes: Vec<usize> = (0..reference.operations.len())
        .filter(|index| reference.operations[*index].needs_space())
        .collect();
    test_faults(
        "a_disk_that_is_full_from_any_write_on_loses_nothing",
        &reference,
        &writes,
        |at| Fault::Full { at },
    );
}

#[test]
fn a_disk_that_fails_once_loses_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = Reference::new(false);
    let others: Vec<usize> = (0..reference.operations.len())
        .filter(|index| !reference.operations[*index].needs_space())
        .collect();
    test_faults("a_disk_that_fails_once_loses_nothing", &reference, &others, |at| {
        Fault::Broken { at }
    });
}
