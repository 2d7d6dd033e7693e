//! Memory, driver and API version of Vulkan devices, which wgpu does not expose.

use super::gpu::{Kind, Pci};
use super::memory::Memory;
use super::merge::SourceGpu;
use ash::vk;
use hearth_protocol::DeviceStatus;
use std::ffi::CStr;

/// All Vulkan devices. Empty without Vulkan.
pub fn list() -> Vec<SourceGpu> {
    // On macOS, Vulkan is a layer over Metal, with other ids for the same GPUs.
    if cfg!(target_vendor = "apple") {
        return Vec::new();
    }
    // SAFETY: the system's Vulkan loader is loaded, and outlives the instance. A broken loader is
    // the reason why this runs in a separate process.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else {
        return Vec::new();
    };
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
    let create = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures live through the call.
    let Ok(instance) = (unsafe { entry.create_instance(&create, None) }) else {
        return Vec::new();
    };
    // SAFETY: the instance is alive, and nothing that comes from it outlives it.
    unsafe {
        let devices = instance.enumerate_physical_devices().unwrap_or_default();
        let gpus = devices.into_iter().map(|device| describe(&instance, device)).collect();
        instance.destroy_instance(None);
        gpus
    }
}

/// Describes one device.
///
/// # Safety
///
/// The device belongs to the instance, which is alive.
unsafe fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> SourceGpu {
    // SAFETY: as above.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    // SAFETY: as above.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) }.unwrap_or_default();
    let has = |name: &CStr| {
        extensions
            .iter()
            .any(|extension| extension.extension_name_as_c_str() == Ok(name))
    };
    let version = properties.api_version;
    // Structure chains require Vulkan 1.1.
    let has_chains = version >= vk::API_VERSION_1_1;
    let has_driver = has_chains && (version >= vk::API_VERSION_1_2 || has(ash::khr::driver_properties::NAME));
    let has_pci = has_chains && has(ash::ext::pci_bus_info::NAME);

    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut chain = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    if has_driver {
        chain = chain.push_next(&mut driver);
    }
    if has_pci {
        chain = chain.push_next(&mut pci);
    }
    if has_chains {
        // SAFETY: the device knows every structure of the chain.
        unsafe { instance.get_physical_device_properties2(device, &mut chain) };
    }
    let driver_name = [driver.driver_name_as_c_str(), driver.driver_info_as_c_str()]
        .map(|text| text.map(|text| text.to_string_lossy()).unwrap_or_default())
        .join(" ");
    let has_budget = has_chains && has(ash::ext::memory_budget::NAME);
    let api = format!(
        "Vulkan {}.{}.{}",
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version)
    );
    let conformance = driver.conformance_version;
    let unusable = if !cfg!(feature = "wgpu") {
        DeviceStatus::BuildWithoutVulkan
    } else if has_driver
        && (
            conformance.major,
            conformance.minor,
            conformance.subminor,
            conformance.patch,
        ) == (0, 0, 0, 0)
    {
        DeviceStatus::NotConformant
    } else {
        DeviceStatus::FeaturesMissing { api: api.clone() }
    };
    SourceGpu {
        name: properties
            .device_name_as_c_str()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        kind: match properties.device_type {
            vk::PhysicalDeviceType::CPU => Kind::Software,
            vk::PhysicalDeviceType::DISCRETE_GPU | vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::Discrete,
            _ => Kind::Integrated,
        },
        vendor: properties.vendor_id,
        device: properties.device_id,
        // A device that is not on a PCI bus reports 0.
        pci: (has_pci && (pci.pci_bus, pci.pci_device) != (0, 0)).then_some(Pci {
            domain: pci.pci_domain,
            bus: pci.pci_bus,
            device: pci.pci_device,
            function: pci.pci_function,
        }),
        uuid: has_chains.then_some(id.device_uuid),
        // SAFETY: the device belongs to the instance, which is alive.
        memory: unsafe { memory(instance, device, has_budget) },
        driver: Some(driver_name.trim().to_owned()).filter(|name| !name.is_empty()),
        api: Some(api),
        unusable,
        ..SourceGpu::default()
    }
}

/// The sum of the device-local heaps. Without the memory budget extension all of it counts as free.
///
/// # Safety
///
/// The device belongs to the instance, which is alive. If `has_budget`, the device supports the
/// memory budget extension.
unsafe fn memory(instance: &ash::Instance, device: vk::PhysicalDevice, has_budget: bool) -> Option<Memory> {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let heaps = if has_budget {
        let mut chain = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the device knows every structure of the chain.
        unsafe { instance.get_physical_device_memory_properties2(device, &mut chain) };
        chain.memory_properties
    } else {
        // SAFETY: the device belongs to the instance.
        unsafe { instance.get_physical_device_memory_properties(device) }
    };
    let mut memory = Memory { total: 0, free: 0 };
    for (index, heap) in heaps.memory_heaps_as_slice().iter().enumerate() {
        if heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) {
            let free = if has_budget {
                budget.heap_budget[index].saturating_sub(budget.heap_usage[index])
            } else {
                heap.size
            };
            memory.total += heap.size;
            memory.free += free.min(heap.size);
        }
    }
    (memory.total > 0).then_some(memory)
}
