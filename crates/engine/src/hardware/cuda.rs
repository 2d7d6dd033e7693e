//! The GPUs that CUDA can use.

use super::gpu::{Kind, Pci};
use super::memory::Memory;
use super::merge::Seen;
use super::nvml::NVIDIA;
use hearth_llm::cuda;

/// All GPUs of CUDA, in the order of `hearth_llm::cuda`.
pub fn seen() -> Vec<Seen> {
    let cards = cuda::cards().into_iter().enumerate();
    let complete = cuda::libdevice::is_available();
    let seen = cards.map(|(adapter, card)| Seen {
        name: card.name,
        kind: Kind::Discrete,
        vendor: NVIDIA,
        pci: card.slot.map(|[domain, bus, device]| Pci {
            domain,
            bus,
            device,
            function: 0,
        }),
        adapter: complete.then_some(adapter),
        backend_names: complete.then(|| "cuda".to_owned()).into_iter().collect(),
        why_not: "CUDA's file libdevice.10.bc is missing: install NVIDIA's CUDA toolkit, or put the file beside \
            hearth-cuda, in nvvm/libdevice."
            .to_owned(),
        // CubeCL's largest page.
        largest_buffer: card.memory.map(|total| total / 4),
        // Other sources report the free memory.
        memory: card.memory.map(|total| Memory { total, free: total }),
        ..Seen::default()
    });
    seen.collect()
}
