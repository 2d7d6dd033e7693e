//! A model that is loaded and ready to answer.

use crate::hardware;
use crate::problem::{from_gguf, from_load, from_session, from_template, from_tokenizer, interrupted, problem};
use crate::turns::count;
use hearth_formats::chat_template::{self, ChatTemplate, Turn};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::{DeviceChoice, LoadOptions, Model, Session, threads};
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
        let mut notices = Vec::new();
        check_memory(gguf.file_size(), &mut notices)?;
        step(OPENED / 2.0, "reading the vocabulary")?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(from_tokenizer)?;
        let template = ChatTemplate::from_gguf(&gguf).map_err(from_template)?;
        notices.extend(template.notice().map(str::to_owned));

        threads::set(team as usize);
        let options = LoadOptions {
            device,
            ..LoadOptions::default()
        };
        let model = Model::load(&gguf, &options, &mut |fraction, stage| {
            progress(OPENED + fraction * (WEIGHED - OPENED), stage)
        });
        let model = model.map_err(from_load)?;
        if progress(WEIGHED, "setting the context aside").is_break() {
            return Err(interrupted());
        }
        let config = model.config();
        let trained = count(config.context_trained);
        let context = request
            .context
            .unwrap_or_else(|| trained.min(LoadRequest::DEFAULT_CONTEXT));
        if context > trained {
            notices.push(format!(
                "The context of {context} tokens is longer than the {trained} that the model was trained for; what it \
                 says beyond them may make little sense."
            ));
        }
        let mut info = ModelInfo {
            path: request.path.clone(),
            name: config.name.clone(),
            architecture: config.architecture.clone(),
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
        };
        let session = Session::new(Arc::new(model), context as usize).map_err(from_session)?;
        info.load_seconds = began.elapsed().as_secs_f64();
        Ok(Self {
            tokenizer,
            template,
            session,
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

    /// The model itself, for sessions beside this one's.
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

/// Refuses a file that cannot fit, and notes one that will make the machine swap.
fn check_memory(file_size: u64, notices: &mut Vec<String>) -> Result<(), Problem> {
    let Some(memory) = hardware::memory() else {
        return Ok(());
    };
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let (needs, has, free) = (gib(file_size), gib(memory.total), gib(memory.free));
    if file_size > memory.total {
        let message = format!(
            "The model's weights take {needs:.1} GiB, and this machine has {has:.1} GiB of memory. Choose a smaller \
             model, or the same one with fewer bits a weight."
        );
        return Err(problem(ProblemCode::OutOfMemory, message));
    }
    if file_size > memory.free {
        notices.push(format!(
            "The model's weights take {needs:.1} GiB and only {free:.1} GiB of memory are free, so it may be slow. \
             Close other programs, or choose a smaller model."
        ));
    }
    Ok(())
}
