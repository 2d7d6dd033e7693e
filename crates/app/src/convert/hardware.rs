//! Conversions of the hardware's wire types.

use super::all;
use crate::{
    store::measurement,
    wire::{self, LoadSettings},
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
            backend_names: device.backend_names,
            backends: all(device.backends),
        }
    }
}

impl From<protocol::BackendOption> for wire::BackendOption {
    fn from(option: protocol::BackendOption) -> Self {
        Self {
            build: option.build,
            backend: option.backend,
            check: option.check.map(Into::into),
        }
    }
}

mirror! {
    protocol::DeviceCheck => wire::DeviceCheck { mismatch, bytes_per_second, macs_per_second }
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

impl From<&wire::Settings> for LoadSettings {
    /// The load settings of the app's settings.
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

impl LoadSettings {
    /// The plan request of a model's file.
    pub(crate) fn plan(self, path: PathBuf) -> protocol::PlanRequest {
        protocol::PlanRequest {
            path,
            context: self.context,
            device: self.device,
            build: self.build,
            gpu_layers: self.gpu_layers.into(),
            kv: self.kv.into(),
            ..protocol::PlanRequest::default()
        }
    }

    /// The load request of a model's file.
    pub(crate) fn load(self, path: PathBuf, prompt_cache: protocol::PromptCacheFolder) -> protocol::LoadRequest {
        protocol::LoadRequest {
            path,
            context: self.context,
            threads: self.threads,
            device: self.device,
            build: self.build,
            gpu_layers: self.gpu_layers.into(),
            kv: self.kv.into(),
            prompt_cache: Some(prompt_cache),
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
            // A type from a newer Hearth is shown as the default.
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
