//! The GPUs that wgpu can open: each once, in the same order in every process.

use burn::tensor::Device;
use burn::tensor::wgpu::{WgpuSetup, wgpu};
use std::cmp::Reverse;
use std::pin::pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use wgpu::{Adapter, AdapterInfo, Backend, Backends, DeviceType, Instance, InstanceDescriptor};

/// What kind of GPU an adapter is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A card with memory of its own, or a share of one.
    Discrete,
    /// Part of the processor, with its memory.
    Integrated,
    /// The processor itself, behind a driver that does in software what a GPU would.
    Software,
}

impl AdapterKind {
    /// The kind of this adapter.
    pub fn of(info: &AdapterInfo) -> Self {
        const RENDERERS: [&str; 3] = ["llvmpipe", "SwiftShader", "Microsoft Basic Render"];
        match info.device_type {
            DeviceType::Cpu => Self::Software,
            // One that runs behind a virtual machine's driver calls itself something else.
            _ if RENDERERS.iter().any(|name| info.name.contains(name)) => Self::Software,
            DeviceType::DiscreteGpu | DeviceType::VirtualGpu => Self::Discrete,
            DeviceType::IntegratedGpu | DeviceType::Other => Self::Integrated,
        }
    }
}

/// Every GPU once, through the best backend that sees it: discrete ones first, then integrated
/// ones, then software; by PCI address within that. Asks the graphics drivers, which may crash.
pub fn adapters() -> Vec<(Adapter, AdapterInfo)> {
    let mut found: Vec<Option<_>> = enumerate().into_iter().map(Some).collect();
    let infos: Vec<_> = found.iter().flatten().map(Adapter::get_info).collect();
    groups(&infos)
        .into_iter()
        .filter_map(|group| Some((found[group[0]].take()?, infos[group[0]].clone())))
        .collect()
}

/// A GPU that is not opened yet.
#[derive(Debug, Clone)]
pub struct View {
    /// What each backend says of it, the best first.
    pub infos: Vec<AdapterInfo>,
    /// Bytes of a buffer that a kernel sees at most.
    pub largest_buffer: u64,
}

/// What all backends say of the GPUs of [`adapters`], in its order.
pub fn views() -> Vec<View> {
    let adapters = enumerate();
    let infos: Vec<_> = adapters.iter().map(Adapter::get_info).collect();
    let view = |group: Vec<usize>| {
        let limits = adapters[group[0]].limits();
        View {
            infos: group.into_iter().map(|at| infos[at].clone()).collect(),
            largest_buffer: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        }
    };
    groups(&infos).into_iter().map(view).collect()
}

/// Opens the GPU of this number in [`adapters`]. Where the environment variable
/// `HEARTH_LARGEST_BUFFER` gives a number of bytes, larger buffers are refused, as if memory had
/// run out.
///
/// # Errors
/// There is no such GPU, or its driver does not open it; the text is a sentence without its full
/// stop.
pub fn open(number: usize) -> Result<Device, String> {
    let adapter = adapters().into_iter().nth(number).map(|(adapter, _)| adapter);
    let adapter = adapter.ok_or("this machine has no such GPU, or its driver does not answer")?;
    let mut limits = adapter.limits();
    let largest = std::env::var("HEARTH_LARGEST_BUFFER")
        .ok()
        .and_then(|bytes| bytes.parse().ok());
    if let Some(largest) = largest {
        limits.max_buffer_size = limits.max_buffer_size.min(largest);
    }
    let (device, queue) = request(&adapter, limits)?;
    OPENED
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

/// Opens an adapter for kernels in SPIR-V, which want features of the driver that wgpu does not
/// know; CubeCL asks for them.
#[cfg(feature = "vulkan")]
fn request(adapter: &Adapter, limits: wgpu::Limits) -> Result<(wgpu::Device, wgpu::Queue), String> {
    if adapter.get_info().backend == Backend::Vulkan {
        let asked = ready(cubecl::wgpu::vulkan::try_request_vulkan_device(adapter));
        if let Poll::Ready(Ok(Some(opened))) = asked {
            return Ok(opened);
        }
    }
    // It has not got them, so that kernels come in WGSL.
    request_portable(adapter, limits)
}

#[cfg(not(feature = "vulkan"))]
use request_portable as request;

/// Opens an adapter with everything that it has.
fn request_portable(adapter: &Adapter, limits: wgpu::Limits) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let wanted = wgpu::DeviceDescriptor {
        label: None,
        // A driver that has experimental ones is not opened with them unless they are asked for by
        // name; nothing here needs one.
        required_features: adapter.features()
            - wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
            - wgpu::Features::all_experimental_mask(),
        required_limits: limits,
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
    };
    match ready(adapter.request_device(&wanted)) {
        Poll::Ready(opened) => opened.map_err(|error| error.to_string()),
        Poll::Pending => Err("its driver does not answer".to_owned()),
    }
}

/// What was opened, for [`lose`].
static OPENED: Mutex<Vec<(usize, wgpu::Device)>> = Mutex::new(Vec::new());

/// Takes a GPU away from everybody in this process who has it, as a driver does that crashes: for
/// tests of what happens then.
pub fn lose(number: usize) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, device) in opened.extract_if(.., |(other, _)| *other == number) {
        device.destroy();
    }
}

/// Lets go of what was opened by this number.
pub(crate) fn close(number: usize) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|(other, _)| *other != number);
}

/// What a future of wgpu gives: outside a browser it is ready at once.
fn ready<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The backends that a model can run on, the best first.
fn preference(backend: Backend) -> usize {
    match backend {
        Backend::Vulkan | Backend::Metal => 0,
        _ => 1,
    }
}

/// The backends that are asked.
const BACKENDS: Backends = if cfg!(target_vendor = "apple") {
    Backends::METAL
} else {
    Backends::VULKAN.union(Backends::DX12)
};

/// One for the life of the process: a Vulkan loader crashes where instances come and go on several
/// threads.
fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        Instance::new(InstanceDescriptor {
            backends: BACKENDS,
            ..InstanceDescriptor::new_without_display_handle()
        })
    })
}

/// What wgpu lists, in its order.
fn enumerate() -> Vec<Adapter> {
    match ready(instance().enumerate_adapters(BACKENDS)) {
        Poll::Ready(adapters) => adapters,
        Poll::Pending => Vec::new(),
    }
}

/// The indices of what is one GPU, best backend first, in the order of [`adapters`].
fn groups(infos: &[AdapterInfo]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_by_key(|&at| preference(infos[at].backend));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let known = groups
            .iter_mut()
            .map(|group| (likeness(infos, group, at), group))
            .filter(|(likeness, _)| *likeness > 0)
            .min_by_key(|(likeness, _)| Reverse(*likeness));
        match known {
            Some((_, group)) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups.sort_by_key(|group| {
        let info = &infos[group[0]];
        (AdapterKind::of(info), info.device_pci_bus_id.clone(), group[0])
    });
    groups
}

/// How sure it is that an adapter is the GPU of this group; 0 where it is not.
fn likeness(infos: &[AdapterInfo], group: &[usize], at: usize) -> u8 {
    let (head, info) = (&infos[group[0]], &infos[at]);
    if (head.vendor, head.device) != (info.vendor, info.device) {
        return 0;
    }
    let same_slot = !info.device_pci_bus_id.is_empty() && info.device_pci_bus_id == head.device_pci_bus_id;
    let seen = group.iter().any(|&other| infos[other].backend == info.backend);
    match info.backend {
        // Two drivers may serve one card.
        Backend::Vulkan => u8::from(same_slot),
        _ if seen => 0,
        // DX12's addresses are looked up by the model of the card: of two equal cards, both get
        // one's.
        _ => 1 + u8::from(same_slot),
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
        assert_eq!(AdapterKind::of(&adapter), AdapterKind::Discrete);
        adapter.name = "Virtio-GPU Venus (llvmpipe)".to_owned();
        assert_eq!(AdapterKind::of(&adapter), AdapterKind::Software);
    }
}
