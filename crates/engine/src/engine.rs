//! A model that is loaded and ready to answer.

use crate::adapters::Worn;
use crate::kept::Kept;
use crate::plan::{self, Asked, Bytes, carry_out, gib};
use crate::problem::{from_gguf, from_load, from_session, from_template, from_tokenizer, interrupted, problem};
use crate::turns::count;
use crate::{hardware, packed};
use hearth_formats::chat_template::{self, ChatTemplate, Turn};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::{Config, LoadOptions, Model, Session, threads};
use hearth_protocol::{ConversationId, GpuLayers, LoadRequest, Message, ModelInfo, Plan, Problem, ProblemCode, Role};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// More threads than this are a slip of the hand.
const MOST_THREADS: u32 = 1024;

/// How much of loading is not reading weights: opening the file and its vocabulary before, the cache after.
const OPENED: f32 = 0.1;
const WEIGHED: f32 = 0.95;

/// A model that is loaded, with everything its file says about text, and one conversation's cache.
pub struct Engine {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: ChatTemplate,
    pub(crate) session: Session,
    /// The model without adapters.
    pub(crate) base: Arc<Model>,
    /// The adapters that the session's model has.
    pub(crate) worn: Worn,
    /// Those it had before, with their cache.
    pub(crate) laid_aside: Option<(Worn, Session)>,
    /// What the disk has of conversations.
    pub(crate) kept: Option<Kept>,
    info: ModelInfo,
}

impl Engine {
    /// Loads a model. `progress` gets the share done, from 0 to 1, and a few words on what is being done; when it
    /// breaks, loading ends.
    ///
    /// # Errors
    /// The file, the device or the settings cannot be used, memory does not suffice, or `progress` broke.
    pub fn load(
        request: &LoadRequest,
        progress: &mut dyn FnMut(f32, &str) -> ControlFlow<()>,
    ) -> Result<Self, Problem> {
        let began = Instant::now();
        let mut step = |fraction, stage: &str| match progress(fraction, stage) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(interrupted()),
        };
        step(0.0, "opening the file")?;
        let team = team_size(request.threads)?;
        let gguf = Gguf::open(&request.path).map_err(from_gguf)?;
        let config = Config::from_gguf(&gguf).map_err(from_load)?;
        let device = request.device.as_deref();
        // Graphics drivers take their time.
        hardware::ask_ahead(device);
        step(OPENED / 2.0, "reading the vocabulary")?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?;
        let template = ChatTemplate::from_gguf(&gguf).map_err(from_template)?;
        let mut notices: Vec<String> = template.notice().map(str::to_owned).into_iter().collect();
        let bytes = Bytes::of(&gguf, &config);
        let mut asked = Asked::from(request);
        let planned = plan::planned(&bytes, &config, &asked, &hardware::devices_for(device))?;
        let context = planned.plan.context;
        check_memory(&planned.plan, &mut notices)?;
        planned.check()?;
        notices.extend(planned.notice.clone());

        // Before the weights are read: what it looks at is let go with them.
        let kept = request.kept.as_ref().and_then(|folder| Kept::new(folder, &gguf));
        threads::set(team as usize);
        asked.context = Some(context);
        let with_layers = |layers: usize| {
            let asked = Asked {
                gpu_layers: GpuLayers::Count(count(layers)),
                ..asked.clone()
            };
            plan::planned(&bytes, &config, &asked, &hardware::devices_for(device))
        };
        let (session, planned) = carry_out(planned, &mut notices, with_layers, |planned| {
            // What a GPU refused is the processor's to hold.
            check_memory(&planned.plan, &mut Vec::new())?;
            let options = LoadOptions {
                placement: Some(planned.placement.clone()),
                packed_in: packed::folder(),
            };
            let model = Model::load(&gguf, &options, &mut |fraction, stage| {
                progress(OPENED + fraction * (WEIGHED - OPENED), stage)
            });
            let model = Arc::new(model.map_err(from_load)?);
            if progress(WEIGHED, "setting the context aside").is_break() {
                return Err(interrupted());
            }
            Session::with_cache(model, context as usize, plan::format(request.kv)).map_err(from_session)
        })?;
        let trained = count(config.context_trained);
        if context > trained {
            notices.push(format!(
                "The context of {context} tokens is longer than the {trained} that the model was trained for; what it \
                 says beyond them may make little sense."
            ));
        }
        let plan = planned.plan;
        tracing::info!("{} of {} layers are on GPUs", plan.gpu_layers, plan.layers_total);
        // That which answers are written on: the last layer's.
        let answers_on = plan.devices.iter().rfind(|device| !device.layers.is_empty());
        let mut info = ModelInfo {
            path: request.path.clone(),
            name: config.name,
            architecture: config.architecture,
            quantization: gguf.quantization(),
            parameters: gguf.parameter_count(),
            file_size: gguf.file_size(),
            layers: count(config.n_layers),
            context,
            context_trained: trained,
            device: answers_on.map_or_else(|| hardware::CPU.to_owned(), |device| device.id.clone()),
            threads: team,
            load_seconds: 0.0,
            notices,
            gpu_layers: plan.gpu_layers,
            layers_total: plan.layers_total,
            kv: plan.kv,
            placement: plan.devices,
        };
        let base = Arc::clone(session.model());
        info.load_seconds = began.elapsed().as_secs_f64();
        Ok(Self {
            tokenizer,
            template,
            session,
            base,
            worn: Worn::new(),
            laid_aside: None,
            // Cells on a GPU are not saved.
            kept: kept.filter(|_| info.gpu_layers == 0),
            info,
        })
    }

    /// What is known of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Adds what a person should know of the model.
    pub(crate) fn note(&mut self, notice: &str) {
        self.info.notices.push(notice.to_owned());
    }

    /// The model's vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model itself, with the adapters it wears, for sessions beside this one's.
    pub fn model(&self) -> &Arc<Model> {
        self.session.model()
    }

    /// An empty sequence beside that of the conversation, whose cache is of the same type.
    ///
    /// # Errors
    /// Its cache cannot be set aside.
    pub fn new_session(&self, context: usize) -> Result<Session, Problem> {
        let format = self.session.cache_format();
        Session::with_cache(Arc::clone(self.model()), context, format).map_err(from_session)
    }

    /// The one conversation's cache, for measuring.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Tokens that a conversation takes, template included.
    ///
    /// # Errors
    /// The template fails.
    pub fn count(&self, messages: &[Message]) -> Result<u32, Problem> {
        Ok(count(self.encode(messages)?.len()))
    }

    /// Keeps what is read of a conversation for the next worker too, where the load named a folder for that. `give_up` is asked again
    /// and again whether something else is wanted; then what is kept so far stays. Whatever fails is only logged.
    pub fn keep(&mut self, conversation: ConversationId, give_up: &dyn Fn() -> bool) {
        if let Some(kept) = &mut self.kept {
            kept.keep(conversation, &self.session, &self.worn, give_up);
        }
    }

    /// How many bytes [`Engine::keep`] may keep of all conversations together from now on; what is too much goes.
    pub fn keep_at_most(&mut self, bytes: u64) {
        if let Some(kept) = &mut self.kept {
            kept.at_most(bytes);
        }
    }

    /// Removes what [`Engine::keep`] kept of a conversation.
    pub fn forget_conversation(&mut self, conversation: ConversationId) {
        if let Some(kept) = &mut self.kept {
            kept.forget(conversation);
        }
    }

    /// Empties the cache, whatever state it is in.
    ///
    /// # Errors
    /// No new one can be set aside.
    pub fn forget(&mut self) -> Result<(), Problem> {
        self.session = self.new_session(self.session.context())?;
        Ok(())
    }

    /// A conversation's tokens, up to where the model is to go on.
    pub(crate) fn encode(&self, messages: &[Message]) -> Result<Vec<u32>, Problem> {
        let messages: Vec<_> = messages.iter().map(of_formats).collect();
        self.template
            .encode(&self.tokenizer, &messages, Turn::Answer)
            .map_err(from_template)
    }
}

fn of_formats(message: &Message) -> chat_template::Message {
    let role = match message.role {
        Role::System => chat_template::Role::System,
        Role::User => chat_template::Role::User,
        Role::Assistant => chat_template::Role::Assistant,
    };
    chat_template::Message {
        role,
        content: message.content.clone(),
    }
}

/// How many threads to use; one a physical core if nothing is asked for.
fn team_size(asked: Option<u32>) -> Result<u32, Problem> {
    let n = asked.unwrap_or_else(|| count(hardware::physical_cores()));
    if (1..=MOST_THREADS).contains(&n) {
        return Ok(n);
    }
    let message = format!("{n} threads cannot be used. Choose a number from 1 to {MOST_THREADS}.");
    Err(problem(ProblemCode::BadRequest, message))
}

/// Refuses what main memory cannot hold, and notes what will make the machine swap.
fn check_memory(plan: &Plan, notices: &mut Vec<String>) -> Result<(), Problem> {
    let Some(cpu) = plan.devices.first() else {
        return Ok(());
    };
    let (Some(total), Some(free)) = (cpu.total, cpu.free) else {
        return Ok(());
    };
    let needed = cpu.weights.saturating_add(cpu.kv);
    let sizes = format!(
        "The model's weights take {} and a context of {} tokens {}; this machine has {} of memory, {} of it free.",
        gib(cpu.weights),
        plan.context,
        gib(cpu.kv),
        gib(total),
        gib(free),
    );
    if needed > total {
        let advice = if cpu.weights > total / 2 {
            "Choose a smaller model, or the same one with fewer bits a weight."
        } else {
            "Choose a shorter context."
        };
        return Err(problem(ProblemCode::OutOfMemory, format!("{sizes} {advice}")));
    }
    if needed > free {
        notices.push(format!(
            "{sizes} It may be slow: close other programs, or choose a smaller model."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::{KvType, PlannedDevice, Verdict};

    const TOTAL: u64 = 16 << 30;

    fn plan(weights: u64, kv: u64) -> Plan {
        let cpu = PlannedDevice {
            weights,
            kv,
            total: Some(TOTAL),
            free: Some(TOTAL / 2),
            ..PlannedDevice::default()
        };
        Plan {
            fits: true,
            verdict: Verdict::Fits,
            why: String::new(),
            context: 4096,
            context_fits: 4096,
            gpu_layers: 0,
            layers_total: 1,
            layers_fit: 0,
            kv: KvType::F16,
            devices: vec![cpu],
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_with_advice() {
        let check = |weights, cache, advice: &str| {
            let refused = check_memory(&plan(weights, cache), &mut Vec::new()).unwrap_err();
            assert!(
                refused.code == ProblemCode::OutOfMemory && refused.message.ends_with(advice),
                "{refused:?}"
            );
        };
        check(TOTAL + 1, 0, "bits a weight.");
        check(1, TOTAL, "shorter context.");
        check(u64::MAX, u64::MAX, "bits a weight.");
        let mut notices = Vec::new();
        assert_eq!(check_memory(&plan(0, 0), &mut notices), Ok(()));
        assert_eq!(notices.len(), 0);
        assert_eq!(check_memory(&plan(TOTAL - 1, 0), &mut notices), Ok(()));
        assert_eq!(notices.len(), 1);
    }
}
