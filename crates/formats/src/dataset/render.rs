//! Tokenizes examples with the chat template and computes their loss mask. The loss covers only
//! the tokens that the model generates: each assistant message with its end-of-turn token.
//! Templates do not mark these, so they are located by rendering the conversation up to an answer
//! with a generation prompt: the tokens after that prefix are the answer. Some templates render
//! earlier turns differently once a conversation continues (they drop thoughts, or move the system
//! prompt), so every span is checked against the text of its answer, and excluded from the loss if
//! it does not match.

use super::answer_spans::AnswerFinder;
use super::{Content, Example, hash};
use crate::chat_template::{ChatTemplate, GenerationPrompt, Message, Role, TemplateError};
use crate::tokenizer::Tokenizer;
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A tokenized example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Line or row of the example in the file, from 1.
    pub line: u32,
    /// Token IDs.
    pub ids: Vec<u32>,
    /// Loss mask: `true` for each token that is a prediction target. As long as `ids`; `false` for
    /// the first token.
    pub loss_mask: Vec<bool>,
    /// Whether the example is plain text, which is split into several sequences if it is too long
    /// for one.
    pub is_document: bool,
    /// Whether only the last answer is trained on, since the others could not be located.
    pub last_answer_only: bool,
    /// The BOS token, if the model adds one.
    bos: Option<u32>,
}

/// The reason that an example could not be tokenized.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template refused the conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The answers cannot be located in the rendered conversation.
    #[error("the answer is not in the rendered conversation")]
    NoAnswer,
    /// The token limit is reached.
    #[error("the dataset has more than {} tokens", MAX_TOKENS)]
    TooMany,
    /// Cancelled by the callback.
    #[error("reading was cancelled. Choose the file again to continue.")]
    Cancelled,
}

/// Examples per thread and round.
const BATCH: usize = 64;

/// Interval between calls of the cancel callback.
const CANCEL_CHECK_EVERY: Duration = Duration::from_millis(50);

/// Maximum number of tokens of all examples, at five bytes each.
pub(super) const MAX_TOKENS: u64 = 256_000_000;

/// Bytes of text from which an example is rendered only one at a time: rendering takes many times
/// its size in memory.
const LARGE_EXAMPLE: usize = 1 << 20;

/// Tokenizes an example as in a chat: prompts and answers are turns of the chat template, or of the
/// fallback template if the model has none. With `train_on_prompts` the loss covers all tokens, not
/// only answers.
///
/// # Errors
/// If the template refuses the conversation, or no answer can be located in its rendering.
pub fn render(
    example: &Example,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
) -> Result<Rendered, RenderError> {
    render_cancellable(example, tokenizer, template, train_on_prompts, &|_| true)
}

/// As [`render`]; `should_continue` receives the number of tokens so far and returns `false` to
/// cancel.
fn render_cancellable(
    example: &Example,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    should_continue: &dyn Fn(usize) -> bool,
) -> Result<Rendered, RenderError> {
    let chat = |messages: &[Message]| conversation(messages, tokenizer, template, train_on_prompts, should_continue);
    let mut rendered = match &example.content {
        Content::Text(text) => document(text, tokenizer, should_continue)?,
        Content::Chat(messages) => chat(messages)?,
        Content::PromptAnswer { system, prompt, answer } => chat(&turns(system.as_deref(), prompt, answer))?,
    };
    rendered.line = example.line;
    rendered.bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    if let Some(first) = rendered.loss_mask.first_mut() {
        *first = false;
    }
    Ok(rendered)
}

/// Tokenizes all examples in order with `threads` threads. `should_continue` receives the completed
/// share, several times a second; returns `false` to cancel, and the result is then `None`.
/// Examples beyond 256 million tokens are [`RenderError::TooMany`].
pub fn render_all(
    examples: &[Example],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    threads: usize,
    should_continue: &mut dyn FnMut(f32) -> bool,
) -> Option<Vec<Result<Rendered, RenderError>>> {
    let shared = Shared::default();
    let cancel = CancelCheck {
        should_continue: RefCell::new(should_continue),
        last_check: Cell::new(None),
        share: Cell::new(0.0),
        stopped: &shared.stopped,
    };
    let render_one = |example: &Example, should_continue: &dyn Fn() -> bool| {
        let _exclusive = (example.texts().map(str::len).sum::<usize>() > LARGE_EXAMPLE)
            .then(|| shared.large.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let before = shared.tokens.load(Ordering::Relaxed);
        let should_continue = |tokens: usize| before + tokens as u64 <= MAX_TOKENS && should_continue();
        if !should_continue(0) {
            return Err(shared.stop_reason());
        }
        let rendered = render_cancellable(example, tokenizer, template, train_on_prompts, &should_continue);
        let tokens = rendered.as_ref().map_or(0, |rendered| rendered.ids.len() as u64);
        if shared.tokens.fetch_add(tokens, Ordering::Relaxed) + tokens > MAX_TOKENS {
            return Err(RenderError::TooMany);
        }
        rendered.map_err(|error| match error {
            RenderError::Cancelled => shared.stop_reason(),
            error => error,
        })
    };
    let is_running = || !shared.stopped.load(Ordering::Relaxed);
    let mut results = Vec::with_capacity(examples.len());
    for round in examples.chunks(BATCH * threads.max(1)) {
        cancel.share.set(results.len() as f32 / examples.len() as f32);
        if !cancel.check() {
            return None;
        }
        std::thread::scope(|scope| {
            // The first batch runs on this thread.
            let mut batches = round.chunks(BATCH);
            let first_batch = batches.next().unwrap_or_default();
            // Each thread drops its sender at its end.
            let (sender, receiver) = mpsc::channel::<()>();
            let (render_one, is_running) = (&render_one, &is_running);
            let workers: Vec<_> = batches
                .map(|batch| {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        let _sender = sender;
                        batch
                            .iter()
                            .map(|example| render_one(example, is_running))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            drop(sender);
            results.extend(
                first_batch
                    .iter()
                    .map(|example| render_one(example, &|| cancel.check_if_due())),
            );
            while receiver.recv_timeout(CANCEL_CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
                cancel.check_if_due();
            }
            for worker in workers {
                match worker.join() {
                    Ok(batch) => results.extend(batch),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        if shared.stopped.load(Ordering::Relaxed) {
            return None;
        }
    }
    Some(results)
}

/// State shared by the threads.
#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    tokens: AtomicU64,
    large: Mutex<()>,
}

impl Shared {
    /// The error for an example that was not rendered because of cancellation or the token limit.
    fn stop_reason(&self) -> RenderError {
        if self.stopped.load(Ordering::Relaxed) {
            RenderError::Cancelled
        } else {
            RenderError::TooMany
        }
    }
}

/// Calls the cancel callback, from the calling thread only.
struct CancelCheck<'a> {
    should_continue: RefCell<&'a mut dyn FnMut(f32) -> bool>,
    last_check: Cell<Option<Instant>>,
    share: Cell<f32>,
    stopped: &'a AtomicBool,
}

impl CancelCheck<'_> {
    fn check(&self) -> bool {
        self.last_check.set(Some(Instant::now()));
        let is_stopped = self.stopped.load(Ordering::Relaxed);
        if is_stopped || !(self.should_continue.borrow_mut())(self.share.get()) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    fn check_if_due(&self) -> bool {
        match self.last_check.get() {
            Some(last_check) if last_check.elapsed() < CANCEL_CHECK_EVERY => !self.stopped.load(Ordering::Relaxed),
            _ => self.check(),
        }
    }
}

/// A prompt and its answer as a conversation.
pub(super) fn turns(system: Option<&str>, prompt: &str, answer: &str) -> Vec<Message> {
    let system = system.map(|system| (Role::System, system));
    let turns = system
        .into_iter()
        .chain([(Role::User, prompt), (Role::Assistant, answer)]);
    turns
        .map(|(role, content)| Message {
            role,
            content: content.to_owned(),
        })
        .collect()
}

impl Rendered {
    fn new(ids: Vec<u32>, loss_mask: Vec<bool>) -> Self {
        Self {
            line: 0,
            ids,
            loss_mask,
            is_document: false,
            last_answer_only: false,
            bos: None,
        }
    }

    /// Splits into sequences of at most `sequence` tokens (at least two). A conversation is
    /// truncated at its end, and dropped if no target token remains. A document becomes several
    /// sequences: each after the first starts with BOS, or with the preceding token if the model
    /// has no BOS, so that every token is a target exactly once.
    pub fn chunks(mut self, sequence: u32) -> Vec<Self> {
        let sequence = sequence.max(2) as usize;
        if !self.is_document {
            self.ids.truncate(sequence);
            self.loss_mask.truncate(sequence);
        }
        if self.ids.len() <= sequence {
            return if self.loss_mask.contains(&true) {
                vec![self]
            } else {
                Vec::new()
            };
        }
        let mut chunks = Vec::with_capacity(self.ids.len().div_ceil(sequence - 1));
        let mut start = 0;
        while start < self.ids.len() {
            let context = if start == 0 {
                None
            } else {
                Some(self.bos.unwrap_or(self.ids[start - 1]))
            };
            let end = (start + sequence - usize::from(context.is_some())).min(self.ids.len());
            let mut chunk = Self {
                ids: context.into_iter().collect(),
                loss_mask: vec![false; usize::from(context.is_some())],
                ..self
            };
            chunk.ids.extend(&self.ids[start..end]);
            chunk.loss_mask.extend(&self.loss_mask[start..end]);
            chunks.push(chunk);
            start = end;
        }
        chunks
    }

    /// A hash of the tokens that is stable across machines and versions.
    pub fn fingerprint(&self) -> u64 {
        let bytes: Vec<u8> = self.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        hash::bytes(&bytes)
    }
}

/// Tokenizes plain text with BOS and EOS.
fn document(
    text: &str,
    tokenizer: &Tokenizer,
    should_continue: &dyn Fn(usize) -> bool,
) -> Result<Rendered, RenderError> {
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let mut ids = tokenizer
        .encode_cancellable(text, should_continue)
        .ok_or(RenderError::Cancelled)?;
    if let Some(bos) = bos {
        ids.insert(0, bos);
    }
    ids.extend(tokenizer.eos());
    ids.shrink_to_fit();
    let loss_mask = vec![true; ids.len()];
    Ok(Rendered {
        is_document: true,
        ..Rendered::new(ids, loss_mask)
    })
}

/// Tokenizes a conversation with the chat template and computes its loss mask.
fn conversation(
    messages: &[Message],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    should_continue: &dyn Fn(usize) -> bool,
) -> Result<Rendered, RenderError> {
    let ids = template.encode(tokenizer, messages, GenerationPrompt::Omit)?;
    let finder = AnswerFinder {
        messages,
        tokenizer,
        template,
        ids: &ids,
        should_continue: &|| should_continue(ids.len()),
    };
    let (spans, last_answer_only) = if train_on_prompts {
        (std::iter::once(0..ids.len()).collect(), false)
    } else {
        match finder.spans() {
            Some(spans) => spans,
            None if !should_continue(ids.len()) => return Err(RenderError::Cancelled),
            None => return Err(RenderError::NoAnswer),
        }
    };
    let mut loss_mask = vec![false; ids.len()];
    for span in &spans {
        loss_mask[span.clone()].fill(true);
    }
    let eos = finder.missing_eos();
    let mut rendered = Rendered {
        last_answer_only,
        ..Rendered::new(ids, loss_mask)
    };
    if let Some(eos) = eos {
        // Template text after the answer precedes the EOS and is trained on too.
        let from = spans.last().map_or(0, |last| last.end);
        rendered.loss_mask[from..].fill(true);
        rendered.ids.push(eos);
        rendered.loss_mask.push(true);
    }
    Ok(rendered)
}
