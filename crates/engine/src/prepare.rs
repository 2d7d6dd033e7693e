//! Preparing an answer: reading its adapters, rendering and tokenizing the prompt, fitting it to
//! the context, compiling the JSON schema. It takes seconds for a long text, a slow template or a
//! slow disk, so the worker does it beside the answers in progress.

use crate::Engine;
use crate::adapters::{AdaptedModels, ChosenAdapters};
use crate::answer::Answer;
use crate::engine::Texts;
use crate::numbers::saturating_u32;
use crate::problem::interrupted;
use hearth_formats::interrupt::Interrupt;
use hearth_llm::threads;
use hearth_protocol::{GenerateRequest, LeftOut, Message, Problem, RequestId, Thinking};
use std::sync::Arc;
use std::time::Instant;

/// An answer to be prepared on any thread.
pub(crate) struct Preparation {
    texts: Arc<Texts>,
    adapted: Arc<AdaptedModels>,
    context: usize,
    request: GenerateRequest,
    received: Instant,
    number: u64,
}

/// An answer that the scheduler can begin.
pub(crate) struct Prepared {
    number: u64,
    answer: Answer,
    adapters: ChosenAdapters,
    left_out: Option<LeftOut>,
}

impl Preparation {
    /// Whether the answer is to follow a JSON schema.
    pub fn has_schema(&self) -> bool {
        self.request.json_schema.is_some()
    }

    /// Prepares the answer unless it is interrupted.
    ///
    /// # Errors
    /// An adapter or the template fails, the prompt is longer than the context, a setting is
    /// invalid, or it was interrupted.
    pub fn run(self, interrupt: &Interrupt) -> Result<Prepared, Problem> {
        let prepared = interrupt.run(|| self.prepare());
        prepared.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Prepares the answer on this thread, until an [`Interrupt`] that is running it stops it.
    ///
    /// # Errors
    /// As [`Preparation::run`].
    pub fn prepare(self) -> Result<Prepared, Problem> {
        let Self {
            texts,
            adapted,
            context,
            request,
            received,
            number,
        } = self;
        let adapters = adapted.read(&request.adapters)?;
        let (prompt, left_out) = texts.prompt(&request, context)?;
        let answer = Answer::new(&texts, request, received, prompt, context)?;
        Ok(Prepared {
            number,
            answer,
            adapters,
            left_out,
        })
    }
}

/// Messages to be counted on any thread.
pub(crate) struct Counting {
    texts: Arc<Texts>,
    messages: Vec<Message>,
}

impl Counting {
    /// Number of their tokens, template included.
    ///
    /// # Errors
    /// The template fails.
    pub fn run(&self) -> Result<u32, Problem> {
        Ok(saturating_u32(
            self.texts.encode(&self.messages, Thinking::default())?.len(),
        ))
    }
}

impl Engine {
    /// The preparation of an answer to a request that arrived at `received`.
    pub(crate) fn preparation(&mut self, request: GenerateRequest, received: Instant) -> Preparation {
        Preparation {
            texts: Arc::clone(&self.texts),
            adapted: Arc::clone(&self.adapted),
            context: self.session.context(),
            request,
            received,
            number: self.scheduler.next_number(),
        }
    }

    /// The counting of a conversation's tokens.
    pub(crate) fn counting(&self, messages: Vec<Message>) -> Counting {
        Counting {
            texts: Arc::clone(&self.texts),
            messages,
        }
    }

    /// Queue a prepared answer. [`Engine::step`] generates it.
    ///
    /// # Errors
    /// An adapter belongs to another model.
    pub(crate) fn add(&mut self, id: RequestId, prepared: Prepared) -> Result<(), Problem> {
        let Prepared {
            number,
            answer,
            adapters,
            left_out,
        } = prepared;
        let (adapted, _) = self.adapted.attach(adapters)?;
        threads::set_on_battery(answer.request.on_battery);
        self.scheduler.add(id, number, answer, adapted, left_out);
        Ok(())
    }
}
