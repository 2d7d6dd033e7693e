//! The GPUs that CUDA can use.

use super::gpu::{Kind, Pci};
use super::memory::Memory;
use super::merge::SourceGpu;
use super::nvml::NVIDIA;
use hearth_llm::cuda;
use hearth_protocol::DeviceStatus;

/// All GPUs of CUDA, in the order of `hearth_llm::cuda`.
pub fn list() -> Vec<SourceGpu> {
    let cards = cuda::cards().into_iter().enumerate();
    let has_libdevice = cuda::libdevice::is_available();
    let gpus = cards.map(|(adapter, card)| SourceGpu {
        name: card.name,
        kind: Kind::Discrete,
        vendor: NVIDIA,
        pci: card.slot.map(|[domain, bus, device]| Pci {
            domain,
            bus,
            device,
            function: 0,
        }),
        adapter: has_libdevice.then_some(adapter),
        backend_names: has_libdevice.then(|| "cuda".to_owned()).into_iter().collect(),
        unusable: DeviceStatus::LibdeviceMissing,
        // CubeCL's largest memory page.
        largest_buffer: card.memory.map(|total| total / 4),
        // Other sources report the free memory.
        memory: card.memory.map(|total| Memory { total, free: total }),
        ..SourceGpu::default()
    });
    gpus.collect()
}
