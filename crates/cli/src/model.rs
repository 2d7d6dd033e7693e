//! Resolving and loading MODEL.

use crate::args::{Adapters, LoadOptions};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::switch_build;
use hearth_app::library;
use hearth_engine::Engine;
use hearth_protocol::{DraftChoice, LoadRequest, SamplingParams};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A model's file and its defaults.
pub struct Chosen {
    /// Display name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Default system prompt.
    pub system_prompt: Option<String>,
    /// Default sampling parameters.
    pub sampling: SamplingParams,
}

impl Chosen {
    /// The model of a path or name.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let (library, added) = library::open().map_err(Failure::new)?;
        library.resolve(name, &added).map(Self::from).map_err(Failure::new)
    }
}

impl From<library::Model> for Chosen {
    fn from(model: library::Model) -> Self {
        Self {
            system_prompt: model.system_prompt().map(str::to_owned),
            sampling: model.sampling(),
            name: model.name,
            path: model.path,
        }
    }
}

/// Load a model with progress, and print its notices.
pub fn load(chosen: &Chosen, options: &LoadOptions, context: Option<u32>) -> Result<Engine, Failure> {
    let device = switch_build::choose(&chosen.path, context, options)?;
    let request = LoadRequest {
        path: chosen.path.clone(),
        context,
        threads: options.threads,
        device: Some(device),
        build: None,
        gpu_layers: options.gpu_layers,
        kv: options.kv,
        draft: DraftChoice::None,
        prompt_cache: None,
    };
    let mut progress = Progress::new();
    let engine = Engine::load(&request, &mut |fraction, stage| {
        progress.show(fraction, stage);
        ControlFlow::Continue(())
    });
    drop(progress);
    let engine = engine?;
    for notice in &engine.info().notices {
        eprintln!("note: {notice}");
    }
    Ok(engine)
}

/// Apply adapters, and print their notices.
pub fn set_adapters(engine: &mut Engine, adapters: &Adapters) -> Result<(), Failure> {
    for notice in engine.set_adapters(&adapters.adapters)? {
        eprintln!("note: {notice}");
    }
    Ok(())
}
