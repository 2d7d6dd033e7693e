//! Lists and opens GPUs through wgpu. Each GPU is listed once, in the same order in every process.

use burn::tensor::Device;
use burn::tensor::wgpu::{WgpuSetup, wgpu};
use std::cmp::Reverse;
use std::pin::pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use wgpu::{Adapter, AdapterInfo, Backend, Backends, DeviceType, Instance, InstanceDescriptor};

/// The kind of a GPU, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A discrete or virtual GPU, with its own memory.
    Discrete,
    /// Integrated in the CPU, sharing its memory.
    Integrated,
    /// A software driver, on the CPU.
    Software,
}

impl AdapterKind {
    /// The kind of this adapter.
    pub fn from_info(info: &AdapterInfo) -> Self {
        const RENDERERS: [&str; 3] = ["llvmpipe", "SwiftShader", "Microsoft Basic Render"];
        match info.device_type {
            DeviceType::Cpu => Self::Software,
            // A software renderer behind a virtual machine's driver reports another type.
            _ if RENDERERS.iter().any(|name| info.name.contains(name)) => Self::Software,
            DeviceType::DiscreteGpu | DeviceType::VirtualGpu => Self::Discrete,
            DeviceType::IntegratedGpu | DeviceType::Other => Self::Integrated,
        }
    }
}

/// Lists each GPU once, with the best backend that supports it. Discrete GPUs are first, then
/// integrated ones, then software drivers, each sorted by PCI address. Calls graphics drivers,
/// which may crash.
pub fn adapters() -> Vec<(Adapter, AdapterInfo)> {
    let mut adapters: Vec<Option<_>> = enumerate().into_iter().map(Some).collect();
    let infos: Vec<_> = adapters.iter().flatten().map(Adapter::get_info).collect();
    groups(&infos)
        .into_iter()
        .filter_map(|group| Some((adapters[group[0]].take()?, infos[group[0]].clone())))
        .collect()
}

/// The description of a GPU that is not open.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// The adapter info of each backend, the best backend first.
    pub infos: Vec<AdapterInfo>,
    /// Largest buffer binding, in bytes.
    pub largest_buffer: u64,
}

/// Describes the GPUs of [`adapters`], in the same order, with the infos of all backends.
pub fn list() -> Vec<Gpu> {
    let adapters = enumerate();
    let infos: Vec<_> = adapters.iter().map(Adapter::get_info).collect();
    let gpu = |group: Vec<usize>| {
        let limits = adapters[group[0]].limits();
        Gpu {
            infos: group.into_iter().map(|index| infos[index].clone()).collect(),
            largest_buffer: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        }
    };
    groups(&infos).into_iter().map(gpu).collect()
}

/// Opens the GPU at this index in [`adapters`]. The environment variable `HEARTH_LARGEST_BUFFER`
/// limits the size of a buffer in bytes. Larger allocations fail as if memory had run out.
///
/// # Errors
/// If there is no such GPU, or its driver cannot open it; the text is a sentence without its full
/// stop.
pub fn open(number: usize) -> Result<Device, String> {
    let adapter = adapters().into_iter().nth(number).map(|(adapter, _)| adapter);
    let adapter = adapter.ok_or("this machine has no such GPU, or its driver does not respond")?;
    let mut limits = adapter.limits();
    let largest = std::env::var("HEARTH_LARGEST_BUFFER")
        .ok()
        .and_then(|bytes| bytes.parse().ok());
    if let Some(largest) = largest {
        limits.max_buffer_size = limits.max_buffer_size.min(largest);
    }
    let (device, queue) = request(&adapter, limits)?;
    OPEN_DEVICES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((number, device.clone()));
    let setup = WgpuSetup {
        instance: instance().clone(),
        backend: adapter.get_info().backend,
        adapter,
        device,
        queue,
    };
    let options = Device::wgpu_options().setup(setup);
    options.init().map_err(|error| error.to_string())
}

/// Opens an adapter for kernels in SPIR-V. They need Vulkan features that wgpu does not expose, and
/// that CubeCL requests.
#[cfg(feature = "vulkan")]
fn request(adapter: &Adapter, limits: wgpu::Limits) -> Result<(wgpu::Device, wgpu::Queue), String> {
    if adapter.get_info().backend == Backend::Vulkan {
        let request = poll_once(cubecl::wgpu::vulkan::try_request_vulkan_device(adapter));
        if let Poll::Ready(Ok(Some(device_and_queue))) = request {
            return Ok(device_and_queue);
        }
    }
    // Without these features, kernels are compiled to WGSL.
    request_portable(adapter, limits)
}

#[cfg(not(feature = "vulkan"))]
use request_portable as request;

/// Opens an adapter with all its features.
fn request_portable(adapter: &Adapter, limits: wgpu::Limits) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let descriptor = wgpu::DeviceDescriptor {
        label: None,
        // wgpu refuses experimental features unless each is enabled explicitly. None is needed.
        required_features: adapter.features()
            - wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
            - wgpu::Features::all_experimental_mask(),
        required_limits: limits,
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
    };
    match poll_once(adapter.request_device(&descriptor)) {
        Poll::Ready(result) => result.map_err(|error| error.to_string()),
        Poll::Pending => Err("its driver does not respond".to_owned()),
    }
}

/// The open devices with their GPU numbers, for [`lose`].
static OPEN_DEVICES: Mutex<Vec<(usize, wgpu::Device)>> = Mutex::new(Vec::new());

/// Destroys all devices of a GPU in this process, as in a driver crash. For tests of device loss.
pub fn lose(number: usize) {
    let mut devices = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, device) in devices.extract_if(.., |(other, _)| *other == number) {
        device.destroy();
    }
}

/// Drops the devices of a GPU.
pub(crate) fn close(number: usize) {
    let mut devices = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.retain(|(other, _)| *other != number);
}

/// Polls a future of wgpu once. Outside of a browser it is ready immediately.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The rank of a backend. The lowest is preferred.
fn backend_rank(backend: Backend) -> usize {
    match backend {
        Backend::Vulkan | Backend::Metal => 0,
        _ => 1,
    }
}

/// The backends that are enumerated.
const BACKENDS: Backends = if cfg!(target_vendor = "apple") {
    Backends::METAL
} else {
    Backends::VULKAN.union(Backends::DX12)
};

/// The process's only instance. It is never destroyed, because the Vulkan loader crashes if
/// instances are created and destroyed on several threads.
fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        Instance::new(InstanceDescriptor {
            backends: BACKENDS,
            ..InstanceDescriptor::new_without_display_handle()
        })
    })
}

/// The adapters in wgpu's order.
fn enumerate() -> Vec<Adapter> {
    match poll_once(instance().enumerate_adapters(BACKENDS)) {
        Poll::Ready(adapters) => adapters,
        Poll::Pending => Vec::new(),
    }
}

/// Groups the indices of adapters that are the same GPU. The best backend of a group is first. The
/// groups are in the order of [`adapters`].
fn groups(infos: &[AdapterInfo]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_by_key(|&index| backend_rank(infos[index].backend));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let best_match = groups
            .iter_mut()
            .map(|group| (match_score(infos, group, index), group))
            .filter(|(score, _)| *score > 0)
            .min_by_key(|(score, _)| Reverse(*score));
        match best_match {
            Some((_, group)) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.sort_by_key(|group| {
        let info = &infos[group[0]];
        (AdapterKind::from_info(info), info.device_pci_bus_id.clone(), group[0])
    });
    groups
}

/// The confidence that an adapter is the GPU of this group; 0 if it is not.
fn match_score(infos: &[AdapterInfo], group: &[usize], index: usize) -> u8 {
    let (first, info) = (&infos[group[0]], &infos[index]);
    if (first.vendor, first.device) != (info.vendor, info.device) {
        return 0;
    }
    let has_same_slot = !info.device_pci_bus_id.is_empty() && info.device_pci_bus_id == first.device_pci_bus_id;
    let has_same_backend = group.iter().any(|&other| infos[other].backend == info.backend);
    match info.backend {
        // Two Vulkan drivers may support one card.
        Backend::Vulkan => u8::from(has_same_slot),
        _ if has_same_backend => 0,
        // wgpu looks up DX12's PCI addresses by model, so two equal cards have the same address.
        _ => 1 + u8::from(has_same_slot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(backend: Backend, device_type: DeviceType, device: u32, slot: &str) -> AdapterInfo {
        AdapterInfo {
            vendor: 0x10de,
            device,
            device_pci_bus_id: slot.to_owned(),
            ..AdapterInfo::new(device_type, backend)
        }
    }

    #[test]
    fn a_gpu_is_listed_once_and_the_best_kind_first() {
        use DeviceType::{Cpu, DiscreteGpu, IntegratedGpu};
        let infos = [
            info(Backend::Dx12, DiscreteGpu, 7, "0000:01:00.0"),
            info(Backend::Dx12, DiscreteGpu, 7, "0000:01:00.0"),
            info(Backend::Dx12, Cpu, 0x8c, ""),
            info(Backend::Vulkan, Cpu, 0, ""),
            info(Backend::Vulkan, IntegratedGpu, 3, "0000:00:02.0"),
            info(Backend::Vulkan, DiscreteGpu, 7, "0000:02:00.0"),
            info(Backend::Vulkan, DiscreteGpu, 7, "0000:01:00.0"),
            info(Backend::Vulkan, DiscreteGpu, 7, "0000:01:00.0"),
        ];
        assert_eq!(groups(&infos), [vec![6, 7, 0], vec![5, 1], vec![4], vec![2], vec![3]]);
    }

    #[test]
    fn a_renderer_behind_a_virtual_machine_is_software() {
        let mut adapter = info(Backend::Vulkan, DeviceType::VirtualGpu, 1, "");
        assert_eq!(AdapterKind::from_info(&adapter), AdapterKind::Discrete);
        adapter.name = "Virtio-GPU Venus (llvmpipe)".to_owned();
        assert_eq!(AdapterKind::from_info(&adapter), AdapterKind::Software);
    }
}
