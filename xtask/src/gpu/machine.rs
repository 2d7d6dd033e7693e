//! The machine: its devices, its driver, and which version of what ran there.

use super::report::{Part, today, typed};
use crate::process::{Outcome, hear, read};
use crate::{json, place};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `hearth devices` says, and the GPU of it that is measured.
pub struct Machine {
    devices: String,
    command: String,
    version: String,
    chosen: Option<Device>,
}

/// The GPU that is measured.
pub struct Device {
    /// As `--device` takes it.
    pub id: String,
    /// Whether it is one, and no driver in software.
    pub real: bool,
    /// The builds of Hearth that can use it.
    pub builds: Vec<String>,
    name: String,
    rows: Vec<(&'static str, String)>,
}

impl Machine {
    /// Asks `hearth`.
    ///
    /// # Errors
    /// It cannot be run, or knows no such device.
    pub fn ask(hearth: &Path, id: Option<&str>) -> Outcome<Self> {
        let mut command = Command::new(hearth);
        command.args(["devices", "--json"]);
        let said = hear("Looking for GPUs", &mut command)?;
        if !said.ok {
            return Err(format!("`hearth devices` failed: {}", said.complaint()));
        }
        let devices = said.last_line().to_owned();
        let found = json::with_ids(&devices);
        // Listed with the best kind first, so that one in software is taken only where there is no other.
        let mut gpus = found
            .iter()
            .copied()
            .filter(|device| json::text(device, "kind") != Some("cpu"));
        let chosen = match id {
            None => gpus.find(|gpu| json::is(gpu, "usable")),
            Some(id) => Some(
                gpus.find(|gpu| json::text(gpu, "id") == Some(id))
                    .ok_or_else(|| format!("There is no GPU {id}; `hearth devices` lists them."))?,
            ),
        };
        let chosen = chosen.map(Device::read);
        Ok(Self {
            chosen,
            command: typed(&command),
            version: read(Command::new(hearth).arg("--version")).unwrap_or_default(),
            devices,
        })
    }

    /// The GPU that is measured, if there is one.
    pub fn device(&self) -> Option<&Device> {
        self.chosen.as_ref()
    }

    /// The page's title.
    pub fn title(&self) -> String {
        format!("{}, {}", self.name(), today())
    }

    /// Where the page goes: a file a machine and day.
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
        place::root().join(format!("docs/gpu/{}-{}.md", today(), words.join("-")))
    }

    fn name(&self) -> &str {
        self.chosen.as_ref().map_or("No GPU", |device| &device.name)
    }

    /// What is known of it; `built_here` says whether `hearth` is of this working tree.
    pub fn part(&self, built_here: bool) -> Part {
        let mut part = Part::default();
        let mut rows = vec![
            ("version", self.version.clone()),
            (
                "built from",
                if built_here {
                    revision()
                } else {
                    "unknown: the build was given".to_owned()
                },
            ),
            ("system", system()),
        ];
        let processor = json::with_ids(&self.devices)
            .first()
            .copied()
            .and_then(|cpu| json::text(cpu, "name"));
        rows.extend(processor.map(|name| ("processor", name.to_owned())));
        rows.extend(self.chosen.iter().flat_map(|device| device.rows.clone()));
        rows.extend(named_driver().map(|name| ("driver named by", name)));
        let lines: Vec<String> = rows
            .iter()
            .map(|(what, value)| format!("| {what} | {value} |"))
            .collect();
        part.say(&format!("| | |\n|---|---|\n{}", lines.join("\n")));
        if self.chosen.as_ref().is_some_and(|device| !device.real) {
            part.say(
                "**This is no GPU but a driver in software.** It shows that everything runs, and says nothing about speed: figures below \
                 are those of a processor that plays a GPU.",
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
                ("interface", format!("{}, {}", text("backend"), text("api"))),
                (
                    "its memory",
                    memory.map_or("unknown".to_owned(), |bytes| {
                        format!("{:.1} GiB", bytes / 1024_f64.powi(3))
                    }),
                ),
            ],
        }
    }
}

/// Which state of the source this is.
fn revision() -> String {
    let git = |arguments: &[&str]| read(Command::new("git").args(arguments).current_dir(place::root()));
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

/// The driver that the environment names, by its file's name.
fn named_driver() -> Option<String> {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .into_iter()
        .find_map(|variable| {
            let value = env::var_os(variable)?;
            let file = Path::new(&value).file_name()?.to_string_lossy().into_owned();
            Some(format!("{variable} ({file})"))
        })
}
