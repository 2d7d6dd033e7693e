//! Recordings of the engine for the window's fake host: device checks, memory plans and inspected
//! datasets, converted to the wire by the app.
//!
//! `HEARTH_UPDATE_RECORDINGS=1 cargo test --release --workspace --test recordings` writes them.
//! Machines and models are described here, so a recording depends on no machine; datasets are
//! read with the default model.

mod machines;
mod models;
mod plans;
mod tuning;

use std::{fs, path::Path};

/// Compares a recording with its file, or writes it.
fn compare(name: &str, expected: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/host/fake/recordings");
    let path = folder.join(name);
    if std::env::var_os("HEARTH_UPDATE_RECORDINGS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, expected).unwrap();
    }
    // A checkout on Windows may have other line endings.
    let actual = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    let differing = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
    assert!(
        actual == expected,
        "{name} is stale from line {}: run HEARTH_UPDATE_RECORDINGS=1 cargo test --release --workspace --test recordings",
        differing.unwrap_or_else(|| actual.lines().count().min(expected.lines().count())) + 1
    );
}

#[test]
fn machines_are_up_to_date() {
    compare("machines.json", &machines::recording());
}

#[test]
fn plans_are_up_to_date() {
    compare("plans.json", &plans::recording());
}

#[test]
fn tuning_is_up_to_date() {
    compare("tuning.json", &tuning::recording());
}
