//! Where the wire of the machine meets the store's rows and the worker's messages.

use super::all;
use crate::{
    store::measurement,
    wire::{self, WhatIf},
};
use hearth_protocol as protocol;
use std::path::PathBuf;

impl From<protocol::DeviceInfo> for wire::Device {
    fn from(device: protocol::DeviceInfo) -> Self {
        Self {
            id: device.id,
            identity: device.identity,
            kind: device.kind,
            name: device.name,
            backend: device.backend,
            memory_total: device.memory_total,
            memory_free: device.memory_free,
            usable: device.usable,
            why: device.why,
            driver: device.driver,
            api: device.api,
            load: device.load,
            cores: device.cores,
            performance_cores: device.performance_cores,
            backends: device.backends,
            ways: all(device.ways),
        }
    }
}

impl From<protocol::DeviceWay> for wire::DeviceWay {
    fn from(way: protocol::DeviceWay) -> Self {
        Self {
            build: way.build,
            backend: way.backend,
            check: way.check.map(Into::into),
        }
    }
}

mirror! {
    protocol::DeviceCheck => wire::DeviceCheck { wrong, bytes_per_second, products_per_second }
    protocol::PlannedDevice => wire::PlannedDevice {
        id, name, weights, kv, compute, margin, total, free, layers, fits,
    }
}

mirror! {
    protocol::KvType => wire::KvType [ F16, Q8_0 ]
    wire::KvType => protocol::KvType [ F16, Q8_0 ]
}

impl From<wire::GpuLayers> for protocol::GpuLayers {
    fn from(layers: wire::GpuLayers) -> Self {
        match layers {
            wire::GpuLayers::Auto => Self::Auto,
            wire::GpuLayers::All => Self::All,
            wire::GpuLayers::Count { count } => Self::Count(count),
        }
    }
}

impl From<protocol::Verdict> for wire::Verdict {
    fn from(verdict: protocol::Verdict) -> Self {
        match verdict {
            protocol::Verdict::Fits => Self::Fits,
            protocol::Verdict::FitsWithLessContext { context } => Self::FitsWithLessContext { context },
            protocol::Verdict::Slow => Self::Slow,
            protocol::Verdict::WontFit => Self::WontFit,
        }
    }
}

impl From<protocol::Plan> for wire::Plan {
    fn from(plan: protocol::Plan) -> Self {
        Self {
            fits: plan.fits,
            verdict: plan.verdict.into(),
            why: plan.why,
            context: plan.context,
            context_fits: plan.context_fits,
            gpu_layers: plan.gpu_layers,
            layers_total: plan.layers_total,
            layers_fit: plan.layers_fit,
            kv: plan.kv.into(),
            devices: all(plan.devices),
        }
    }
}

impl From<&wire::Settings> for WhatIf {
    /// How a model is loaded now.
    fn from(settings: &wire::Settings) -> Self {
        Self {
            threads: settings.threads,
            context: settings.context,
            device: settings.device.clone(),
            build: settings.build.clone(),
            gpu_layers: settings.gpu_layers,
            kv: settings.kv,
        }
    }
}

impl WhatIf {
    /// The same for the worker, of a file.
    pub(crate) fn plan(self, path: PathBuf) -> protocol::PlanRequest {
        protocol::PlanRequest {
            path,
            context: self.context,
            device: self.device,
            gpu_layers: self.gpu_layers.into(),
            kv: self.kv.into(),
            assume_gpu: None,
        }
    }

    /// The same for the worker, to load a file and to keep in a folder what it reads.
    pub(crate) fn load(self, path: PathBuf, kept: protocol::KeptFolder) -> protocol::LoadRequest {
        protocol::LoadRequest {
            path,
            context: self.context,
            threads: self.threads,
            device: self.device,
            build: self.build,
            gpu_layers: self.gpu_layers.into(),
            kv: self.kv.into(),
            kept: Some(kept),
        }
    }
}

impl From<measurement::Measurement> for wire::Measurement {
    fn from(row: measurement::Measurement) -> Self {
        Self {
            model: row.model,
            model_name: row.model_name,
            device: row.device,
            gpu_layers: row.gpu_layers,
            layers_total: row.layers_total,
            // Written by this program; a type of a newer one is shown as the usual.
            kv: row.kv.parse::<protocol::KvType>().unwrap_or_default().into(),
            threads: row.threads,
            prompt_tokens_per_second: row.prompt_tokens_per_second,
            tokens_per_second: row.tokens_per_second,
            prompt_tokens: row.prompt_tokens,
            tokens: row.tokens,
            measured_at: row.measured_at,
        }
    }
}
