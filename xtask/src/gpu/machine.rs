//! The machine: its devices, drivers and software versions.

use super::report::{Part, command_line, today};
use crate::paths;
use crate::process::{Outcome, capture, read};
use serde::Deserialize;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of `hearth devices`, and the selected GPU.
pub struct Machine {
    devices: String,
    cpu: Option<String>,
    command: String,
    version: String,
    chosen: Option<Device>,
}

/// The selected GPU.
pub struct Device {
    /// Device ID for `--device`.
    pub id: String,
    /// Whether the device is a hardware GPU, not a software driver.
    pub real: bool,
    /// The builds of Hearth that support it.
    pub builds: Vec<String>,
    name: String,
    rows: Vec<(&'static str, String)>,
}

/// The output of `hearth devices --json`.
#[derive(Deserialize)]
struct Devices {
    devices: Vec<ListedDevice>,
}

#[derive(Deserialize)]
struct ListedDevice {
    id: String,
    kind: String,
    name: String,
    backend: String,
    usable: bool,
    memory_total: Option<u64>,
    driver: Option<String>,
    api: Option<String>,
    backends: Vec<ListedBackend>,
}

#[derive(Deserialize)]
struct ListedBackend {
    /// None for a backend that no installed build of Hearth has.
    build: Option<String>,
}

impl Machine {
    /// Queries `hearth devices` and selects a GPU.
    ///
    /// # Errors
    /// If it fails, or there is no such device.
    pub fn query(hearth: &Path, id: Option<&str>) -> Outcome<Self> {
        let mut command = Command::new(hearth);
        command.args(["devices", "--json"]);
        let output = capture("Looking for GPUs", &mut command)?;
        if !output.ok {
            return Err(format!("`hearth devices` failed: {}", output.last_stderr_line()));
        }
        let devices = output.last_line().to_owned();
        let Devices { devices: listed } = serde_json::from_str(&devices)
            .map_err(|error| format!("The output of `hearth devices --json` could not be read ({error})."))?;
        let cpu = listed
            .iter()
            .find(|device| device.kind == "cpu")
            .map(|cpu| cpu.name.clone());
        // Sorted by kind, so that a software driver is selected only if there is no other.
        let mut gpus = listed.into_iter().filter(|device| device.kind != "cpu");
        let chosen = match id {
            None => gpus.find(|gpu| gpu.usable),
            Some(id) => Some(
                gpus.find(|gpu| gpu.id == id)
                    .ok_or_else(|| format!("There is no GPU {id}; run `hearth devices` for a list."))?,
            ),
        };
        let chosen = chosen.map(Device::from);
        Ok(Self {
            chosen,
            cpu,
            command: command_line(&command),
            version: read(Command::new(hearth).arg("--version")).unwrap_or_default(),
            devices,
        })
    }

    /// The selected GPU, if any.
    pub fn device(&self) -> Option<&Device> {
        self.chosen.as_ref()
    }

    /// Title of the report.
    pub fn title(&self) -> String {
        format!("{}, {}", self.name(), today())
    }

    /// Default path of the report: one file per GPU and day.
    pub fn file(&self) -> PathBuf {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        let name: String = self.name().chars().map(plain).collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        paths::root().join(format!("docs/gpu/{}-{}.md", today(), words.join("-")))
    }

    fn name(&self) -> &str {
        self.chosen.as_ref().map_or("No GPU", |device| &device.name)
    }

    /// The section on the machine; `built_here` is whether `hearth` was built from this working
    /// tree.
    pub fn part(&self, built_here: bool) -> Part {
        let mut part = Part::default();
        let mut rows = vec![
            ("version", self.version.clone()),
            (
                "built from",
                if built_here {
                    revision()
                } else {
                    "unknown: an existing build was given".to_owned()
                },
            ),
            ("system", system()),
        ];
        rows.extend(self.cpu.iter().map(|name| ("CPU", name.clone())));
        rows.extend(self.chosen.iter().flat_map(|device| device.rows.clone()));
        rows.extend(named_driver().map(|name| ("driver set by", name)));
        let lines: Vec<String> = rows
            .iter()
            .map(|(name, value)| format!("| {name} | {value} |"))
            .collect();
        part.say(&format!("| | |\n|---|---|\n{}", lines.join("\n")));
        if self.chosen.as_ref().is_some_and(|device| !device.real) {
            part.say(
                "**This is a software driver, not a GPU.** It shows that everything runs, but the speeds below are \
                 those of the \
                 CPU that emulates it.",
            );
        }
        part.commands(std::slice::from_ref(&self.command));
        part.block("json", &self.devices);
        part
    }
}

impl From<ListedDevice> for Device {
    fn from(listed: ListedDevice) -> Self {
        let unknown = || "unknown".to_owned();
        let memory = listed
            .memory_total
            .map_or_else(unknown, |bytes| format!("{:.1} GiB", bytes as f64 / 1024_f64.powi(3)));
        let api = listed.api.unwrap_or_else(unknown);
        Self {
            real: listed.kind != "software",
            builds: listed
                .backends
                .into_iter()
                .filter_map(|backend| backend.build)
                .collect(),
            rows: vec![
                ("GPU", format!("{} ({}, {})", listed.name, listed.id, listed.kind)),
                ("driver", listed.driver.unwrap_or_else(unknown)),
                ("API", format!("{}, {api}", listed.backend)),
                ("memory", memory),
            ],
            id: listed.id,
            name: listed.name,
        }
    }
}

/// The revision of the source.
fn revision() -> String {
    let git = |arguments: &[&str]| read(Command::new("git").args(arguments).current_dir(paths::root()));
    match (git(&["rev-parse", "--short", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(revision), Some(changes)) if changes.is_empty() => format!("revision {revision}"),
        (Some(revision), _) => format!("revision {revision} with changes"),
        _ => "an unknown revision".to_owned(),
    }
}

fn system() -> String {
    let uname = read(Command::new("uname").args(["-s", "-r", "-m"]));
    uname.unwrap_or_else(|| format!("{}, {}", env::consts::OS, env::consts::ARCH))
}

/// The file name of the driver set by the environment.
fn named_driver() -> Option<String> {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .into_iter()
        .find_map(|variable| {
            let value = env::var_os(variable)?;
            let file = Path::new(&value).file_name()?.to_string_lossy().into_owned();
            Some(format!("{variable} ({file})"))
        })
}
