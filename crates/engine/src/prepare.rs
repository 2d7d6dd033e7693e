//! Prepares an answer: reads its adapters, renders and tokenizes the prompt, fits it to the
//! context, and compiles the JSON schema. This may take seconds for a long text, a slow template or
//! a slow disk, so a worker does it on threads beside the answers in progress.

use crate::Engine;
use crate::adapters::{AdaptedModels, ChosenAdapters};
use crate::answer::Answer;
use crate::numbers::saturating_u32;
use crate::problem::interrupted;
use crate::texts::Texts;
use hearth_formats::interrupt::Interrupt;
use hearth_llm::threads;
use hearth_protocol::{DroppedTurns, GenerateRequest, Message, Problem, RequestId, Thinking};
use std::sync::Arc;
use std::time::Instant;

/// The preparation of an answer, which may run on any thread.
pub(crate) struct Preparation {
    texts: Arc<Texts>,
    adapted: Arc<AdaptedModels>,
    context: usize,
    request: GenerateRequest,
    received: Instant,
    number: u64,
}

/// An answer that is ready for the scheduler.
pub(crate) struct PreparedAnswer {
    number: u64,
    answer: Answer,
    adapters: ChosenAdapters,
    dropped: Option<DroppedTurns>,
}

impl Preparation {
    /// Whether the answer is to follow a JSON schema.
    pub fn has_schema(&self) -> bool {
        self.request.json_schema.is_some()
    }

    /// Prepares the answer, until `interrupt` stops it.
    ///
    /// # Errors
    /// An adapter or the template fails, the prompt is longer than the context, a setting is
    /// invalid, or the preparation was interrupted.
    pub fn run(self, interrupt: &Interrupt) -> Result<PreparedAnswer, Problem> {
        let result = interrupt.run(|| self.prepare());
        result.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Prepares the answer on this thread. If an [`Interrupt`] runs it, that can stop it.
    ///
    /// # Errors
    /// See [`Preparation::run`].
    pub fn prepare(self) -> Result<PreparedAnswer, Problem> {
        let Self {
            texts,
            adapted,
            context,
            request,
            received,
            number,
        } = self;
        let adapters = adapted.read(&request.adapters)?;
        let (prompt, dropped) = texts.prompt(&request, context)?;
        let answer = Answer::new(&texts, request, received, prompt, context)?;
        Ok(PreparedAnswer {
            number,
            answer,
            adapters,
            dropped,
        })
    }
}

/// The count of a conversation's tokens, which may run on any thread.
pub(crate) struct TokenCount {
    texts: Arc<Texts>,
    messages: Vec<Message>,
}

impl TokenCount {
    /// Counts the tokens of the messages, including the template's.
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
    /// Returns the preparation of an answer to a request that arrived at `received`.
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

    /// Returns the count of a conversation's tokens.
    pub(crate) fn token_count(&self, messages: Vec<Message>) -> TokenCount {
        TokenCount {
            texts: Arc::clone(&self.texts),
            messages,
        }
    }

    /// Queues a prepared answer. [`Engine::step`] generates it.
    ///
    /// # Errors
    /// An adapter belongs to another model.
    pub(crate) fn add(&mut self, id: RequestId, prepared: PreparedAnswer) -> Result<(), Problem> {
        let PreparedAnswer {
            number,
            answer,
            adapters,
            dropped,
        } = prepared;
        let adapted = self.adapted.attach(adapters)?;
        threads::set_on_battery(answer.request.on_battery);
        self.scheduler.add(id, number, answer, adapted, dropped);
        Ok(())
    }
}
