//! A loaded model, ready to generate.

use crate::adapters::AdaptedModels;
use crate::draft::{self, DraftFile};
use crate::drafting::Drafting;
use crate::json_schema::Schemas;
use crate::notices::{beyond_training, missing_bytes, template_notice, unknown_settings};
use crate::numbers::saturating_u32;
use crate::plan::{self, ModelBytes, PlanOptions, load_with_fallback};
use crate::problem::{from_gguf, from_load, from_session, from_template, from_tokenizer, interrupted};
use crate::prompt_cache::PromptCache;
use crate::scheduler::Scheduler;
use crate::texts::Texts;
use crate::thinking::Markers;
use crate::unsent::{UnsentCount, UnsentState};
use crate::{hardware, packed};
use hearth_formats::chat_template::{self, ChatTemplate};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::threads::{self, Threads};
use hearth_llm::{Config, LoadOptions, Model, Session};
use hearth_protocol::{
    AdapterChoice, ConversationId, CountUnsent, GpuLayers, LoadRequest, ModelInfo, Notice, Plan, Problem, Stage,
    ThinkingSupport,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Progress of a load after the vocabulary is read, and after the weights are loaded. The KV cache
/// follows.
const VOCABULARY_READ: f32 = 0.1;
const WEIGHTS_LOADED: f32 = 0.95;

/// A loaded model with its tokenizer, chat template, KV cache and answers in progress.
pub struct Engine {
    pub(crate) texts: Arc<Texts>,
    /// The message that is being written.
    pub(crate) unsent: Arc<UnsentState>,
    /// A session that no answer uses. The sessions of answers are created from it.
    pub(crate) session: Session,
    pub(crate) adapted: Arc<AdaptedModels>,
    pub(crate) scheduler: Scheduler,
    /// The prompt cache, if enabled.
    pub(crate) prompt_cache: Option<PromptCache>,
    info: ModelInfo,
}

impl Engine {
    /// Loads a model. `progress` receives the completed fraction, from 0 to 1, and the stage. It
    /// returns `Break` to cancel.
    ///
    /// # Errors
    /// The file, the device or the settings are invalid, memory is too small, or the load was
    /// cancelled.
    pub fn load(
        request: &LoadRequest,
        progress: &mut dyn FnMut(f32, Stage) -> ControlFlow<()>,
    ) -> Result<Self, Problem> {
        let start = Instant::now();
        let mut step = |fraction, stage| match progress(fraction, stage) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(interrupted()),
        };
        step(0.0, Stage::OpeningFile)?;
        let team = hardware::team_size(request.threads)?;
        let gguf = Gguf::open(&request.path).map_err(from_gguf)?;
        let config = Config::from_gguf(&gguf).map_err(from_load)?;
        let device = request.device.as_deref();
        // In the background, because queries of graphics drivers are slow.
        hardware::probe_ahead(device);
        step(VOCABULARY_READ / 2.0, Stage::ReadingVocabulary)?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?;
        let template = ChatTemplate::from_gguf(&gguf).map_err(from_template)?;
        let mut notices: Vec<Notice> = template_notice(&template).into_iter().collect();
        notices.extend(missing_bytes(&tokenizer));
        notices.extend(unknown_settings(&gguf, config.architecture));
        let bytes = plan::target_bytes(
            ModelBytes::from_header(&gguf, &config).map_err(from_load)?,
            &request.draft,
        );
        let draft_file = DraftFile::open(&request.draft, &tokenizer)?;
        let mut options = PlanOptions::from(request);
        options.draft = draft_file.as_ref().map(|file| file.bytes.clone());
        let first_plan = plan::compute_plan(&bytes, &config, &options, &hardware::devices_for(device))?;
        let context = first_plan.plan.context;
        first_plan.check_main_memory(&mut notices)?;
        first_plan.check()?;
        notices.extend(first_plan.limits.iter().cloned());

        // Before the weights are loaded, because that releases the file's pages.
        let prompt_cache = request
            .prompt_cache
            .as_ref()
            .and_then(|folder| PromptCache::new(folder, &gguf));
        threads::set(match request.threads {
            Some(_) => Threads::Fixed(team as usize),
            None => Threads::AtMost(team as usize),
        });
        // Another process may have recorded them since the last load.
        hardware::use_recorded_prefetches();
        options.context = Some(context);
        let with_layers = |layers: usize| {
            let options = PlanOptions {
                gpu_layers: GpuLayers::Count(saturating_u32(layers)),
                ..options.clone()
            };
            plan::compute_plan(&bytes, &config, &options, &hardware::devices_for(device))
        };
        let (session, model_plan) = load_with_fallback(first_plan, &mut notices, with_layers, |model_plan| {
            // After a fallback, more layers are on the CPU.
            model_plan.check_main_memory(&mut Vec::new())?;
            let options = LoadOptions {
                placement: Some(model_plan.placement.clone()),
                packed_in: packed::folder(),
                context: Some(context as usize),
                calibrate: hardware::can_record_prefetches(),
            };
            let model = Model::load(&gguf, &options, &mut |fraction| {
                progress(
                    VOCABULARY_READ + fraction * (WEIGHTS_LOADED - VOCABULARY_READ),
                    Stage::ReadingWeights,
                )
            });
            let model = Arc::new(model.map_err(from_load)?);
            hardware::record_prefetches(model.calibrated());
            if progress(WEIGHTS_LOADED, Stage::AllocatingCache).is_break() {
                return Err(interrupted());
            }
            Session::with_size(model, bytes.cache_size(context), plan::format(request.kv)).map_err(from_session)
        })?;
        let drafting = draft::prepare(request, draft_file, session.model(), &bytes, &model_plan)?;
        notices.extend(beyond_training(context, &config));
        let mut info = model_info(request, &gguf, config, model_plan.plan);
        (info.context, info.threads, info.notices) = (context, team, notices);
        info.draft = drafting.as_ref().map(Drafting::kind);
        let chat_template::ThinkingSupport { switch, effort } = template.thinking();
        info.thinking = ThinkingSupport { switch, effort };
        info.load_seconds = start.elapsed().as_secs_f64();
        Ok(Self {
            texts: Arc::new(Texts {
                markers: Markers::from_template(template.source(), &tokenizer).map(Arc::new),
                tokenizer: Arc::new(tokenizer),
                template,
                schemas: Schemas::default(),
            }),
            unsent: Arc::default(),
            adapted: Arc::new(AdaptedModels::new(&request.path, Arc::clone(session.model()))),
            session,
            scheduler: Scheduler::new(drafting),
            // KV cells on a GPU are not saved.
            prompt_cache: prompt_cache.filter(|_| info.gpu_layers == 0),
            info,
        })
    }

    /// Properties of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Adds a notice for the user.
    pub(crate) fn note(&mut self, notice: Notice) {
        self.info.notices.push(notice);
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.texts.tokenizer
    }

    /// The model with the adapters that were set, for other sessions.
    pub fn model(&self) -> &Arc<Model> {
        self.session.model()
    }

    /// Returns a new session with an empty KV cache of the same type.
    ///
    /// # Errors
    /// The KV cache cannot be allocated.
    pub fn new_session(&self, context: usize) -> Result<Session, Problem> {
        let format = self.session.cache_format();
        Session::with_cache(Arc::clone(self.model()), context, format).map_err(from_session)
    }

    /// Sets the adapters of the engine's own session and of new sessions. An answer uses the
    /// adapters of its request. Returns notices for the user.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model. The adapters are unchanged then.
    pub fn set_adapters(&mut self, choices: &[AdapterChoice]) -> Result<Vec<Notice>, Problem> {
        let adapted = self.adapted.attach(self.adapted.read(choices)?)?;
        self.session = self.session.sharing_cache(adapted.model).map_err(from_session)?;
        Ok(adapted.notices)
    }

    /// Returns the count of a message that is being written.
    pub(crate) fn unsent_count(&self, request: CountUnsent) -> UnsentCount {
        UnsentCount::new(Arc::clone(&self.texts), Arc::clone(&self.unsent), request)
    }

    /// Returns a session that no answer uses, for benchmarks. Drops the sessions of ended answers,
    /// so that the whole KV cache is available.
    pub fn session_mut(&mut self) -> &mut Session {
        self.scheduler.drop_idle();
        &mut self.session
    }

    /// Saves the KV cells of ended answers to the prompt cache, if it is enabled. `give_up` is
    /// called repeatedly and returns `true` to cancel; the part saved so far remains. Errors are
    /// logged.
    pub fn save_prompt_cache(&mut self, give_up: &dyn Fn() -> bool) {
        if let Some(cache) = &mut self.prompt_cache {
            self.scheduler.save(cache, give_up);
        }
    }

    /// Sets the size limit of the prompt cache in bytes, and evicts files above it.
    pub fn set_prompt_cache_limit(&mut self, bytes: u64) {
        if let Some(cache) = &mut self.prompt_cache {
            cache.set_limit(bytes);
        }
    }

    /// Removes a conversation from the prompt cache.
    pub fn remove_prompt_cache(&mut self, conversation: ConversationId) {
        self.scheduler.forget(conversation);
        if let Some(cache) = &mut self.prompt_cache {
            cache.remove(conversation);
        }
    }

    /// Drops all answers, and replaces the KV cache with an empty one.
    ///
    /// # Errors
    /// The KV cache cannot be allocated.
    pub fn reset_cache(&mut self) -> Result<(), Problem> {
        // The sessions of answers keep the old cache in memory.
        self.scheduler.clear();
        let (size, format) = (self.session.cache().size(), self.session.cache_format());
        self.session = Session::with_size(Arc::clone(self.model()), size, format).map_err(from_session)?;
        Ok(())
    }
}

/// Properties of a loaded model, without its load time, threads, notices, draft and thinking
/// support.
fn model_info(request: &LoadRequest, gguf: &Gguf, config: Config, plan: Plan) -> ModelInfo {
    tracing::info!("{} of {} layers are on GPUs", plan.gpu_layers, plan.layers_total);
    let output_device = plan.devices.iter().rfind(|device| !device.layers.is_empty());
    let layers = saturating_u32(config.n_layers());
    ModelInfo {
        path: request.path.clone(),
        name: config.name,
        architecture: config.architecture.to_string(),
        quantization: gguf.quantization(),
        parameters: gguf.parameter_count(),
        file_size: gguf.file_size(),
        layers,
        context: plan.context,
        context_trained: saturating_u32(config.context_trained),
        device: output_device.map_or_else(|| hardware::CPU.to_owned(), |device| device.id.clone()),
        threads: 0,
        load_seconds: 0.0,
        notices: Vec::new(),
        gpu_layers: plan.gpu_layers,
        layers_total: plan.layers_total,
        kv: plan.kv,
        placement: plan.devices,
        draft: None,
        thinking: ThinkingSupport::default(),
    }
}
