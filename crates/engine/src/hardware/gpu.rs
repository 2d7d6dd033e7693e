//! One GPU, as all that know of it describe it together.

use super::Memory;
use super::records::Subject;
use hearth_protocol::{DeviceCheck, DeviceInfo, DeviceWay};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What kind of GPU, best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// With memory of its own.
    #[default]
    Discrete,
    /// Shares main memory.
    Integrated,
    /// The processor behind a graphics driver; never chosen by itself.
    Software,
}

impl Kind {
    /// As [`DeviceInfo`] has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Software => "software",
        }
    }
}

/// Where a card sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pci {
    /// The PCI domain.
    pub domain: u32,
    /// The bus in the domain.
    pub bus: u32,
    /// The device on the bus.
    pub device: u32,
    /// The function of the device.
    pub function: u32,
}

impl FromStr for Pci {
    type Err = ();

    /// Reads `0000:01:00.0`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = |text| u32::from_str_radix(text, 16).map_err(drop);
        let (rest, function) = text.rsplit_once('.').ok_or(())?;
        let (rest, device) = rest.rsplit_once(':').ok_or(())?;
        let (domain, bus) = rest.rsplit_once(':').ok_or(())?;
        Ok(Self {
            domain: hex(domain)?,
            bus: hex(bus)?,
            device: hex(device)?,
            function: hex(function)?,
        })
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(out, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// Who can say how much of a GPU is in use now, without asking the graphics driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Live {
    /// Nobody: what was read when the drivers were asked stays.
    #[default]
    Nobody,
    /// NVIDIA's management library.
    Nvml,
    /// The files of Linux' kernel.
    Sysfs,
}

/// A build of Hearth that can use a GPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Way {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// Where that build's `hearth_llm::gpus` lists it.
    pub adapter: usize,
    /// The backend that it uses.
    pub backend: String,
    /// What was found when it was checked; none: it was not.
    pub check: Option<DeviceCheck>,
}

impl Way {
    /// What it does otherwise than the processor.
    pub fn wrong(&self) -> Option<&str> {
        self.check.as_ref()?.wrong.as_deref()
    }
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// `gpu0`, `gpu1` and so on.
    pub id: String,
    /// What it is called from start to start: where it sits, or else its name.
    pub identity: String,
    /// Discrete, integrated or software.
    pub kind: Kind,
    /// The maker's name for it.
    pub name: String,
    /// The maker's number; a PCI vendor id for a card.
    pub vendor: u32,
    /// The maker's number for the model.
    pub device: u32,
    /// Where it sits, where that is known.
    pub pci: Option<Pci>,
    /// Where this build's `hearth_llm::gpus` lists it; none: it cannot be opened here.
    pub adapter: Option<usize>,
    /// The builds that can use it, the best first.
    #[serde(skip)]
    pub ways: Vec<Way>,
    /// What can use it, the best first.
    pub backends: Vec<String>,
    /// Bytes of a buffer that a kernel sees at most, in this build where that can open it; none where nothing says so.
    #[serde(default)]
    pub largest_buffer: Option<u64>,
    /// Bytes; of main memory where it shares that.
    pub memory_total: Option<u64>,
    /// Bytes.
    pub memory_free: Option<u64>,
    /// The driver's name and version.
    pub driver: Option<String>,
    /// The interface that the driver offers, with its version.
    pub api: Option<String>,
    /// How busy it is, 0 to 1.
    pub load: Option<f32>,
    /// Whether a model can run on it when it is asked for.
    pub usable: bool,
    /// Why (not), in one sentence.
    pub why: String,
    /// Who can be asked again.
    pub live: Live,
}

impl Gpu {
    /// Sets what its memory is now.
    pub(super) fn set_memory(&mut self, memory: Option<Memory>) {
        self.memory_total = memory.map(|memory| memory.total);
        self.memory_free = memory.map(|memory| memory.free);
    }

    /// Notes that it is gone, or does not answer any more.
    pub(super) fn vanish(&mut self) {
        self.usable = false;
        self.why = "It was there when Hearth started and is gone now; restart the machine, or use another.".to_owned();
        self.set_memory(None);
        self.load = None;
    }

    /// What the protocol says of it.
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id.clone(),
            identity: self.identity.clone(),
            kind: self.kind.name().to_owned(),
            name: self.name.clone(),
            backend: self.ways.first().map(|way| way.backend.clone()).unwrap_or_default(),
            memory_total: self.memory_total,
            memory_free: self.memory_free,
            usable: self.usable,
            why: self.why.clone(),
            driver: self.driver.clone(),
            api: self.api.clone(),
            load: self.load,
            backends: self.backends.clone(),
            largest_buffer: self.largest_buffer,
            ways: self
                .ways
                .iter()
                .map(|way| DeviceWay {
                    build: way.build.clone(),
                    backend: way.backend.clone(),
                    check: way.check.clone(),
                })
                .collect(),
            ..DeviceInfo::default()
        }
    }

    /// What a check in this build is about.
    pub(super) fn subject(&self, build: &str) -> Subject {
        Subject {
            identity: self.identity.clone(),
            name: self.name.clone(),
            driver: self.driver.clone(),
            build: build.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            check: DeviceCheck::VERSION,
        }
    }
}
