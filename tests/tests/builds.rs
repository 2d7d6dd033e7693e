//! Several builds of Hearth side by side: each is asked what it can use, what was found of each decides, and work is handed over. The
//! other builds are played by copies of the portable one.

use hearth_protocol::DeviceCheck;
use hearth_tests::driver;
use hearth_tests::hearth::{Ended, call};
use hearth_tests::place::{executable, root};
use serde_json::{Value, json};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with executables, and what is kept between their starts.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["hearth", "hearth-vulkan"] {
            let copy = folder.path().join(format!("{name}{EXE_SUFFIX}"));
            // The same bytes, where the file system can do that.
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
            .env("HEARTH_LOG", "hearth_engine=info");
        call(&mut command)
    }

    /// The first GPU.
    fn gpu(&self) -> Value {
        let devices = self.hearth(&["devices", "--json"]).json();
        let gpu = devices["devices"][1].clone();
        assert!(gpu["usable"].is_boolean(), "no GPU; is there a driver? {devices}");
        gpu
    }

    /// Lets it be known what was found of the first GPU in each build: its speed, or what is wrong.
    fn find(&self, found: &[(&str, Result<f64, &str>)]) {
        let gpu = self.gpu();
        let check = |(build, found): &(&str, Result<f64, &str>)| {
            let speed = found.unwrap_or_default();
            json!({
                "subject": {
                    "identity": gpu["identity"], "name": gpu["name"], "driver": gpu["driver"], "build": build,
                    "version": env!("CARGO_PKG_VERSION"), "check": DeviceCheck::VERSION,
                },
                "check": { "wrong": found.err(), "bytes_per_second": speed, "products_per_second": speed },
            })
        };
        let checks: Vec<Value> = found.iter().map(check).collect();
        let text = json!({ "checks": checks }).to_string();
        fs::write(self.folder.path().join("devices.json"), text).expect("it is written");
    }

    /// A few tokens of a tiny model on the first GPU; whether another build answered.
    fn run(&self, arguments: &[&str]) -> (Ended, bool) {
        let model: PathBuf = root().join("tests/fixtures/models/llama.gguf");
        let model = model.to_str().expect("test paths are UTF-8");
        let run = [
            "run", model, "Once", "--raw", "-n", "3", "--temp", "0", "--json", "--device", "gpu0",
        ];
        let ended = self.hearth(&[&run, arguments].concat());
        let handed = ended.stderr.contains("the build 'vulkan' of Hearth goes on");
        (ended, handed)
    }
}

/// The builds that can use a GPU, in order.
fn builds(gpu: &Value) -> Vec<&str> {
    let ways = gpu["ways"].as_array().expect("a list");
    ways.iter().filter_map(|way| way["build"].as_str()).collect()
}

#[test]
fn the_fastest_build_that_is_right_does_the_work() {
    if driver::left_out() {
        return;
    }
    driver::choose();
    let installed = Installed::new();
    assert_eq!(
        builds(&installed.gpu()),
        ["portable", "vulkan"],
        "nothing was checked: this build leads"
    );

    installed.find(&[("portable", Ok(1e9)), ("vulkan", Ok(2e9))]);
    assert_eq!(builds(&installed.gpu()), ["vulkan", "portable"]);
    let (there, handed) = installed.run(&[]);
    assert!(handed, "{there:?}");
    let (here, handed) = installed.run(&["--build", "portable"]);
    assert!(!handed, "{here:?}");
    assert_eq!(there.json()["ids"], here.json()["ids"]);

    installed.find(&[("portable", Ok(2e9)), ("vulkan", Ok(1e9))]);
    assert!(!installed.run(&[]).1);
    let (wanted, handed) = installed.run(&["--build", "vulkan"]);
    assert!(handed && wanted.code == Some(0), "{wanted:?}");

    let wrong = "Its driver computes something else.";
    installed.find(&[("portable", Err(wrong)), ("vulkan", Ok(1e9))]);
    assert!(
        installed.run(&[]).1,
        "a build that computes something else is left out, however fast"
    );
    assert!(installed.run(&["--build", "portable"]).0.complaint().ends_with(wrong));
    installed.find(&[("portable", Err(wrong)), ("vulkan", Err(wrong))]);
    assert!(
        installed.run(&[]).0.complaint().ends_with(wrong),
        "nothing is left that is right"
    );

    let (missing, _) = installed.run(&["--build", "cuda"]);
    assert!(missing.complaint().contains("not installed"), "{missing:?}");
}

#[test]
fn a_neighbour_that_is_broken_is_left_out() {
    if driver::left_out() {
        return;
    }
    driver::choose();
    let installed = Installed::new();
    let broken = installed.folder.path().join(format!("hearth-cuda{EXE_SUFFIX}"));
    fs::write(broken, b"no program").expect("it is written");
    assert_eq!(builds(&installed.gpu()), ["portable", "vulkan"]);
}
