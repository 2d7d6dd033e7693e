//! The GPUs that wgpu can use.

use super::gpu::{Kind, Pci};
use super::merge::SourceGpu;
use hearth_llm::gpus::{self, AdapterKind};

/// All GPUs of wgpu, in the order of `hearth_llm::gpus::adapters`.
pub fn list() -> Vec<SourceGpu> {
    let views = gpus::list();
    let slots: Vec<Option<Pci>> = views
        .iter()
        .map(|view| view.infos[0].device_pci_bus_id.parse().ok())
        .collect();
    let mut gpus = Vec::with_capacity(views.len());
    for (adapter, view) in views.iter().enumerate() {
        let info = &view.infos[0];
        // An address that two cards share is ignored: DX12 reports one address for equal cards.
        let pci = slots[adapter].filter(|pci| slots.iter().filter(|slot| **slot == Some(*pci)).count() == 1);
        let mut backend_names: Vec<String> = view.infos.iter().map(|info| info.backend.to_str().to_owned()).collect();
        backend_names.dedup();
        let driver = [&info.driver, &info.driver_info].map(|text| text.trim().trim_matches('?'));
        gpus.push(SourceGpu {
            name: info.name.clone(),
            kind: match AdapterKind::from_info(info) {
                AdapterKind::Discrete => Kind::Discrete,
                AdapterKind::Integrated => Kind::Integrated,
                AdapterKind::Software => Kind::Software,
            },
            vendor: info.vendor,
            device: info.device,
            pci,
            adapter: Some(adapter),
            backend_names,
            largest_buffer: Some(view.largest_buffer),
            driver: Some(driver.join(" ").trim().to_owned()).filter(|driver| !driver.is_empty()),
            ..SourceGpu::default()
        });
    }
    gpus
}
