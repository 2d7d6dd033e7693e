//! Arbitrary bytes as `run.json`, and after a NUL as the log of a run.

use crate::seeds::{self, Seed};
use hearth_engine::training::RunFolder;
use std::fs;
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

pub fn run(bytes: &[u8]) -> bool {
    let (run, log) = match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let folder = RunFolder(FOLDER.path().to_owned());
    fs::write(folder.0.join("run.json"), run).expect("it is written");
    fs::write(folder.0.join("log.jsonl"), log).expect("it is written");
    folder.losses();
    let Some(run) = folder.read() else {
        return false;
    };
    let text = serde_json::to_vec(&run).expect("it is written");
    fs::write(folder.0.join("run.json"), text).expect("it is written");
    let again = folder.read().expect("what Hearth wrote");
    assert_eq!(again.prompts, run.prompts);
    let settings = &run.settings;
    if settings.check().is_ok() {
        let steps = settings.steps(1000);
        assert!(steps > 0);
        for step in [0, steps / 2, steps - 1] {
            assert!(settings.learning_rate_at(step, steps).is_finite());
        }
        settings.clip_factor(1.0);
        settings.scale();
        settings.precision();
    }
    true
}

pub fn seeds() -> Vec<Seed> {
    let old = seeds::file("tests/fixtures/v0/run/run.json");
    let log = seeds::file("tests/fixtures/v0/run/log.jsonl");
    // Without whitespace.
    let short = serde_json::from_slice::<serde_json::Value>(&old)
        .expect("JSON")
        .to_string();
    vec![
        Seed::new("v0", [&old[..], b"\0", &log].concat()),
        Seed::new("ba366ad, short", [short.as_bytes(), b"\0", &log].concat()),
    ]
}
