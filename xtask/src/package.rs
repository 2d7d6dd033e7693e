//! `cargo xtask package`: builds installers that contain the workers and the default model.

use crate::cargo::{PROGRAMS, cargo};
use crate::paths;
use crate::process::{Outcome, announce, read, run};
use crate::setup::setup;
use crate::system::Purpose;
use crate::{model, ui};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::process::Command;

/// The npm package that builds installers.
const TAURI_CLI: &str = "@tauri-apps/cli@2.12";

/// Backends of the worker builds beside the portable one.
pub const BACKENDS: &[&str] = &["vulkan", "cuda"];

/// Builds installers in the given formats (all formats of the system if none is given) with the
/// given extra workers.
///
/// # Errors
/// Names the failed step.
pub fn package(kinds: &[String]) -> Outcome {
    let (backends, bundles): (Vec<&str>, Vec<&str>) = kinds
        .iter()
        .map(String::as_str)
        .partition(|kind| BACKENDS.contains(kind));
    setup(Purpose::Run)?;
    let host = host()?;
    let mut workers = vec![portable_worker(&host)?];
    for backend in backends {
        build(backend)?;
        workers.push(copy_build(&format!("hearth-{backend}"), &host)?);
    }
    let config = paths::target().join("package.json");
    fs::write(&config, configuration(&workers))
        .map_err(|error| format!("{} could not be written ({error}).", config.display()))?;
    let mut tauri = ui::npm()?;
    tauri
        .args(["exec", "--yes", TAURI_CLI, "--", "build", "--config"])
        .arg(&config);
    if !bundles.is_empty() {
        tauri.arg("--bundles").arg(bundles.join(","));
    }
    tauri.current_dir(paths::root().join("src-tauri"));
    run("Building installers", &mut tauri)?;
    announce(&format!(
        "Installers are in {}",
        paths::target().join("release").join("bundle").display()
    ));
    Ok(())
}

/// The host target triple, which is part of a sidecar's file name.
fn host() -> Outcome<String> {
    let version = read(Command::new("rustc").arg("-vV")).ok_or("`rustc -vV` could not be run.")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` does not name a host.".to_owned())
}

/// Builds the portable worker, as `cargo xtask run` does.
fn portable_worker(host: &str) -> Outcome<String> {
    run("Building hearth", cargo(&["build"]).args(PROGRAMS))?;
    copy_build("hearth", host)
}

/// Builds `hearth` for a backend, replacing the portable build.
///
/// # Errors
/// If the build fails.
pub fn build(backend: &str) -> Outcome {
    let mut build = cargo(&["build", "--release", "--locked", "--package", "hearth-cli"]);
    build.args(["--no-default-features", "--features", backend]);
    run(&format!("Building hearth-{backend}"), &mut build)
}

/// Copies the worker that was built last to the sidecar folder. Returns its name.
fn copy_build(name: &str, host: &str) -> Outcome<String> {
    let folder = paths::root().join("src-tauri").join("binaries");
    let file = folder.join(format!("{name}-{host}{EXE_SUFFIX}"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(paths::executable("hearth"), &file))
        .map_err(|error| format!("{} could not be written ({error}).", file.display()))?;
    Ok(name.to_owned())
}

/// The Tauri configuration that extends `src-tauri/tauri.conf.json` for installers.
fn configuration(workers: &[String]) -> String {
    let workers: Vec<String> = workers.iter().map(|name| format!("\"binaries/{name}\"")).collect();
    let file = model::FILE;
    format!(
        r#"{{"bundle":{{"externalBin":[{}],"resources":{{"../models/{file}":"models/{file}","../assets/datasets/":"datasets/"}}}}}}"#,
        workers.join(",")
    )
}
