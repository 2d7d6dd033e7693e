//! Memory, driver and version of Vulkan devices, which wgpu does not expose.

use super::gpu::{Kind, Pci};
use super::memory::Memory;
use super::merge::Seen;
use ash::vk;
use std::ffi::CStr;

/// All Vulkan devices; empty without Vulkan.
pub fn seen() -> Vec<Seen> {
    // There, Vulkan is a layer over Metal with other ids for the same GPUs.
    if cfg!(target_vendor = "apple") {
        return Vec::new();
    }
    // SAFETY: the system's Vulkan loader is loaded, and outlives the instance. A broken loader is
    // the reason for running this in a separate process.
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
        let seen = devices.into_iter().map(|device| describe(&instance, device)).collect();
        instance.destroy_instance(None);
        seen
    }
}

/// One device.
///
/// # Safety
///
/// The device belongs to the instance, which is alive.
unsafe fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> Seen {
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
    // Structure chains need Vulkan 1.1.
    let chains = version >= vk::API_VERSION_1_1;
    let has_driver = chains && (version >= vk::API_VERSION_1_2 || has(ash::khr::driver_properties::NAME));
    let has_pci = chains && has(ash::ext::pci_bus_info::NAME);

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
    if chains {
        // SAFETY: the device knows every structure of the chain.
        unsafe { instance.get_physical_device_properties2(device, &mut chain) };
    }
    let driver_name = [driver.driver_name_as_c_str(), driver.driver_info_as_c_str()]
        .map(|text| text.map(|text| text.to_string_lossy()).unwrap_or_default())
        .join(" ");
    let has_budget = chains && has(ash::ext::memory_budget::NAME);
    let api = format!(
        "Vulkan {}.{}.{}",
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version)
    );
    let passed = driver.conformance_version;
    let why_not = if !cfg!(feature = "wgpu") {
        "This build of Hearth has no Vulkan; another build may use it.".to_owned()
    } else if has_driver && (passed.major, passed.minor, passed.subminor, passed.patch) == (0, 0, 0, 0) {
        "Its Vulkan driver is not conformant (it has not passed Vulkan's tests); a newer one may be.".to_owned()
    } else {
        format!("Its driver supports {api}, but lacks features that Hearth needs; a newer driver may have them.")
    };
    Seen {
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
        // A device without a slot reports 0.
        pci: (has_pci && (pci.pci_bus, pci.pci_device) != (0, 0)).then_some(Pci {
            domain: pci.pci_domain,
            bus: pci.pci_bus,
            device: pci.pci_device,
            function: pci.pci_function,
        }),
        uuid: chains.then_some(id.device_uuid),
        // SAFETY: the device belongs to the instance, which is alive.
        memory: unsafe { memory(instance, device, has_budget) },
        driver: Some(driver_name.trim().to_owned()).filter(|name| !name.is_empty()),
        api: Some(api),
        why_not,
        ..Seen::default()
    }
}

/// The sum of the device-local heaps; all counts as free if the driver has no memory budget.
///
/// # Safety
///
/// The device belongs to the instance, which is alive, and knows memory budgets if `has_budget`
/// says so.
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
    for (at, heap) in heaps.memory_heaps_as_slice().iter().enumerate() {
        if heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) {
            let free = if has_budget {
                budget.heap_budget[at].saturating_sub(budget.heap_usage[at])
            } else {
                heap.size
            };
            memory.total += heap.size;
            memory.free += free.min(heap.size);
        }
    }
    (memory.total > 0).then_some(memory)
}
