//! Generation: prepares the prompts of requests, and advances their answers together.

use crate::Engine;
use crate::answer::PromptTokens;
use crate::context_trim::{TrimError, TrimmedPrompt, trim};
use crate::continued::{self, ContinuedAnswer};
use crate::numbers::saturating_u32;
use crate::problem::internal;
use crate::scheduler::Listener;
use crate::text_stream::TextStream;
use crate::texts::Texts;
use hearth_formats::tokenizer::Special;
use hearth_protocol::{
    DroppedTurns, Event, GenerateRequest, Message, Problem, ProblemCode, Prompt, RequestId, RequestReason, Summary,
};
use std::time::Instant;

/// Tokens of the context that are reserved for the answer, at most a quarter of the context.
const MAX_RESERVED: usize = 256;

impl Engine {
    /// Generates a single answer, to `request`, which arrived at `received`. `emit` receives every
    /// event but the last, whose summary is returned.
    ///
    /// `cancelled` is called before every token and several times a second during prefill. It
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
        let mut listener = SingleAnswer {
            cancelled,
            emit,
            end: None,
        };
        // The preparation cannot be cancelled, because `cancelled` may be called on this thread
        // only.
        let prepared = self.preparation(request.clone(), received).prepare()?;
        self.add(1, prepared)?;
        while listener.end.is_none() {
            if !self.is_answering() {
                return Err(internal("an answer did not end"));
            }
            if let Err(problem) = self.step(&mut listener) {
                self.scheduler.clear();
                return Err(problem);
            }
        }
        listener.end.unwrap_or_else(|| Err(internal("an answer did not end")))
    }

    /// Whether answers are queued or in progress.
    pub(crate) fn is_answering(&self) -> bool {
        !self.scheduler.is_empty()
    }

    /// Advances the answers in progress by one step of the model.
    ///
    /// # Errors
    /// A GPU failed, or the step has a bug. No answer can be continued after an error.
    pub(crate) fn step(&mut self, listener: &mut dyn Listener) -> Result<(), Problem> {
        self.scheduler
            .step(&self.texts, &self.session, self.prompt_cache.as_mut(), listener)
    }
}

/// Checks that the tokens fit.
fn check_length(ids: Vec<u32>, capacity: usize) -> Result<TrimmedPrompt, TrimError<Problem>> {
    if ids.len() > capacity {
        Err(TrimError::TooLong { needed: ids.len() })
    } else {
        Ok(TrimmedPrompt { ids, dropped: None })
    }
}

/// The listener of the only answer.
struct SingleAnswer<'a> {
    cancelled: &'a dyn Fn() -> bool,
    emit: &'a mut dyn FnMut(Event),
    end: Option<Result<Summary, Problem>>,
}

impl Listener for SingleAnswer<'_> {
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
    /// Encodes the prompt of a request. Turns that do not fit the context are dropped.
    pub(crate) fn prompt(
        &self,
        request: &GenerateRequest,
        context: usize,
    ) -> Result<(PromptTokens, Option<DroppedTurns>), Problem> {
        let capacity = Capacity::new(request, context);
        let encode = |messages: &[Message]| self.encode(messages, request.thinking);
        let trimmed = match &request.prompt {
            Prompt::Continue { messages, ids } => return self.continued(request, messages, ids, &capacity),
            Prompt::Chat(messages) if messages.is_empty() => Ok(TrimmedPrompt {
                ids: Vec::new(),
                dropped: None,
            }),
            Prompt::Chat(messages) => trim(messages, capacity.prompt, encode),
            Prompt::Raw(text) => {
                let bos = self.tokenizer.bos().filter(|_| self.tokenizer.add_bos());
                let ids: Vec<u32> = bos
                    .into_iter()
                    .chain(self.tokenizer.encode(text, Special::Text))
                    .collect();
                check_length(ids, capacity.prompt)
            }
            Prompt::Tokens(ids) => check_length(ids.clone(), capacity.prompt),
        };
        let TrimmedPrompt { ids, dropped } = trimmed.map_err(|error| capacity.refuse(error))?;
        if ids.is_empty() {
            return Err(Problem::new(ProblemCode::BadRequest, RequestReason::EmptyMessage));
        }
        let text = TextStream::new(self, request, &ids);
        let prompt = PromptTokens {
            ids,
            continued: 0,
            text,
            so_far: None,
        };
        Ok((prompt, dropped))
    }

    /// Encodes the prompt of a continued answer: the original prompt, and the answer's tokens so
    /// far. If these leave no room, more turns are dropped.
    fn continued(
        &self,
        request: &GenerateRequest,
        messages: &[Message],
        ids: &[u32],
        capacity: &Capacity,
    ) -> Result<(PromptTokens, Option<DroppedTurns>), Problem> {
        let (before, parts) = continued::split(messages)?;
        let encode = |messages: &[Message]| self.encode(messages, request.thinking);
        let mut trimmed = trim(before, capacity.prompt, encode).map_err(|error| capacity.refuse(error))?;
        let text = TextStream::new(self, request, &trimmed.ids);
        let ContinuedAnswer { ids, text, so_far } = ContinuedAnswer::new(self, &trimmed.ids, parts, ids, &text);
        let continued = ids.len();
        if trimmed.ids.len() + continued < capacity.context {
            trimmed.ids.extend(ids);
        } else {
            let encode = |messages: &[Message]| Ok::<_, Problem>([encode(messages)?, ids.clone()].concat());
            trimmed =
                trim(before, capacity.prompt, encode).map_err(|error| capacity.refuse_continued(error, continued))?;
        }
        let prompt = PromptTokens {
            ids: trimmed.ids,
            continued,
            text,
            so_far,
        };
        Ok((prompt, trimmed.dropped))
    }
}

/// The division of a context, in tokens.
struct Capacity {
    context: usize,
    /// Reserved for the answer.
    reserved: usize,
    /// Available to the prompt.
    prompt: usize,
}

impl Capacity {
    fn new(request: &GenerateRequest, context: usize) -> Self {
        let reserved = MAX_RESERVED.min(context / 4).max(1);
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
        match error {
            TrimError::Encode(problem) => problem,
            TrimError::TooLong { needed } => Problem::new(
                ProblemCode::PromptTooLong,
                RequestReason::PromptTooLong {
                    tokens: saturating_u32(needed),
                    fits: saturating_u32(self.prompt),
                    context: saturating_u32(self.context),
                    reserved: saturating_u32(self.reserved),
                },
            ),
        }
    }

    fn refuse_continued(&self, error: TrimError<Problem>, continued: usize) -> Problem {
        match error {
            TrimError::Encode(problem) => problem,
            TrimError::TooLong { needed } => Problem::new(
                ProblemCode::PromptTooLong,
                RequestReason::AnswerTooLong {
                    tokens: saturating_u32(continued),
                    needed: saturating_u32(needed),
                    context: saturating_u32(self.context),
                },
            ),
        }
    }
}
