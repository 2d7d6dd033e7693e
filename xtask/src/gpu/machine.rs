//! The machine: its devices, drivers and software versions.

use super::report::{Part, command_line, today};
use crate::process::{Outcome, capture, read};
use crate::{json, paths};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of `hearth devices`, and the selected GPU.
pub struct Machine {
    devices: String,
    command: String,
    version: String,
    chosen: Option<Device>,
}

/// The selected GPU.
pub struct Device {
    /// Device ID for `--device`.
    pub id: String,
    /// Whether it is a hardware GPU, not a software driver.
    pub real: bool,
    /// The builds of Hearth that support it.
    pub builds: Vec<String>,
    name: String,
    rows: Vec<(&'static str, String)>,
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
        let found = json::device_objects(&devices);
        // Sorted by kind, so that a software driver is selected only if there is no other.
        let mut gpus = found
            .iter()
            .copied()
            .filter(|device| json::text(device, "kind") != Some("cpu"));
        let chosen = match id {
            None => gpus.find(|gpu| json::is(gpu, "usable")),
            Some(id) => Some(
                gpus.find(|gpu| json::text(gpu, "id") == Some(id))
                    .ok_or_else(|| format!("There is no GPU {id}; run `hearth devices` for a list."))?,
            ),
        };
        let chosen = chosen.map(Device::read);
        Ok(Self {
            chosen,
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
        let cpu = json::device_objects(&self.devices)
            .first()
            .copied()
            .and_then(|cpu| json::text(cpu, "name"));
        rows.extend(cpu.map(|name| ("CPU", name.to_owned())));
        rows.extend(self.chosen.iter().flat_map(|device| device.rows.clone()));
        rows.extend(named_driver().map(|name| ("driver set by", name)));
        let lines: Vec<String> = rows
            .iter()
            .map(|(what, value)| format!("| {what} | {value} |"))
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

impl Device {
    fn read(json: &str) -> Self {
        let text = |field| json::text(json, field).unwrap_or("unknown").to_owned();
        let memory = json::number(json, "memory_total");
        Self {
            id: text("id"),
            real: text("kind") != "software",
            builds: json::texts(json, "build").into_iter().map(str::to_owned).collect(),
            name: text("name"),
            rows: vec![
                ("GPU", format!("{} ({}, {})", text("name"), text("id"), text("kind"))),
                ("driver", text("driver")),
                ("API", format!("{}, {}", text("backend"), text("api"))),
                (
                    "memory",
                    memory.map_or("unknown".to_owned(), |bytes| {
                        format!("{:.1} GiB", bytes / 1024_f64.powi(3))
                    }),
                ),
            ],
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
    let known = read(Command::new("uname").args(["-s", "-r", "-m"]));
    known.unwrap_or_else(|| format!("{}, {}", env::consts::OS, env::consts::ARCH))
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
