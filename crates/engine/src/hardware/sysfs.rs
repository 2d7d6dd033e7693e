//! Graphics cards in Linux sysfs, with or without a driver.

use super::gpu::{Gpu, Kind, Live, Pci};
use super::memory::Memory;
use super::merge::SourceGpu;
use hearth_protocol::DeviceStatus;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;
use std::str::FromStr;

/// The folder of PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";

const AMD: u32 = 0x1002;
const NVIDIA: u32 = 0x10de;
const INTEL: u32 = 0x8086;

/// Whether the machine may have a GPU: there is a device file of the kernel, or of Windows under
/// WSL. Always `true` outside Linux.
pub fn may_have_gpu() -> bool {
    const DEVICE_FILES: [&str; 3] = ["renderD", "nvidia", "dxg"];
    if !cfg!(target_os = "linux") {
        return true;
    }
    let is_device_file = |name: &str| DEVICE_FILES.iter().any(|prefix| name.starts_with(prefix));
    ["/dev", "/dev/dri"].iter().any(|folder| {
        let mut entries = read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_str().is_some_and(is_device_file))
    })
}

/// All cards.
pub fn list() -> Vec<SourceGpu> {
    list_in(Path::new(DEVICES))
}

/// Updates memory and utilization of a card.
pub fn refresh(gpu: &mut Gpu) {
    let Some(pci) = gpu.pci else { return };
    let folder = Path::new(DEVICES).join(pci.to_string());
    if !folder.exists() {
        gpu.mark_lost();
        return;
    }
    if let Some(memory) = memory(&folder) {
        gpu.set_memory(Some(memory));
    }
    gpu.load = load(&folder);
}

fn list_in(devices: &Path) -> Vec<SourceGpu> {
    let Ok(entries) = read_dir(devices) else {
        return Vec::new();
    };
    let mut gpus: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let pci = Pci::from_str(entry.file_name().to_str()?).ok()?;
            describe(&entry.path(), pci)
        })
        .collect();
    gpus.sort_by_key(|gpu| gpu.pci);
    gpus
}

/// Describes a card. `None` if it is no graphics card, or not from a vendor with compute support:
/// the cards of other vendors are servers' console adapters.
fn describe(folder: &Path, pci: Pci) -> Option<SourceGpu> {
    const DISPLAY: u32 = 0x03;
    if hex(folder, "class")? >> 16 != DISPLAY {
        return None;
    }
    let (vendor, device) = (hex(folder, "vendor")?, hex(folder, "device")?);
    let driver = read_link(folder.join("driver")).ok();
    let driver = driver.as_deref().and_then(|path| path.file_name()?.to_str());
    let (vendor_name, status) = match vendor {
        // NVML lists it. In a container, sysfs also lists cards that the container cannot use.
        NVIDIA if driver == Some("nvidia") => return None,
        NVIDIA => ("NVIDIA", DeviceStatus::NvidiaDriverUnused),
        AMD => ("AMD", DeviceStatus::NoVulkanDriver),
        INTEL => ("Intel", DeviceStatus::NoVulkanDriver),
        _ => return None,
    };
    let unusable = match driver {
        Some("vfio-pci") => DeviceStatus::VirtualMachine,
        _ => status,
    };
    let memory = memory(folder);
    Some(SourceGpu {
        name: format!("{vendor_name} graphics ({vendor:04x}:{device:04x})"),
        // Integrated GPUs are on bus 0.
        kind: if pci.bus == 0 { Kind::Integrated } else { Kind::Discrete },
        vendor,
        device,
        pci: Some(pci),
        memory,
        driver: driver.map(str::to_owned),
        load: load(folder),
        live: if memory.is_some() {
            Live::Sysfs
        } else {
            Live::Unavailable
        },
        unusable,
        ..SourceGpu::default()
    })
}

/// A card's memory. Only the driver amdgpu reports it.
fn memory(folder: &Path) -> Option<Memory> {
    let total: u64 = number(folder, "mem_info_vram_total")?;
    let used: u64 = number(folder, "mem_info_vram_used")?;
    Some(Memory {
        total,
        free: total.saturating_sub(used),
    })
}

fn load(folder: &Path) -> Option<f32> {
    let percent: f32 = number(folder, "gpu_busy_percent")?;
    Some((percent / 100.0).clamp(0.0, 1.0))
}

fn number<T: FromStr>(folder: &Path, file: &str) -> Option<T> {
    read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// Parses `0x1002`.
fn hex(folder: &Path, file: &str) -> Option<u32> {
    let text = read_to_string(folder.join(file)).ok()?;
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn device(devices: &Path, slot: &str, files: &[(&str, &str)]) {
        let folder = devices.join(slot);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn cards_and_amds_counters_are_read() {
        let root = tempfile::tempdir().unwrap();
        let ids = |class, vendor| [("class", class), ("vendor", vendor), ("device", "0x744c")];
        let amd = [
            ("mem_info_vram_total", "1000"),
            ("mem_info_vram_used", "300"),
            ("gpu_busy_percent", "25"),
        ];
        device(root.path(), "0000:03:00.0", &ids("0x030000", "0x1002"));
        device(root.path(), "0000:03:00.0", &amd);
        device(root.path(), "0000:04:00.0", &ids("0x010802", "0x1002"));
        device(root.path(), "0000:05:00.0", &ids("0x030000", "0x1a03"));
        device(root.path(), "0000:00:02.0", &ids("0x038000", "0x8086"));

        let gpus = list_in(root.path());
        let [intel, amd] = gpus.as_slice() else {
            panic!("{gpus:#?}")
        };
        assert_eq!(
            (intel.kind, intel.memory, intel.live),
            (Kind::Integrated, None, Live::Unavailable)
        );
        assert_eq!(
            (amd.kind, amd.load, amd.live),
            (Kind::Discrete, Some(0.25), Live::Sysfs)
        );
        assert_eq!(amd.memory, Some(Memory { total: 1000, free: 700 }));
        assert_eq!(amd.pci.unwrap().to_string(), "0000:03:00.0");
    }
}
