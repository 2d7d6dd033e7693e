//! Several builds of Hearth side by side: each is probed, the device checks' results select one,
//! and work is switched to it. Copies of the portable build stand in for the other builds.

use hearth_protocol::DeviceCheck;
use hearth_tests::driver;
use hearth_tests::hearth::{Ended, call};
use hearth_tests::paths::{executable, root};
use serde_json::{Value, json};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with executables and their cache.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["hearth", "hearth-vulkan"] {
            let copy = folder.path().join(format!("{name}{EXE_SUFFIX}"));
            // A hard link if possible, else a copy.
            fs::hard_link(executable("hearth"), &copy)
                .or_else(|_| fs::copy(executable("hearth"), &copy).map(drop))
                .expect("a copy");
        }
        Self { folder }
    }

    fn hearth(&self, arguments: &[&str]) -> Ended {
        let program = self.folder.path().join(format!("hearth{EXE_SUFFIX}"));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("HEARTH_CACHE", self.folder.path())
            .env("HEARTH_LOG", "hearth=info");
        call(&mut command)
    }

    /// The first GPU.
    fn gpu(&self) -> Value {
        let devices = self.hearth(&["devices", "--json"]).json();
        let gpu = devices["devices"][1].clone();
        assert!(gpu["usable"].is_boolean(), "no GPU; is there a driver? {devices}");
        gpu
    }

    /// Writes device check results of the first GPU in each build: its speed, or a mismatch.
    fn set_checks(&self, results: &[(&str, Result<f64, &str>)]) {
        let gpu = self.gpu();
        let check = |(build, result): &(&str, Result<f64, &str>)| {
            let speed = result.unwrap_or_default();
            json!({
                "subject": {
                    "identity": gpu["identity"], "name": gpu["name"], "driver": gpu["driver"], "build": build,
                    "version": env!("CARGO_PKG_VERSION"), "check": DeviceCheck::VERSION,
                },
                "check": { "mismatch": result.err(), "bytes_per_second": speed, "macs_per_second": speed },
            })
        };
        let checks: Vec<Value> = results.iter().map(check).collect();
        let text = json!({ "checks": checks }).to_string();
        fs::write(self.folder.path().join("devices.json"), text).expect("it is written");
    }

    /// Generates a few tokens of a tiny model on the first GPU. Returns whether it switched to
    /// another build.
    fn run(&self, arguments: &[&str]) -> (Ended, bool) {
        let model: PathBuf = root().join("tests/fixtures/models/llama.gguf");
        let model = model.to_str().expect("test paths are UTF-8");
        let run = [
            "run", model, "Once", "--raw", "-n", "3", "--temp", "0", "--json", "--device", "gpu0",
        ];
        let ended = self.hearth(&[&run, arguments].concat());
        let switched = ended.stderr.contains("the build 'vulkan' of Hearth continues");
        (ended, switched)
    }
}

/// The builds that can use a GPU, in order.
fn builds(gpu: &Value) -> Vec<&str> {
    let backends = gpu["backends"].as_array().expect("a list");
    backends.iter().filter_map(|option| option["build"].as_str()).collect()
}

#[test]
fn the_fastest_build_without_a_mismatch_is_used() {
    if driver::is_disabled() {
        return;
    }
    driver::select();
    let installed = Installed::new();
    assert_eq!(
        builds(&installed.gpu()),
        ["portable", "vulkan"],
        "without checks, the default build is first"
    );

    installed.set_checks(&[("portable", Ok(1e9)), ("vulkan", Ok(2e9))]);
    assert_eq!(builds(&installed.gpu()), ["vulkan", "portable"]);
    let (vulkan, switched) = installed.run(&[]);
    assert!(switched, "{vulkan:?}");
    let (portable, switched) = installed.run(&["--build", "portable"]);
    assert!(!switched, "{portable:?}");
    assert_eq!(vulkan.json()["ids"], portable.json()["ids"]);

    installed.set_checks(&[("portable", Ok(2e9)), ("vulkan", Ok(1e9))]);
    assert!(!installed.run(&[]).1);
    let (requested, switched) = installed.run(&["--build", "vulkan"]);
    assert!(switched && requested.code == Some(0), "{requested:?}");

    let mismatch = "Its results differ.";
    installed.set_checks(&[("portable", Err(mismatch)), ("vulkan", Ok(1e9))]);
    assert!(
        installed.run(&[]).1,
        "a build with a mismatch is not used, however fast"
    );
    assert!(
        installed
            .run(&["--build", "portable"])
            .0
            .error_line()
            .ends_with(mismatch)
    );
    installed.set_checks(&[("portable", Err(mismatch)), ("vulkan", Err(mismatch))]);
    assert!(
        installed.run(&[]).0.error_line().ends_with(mismatch),
        "every build has a mismatch"
    );

    let (missing, _) = installed.run(&["--build", "cuda"]);
    assert!(missing.error_line().contains("not installed"), "{missing:?}");
}

#[test]
fn a_broken_build_is_skipped() {
    if driver::is_disabled() {
        return;
    }
    driver::select();
    let installed = Installed::new();
    let broken = installed.folder.path().join(format!("hearth-cuda{EXE_SUFFIX}"));
    fs::write(broken, b"no program").expect("it is written");
    assert_eq!(builds(&installed.gpu()), ["portable", "vulkan"]);
}
