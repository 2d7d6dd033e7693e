//! The draft of a loaded model: what a request names, read, checked and placed.

mod vocabulary;

use crate::packed;
use crate::plan::{self, ModelBytes, Planned, draft_place};
use crate::problem::{from_gguf, from_load, from_tokenizer, internal, panic_text, problem};
use crate::scheduler::Drafting;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_kernels::attention::KvFormat;
use hearth_llm::draft::{ModelDrafter, NgramDrafter, SelfSpeculativeDrafter, TokenMap};
use hearth_llm::{Config, LoadOptions, Model, Place, Placement};
use hearth_protocol::{DraftChoice, DraftKind, LoadRequest, Problem, ProblemCode};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// By default a model drafts with its number of layers divided by this.
const OWN_LAYERS_DIVISOR: usize = 3;

/// The file of a draft model, with what was read of it.
pub(crate) struct DraftFile {
    gguf: Gguf,
    pub bytes: ModelBytes,
    layers: usize,
    map: Option<TokenMap>,
}

/// The bytes of a target with the draft that shares its cells, if that was chosen.
pub(crate) fn target_bytes(bytes: ModelBytes, choice: &DraftChoice) -> ModelBytes {
    match choice {
        DraftChoice::Own { .. } => bytes.with_own_draft(),
        _ => bytes,
    }
}

/// The bytes of a draft model, if one was chosen.
///
/// # Errors
/// Its file cannot be read or is unsupported.
pub(crate) fn model_bytes(choice: &DraftChoice) -> Result<Option<ModelBytes>, Problem> {
    let Some(path) = choice.path() else { return Ok(None) };
    let gguf = Gguf::open(path).map_err(from_gguf)?;
    let config = Config::from_gguf(&gguf).map_err(from_load)?;
    let bytes = ModelBytes::from_header(&gguf, &config).map_err(from_load)?;
    Ok(Some(bytes.as_draft()))
}

impl DraftFile {
    /// Reads the chosen draft model's file, and checks that it can draft for a target with this
    /// vocabulary. `None` if no model was chosen.
    ///
    /// # Errors
    /// It cannot be read, is unsupported, or its vocabulary has too little in common with the
    /// target's.
    pub fn open(choice: &DraftChoice, target: &Tokenizer) -> Result<Option<Self>, Problem> {
        let Some(path) = choice.path() else { return Ok(None) };
        let named = |problem: Problem| refused(path, &problem.message);
        let gguf = Gguf::open(path).map_err(from_gguf).map_err(named)?;
        let config = Config::from_gguf(&gguf).map_err(from_load).map_err(named)?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer).map_err(named)?;
        if config.vocab < tokenizer.vocab_size() {
            return Err(refused(
                path,
                "it has fewer embeddings than tokens, so the file is corrupt.",
            ));
        }
        let map = vocabulary::map(target, &tokenizer).map_err(|shared| {
            let percent = (shared * 100.0) as u32;
            let why = format!("only {percent} % of the model's tokens are in its vocabulary");
            refused(path, &format!("{why}. Choose a smaller model of the same family."))
        })?;
        Ok(Some(Self {
            bytes: ModelBytes::from_header(&gguf, &config)
                .map_err(from_load)
                .map_err(named)?
                .as_draft(),
            layers: config.layers(),
            gguf,
            map,
        }))
    }

    /// Loads it beside its target.
    fn load(self, target: &Model, context: usize, format: KvFormat, cost: f64) -> Result<ModelDrafter, Problem> {
        let placement = match draft_place(target.placement()) {
            Place::Cpu => Placement::cpu(self.layers),
            Place::Gpu(gpu) => Placement::offload(self.layers, self.layers, &[(gpu, 1)]),
        };
        let options = LoadOptions {
            placement: Some(placement),
            packed_in: packed::folder(),
            ..LoadOptions::default()
        };
        let model = Model::load(&self.gguf, &options, &mut |_, _| ControlFlow::Continue(()));
        let model = Arc::new(model.map_err(from_load)?);
        Ok(ModelDrafter::new(model, format, context, self.map, cost))
    }
}

/// Prepares the chosen draft of a loaded target. `None` means plain decoding.
///
/// # Errors
/// The draft cannot be loaded, or the target has too few layers for it.
pub(crate) fn prepare(
    request: &LoadRequest,
    file: Option<DraftFile>,
    target: &Model,
    bytes: &ModelBytes,
    planned: &Planned,
) -> Result<Option<Drafting>, Problem> {
    let all = bytes.per_token();
    let tokens = request.draft_tokens.map(|tokens| tokens as usize);
    Ok(match (&request.draft, file) {
        (DraftChoice::None, _) => None,
        (DraftChoice::Own { layers }, _) => {
            let count = target.config().n_layers;
            let layers = layers.map_or((count / OWN_LAYERS_DIVISOR).max(1), |layers| layers as usize);
            let cost = bytes.per_token_of(layers) as f64 / all.max(1) as f64;
            let drafter = SelfSpeculativeDrafter::new(target, layers, cost).map_err(|_| {
                let message = format!(
                    "The first {layers} layers cannot draft for a model of {count} layers. Choose from 1 to {}, or \
                     another draft.",
                    count.saturating_sub(1)
                );
                problem(ProblemCode::DraftInvalid, message)
            })?;
            Some(Drafting::new(DraftKind::Own, Box::new(drafter), tokens))
        }
        (DraftChoice::Model { path }, Some(file)) => {
            let cost = file.bytes.per_token() as f64 / all.max(1) as f64;
            let (context, format) = (planned.plan.context as usize, plan::format(planned.plan.kv));
            // A driver may panic for lack of memory.
            let loaded = catch_unwind(AssertUnwindSafe(|| file.load(target, context, format, cost)));
            let drafter = loaded.unwrap_or_else(|payload| Err(internal(panic_text(&*payload))));
            let drafter = drafter.map_err(|problem| refused(path, &problem.message))?;
            Some(Drafting::new(DraftKind::Model, Box::new(drafter), tokens))
        }
        (DraftChoice::Auto | DraftChoice::Ngram | DraftChoice::Model { .. }, _) => {
            Some(Drafting::new(DraftKind::Ngram, Box::new(NgramDrafter::new()), tokens))
        }
    })
}

fn refused(path: &Path, why: &str) -> Problem {
    let path = path.display();
    let message = format!("{path} cannot draft for this model: {why}");
    problem(ProblemCode::DraftInvalid, message)
}
