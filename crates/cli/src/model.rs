//! From what was typed as MODEL to a model that is loaded.

use crate::args::{Adapters, How};
use crate::failure::Failure;
use crate::hand_over::to_the_best_build;
use crate::progress::Progress;
use hearth_app::library;
use hearth_engine::Engine;
use hearth_protocol::{LoadRequest, Sampling};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A model's file, and what suits it.
pub struct Chosen {
    /// What people call it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What a conversation begins with, unless something else is asked for.
    pub system_prompt: Option<String>,
    /// How its tokens are chosen, unless something else is asked for.
    pub sampling: Sampling,
}

impl Chosen {
    /// The model that a person means by a path or a name.
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

/// Loads it, with progress, and says what a person should know of it.
pub fn load(chosen: &Chosen, how: &How, context: Option<u32>) -> Result<Engine, Failure> {
    to_the_best_build(how)?;
    let request = LoadRequest {
        path: chosen.path.clone(),
        context,
        threads: how.threads,
        device: how.device.clone(),
        build: None,
        gpu_layers: how.gpu_layers,
        kv: how.kv,
        kept: None,
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

/// Puts adapters on, and says what a person should know of them.
pub fn wear(engine: &mut Engine, adapters: &Adapters) -> Result<(), Failure> {
    for notice in engine.wear(&adapters.adapters)? {
        eprintln!("note: {notice}");
    }
    Ok(())
}
