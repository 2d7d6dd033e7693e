//! The GPUs that a model can run on through CUDA.

use super::gpu::{Kind, Pci};
use super::memory::Memory;
use super::merge::Seen;
use super::nvml::NVIDIA;
use hearth_llm::cuda;

/// What CUDA sees, in the order in which `hearth_llm::cuda` lists it.
pub fn seen() -> Vec<Seen> {
    let cards = cuda::cards().into_iter().enumerate();
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
        adapter: Some(adapter),
        backends: vec!["cuda".to_owned()],
        // What of it is free others tell.
        memory: card.memory.map(|total| Memory { total, free: total }),
        ..Seen::default()
    });
    seen.collect()
}
