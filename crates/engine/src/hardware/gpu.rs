//! A GPU, merged from all sources.

use super::Memory;
use super::records::Subject;
use hearth_protocol::{BackendOption, DeviceCheck, DeviceInfo, DeviceStatus, Mismatch};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Kind of a GPU, best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// With its own memory.
    #[default]
    Discrete,
    /// Shares main memory.
    Integrated,
    /// A software renderer on the CPU; never selected automatically.
    Software,
}

impl Kind {
    /// The name in [`DeviceInfo`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Software => "software",
        }
    }
}

/// A PCI address.
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

    /// Parses `0000:01:00.0`.
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

/// Source of a GPU's current memory and utilization other than the graphics driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Live {
    /// No source: the values of the probe remain.
    #[default]
    Unavailable,
    /// NVIDIA's management library.
    Nvml,
    /// Linux sysfs.
    Sysfs,
}

/// A build of Hearth that can use a GPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuBackend {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// Its index in that build's `hearth_llm::gpus`.
    pub adapter: usize,
    /// Name of the backend that the build uses.
    pub backend: String,
    /// Result of the device check. `None` means not checked yet.
    pub check: Option<DeviceCheck>,
    /// Largest buffer binding in bytes. `None` means unknown.
    pub largest_buffer: Option<u64>,
}

impl GpuBackend {
    /// The mismatch of the device check, if any.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.check.as_ref()?.mismatch.as_ref()
    }
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// `gpu0`, `gpu1` and so on.
    pub id: String,
    /// Identity that is stable across restarts: its PCI address, or else its name.
    pub identity: String,
    /// Discrete, integrated or software.
    pub kind: Kind,
    /// Product name.
    pub name: String,
    /// Vendor id; a PCI vendor id for a card.
    pub vendor: u32,
    /// Device id of the vendor.
    pub device: u32,
    /// PCI address, if known.
    pub pci: Option<Pci>,
    /// Its index in this build's `hearth_llm::gpus`. `None` if this build cannot open it.
    pub adapter: Option<usize>,
    /// The builds that can use it, the best first.
    #[serde(skip)]
    pub backends: Vec<GpuBackend>,
    /// Backends that can use it, the best first.
    pub backend_names: Vec<String>,
    /// Largest buffer binding in bytes, in this build if it can open it. `None` means unknown.
    #[serde(default)]
    pub largest_buffer: Option<u64>,
    /// Total memory in bytes: of an integrated GPU, the main memory that it may use.
    pub memory_total: Option<u64>,
    /// Free memory in bytes.
    pub memory_free: Option<u64>,
    /// Driver name and version.
    pub driver: Option<String>,
    /// API of the driver, with its version.
    pub api: Option<String>,
    /// Utilization from 0 to 1.
    pub load: Option<f32>,
    /// Whether a model can run on it if requested.
    pub usable: bool,
    /// The reason why it is or is not usable.
    pub status: DeviceStatus,
    /// Source of current values.
    pub live: Live,
}

impl Gpu {
    /// Sets the GPU's memory.
    pub(super) fn set_memory(&mut self, memory: Option<Memory>) {
        self.memory_total = memory.map(|memory| memory.total);
        self.memory_free = memory.map(|memory| memory.free);
    }

    /// Marks the GPU as lost: removed, or not responding.
    pub(super) fn mark_lost(&mut self) {
        self.usable = false;
        self.status = DeviceStatus::Lost;
        self.set_memory(None);
        self.load = None;
    }

    /// Converts it to the protocol's type.
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id.clone(),
            identity: self.identity.clone(),
            kind: self.kind.name().to_owned(),
            name: self.name.clone(),
            backend: self
                .backends
                .first()
                .map(|backend| backend.backend.clone())
                .unwrap_or_default(),
            memory_total: self.memory_total,
            memory_free: self.memory_free,
            usable: self.usable,
            status: self.status.clone(),
            driver: self.driver.clone(),
            api: self.api.clone(),
            load: self.load,
            backend_names: self.backend_names.clone(),
            largest_buffer: self.largest_buffer,
            backends: self
                .backends
                .iter()
                .map(|backend| BackendOption {
                    build: backend.build.clone(),
                    backend: backend.backend.clone(),
                    check: backend.check.clone(),
                    largest_buffer: backend.largest_buffer,
                })
                .collect(),
            ..DeviceInfo::default()
        }
    }

    /// The subject of a device check in this build.
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
