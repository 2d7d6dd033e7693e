//! The draft of a loaded model: reads, checks and places the draft that a request chooses.

mod vocabulary;

use crate::drafting::Drafting;
use crate::numbers::saturating_u32;
use crate::packed;
use crate::plan::{self, ModelBytes, ModelPlan, draft_place};
use crate::problem::{from_gguf, from_load, from_tokenizer, internal, panic_text};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_kernels::attention::KvFormat;
use hearth_llm::draft::{ModelDrafter, NgramDrafter, SelfSpeculativeDrafter, TokenMap};
use hearth_llm::{Config, LoadOptions, Model, Place, Placement};
use hearth_protocol::{DraftChoice, DraftKind, LoadReason, LoadRequest, Problem, ProblemCode};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// By default, a draft by the first layers uses the model's number of layers divided by this.
const FIRST_LAYERS_DIVISOR: usize = 3;

/// The file of a draft model, with its sizes and vocabulary.
pub(crate) struct DraftFile {
    gguf: Gguf,
    pub bytes: ModelBytes,
    layers: usize,
    /// `None` means that draft and target have the same tokens.
    map: Option<TokenMap>,
}

impl DraftFile {
    /// Reads the chosen draft model's file, and checks that it can draft for a target with this
    /// vocabulary. `None` if no model was chosen.
    ///
    /// # Errors
    /// The file cannot be read or is unsupported, or its vocabulary has too few tokens of the
    /// target's.
    pub fn open(choice: &DraftChoice, target: &Tokenizer) -> Result<Option<Self>, Problem> {
        let Some(path) = choice.path() else { return Ok(None) };
        let with_path = |cause: Problem| unusable(path, cause);
        let gguf = Gguf::open(path).map_err(from_gguf).map_err(with_path)?;
        let config = Config::from_gguf(&gguf).map_err(from_load).map_err(with_path)?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer).map_err(with_path)?;
        if config.vocab < tokenizer.vocab_size() {
            let path = path.display().to_string();
            return Err(Problem::new(
                ProblemCode::DraftInvalid,
                LoadReason::DraftCorrupt { path },
            ));
        }
        let map = vocabulary::map(target, &tokenizer).map_err(|shared| {
            let (path, percent) = (path.display().to_string(), (shared * 100.0) as u32);
            Problem::new(ProblemCode::DraftInvalid, LoadReason::DraftVocabulary { path, percent })
        })?;
        Ok(Some(Self {
            bytes: ModelBytes::from_header(&gguf, &config)
                .map_err(from_load)
                .map_err(with_path)?
                .as_draft(),
            layers: config.layers(),
            gguf,
            map,
        }))
    }

    /// Loads the draft model on the device that its target's placement determines.
    fn load(self, target: &Model, context: usize, format: KvFormat, cost: f64) -> Result<ModelDrafter, Problem> {
        let placement = match draft_place(target.placement()) {
            Place::Cpu => Placement::cpu(self.layers),
            Place::Gpu(gpu) => Placement::offload(self.layers, self.layers, &[(gpu, 1)]),
        };
        let options = LoadOptions {
            placement: Some(placement),
            packed_in: packed::folder(),
            context: Some(context),
            ..LoadOptions::default()
        };
        let model = Model::load(&self.gguf, &options, &mut |_| ControlFlow::Continue(()));
        let model = Arc::new(model.map_err(from_load)?);
        Ok(ModelDrafter::new(model, format, context, self.map, cost))
    }
}

/// Prepares the chosen draft of a loaded target. Returns `None` for plain decoding.
///
/// # Errors
/// The draft cannot be loaded, or the target has too few layers for it.
pub(crate) fn prepare(
    request: &LoadRequest,
    file: Option<DraftFile>,
    target: &Model,
    bytes: &ModelBytes,
    model_plan: &ModelPlan,
) -> Result<Option<Drafting>, Problem> {
    let target_bytes = bytes.per_token();
    let tokens = request.draft_tokens.map(|tokens| tokens as usize);
    Ok(match (&request.draft, file) {
        (DraftChoice::None, _) => None,
        (DraftChoice::FirstLayers { layers }, _) => {
            let total = target.config().n_layers();
            let layers = layers.map_or((total / FIRST_LAYERS_DIVISOR).max(1), |layers| layers as usize);
            let cost = bytes.per_token_of(layers) as f64 / target_bytes.max(1) as f64;
            let drafter = SelfSpeculativeDrafter::new(target, layers, cost).map_err(|_| {
                let reason = LoadReason::DraftLayers {
                    layers: saturating_u32(layers),
                    total: saturating_u32(total),
                    most: saturating_u32(total.saturating_sub(1)),
                };
                Problem::new(ProblemCode::DraftInvalid, reason)
            })?;
            Some(Drafting::new(DraftKind::FirstLayers, Box::new(drafter), tokens))
        }
        (DraftChoice::Model { path }, Some(file)) => {
            let cost = file.bytes.per_token() as f64 / target_bytes.max(1) as f64;
            let (context, format) = (model_plan.plan.context as usize, plan::format(model_plan.plan.kv));
            // A driver may panic if memory is exhausted.
            let result = catch_unwind(AssertUnwindSafe(|| file.load(target, context, format, cost)));
            let drafter = result.unwrap_or_else(|payload| Err(internal(panic_text(&*payload))));
            let drafter = drafter.map_err(|cause| unusable(path, cause))?;
            Some(Drafting::new(DraftKind::Model, Box::new(drafter), tokens))
        }
        (DraftChoice::Auto | DraftChoice::Ngram | DraftChoice::Model { .. }, _) => {
            Some(Drafting::new(DraftKind::Ngram, Box::new(NgramDrafter::new()), tokens))
        }
    })
}

/// The problem of a draft model that cannot be read or loaded.
fn unusable(path: &Path, cause: Problem) -> Problem {
    let (path, cause) = (path.display().to_string(), Box::new(cause));
    Problem::new(ProblemCode::DraftInvalid, LoadReason::DraftUnusable { path, cause })
}
