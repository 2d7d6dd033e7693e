//! Resolving and loading MODEL.

use crate::args::{Adapters, Draft, LoadOptions};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::say;
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

/// A draft, and how many tokens it proposes at a time; `None` means as many as pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenDraft {
    pub choice: DraftChoice,
    pub tokens: Option<u32>,
}

impl ChosenDraft {
    /// Plain decoding.
    pub const NONE: Self = Self {
        choice: DraftChoice::None,
        tokens: None,
    };
}

/// The requested draft, or else `default`; a draft model may be named as in `hearth list`.
///
/// # Errors
/// There is no such model.
pub fn draft(args: &Draft, default: DraftChoice) -> Result<ChosenDraft, Failure> {
    let choice = match &args.draft {
        None => default,
        Some(DraftChoice::Model { path }) if path.as_os_str() == "mtp" => {
            return Err(Failure::Usage(
                "--draft mtp: prediction layers cannot draft yet. Use ngram, self, or a smaller model".to_owned(),
            ));
        }
        Some(DraftChoice::Model { path }) => DraftChoice::Model {
            path: Chosen::find(&path.to_string_lossy())?.path,
        },
        Some(choice) => choice.clone(),
    };
    Ok(ChosenDraft {
        choice,
        tokens: args.draft_tokens,
    })
}

/// Loads a model with progress, and prints its notices.
pub fn load(
    chosen: &Chosen,
    options: &LoadOptions,
    context: Option<u32>,
    draft: ChosenDraft,
) -> Result<Engine, Failure> {
    let device = switch_build::choose(&chosen.path, context, &draft.choice, options)?;
    let request = LoadRequest {
        path: chosen.path.clone(),
        context,
        threads: options.threads,
        device: Some(device),
        build: None,
        gpu_layers: options.gpu_layers,
        kv: options.kv,
        draft: draft.choice,
        draft_tokens: draft.tokens,
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
        say!("note: {notice}");
    }
    Ok(engine)
}

/// Applies adapters, and prints their notices.
pub fn set_adapters(engine: &mut Engine, adapters: &Adapters) -> Result<(), Failure> {
    for notice in engine.set_adapters(&adapters.adapters)? {
        say!("note: {notice}");
    }
    Ok(())
}
