//! A model that is loaded and ready to answer.

use crate::adapters::Worn;
use crate::hardware;
use crate::problem::{from_gguf, from_load, from_session, from_template, from_tokenizer, interrupted, problem};
use crate::turns::count;
use hearth_formats::chat_template::{self, ChatTemplate, Turn};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::{Config, DeviceChoice, LoadOptions, Model, Session, threads};
use hearth_protocol::{LoadRequest, Message, ModelInfo, Problem, ProblemCode, Role};
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
        let device = device(request.device.as_deref())?;
        let team = team_size(request.threads)?;
        let gguf = Gguf::open(&request.path).map_err(from_gguf)?;
        let config = Config::from_gguf(&gguf).map_err(from_load)?;
        let trained = count(config.context_trained);
        let context = request
            .context
            .unwrap_or_else(|| trained.min(LoadRequest::DEFAULT_CONTEXT));
        let mut notices = Vec::new();
        check_memory(gguf.file_size(), cache_bytes(&config, context), context, &mut notices)?;
        step(OPENED / 2.0, "reading the vocabulary")?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?;
        let template = ChatTemplate::from_gguf(&gguf).map_err(from_template)?;
        notices.extend(template.notice().map(str::to_owned));

        threads::set(team as usize);
        let options = LoadOptions { device };
        let model = Model::load(&gguf, &options, &mut |fraction, stage| {
            progress(OPENED + fraction * (WEIGHED - OPENED), stage)
        });
        let model = model.map_err(from_load)?;
        if progress(WEIGHED, "setting the context aside").is_break() {
            return Err(interrupted());
        }
        if context > trained {
            notices.push(format!(
                "The context of {context} tokens is longer than the {trained} that the model was trained for; what it \
                 says beyond them may make little sense."
            ));
        }
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
            device: hardware::CPU.to_owned(),
            threads: team,
            load_seconds: 0.0,
            notices,
            gpu_layers: 0,
            layers_total: count(config.n_layers) + 1,
            kv: hearth_protocol::KvType::F16,
            placement: Vec::new(),
        };
        let base = Arc::new(model);
        let session = Session::new(Arc::clone(&base), context as usize).map_err(from_session)?;
        info.load_seconds = began.elapsed().as_secs_f64();
        Ok(Self {
            tokenizer,
            template,
            session,
            base,
            worn: Worn::new(),
            laid_aside: None,
            info,
        })
    }

    /// What is known of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The model's vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model itself, with the adapters it wears, for sessions beside this one's.
    pub fn model(&self) -> &Arc<Model> {
        self.session.model()
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

    /// Empties the cache, whatever state it is in.
    ///
    /// # Errors
    /// No new one can be set aside.
    pub fn forget(&mut self) -> Result<(), Problem> {
        let (model, context) = (Arc::clone(self.session.model()), self.session.context());
        self.session = Session::new(model, context).map_err(from_session)?;
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

/// The device of this id; the processor if none is asked for.
fn device(id: Option<&str>) -> Result<DeviceChoice, Problem> {
    match id {
        None | Some(hardware::CPU) => Ok(DeviceChoice::Cpu),
        Some(id) => {
            let known: Vec<String> = hardware::devices().into_iter().map(|device| device.id).collect();
            let message = format!(
                "There is no device '{id}' that a model can run on. Choose one of: {}.",
                known.join(", ")
            );
            Err(problem(ProblemCode::NoDevice, message))
        }
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

/// Bytes of the cache of a context: keys and values in 16 bits, for each layer and token.
fn cache_bytes(config: &Config, context: u32) -> u64 {
    let width = (config.kv_heads as u64).saturating_mul(config.head_dim as u64);
    [2, 2, config.n_layers as u64, u64::from(context)]
        .into_iter()
        .fold(width, u64::saturating_mul)
}

/// Refuses what cannot fit, and notes what will make the machine swap.
fn check_memory(weights: u64, cache: u64, context: u32, notices: &mut Vec<String>) -> Result<(), Problem> {
    let Some(memory) = hardware::memory() else {
        return Ok(());
    };
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let needed = weights.saturating_add(cache);
    let sizes = format!(
        "The model's weights take {:.1} GiB and a context of {context} tokens {:.1} GiB; this machine has {:.1} GiB of \
         memory, {:.1} GiB of it free.",
        gib(weights),
        gib(cache),
        gib(memory.total),
        gib(memory.free),
    );
    if needed > memory.total {
        let advice = if weights > memory.total / 2 {
            "Choose a smaller model, or the same one with fewer bits a weight."
        } else {
            "Choose a shorter context."
        };
        return Err(problem(ProblemCode::OutOfMemory, format!("{sizes} {advice}")));
    }
    if needed > memory.free {
        notices.push(format!(
            "{sizes} It may be slow: close other programs, or choose a smaller model."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_fit_is_refused_with_advice() {
        let total = hardware::memory().unwrap().total;
        let check = |weights, cache, advice: &str| {
            let refused = check_memory(weights, cache, 4096, &mut Vec::new()).unwrap_err();
            assert!(
                refused.code == ProblemCode::OutOfMemory && refused.message.ends_with(advice),
                "{refused:?}"
            );
        };
        check(total + 1, 0, "bits a weight.");
        check(1, total, "shorter context.");
        check(u64::MAX, u64::MAX, "bits a weight.");
        let mut notices = Vec::new();
        assert_eq!(check_memory(0, 0, 1, &mut notices), Ok(()));
        assert_eq!(notices.len(), 0);
        assert_eq!(check_memory(total - 1, 0, 1, &mut notices), Ok(()));
        assert_eq!(notices.len(), 1);
    }
}
