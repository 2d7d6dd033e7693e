//! Conversions of the hardware's wire types.

use crate::{
    store::measurement,
    wire::{self, LoadSettings},
};
use hearth_protocol as protocol;
use std::path::PathBuf;

impl LoadSettings {
    /// The load settings for the model with this id, from the app's settings.
    pub(crate) fn from_settings(settings: &wire::Settings, model: &str) -> Self {
        Self {
            threads: settings.threads,
            context: settings.context,
            device: settings.device.clone(),
            build: settings.build.clone(),
            gpu_layers: settings.gpu_layers,
            kv: settings.kv,
            draft: settings.drafts.get(model).cloned().unwrap_or_default(),
        }
    }

    /// The plan request for a model's file and a draft.
    pub(crate) fn plan(self, path: PathBuf, draft: protocol::DraftChoice) -> protocol::PlanRequest {
        protocol::PlanRequest {
            path,
            context: self.context,
            device: self.device,
            build: self.build,
            gpu_layers: self.gpu_layers,
            kv: self.kv,
            threads: self.threads,
            draft,
            ..protocol::PlanRequest::default()
        }
    }

    /// The load request for a model's file and a draft.
    pub(crate) fn load(
        self,
        path: PathBuf,
        draft: protocol::DraftChoice,
        prompt_cache: protocol::PromptCacheFolder,
    ) -> protocol::LoadRequest {
        protocol::LoadRequest {
            path,
            context: self.context,
            threads: self.threads,
            device: self.device,
            build: self.build,
            gpu_layers: self.gpu_layers,
            kv: self.kv,
            draft,
            draft_tokens: None,
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
            kv: row.kv.parse::<protocol::KvType>().unwrap_or_default(),
            threads: row.threads,
            prompt_tokens_per_second: row.prompt_tokens_per_second,
            tokens_per_second: row.tokens_per_second,
            prompt_tokens: row.prompt_tokens,
            tokens: row.tokens,
            measured_at: row.measured_at,
        }
    }
}
