//! The model of a command: finds it by path or name, and loads it.

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

/// A model file and the model's default settings.
pub struct ChosenModel {
    /// Display name.
    pub name: String,
    /// Path of the GGUF file.
    pub path: PathBuf,
    /// Default system prompt.
    pub system_prompt: Option<String>,
    /// Default sampling parameters.
    pub sampling: SamplingParams,
}

impl ChosenModel {
    /// The model with this path, or with this name in `hearth list`.
    ///
    /// # Errors
    /// The library cannot be read, or there is no such model.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let (library, added) = library::open().map_err(Failure::new)?;
        library.resolve(name, &added).map(Self::from).map_err(Failure::new)
    }
}

impl From<library::Model> for ChosenModel {
    fn from(model: library::Model) -> Self {
        Self {
            system_prompt: model.system_prompt().map(str::to_owned),
            sampling: model.sampling(),
            name: model.name,
            path: model.path,
        }
    }
}

/// A draft and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenDraft {
    pub choice: DraftChoice,
    /// Tokens per draft; `None` means a length chosen by measured speed.
    pub tokens: Option<u32>,
}

impl ChosenDraft {
    /// Decoding without a draft.
    pub const NONE: Self = Self {
        choice: DraftChoice::None,
        tokens: None,
    };
}

/// The requested draft, or `default` without a request. A draft model is given by its path or by
/// its name in `hearth list`.
///
/// # Errors
/// There is no such model, or the draft is not supported.
pub fn draft(args: &Draft, default: DraftChoice) -> Result<ChosenDraft, Failure> {
    let choice = match &args.draft {
        None => default,
        Some(DraftChoice::Model { path }) if path.as_os_str() == "mtp" => {
            return Err(Failure::Usage(
                "--draft mtp: prediction layers cannot draft yet. Use ngram, self, or a smaller model".to_owned(),
            ));
        }
        Some(DraftChoice::Model { path }) => DraftChoice::Model {
            path: ChosenModel::find(&path.to_string_lossy())?.path,
        },
        Some(choice) => choice.clone(),
    };
    Ok(ChosenDraft {
        choice,
        tokens: args.draft_tokens,
    })
}

/// Loads a model. Shows the progress and prints the model's notices.
pub fn load(
    model: &ChosenModel,
    options: &LoadOptions,
    context: Option<u32>,
    draft: ChosenDraft,
) -> Result<Engine, Failure> {
    let device = switch_build::choose(&model.path, context, &draft.choice, options)?;
    let request = LoadRequest {
        path: model.path.clone(),
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

/// Applies adapters and prints their notices.
pub fn set_adapters(engine: &mut Engine, adapters: &Adapters) -> Result<(), Failure> {
    for notice in engine.set_adapters(&adapters.adapters)? {
        say!("note: {notice}");
    }
    Ok(())
}
