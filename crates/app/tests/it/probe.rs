//! Hostile files: the library reads them in a process, the fake probe, and lists them with the
//! reason; other files are unaffected.

use crate::{data_harness::Harness, support};
use hearth_app::{
    library::{Library, Model, Reader, probe::ProbeCommand},
    wire::ProblemCode,
};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// A library over a folder, with probe processes.
fn library(folder: &Path, probe: ProbeCommand) -> Library {
    let remembered = folder.join("cache/models.json");
    Library::new(
        vec![folder.join("models")],
        &folder.join("data"),
        Reader::Probe(probe),
        Some(remembered),
    )
}

/// The listed model of a file.
fn named<'a>(models: &'a [Model], file: &str) -> &'a Model {
    let actual = models.iter().find(|model| model.path.ends_with(file));
    actual.unwrap_or_else(|| panic!("{file} is not listed"))
}

/// Why a file cannot be used.
fn why(models: &[Model], file: &str) -> String {
    match &named(models, file).metadata {
        Ok(metadata) => panic!("{file} was read: {metadata:?}"),
        Err(problem) => problem.to_string(),
    }
}

fn read(models: &[Model], files: &[&str]) {
    for file in files {
        let metadata = named(models, file)
            .metadata
            .as_ref()
            .unwrap_or_else(|why| panic!("{file}: {why}"));
        assert_eq!(
            (metadata.architecture.as_str(), metadata.context_trained),
            ("llama", 2048)
        );
        assert_eq!(metadata.name.as_deref(), Some("A tiny model"));
    }
}

/// A sparse file of `len` bytes with a header.
fn sparse(path: &Path, keys: u64, header: &[&[u8]], len: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(b"GGUF\x03\0\0\0").unwrap();
    file.write_all(&0u64.to_le_bytes()).unwrap();
    file.write_all(&keys.to_le_bytes()).unwrap();
    for piece in header {
        file.write_all(piece).unwrap();
    }
    file.set_len(len).unwrap();
}

const GIB: u64 = 1 << 30;

/// A key `a`, before its value's type.
const KEY: &[u8] = b"\x01\0\0\0\0\0\0\0a";

#[test]
fn hostile_files_are_listed_with_the_reason_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    let first = support::model(&models, "a-first.gguf");
    support::model(&models, "z-last.gguf");
    let whole = fs::read(&first).unwrap();
    fs::write(models.join("cut.gguf"), &whole[..60]).unwrap();
    fs::write(models.join("empty.gguf"), "").unwrap();
    fs::write(models.join("text.gguf"), "no model").unwrap();
    let deep = b"\x09\0\0\0\x01\0\0\0\0\0\0\0".repeat(100_000);
    sparse(&models.join("deep.gguf"), 1, &[KEY, b"\x09\0\0\0", &deep], 2 << 20);
    fs::create_dir(models.join("folder.gguf")).unwrap();
    let mut expected = vec![
        ("cut.gguf", "cut off"),
        ("empty.gguf", "the file is empty"),
        ("text.gguf", "not a GGUF file"),
        ("deep.gguf", "array of arrays"),
        ("folder.gguf", "it is a folder"),
    ];
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        let array = [b"\x09\0\0\0\0\0\0\0".as_slice(), &(256 * GIB).to_le_bytes()].concat();
        sparse(&models.join("array.gguf"), 1, &[KEY, &array], 257 * GIB);
        sparse(&models.join("name.gguf"), 1, &[&GIB.to_le_bytes()], 2 * GIB);
        sparse(&models.join("keys.gguf"), GIB, &[], 257 * GIB);
        let made = std::process::Command::new("mkfifo")
            .arg(models.join("pipe.gguf"))
            .status();
        assert!(made.unwrap().success());
        symlink("/dev/zero", models.join("device.gguf")).unwrap();
        symlink(models.join("loop.gguf"), models.join("loop.gguf")).unwrap();
        symlink("nowhere", models.join("dangling.gguf")).unwrap();
        expected.extend([
            ("array.gguf", "'a': more than any known model has"),
            ("name.gguf", "a metadata key: more than any known model has"),
            ("keys.gguf", "its metadata keys: more than any known model has"),
            ("pipe.gguf", "it is a pipe, a socket or a device"),
            ("device.gguf", "it is a pipe, a socket or a device"),
            ("loop.gguf", "cannot be read"),
            ("dangling.gguf", "cannot be read"),
        ]);
    }
    let library = library(folder.path(), support::probe());
    // Read once, then cached.
    for _ in 0..2 {
        let listed = library.list(&[]);
        assert_eq!(listed.len(), expected.len() + 2);
        for (file, reason) in &expected {
            let message = why(&listed, file);
            assert!(
                message.contains(reason) && message.contains(file) && message.ends_with('.'),
                "{file}: {message}"
            );
        }
        read(&listed, &["a-first.gguf", "z-last.gguf"]);
        assert_eq!(library.default(&listed).map(|model| model.id.as_str()), Some("a-first"));
    }
}

/// The errors of these files, read together with a valid file after them.
fn read_with(files: &[&str], probe: ProbeCommand) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    for file in ["a-first.gguf", "z-last.gguf"].iter().chain(files) {
        support::model(&models, file);
    }
    let listed = library(folder.path(), probe).list(&[]);
    read(&listed, &["a-first.gguf", "z-last.gguf"]);
    files.iter().map(|file| why(&listed, file)).collect()
}

#[test]
fn a_crash_of_a_probe_affects_one_file() {
    let messages = read_with(
        &["abort.gguf", "exit.gguf", "panic.gguf", "silence.gguf"],
        support::probe(),
    );
    #[cfg(unix)]
    assert!(
        messages[0].contains("abort.gguf: the process that was reading it ended early (signal 6)"),
        "{}",
        messages[0]
    );
    assert!(messages[1].contains("ended early (exit code 7)"), "{}", messages[1]);
    assert!(messages[2].contains("Hearth ran into a bug"), "{}", messages[2]);
    assert!(messages[3].contains("ended early (exit code 0)"), "{}", messages[3]);

    // The file may not be the cause, so it is retried.
    #[cfg(unix)]
    {
        let message = read_with(&["killed.gguf"], support::probe()).remove(0);
        assert!(
            message.contains("was killed, perhaps because memory ran short"),
            "{message}"
        );
    }

    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "babble.gguf");
    read(&library(folder.path(), support::probe()).list(&[]), &["babble.gguf"]);
}

#[test]
fn a_hanging_probe_affects_one_file() {
    let probe = ProbeCommand {
        timeout: Some(Duration::from_secs(3)),
        ..support::probe()
    };
    let messages = read_with(&["hang.gguf"], probe);
    assert!(
        messages[0].contains("hang.gguf: reading it took longer than 3 seconds"),
        "{}",
        messages[0]
    );
}

/// Other systems have no memory limit.
#[test]
fn a_probe_out_of_memory_affects_one_file() {
    if cfg!(target_os = "linux") {
        let messages = read_with(&["greedy.gguf"], support::probe());
        assert!(
            messages[0].contains("greedy.gguf: it takes more memory to read"),
            "{}",
            messages[0]
        );
    }
}

#[test]
fn a_missing_program_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "a.gguf");
    let missing = ProbeCommand {
        program: "no-such-folder/hearth".into(),
        ..support::probe()
    };
    let message = why(&library(folder.path(), missing).list(&[]), "a.gguf");
    assert!(
        message.contains("no-such-folder") && message.contains("could not be started"),
        "{message}"
    );
}

fn missing_program() -> ProbeCommand {
    ProbeCommand {
        program: "nothing-that-can-be-started".into(),
        ..support::probe()
    }
}

#[test]
fn metadata_is_cached_while_the_file_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    for file in ["same.gguf", "changed.gguf", "gone.gguf"] {
        support::model(&models, file);
    }
    fs::write(models.join("bad.gguf"), "no model").unwrap();
    read(
        &library(folder.path(), support::probe()).list(&[]),
        &["same.gguf", "changed.gguf", "gone.gguf"],
    );
    let mut longer = File::options().append(true).open(models.join("changed.gguf")).unwrap();
    longer.write_all(b"more").unwrap();
    drop(longer);
    fs::remove_file(models.join("gone.gguf")).unwrap();
    // Another start, with a missing program.
    let listed = library(folder.path(), missing_program()).list(&[]);
    assert_eq!(listed.len(), 3);
    read(&listed, &["same.gguf"]);
    assert!(why(&listed, "changed.gguf").contains("could not be started"));
    assert!(
        why(&listed, "bad.gguf").contains("could not be started"),
        "it is retried"
    );
    // A start that can read.
    let listed = library(folder.path(), support::probe()).list(&[]);
    read(&listed, &["same.gguf", "changed.gguf"]);
    assert!(why(&listed, "bad.gguf").contains("not a GGUF file"));
}

#[test]
fn a_corrupt_metadata_cache_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "a.gguf");
    let remembered = folder.path().join("cache/models.json");
    for damage in ["", "{", "{\"version\": 99, \"models\": []}", "[[[[[["] {
        fs::create_dir_all(remembered.parent().unwrap()).unwrap();
        fs::write(&remembered, damage).unwrap();
        read(&library(folder.path(), support::probe()).list(&[]), &["a.gguf"]);
        read(&library(folder.path(), missing_program()).list(&[]), &["a.gguf"]);
    }
}

#[test]
fn a_metadata_cache_of_an_earlier_version_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    support::model_with_vocabulary(&folder.path().join("models"), "a.gguf", 8, &["a"]);
    let vocabulary = |probe| {
        let listed = library(folder.path(), probe).list(&[]);
        named(&listed, "a.gguf")
            .metadata
            .clone()
            .map(|metadata| metadata.vocabulary)
    };
    let read = vocabulary(support::probe()).unwrap();
    assert!(read.is_some());
    assert_eq!(vocabulary(missing_program()).unwrap(), read, "it is cached");
    // As written before vocabularies were: without the field, and of version 2.
    let file = folder.path().join("cache/models.json");
    let mut cache: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    cache["version"] = 2.into();
    cache["models"][0]["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("vocabulary");
    fs::write(&file, cache.to_string()).unwrap();
    assert!(vocabulary(missing_program()).is_err());
    assert_eq!(vocabulary(support::probe()).unwrap(), read);
}

#[test]
fn a_missing_shard_that_appears_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    let library = library(folder.path(), support::probe());
    let parts = support::split_model(&models, "big");
    fs::rename(&parts[1], folder.path().join("elsewhere")).unwrap();
    let message = why(&library.list(&[]), "big-00001-of-00002.gguf");
    assert!(message.contains("big-00002-of-00002.gguf' is missing"), "{message}");
    fs::rename(folder.path().join("elsewhere"), &parts[1]).unwrap();
    read(&library.list(&[]), &["big-00001-of-00002.gguf"]);
    fs::write(&parts[1], "no model").unwrap();
    let message = why(&library.list(&[]), "big-00001-of-00002.gguf");
    assert!(message.contains("not a GGUF file"), "{message}");
}

/// Root may read everything: there, this only proves that no readable file is refused.
#[test]
fn changed_permissions_are_noticed() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = support::model(&folder.path().join("models"), "secret.gguf");
        let library = library(folder.path(), support::probe());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let listed = library.list(&[]);
        match File::open(&path) {
            Ok(_) => read(&listed, &["secret.gguf"]),
            Err(_) => assert!(why(&listed, "secret.gguf").contains("cannot be read")),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        read(&library.list(&[]), &["secret.gguf"]);
    }
}

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

#[test]
fn hostile_adapters_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), support::probe());
    let model = fixture("models/llama.gguf");
    for good in ["adapters/llama", "adapters/llama.gguf"] {
        library.check_adapter(&fixture(good), &model).unwrap();
    }
    let refused = |path: &Path, model: &Path, expected: &str| {
        let message = library.check_adapter(path, model).expect_err("refused").to_string();
        assert!(message.contains(expected) && message.ends_with('.'), "{message}");
    };
    refused(
        &fixture("adapters/llama.gguf"),
        &fixture("models/qwen2.gguf"),
        "architecture",
    );
    for file in ["abort.gguf", "panic.gguf"] {
        let expected = if file == "abort.gguf" { "ended early" } else { "a bug" };
        refused(&support::model(folder.path(), file), &model, expected);
    }
    refused(
        &support::model(folder.path(), "a-model.gguf"),
        &model,
        "this is not an adapter",
    );
    let peft = folder.path().join("peft");
    fs::create_dir(&peft).unwrap();
    fs::copy(
        fixture("adapters/llama/adapter_config.json"),
        peft.join("adapter_config.json"),
    )
    .unwrap();
    let tensors = peft.join("adapter_model.safetensors");
    fs::write(&tensors, u64::MAX.to_le_bytes()).unwrap();
    refused(&peft, &model, "adapter_model.safetensors is corrupt");
    #[cfg(unix)]
    {
        let sparse_file = File::create(&tensors).unwrap();
        sparse_file.set_len(256 * GIB).unwrap();
        refused(&peft, &model, "adapter_model.safetensors is corrupt");
        let array = [b"\x09\0\0\0\0\0\0\0".as_slice(), &(256 * GIB).to_le_bytes()].concat();
        let hostile = folder.path().join("array.gguf");
        sparse(&hostile, 1, &[KEY, &array], 257 * GIB);
        refused(&hostile, &model, "more than any known model has");
        refused(&fixture("adapters/llama"), &hostile, "more than any known model has");
        fs::remove_file(&tensors).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&tensors)
                .status()
                .unwrap()
                .success()
        );
        refused(&peft, &model, "it is a pipe, a socket or a device");
    }
}

/// Details of a probe's problems are cut, and paths may be longer.
#[cfg(unix)]
#[tokio::test]
async fn an_adapter_at_a_long_path_is_told_apart() {
    let harness = Harness::new();
    let folder = (0..12).fold(harness.path("long"), |folder, _| folder.join("x".repeat(200)));
    fs::create_dir_all(&folder).unwrap();
    let adapter = folder.join("lora.gguf");
    fs::copy(fixture("adapters/llama.gguf"), &adapter).unwrap();
    let problem = harness.app.add_model(adapter).await.unwrap_err();
    assert_eq!(problem.code, ProblemCode::IsAdapter, "{problem}");
}

/// Parsing a model in this process would need no probe.
#[tokio::test]
async fn the_app_itself_parses_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = support::options(&folder.path().join("data"));
    options.probe = missing_program();
    let adapter = fixture("adapters/llama.gguf");
    let harness = Harness::with(folder, options).unwrap();
    let problem = harness.app.add_model(adapter.clone()).await.unwrap_err();
    assert_eq!(problem.code, ProblemCode::FileInvalid, "{problem}");
    assert!(problem.to_string().contains("could not be started"), "{problem}");
    let harness = Harness::new();
    let problem = harness.app.add_model(adapter).await.unwrap_err();
    assert_eq!(problem.code, ProblemCode::IsAdapter, "{problem}");

    // The fake probe reads the metadata of this file, and ends at the next request.
    let mut metadata = support::metadata();
    metadata.insert("tokenizer.chat_template", "{{ messages }}");
    let models = harness.path("data/models");
    let path = support::write(&models, "model-only.gguf", &metadata, "weight", 8);
    support::write(&models, "whole.gguf", &metadata, "weight", 8);
    let listed = harness.app.rescan_models().await.unwrap();
    let id = |file: &str| {
        listed
            .iter()
            .find(|model| model.path.ends_with(file))
            .unwrap()
            .id
            .clone()
    };
    let problem = harness.app.chat_template(id("model-only.gguf")).await.unwrap_err();
    assert!(
        problem.to_string().contains("exit code 9"),
        "{}: {problem}",
        path.display()
    );
    let template = harness.app.chat_template(id("whole.gguf")).await.unwrap();
    assert_eq!(template.as_deref(), Some("{{ messages }}"));
}
