//! Generation: requests become answers, which the scheduler advances together.

use crate::Engine;
use crate::answer::Answer;
use crate::problem::{internal, problem};
use crate::scheduler::Listener;
use crate::turns::{FitError, Fitted, fit};
use hearth_formats::tokenizer::Special;
use hearth_protocol::{Event, GenerateRequest, Problem, ProblemCode, Prompt, RequestId, Summary};
use std::time::Instant;

/// Tokens of the context reserved for the answer, at most a quarter of it.
const ANSWER: usize = 256;

impl Engine {
    /// Generate an answer to `request`, which arrived at `received`, and nothing else meanwhile.
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
        self.begin(1, request.clone(), received)?;
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

    /// Queue an answer to a request that arrived at `received`. [`Engine::step`] generates it.
    ///
    /// # Errors
    /// An adapter or the template fails, the prompt is longer than the context, or a setting is
    /// invalid.
    pub(crate) fn begin(&mut self, id: RequestId, request: GenerateRequest, received: Instant) -> Result<(), Problem> {
        let context = self.session.context();
        let adapted = self.adapted.get(&request.adapters)?;
        let Fitted { ids, left_out } = self.texts.prompt(&request, context)?;
        let answer = Answer::new(&self.texts, request, received, ids, adapted, context)?;
        self.scheduler.add(id, answer, left_out);
        Ok(())
    }

    /// Whether answers are queued or in progress.
    pub(crate) fn is_answering(&self) -> bool {
        !self.scheduler.is_empty()
    }

    /// Advance the answers in progress by one step of the model.
    ///
    /// # Errors
    /// A GPU failed, or a bug. No answer can be continued then.
    pub(crate) fn step(&mut self, listener: &mut dyn Listener) -> Result<(), Problem> {
        self.scheduler
            .step(&self.texts, &self.session, self.prompt_cache.as_mut(), listener)
    }
}

/// The tokens, if they fit.
fn within(ids: Vec<u32>, capacity: usize) -> Result<Fitted, FitError<Problem>> {
    match ids.len() > capacity {
        true => Err(FitError::TooLong { needed: ids.len() }),
        false => Ok(Fitted { ids, left_out: None }),
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

impl crate::engine::Texts {
    /// The prompt's tokens, after dropping turns that do not fit the context.
    fn prompt(&self, request: &GenerateRequest, context: usize) -> Result<Fitted, Problem> {
        let reserved = ANSWER.min(context / 4).max(1);
        let reserved = request
            .max_tokens
            .map_or(reserved, |max| reserved.min(max.max(1) as usize));
        let capacity = context.saturating_sub(reserved);
        let too_long = |needed: usize| {
            let message = format!(
                "The message has {needed} tokens, but the context fits {capacity} ({context}, less {reserved} for the \
                 answer). Shorten it, or load the model with a larger context."
            );
            problem(ProblemCode::PromptTooLong, message)
        };
        let fitted = match &request.prompt {
            Prompt::Chat(messages) if messages.is_empty() => Ok(Fitted {
                ids: Vec::new(),
                left_out: None,
            }),
            Prompt::Chat(messages) => fit(messages, capacity, |messages| self.encode(messages)),
            Prompt::Raw(text) => {
                let bos = self.tokenizer.bos().filter(|_| self.tokenizer.add_bos());
                let ids: Vec<u32> = bos
                    .into_iter()
                    .chain(self.tokenizer.encode(text, Special::Text))
                    .collect();
                within(ids, capacity)
            }
            Prompt::Tokens(ids) => within(ids.clone(), capacity),
        };
        match fitted {
            Ok(fitted) if fitted.ids.is_empty() => Err(problem(
                ProblemCode::BadRequest,
                "The message is empty. Write a message first.",
            )),
            Ok(fitted) => Ok(fitted),
            Err(FitError::TooLong { needed }) => Err(too_long(needed)),
            Err(FitError::Encode(problem)) => Err(problem),
        }
    }
}
