//! Generation: requests become answers, which the scheduler advances together.

use crate::Engine;
use crate::answer::PromptTokens;
use crate::context_trim::{TrimError, TrimmedPrompt, trim};
use crate::continued::{self, Beginning};
use crate::engine::Texts;
use crate::problem::{internal, problem};
use crate::scheduler::Listener;
use crate::text_stream::TextStream;
use hearth_formats::tokenizer::Special;
use hearth_protocol::{Event, GenerateRequest, LeftOut, Message, Problem, ProblemCode, Prompt, RequestId, Summary};
use std::time::Instant;

/// Tokens of the context reserved for the answer, at most a quarter of it.
const ANSWER: usize = 256;

impl Engine {
    /// Generates an answer to `request`, which arrived at `received`, and nothing else meanwhile.
    /// `emit` receives every event but the last, whose summary is returned.
    ///
    /// `cancelled` is polled before every token and several times a second during prefill; it
    /// returns `true` to cancel.
    ///
    /// # Errors
    /// An adapter, the template or a GPU fails, the prompt is longer than the context, a setting is
    /// invalid, or no logit is finite.
    pub fn generate(
        &mut self,
        request: &GenerateRequest,
        received: Instant,
        cancelled: &dyn Fn() -> bool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Summary, Problem> {
        let mut alone = Alone {
            cancelled,
            emit,
            end: None,
        };
        // Not interrupted: `cancelled` may be called on this thread only.
        let prepared = self.preparation(request.clone(), received).prepare()?;
        self.add(1, prepared)?;
        while alone.end.is_none() {
            if !self.is_answering() {
                return Err(internal("an answer did not end"));
            }
            if let Err(problem) = self.step(&mut alone) {
                self.scheduler.clear();
                return Err(problem);
            }
        }
        alone.end.unwrap_or_else(|| Err(internal("an answer did not end")))
    }

    /// Whether answers are queued or in progress.
    pub(crate) fn is_answering(&self) -> bool {
        !self.scheduler.is_empty()
    }

    /// Advances the answers in progress by one step of the model.
    ///
    /// # Errors
    /// A GPU failed, or a bug. No answer can be continued then.
    pub(crate) fn step(&mut self, listener: &mut dyn Listener) -> Result<(), Problem> {
        self.scheduler
            .step(&self.texts, &self.session, self.prompt_cache.as_mut(), listener)
    }
}

/// The tokens, if they fit.
fn within(ids: Vec<u32>, capacity: usize) -> Result<TrimmedPrompt, TrimError<Problem>> {
    if ids.len() > capacity {
        Err(TrimError::TooLong { needed: ids.len() })
    } else {
        Ok(TrimmedPrompt { ids, left_out: None })
    }
}

/// The listener of the only answer.
struct Alone<'a> {
    cancelled: &'a dyn Fn() -> bool,
    emit: &'a mut dyn FnMut(Event),
    end: Option<Result<Summary, Problem>>,
}

impl Listener for Alone<'_> {
    fn is_cancelled(&self, _: RequestId) -> bool {
        (self.cancelled)()
    }

    fn emit(&mut self, _: RequestId, event: Event) {
        match event {
            Event::Finished(summary) => self.end = Some(Ok(summary)),
            Event::Failed(problem) => self.end = Some(Err(problem)),
            event => (self.emit)(event),
        }
    }
}

impl Texts {
    /// The prompt's tokens, after dropping turns that do not fit the context.
    pub(crate) fn prompt(
        &self,
        request: &GenerateRequest,
        context: usize,
    ) -> Result<(PromptTokens, Option<LeftOut>), Problem> {
        let capacity = Capacity::new(request, context);
        let encode = |messages: &[Message]| self.encode(messages, request.thinking);
        let fitted = match &request.prompt {
            Prompt::Continue { messages, ids } => return self.continued(request, messages, ids, &capacity),
            Prompt::Chat(messages) if messages.is_empty() => Ok(TrimmedPrompt {
                ids: Vec::new(),
                left_out: None,
            }),
            Prompt::Chat(messages) => trim(messages, capacity.prompt, encode),
            Prompt::Raw(text) => {
                let bos = self.tokenizer.bos().filter(|_| self.tokenizer.add_bos());
                let ids: Vec<u32> = bos
                    .into_iter()
                    .chain(self.tokenizer.encode(text, Special::Text))
                    .collect();
                within(ids, capacity.prompt)
            }
            Prompt::Tokens(ids) => within(ids.clone(), capacity.prompt),
        };
        let TrimmedPrompt { ids, left_out } = fitted.map_err(|error| capacity.refuse(error))?;
        if ids.is_empty() {
            let why = "The message is empty. Write a message first.";
            return Err(problem(ProblemCode::BadRequest, why));
        }
        let speech = TextStream::new(self, request, &ids);
        let prompt = PromptTokens {
            ids,
            begun: 0,
            speech,
            so_far: None,
        };
        Ok((prompt, left_out))
    }

    /// The prompt of a continued answer: as when it began, and its tokens so far. If they leave no
    /// room, more turns are dropped.
    fn continued(
        &self,
        request: &GenerateRequest,
        messages: &[Message],
        known: &[u32],
        capacity: &Capacity,
    ) -> Result<(PromptTokens, Option<LeftOut>), Problem> {
        let (before, parts) = continued::split(messages)?;
        let encode = |messages: &[Message]| self.encode(messages, request.thinking);
        let mut fitted = trim(before, capacity.prompt, encode).map_err(|error| capacity.refuse(error))?;
        let speech = TextStream::new(self, request, &fitted.ids);
        let Beginning { ids, speech, so_far } = Beginning::new(self, &fitted.ids, parts, known, &speech);
        let begun = ids.len();
        if fitted.ids.len() + begun < capacity.context {
            fitted.ids.extend(ids);
        } else {
            let encode = |messages: &[Message]| Ok::<_, Problem>([encode(messages)?, ids.clone()].concat());
            fitted = trim(before, capacity.prompt, encode).map_err(|error| capacity.refuse_continued(error, begun))?;
        }
        let prompt = PromptTokens {
            ids: fitted.ids,
            begun,
            speech,
            so_far,
        };
        Ok((prompt, fitted.left_out))
    }
}

/// The tokens that a context has for a prompt.
struct Capacity {
    context: usize,
    reserved: usize,
    prompt: usize,
}

impl Capacity {
    fn new(request: &GenerateRequest, context: usize) -> Self {
        let reserved = ANSWER.min(context / 4).max(1);
        let reserved = request
            .max_tokens
            .map_or(reserved, |max| reserved.min(max.max(1) as usize));
        Self {
            context,
            reserved,
            prompt: context.saturating_sub(reserved),
        }
    }

    fn refuse(&self, error: TrimError<Problem>) -> Problem {
        let Self {
            context,
            reserved,
            prompt,
        } = self;
        match error {
            TrimError::Encode(problem) => problem,
            TrimError::TooLong { needed } => problem(
                ProblemCode::PromptTooLong,
                format!(
                    "The message has {needed} tokens, but the context fits {prompt} ({context}, less {reserved} for \
                     the answer). Shorten it, or load the model with a larger context."
                ),
            ),
        }
    }

    fn refuse_continued(&self, error: TrimError<Problem>, begun: usize) -> Problem {
        match error {
            TrimError::Encode(problem) => problem,
            TrimError::TooLong { needed } => problem(
                ProblemCode::PromptTooLong,
                format!(
                    "The answer has {begun} tokens, {needed} with the message before it, and fills the context of {}. \
                     Load the model with a larger context to continue it.",
                    self.context
                ),
            ),
        }
    }
}
