//! NVIDIA's cards, from NVML, the management library of their driver.

use super::gpu::{Gpu, Kind, Live, Pci};
use super::memory::Memory;
use super::merge::SourceGpu;
use hearth_protocol::DeviceStatus;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::sync::OnceLock;

/// NVIDIA's PCI vendor id.
pub const NVIDIA: u32 = 0x10de;

/// All cards of NVIDIA's driver. Empty without the driver.
pub fn list() -> Vec<SourceGpu> {
    let Some(nvml) = library() else {
        return Vec::new();
    };
    let driver = nvml
        .sys_driver_version()
        .ok()
        .map(|version| format!("NVIDIA {version}"));
    (0..nvml.device_count().unwrap_or(0))
        .filter_map(|index| describe(&nvml.device_by_index(index).ok()?, driver.clone()))
        .collect()
}

/// Describes one card.
fn describe(card: &Device, driver: Option<String>) -> Option<SourceGpu> {
    let pci = card.pci_info().ok()?;
    Some(SourceGpu {
        name: card.name().unwrap_or_else(|_| "NVIDIA graphics card".to_owned()),
        kind: Kind::Discrete,
        vendor: NVIDIA,
        device: pci.pci_device_id >> 16,
        pci: Some(Pci {
            domain: pci.domain,
            bus: pci.bus,
            device: pci.device,
            function: 0,
        }),
        uuid: card.uuid().ok().and_then(|uuid| parse_uuid(&uuid)),
        memory: memory(card),
        driver,
        load: load(card),
        live: Live::Nvml,
        unusable: if cfg!(feature = "wgpu") {
            DeviceStatus::NvidiaWithoutVulkan
        } else {
            DeviceStatus::CudaDriverTooOld
        },
        ..SourceGpu::default()
    })
}

/// Updates memory and utilization of a card.
pub fn refresh(gpu: &mut Gpu) {
    let (Some(nvml), Some(pci)) = (library(), gpu.pci) else {
        return;
    };
    match nvml.device_by_pci_bus_id(pci.to_string()) {
        Ok(card) => {
            if let Some(memory) = memory(&card) {
                gpu.set_memory(Some(memory));
            }
            gpu.load = load(&card);
        }
        Err(NvmlError::GpuLost | NvmlError::NotFound) => gpu.mark_lost(),
        Err(_) => gpu.load = None,
    }
}

/// The library, loaded in the first call. `None` if it cannot be loaded.
fn library() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().ok()).as_ref()
}

/// A card's memory. `None` on chips without dedicated memory.
fn memory(card: &Device) -> Option<Memory> {
    let memory = card.memory_info().ok()?;
    Some(Memory {
        total: memory.total,
        free: memory.free,
    })
}

fn load(card: &Device) -> Option<f32> {
    let rates = card.utilization_rates().ok()?;
    Some((rates.gpu as f32 / 100.0).clamp(0.0, 1.0))
}

/// Parses `GPU-01234567-89ab-cdef-0123-456789abcdef`.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix("GPU-")?.replace('-', "");
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_matches_vulkans() {
        let uuid = parse_uuid("GPU-00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!((uuid[0], uuid[1], uuid[15]), (0x00, 0x11, 0xff));
        assert_eq!(parse_uuid("MIG-00112233-4455-6677-8899-aabbccddeeff"), None);
    }
}
