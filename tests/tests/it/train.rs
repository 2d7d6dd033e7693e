//! `hearth train` and `hearth export` with the real model: the adapter changes answers, a killed
//! run resumes, exports match the adapter.

use hearth_tests::hearth::{Ended, hearth};
use hearth_tests::paths::{self, executable, model, models, root};
use hearth_tests::shared::{Shared, key};
use hearth_tests::wait;
use serde_json::Value;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

/// Long enough for a run on a slow machine.
const LIMIT: Duration = Duration::from_secs(600);

const QUESTION: &str = "What should I have for breakfast?";

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

fn sample() -> String {
    text(&root().join("assets/datasets/hearthside.jsonl")).to_owned()
}

/// `hearth train` of the default model on the sample, a few short steps.
fn arguments(out: &Path) -> Vec<String> {
    let fixed = "--seq 96 --batch 2 --lr 0.001 --max-steps 12 --seed 5 --json";
    let start = ["train", text(&model()), &sample(), "--out", text(out)].map(str::to_owned);
    start
        .into_iter()
        .chain(fixed.split_whitespace().map(str::to_owned))
        .collect()
}

/// A run that tests only read, and the report of `hearth train`: made once per executable, model,
/// dataset and arguments.
static RUN: LazyLock<(Shared, Value)> = LazyLock::new(|| {
    let (program, model, sample) = (executable("hearth"), model(), sample());
    let run_arguments = arguments(Path::new("run")).join("\n");
    // Another instruction set may round otherwise.
    let isa = env::var("HEARTH_ISA").unwrap_or_default();
    let key = key(&[&program, &model, Path::new(&sample)], &[&run_arguments, &isa]);
    let shared = Shared::folder(&paths::shared(), "adapter", &key, |folder| {
        let ended = hearth(arguments(&folder.join("run")));
        ended.json();
        fs::write(folder.join("report.json"), ended.stdout).expect("a report");
    });
    let output = fs::read_to_string(shared.path().join("report.json")).expect("a report");
    let report = serde_json::from_str(output.lines().last().unwrap_or_default()).expect("JSON");
    (shared, report)
});

fn run_folder() -> String {
    text(&RUN.0.path().join("run")).to_owned()
}

fn ask(adapter: &[&str]) -> String {
    let mut words = vec!["run", "MODEL", QUESTION, "-n", "48", "--temp", "0", "--json"];
    let model = model();
    words[1] = text(&model);
    words.extend(adapter);
    hearth(words).json()["text"].as_str().expect("a text").to_owned()
}

#[test]
fn an_adapter_changes_answers_and_the_base_is_unchanged() {
    let report = &RUN.1;
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("no {key}: {report}"));
    assert_eq!(report["losses"].as_array().map(Vec::len), Some(12));
    assert!(number("eval_loss") < 0.85 * number("eval_loss_before"), "{report}");
    assert!(number("train_loss") > 0.0 && number("tok_s") > 0.0 && number("peak_rss_mb") > 0.0);

    let folder = run_folder();
    let (base, tuned) = (ask(&[]), ask(&["--adapter", &folder]));
    assert_ne!(base, tuned);
    // With scale 0, an adapter changes nothing.
    assert_eq!(ask(&["--adapter", &format!("{folder}=0")]), base);
}

#[test]
fn a_killed_run_resumes_to_the_same_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    // A fast machine may complete a run before it is killed; then another run is started.
    wait::until(LIMIT, "a run is killed before its last step", || {
        let _ = fs::remove_dir_all(&out);
        (steps_of_killed_run(&out, folder.path()) < 12).then_some(())
    });

    let mut again = arguments(&out);
    again.push("--resume".to_owned());
    #[cfg(unix)]
    assert_fails_on_full_disk(&again, folder.path());
    let report = hearth(again).json();
    assert_eq!(report["losses"], RUN.1["losses"]);
    let weights = |run: &Path| fs::read(run.join("adapter/adapter_model.safetensors")).expect("an adapter");
    assert!(weights(&out) == weights(Path::new(&run_folder())));
}

/// Kills a run after its fourth step. Returns the number of its steps.
fn steps_of_killed_run(out: &Path, data: &Path) -> usize {
    let mut child = Command::new(executable("hearth"))
        .args(arguments(out))
        .env("HEARTH_DATA", data)
        .env("HEARTH_MODELS", models())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("hearth starts");
    let steps = || fs::read_to_string(out.join("log.jsonl")).map_or(0, |log| log.lines().count());
    wait::until(LIMIT, "the run makes four steps", || (steps() >= 4).then_some(()));
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    steps()
}

/// Resumes with a file size limit below a checkpoint's size: the run fails with an error message,
/// and existing files stay.
#[cfg(unix)]
fn assert_fails_on_full_disk(arguments: &[String], data: &Path) {
    // In blocks of 512 bytes: 30 MB; an adapter takes 20 and a checkpoint 59.
    let limited = "ulimit -f 60000; trap '' XFSZ; exec \"$0\" \"$@\"";
    let ended = Command::new("sh")
        .args(["-c", limited, text(&executable("hearth"))])
        .args(arguments)
        .env("HEARTH_DATA", data)
        .env("HEARTH_MODELS", models())
        .output()
        .expect("sh starts");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(1) && stderr.contains("checkpoint could not be written"),
        "{ended:?}"
    );
}

#[test]
fn every_export_is_verified_and_matches_the_adapter() {
    let folder = tempfile::tempdir().expect("a folder");
    let export = |to: &[&str], out: &str| -> (Value, String) {
        let (run, out) = (run_folder(), folder.path().join(out));
        let mut words = vec!["export", &run, "--out", text(&out), "--verify", "--json", "--to"];
        words.extend(to);
        (hearth(words).json(), text(&out).to_owned())
    };
    let tuned = ask(&["--adapter", &run_folder()]);
    for (to, name) in [("gguf-lora", "adapter.gguf"), ("peft", "peft")] {
        let (report, out) = export(&[to], name);
        assert_eq!(report["verified"], true, "{report}");
        assert_eq!(ask(&["--adapter", &out]), tuned, "{to}");
    }
    let (report, out) = export(&["gguf", "--type", "Q8_0"], "merged.gguf");
    assert_eq!(report["verified"], true, "{report}");
    let merged = hearth(["run", &out, QUESTION, "-n", "8", "--temp", "0", "--json"]).json();
    assert!(merged["text"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(folder.path().join("merged.Modelfile").is_file());
}

#[test]
fn an_export_does_not_replace_its_inputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base.gguf");
    fs::copy(model(), &base).expect("it is copied");
    let adapter = Path::new(&run_folder()).join("adapter");
    let files = |path: &Path| fs::read_dir(path).expect("a folder").count();
    let before = files(&adapter);
    for (to, out, expected) in [
        ("gguf", base.as_path(), "is the model"),
        ("gguf-lora", &base, "is the model"),
        ("peft", &adapter, "is the adapter"),
        (
            "gguf-lora",
            &folder.path().join("x.Modelfile"),
            "has the name of the Modelfile",
        ),
    ] {
        let words = [
            "export",
            &run_folder(),
            "--model",
            text(&base),
            "--to",
            to,
            "--out",
            text(out),
        ];
        let ended = hearth(words);
        assert!(ended.error_line().contains(expected), "{ended:?}");
    }
    assert!(fs::read(&base).expect("a model") == fs::read(model()).expect("a model"));
    assert_eq!((files(&adapter), files(folder.path())), (before, 1));
}

#[test]
fn unusable_training_input_is_refused_with_a_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let train = |name: &str, data: &[u8], more: &[&str]| -> Ended {
        let (data_path, out) = (folder.path().join(name), folder.path().join("out"));
        fs::write(&data_path, data).expect("the data is written");
        let model = model();
        let mut words = vec!["train", text(&model), text(&data_path), "--out", text(&out)];
        words.extend(more);
        let ended = hearth(words);
        assert!(!out.join("adapter").exists(), "{ended:?}");
        ended
    };
    let refused = |name: &str, data: &[u8], more: &[&str], expected: &str| {
        let ended = train(name, data, more);
        assert!(ended.error_line().contains(expected), "{name}: {ended:?}");
    };
    let good = br#"{"prompt": "Hello?", "completion": "Good day."}"#;
    refused("empty.jsonl", b"", &[], "empty");
    refused(
        "broken.jsonl",
        b"{\"prompt\": \"a\", \"completion\": \"b\"}\n{oops\n",
        &[],
        "2",
    );
    refused("wide.jsonl", good, &["--rank", "4000"], "rank");
    refused("none.jsonl", good, &["--targets", "lm_head"], "lm_head");
    let other_adapter = root().join("tests/fixtures/adapters/llama");
    refused("good.jsonl", good, &["--init", text(&other_adapter)], "belong");
    let model = model();
    let other = hearth(["run", text(&model), "Hello", "--adapter", text(&other_adapter)]);
    assert!(other.error_line().contains("belong"), "{other:?}");
}
