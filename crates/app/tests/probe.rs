//! Files that are hostile, or are no files: the library reads each in a process of its own, which is this test's executable, and
//! lists it with the reason; the others are fine.

mod support;

use hearth_app::library::{
    Library, Model, Reader,
    probe::{Answer, ProbeCommand, Question, serve},
};
use libtest_mimic::{Arguments, Trial};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

fn main() {
    if std::env::args().skip(1).eq(["probe", "--files"]) {
        let served = serve(std::io::stdin().lock(), std::io::stdout(), act);
        std::process::exit(if served.is_ok() { 0 } else { 1 });
    }
    let tests: [(&str, fn()); 10] = [
        (
            "hostile_files_are_listed_with_the_reason_and_the_others_are_fine",
            hostile_files_are_listed_with_the_reason_and_the_others_are_fine,
        ),
        (
            "a_reader_that_ends_early_costs_one_file",
            a_reader_that_ends_early_costs_one_file,
        ),
        ("a_reader_that_hangs_costs_one_file", a_reader_that_hangs_costs_one_file),
        (
            "a_reader_that_takes_too_much_memory_costs_one_file",
            a_reader_that_takes_too_much_memory_costs_one_file,
        ),
        ("a_program_that_is_missing_is_told", a_program_that_is_missing_is_told),
        (
            "facts_are_remembered_as_long_as_the_file_stays_the_same",
            facts_are_remembered_as_long_as_the_file_stays_the_same,
        ),
        (
            "a_damaged_memory_of_facts_is_made_anew",
            a_damaged_memory_of_facts_is_made_anew,
        ),
        ("a_part_that_was_missing_is_noticed", a_part_that_was_missing_is_noticed),
        ("rights_that_change_are_noticed", rights_that_change_are_noticed),
        (
            "hostile_adapters_are_refused_with_the_reason",
            hostile_adapters_are_refused_with_the_reason,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

/// What the process does with a file: as its name says, or what a real one does.
fn act(question: &Question) -> Answer {
    let (Question::Model { path } | Question::Adapter { path, .. }) = question;
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("abort") => std::process::abort(),
        #[cfg(unix)]
        // SAFETY: it ends this process, and touches no memory.
        Some("killed") => unsafe {
            libc::raise(libc::SIGKILL);
            unreachable!("a process does not survive it");
        },
        Some("exit") => std::process::exit(7),
        Some("silence") => std::process::exit(0),
        Some("panic") => panic!("a mistake"),
        Some("hang") => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Some("greedy") => {
            let mut all = Vec::new();
            // More than the limit, little by little.
            while all.len() < 64 {
                all.push(vec![1u8; 256 << 20]);
            }
            Answer::Problem(format!("{} pieces", all.len()))
        }
        Some("babble") => {
            println!("a line that is no answer");
            question.answer()
        }
        _ => question.answer(),
    }
}

/// A library over a folder, whose files are read by other processes.
fn library(folder: &Path, probe: ProbeCommand) -> Library {
    let remembered = folder.join("cache/models.json");
    Library::new(
        vec![folder.join("models")],
        &folder.join("data"),
        Reader::Probe(probe),
        Some(remembered),
    )
}

/// The model of a file among those that are listed.
fn of<'a>(models: &'a [Model], file: &str) -> &'a Model {
    let found = models.iter().find(|model| model.path.ends_with(file));
    found.unwrap_or_else(|| panic!("{file} is not listed"))
}

/// Why a file cannot be used.
fn why(models: &[Model], file: &str) -> String {
    match &of(models, file).facts {
        Ok(facts) => panic!("{file} was read: {facts:?}"),
        Err(why) => why.clone(),
    }
}

fn read(models: &[Model], files: &[&str]) {
    for file in files {
        let facts = of(models, file)
            .facts
            .as_ref()
            .unwrap_or_else(|why| panic!("{file}: {why}"));
        assert_eq!((facts.architecture.as_str(), facts.context_trained), ("llama", 2048));
        assert_eq!(facts.name.as_deref(), Some("A tiny model"));
    }
}

/// A file that begins with a header and is `len` bytes long, most of them not on the disk.
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

/// A key that is called `a`, before the type of its value.
const KEY: &[u8] = b"\x01\0\0\0\0\0\0\0a";

fn hostile_files_are_listed_with_the_reason_and_the_others_are_fine() {
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
        ("empty.gguf", "no GGUF file"),
        ("text.gguf", "no GGUF file"),
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
    // Once read, and once remembered.
    for _ in 0..2 {
        let listed = library.list(&[]);
        assert_eq!(listed.len(), expected.len() + 2);
        for (file, reason) in &expected {
            let said = why(&listed, file);
            assert!(
                said.contains(reason) && said.contains(file) && said.ends_with('.'),
                "{file}: {said}"
            );
        }
        read(&listed, &["a-first.gguf", "z-last.gguf"]);
        assert_eq!(library.default(&listed).map(|model| model.id.as_str()), Some("a-first"));
    }
}

/// A library over these files and one that is read after them; what is said of each.
fn beside(files: &[&str], probe: ProbeCommand) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    for file in ["a-first.gguf", "z-last.gguf"].iter().chain(files) {
        support::model(&models, file);
    }
    let listed = library(folder.path(), probe).list(&[]);
    read(&listed, &["a-first.gguf", "z-last.gguf"]);
    files.iter().map(|file| why(&listed, file)).collect()
}

fn a_reader_that_ends_early_costs_one_file() {
    let said = beside(
        &["abort.gguf", "exit.gguf", "panic.gguf", "silence.gguf"],
        support::probe(),
    );
    #[cfg(unix)]
    assert!(
        said[0].contains("abort.gguf: the process that was reading it ended early (signal 6)"),
        "{}",
        said[0]
    );
    assert!(said[1].contains("ended early (exit code 7)"), "{}", said[1]);
    assert!(said[2].contains("Hearth made a mistake"), "{}", said[2]);
    assert!(said[3].contains("ended early (exit code 0)"), "{}", said[3]);

    // Of that the file need not be the cause, and it is tried again.
    #[cfg(unix)]
    {
        let said = beside(&["killed.gguf"], support::probe()).remove(0);
        assert!(said.contains("was killed, perhaps because memory ran short"), "{said}");
    }

    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "babble.gguf");
    read(&library(folder.path(), support::probe()).list(&[]), &["babble.gguf"]);
}

fn a_reader_that_hangs_costs_one_file() {
    let probe = ProbeCommand {
        within: Some(Duration::from_secs(10)),
        ..support::probe()
    };
    let said = beside(&["hang.gguf"], probe);
    assert!(
        said[0].contains("hang.gguf: reading it took longer than 10 seconds"),
        "{}",
        said[0]
    );
}

/// Other systems limit no memory.
fn a_reader_that_takes_too_much_memory_costs_one_file() {
    if cfg!(target_os = "linux") {
        let said = beside(&["greedy.gguf"], support::probe());
        assert!(
            said[0].contains("greedy.gguf: it takes more memory to read"),
            "{}",
            said[0]
        );
    }
}

fn a_program_that_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "a.gguf");
    let missing = ProbeCommand {
        program: "no-such-folder/hearth".into(),
        ..support::probe()
    };
    let said = why(&library(folder.path(), missing).list(&[]), "a.gguf");
    assert!(
        said.contains("no-such-folder") && said.contains("could not be started"),
        "{said}"
    );
}

fn nothing() -> ProbeCommand {
    ProbeCommand {
        program: "nothing-that-can-be-started".into(),
        ..support::probe()
    }
}

fn facts_are_remembered_as_long_as_the_file_stays_the_same() {
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
    // Another start, at which nothing can be read.
    let listed = library(folder.path(), nothing()).list(&[]);
    assert_eq!(listed.len(), 3);
    read(&listed, &["same.gguf"]);
    assert!(why(&listed, "changed.gguf").contains("could not be started"));
    assert!(
        why(&listed, "bad.gguf").contains("could not be started"),
        "it is tried again"
    );
    // And one at which it can.
    let listed = library(folder.path(), support::probe()).list(&[]);
    read(&listed, &["same.gguf", "changed.gguf"]);
    assert!(why(&listed, "bad.gguf").contains("no GGUF file"));
}

fn a_damaged_memory_of_facts_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("models"), "a.gguf");
    let remembered = folder.path().join("cache/models.json");
    for damage in ["", "{", "{\"version\": 99, \"models\": []}", "[[[[[["] {
        fs::create_dir_all(remembered.parent().unwrap()).unwrap();
        fs::write(&remembered, damage).unwrap();
        read(&library(folder.path(), support::probe()).list(&[]), &["a.gguf"]);
        read(&library(folder.path(), nothing()).list(&[]), &["a.gguf"]);
    }
}

fn a_part_that_was_missing_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    let library = library(folder.path(), support::probe());
    let parts = support::split_model(&models, "big");
    fs::rename(&parts[1], folder.path().join("elsewhere")).unwrap();
    let said = why(&library.list(&[]), "big-00001-of-00002.gguf");
    assert!(said.contains("big-00002-of-00002.gguf' is missing"), "{said}");
    fs::rename(folder.path().join("elsewhere"), &parts[1]).unwrap();
    read(&library.list(&[]), &["big-00001-of-00002.gguf"]);
    fs::write(&parts[1], "no model").unwrap();
    let said = why(&library.list(&[]), "big-00001-of-00002.gguf");
    assert!(said.contains("no GGUF file"), "{said}");
}

/// Root may read everything, so there this proves that nothing is refused that can be read.
fn rights_that_change_are_noticed() {
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

fn hostile_adapters_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), support::probe());
    let model = fixture("models/llama.gguf");
    for good in ["adapters/llama", "adapters/llama.gguf"] {
        library.check_adapter(&fixture(good), &model).unwrap();
    }
    let refused = |path: &Path, model: &Path, expected: &str| {
        let said = library.check_adapter(path, model).expect_err("refused");
        assert!(said.contains(expected) && said.ends_with('.'), "{said}");
    };
    refused(
        &fixture("adapters/llama.gguf"),
        &fixture("models/qwen2.gguf"),
        "architecture",
    );
    for file in ["abort.gguf", "panic.gguf"] {
        let expected = if file == "abort.gguf" {
            "ended early"
        } else {
            "a mistake"
        };
        refused(&support::model(folder.path(), file), &model, expected);
    }
    refused(
        &support::model(folder.path(), "a-model.gguf"),
        &model,
        "this is no adapter",
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
    refused(&peft, &model, "adapter_model.safetensors is damaged");
    #[cfg(unix)]
    {
        let sparse_file = File::create(&tensors).unwrap();
        sparse_file.set_len(256 * GIB).unwrap();
        refused(&peft, &model, "adapter_model.safetensors is damaged");
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
