//! `cargo xtask package`: installers, with the workers and the default model inside.

use crate::cargo::{PROGRAMS, cargo};
use crate::place;
use crate::process::{Outcome, announce, read, run};
use crate::setup::{For, setup};
use crate::{model, ui};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::process::Command;

/// The tool that makes installers; from npm, where it lies built.
const TAURI_CLI: &str = "@tauri-apps/cli@2.12";

/// Sets of backends that a worker can be built for beside the portable one.
pub const BACKENDS: &[&str] = &["vulkan", "cuda"];

/// Makes installers of the given kinds (all that the system knows, if none is given) with the given extra workers.
///
/// # Errors
/// Names what failed.
pub fn package(kinds: &[String]) -> Outcome {
    let (backends, bundles): (Vec<&str>, Vec<&str>) = kinds
        .iter()
        .map(String::as_str)
        .partition(|kind| BACKENDS.contains(kind));
    setup(For::Run)?;
    let host = host()?;
    let mut workers = vec![portable_worker(&host)?];
    for backend in backends {
        build(backend)?;
        workers.push(lay(&format!("hearth-{backend}"), &host)?);
    }
    let config = place::target().join("package.json");
    fs::write(&config, configuration(&workers))
        .map_err(|error| format!("{} could not be written ({error}).", config.display()))?;
    let mut tauri = ui::npm()?;
    tauri
        .args(["exec", "--yes", TAURI_CLI, "--", "build", "--config"])
        .arg(&config);
    if !bundles.is_empty() {
        tauri.arg("--bundles").arg(bundles.join(","));
    }
    tauri.current_dir(place::root().join("src-tauri"));
    run("Making installers", &mut tauri)?;
    announce(&format!(
        "Installers are in {}",
        place::target().join("release").join("bundle").display()
    ));
    Ok(())
}

/// The target this machine builds for, which is part of a sidecar's file name.
fn host() -> Outcome<String> {
    let about = read(Command::new("rustc").arg("-vV")).ok_or("`rustc` could not be asked for its host.")?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` does not name a host.".to_owned())
}

/// The worker that runs anywhere: the one that `cargo xtask run` builds.
fn portable_worker(host: &str) -> Outcome<String> {
    run("Building hearth", cargo(&["build"]).args(PROGRAMS))?;
    lay("hearth", host)
}

/// Builds `hearth` for some backend, in the place of the portable one.
///
/// # Errors
/// It cannot be built.
pub fn build(backend: &str) -> Outcome {
    let mut build = cargo(&["build", "--release", "--locked", "--package", "hearth-cli"]);
    build.args(["--no-default-features", "--features", backend]);
    run(&format!("Building hearth-{backend}"), &mut build)
}

/// Lays the worker that was built last where the installer's tool looks for it. Returns its name.
fn lay(name: &str, host: &str) -> Outcome<String> {
    let folder = place::root().join("src-tauri").join("binaries");
    let file = folder.join(format!("{name}-{host}{EXE_SUFFIX}"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(place::executable("hearth"), &file))
        .map_err(|error| format!("{} could not be written ({error}).", file.display()))?;
    Ok(name.to_owned())
}

/// What the installers hold beside what `src-tauri/tauri.conf.json` says.
fn configuration(workers: &[String]) -> String {
    let workers: Vec<String> = workers.iter().map(|name| format!("\"binaries/{name}\"")).collect();
    let file = model::FILE;
    format!(
        r#"{{"bundle":{{"externalBin":[{}],"resources":{{"../models/{file}":"models/{file}","../assets/datasets/":"datasets/"}}}}}}"#,
        workers.join(",")
    )
}
