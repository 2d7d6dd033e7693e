//! The tokens of an example, and which of them are learnt.
//!
//! Only what the model itself would say is learnt: each answer with the token that ends it. No template says where that is, so
//! it is found by rendering the conversation up to an answer, with the answer's turn opened: what follows in the whole
//! conversation is the answer. Some templates write a conversation differently once it goes on (they drop earlier thoughts, or
//! move the system prompt), so every span is checked against the words of its answer, and one that cannot be proven is not learnt.

use super::answers::Search;
use super::{Content, Example, hash};
use crate::chat_template::{ChatTemplate, Message, Role, TemplateError, Turn};
use crate::tokenizer::Tokenizer;
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The tokens of an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The example's line or row in the file, from 1.
    pub line: u32,
    /// The tokens.
    pub ids: Vec<u32>,
    /// Which of them the model learns to say after those before it; as many as there are tokens. The first never is.
    pub trained: Vec<bool>,
    /// Whether it is a text to go on, which is cut into several sequences if it is too long for one.
    pub document: bool,
    /// Whether only the last answer is learnt, since the others cannot be told from the rest.
    pub last_answer_only: bool,
    /// The token that begins every text, where the model wants one.
    bos: Option<u32>,
}

/// Why an example has no tokens.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template does not take the conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The conversation is written in a way that does not show where its answers are.
    #[error(
        "the model's chat template changes this conversation so much that its answer cannot be found in it. Leave it out."
    )]
    NoAnswer,
    /// The examples before it have as many tokens as are used.
    #[error("with it there would be more than {} million tokens, which are all that are used. Make several files of them.", MOST_TOKENS / 1_000_000)]
    TooMany,
    /// The cancel callback said no.
    #[error("reading was stopped. Choose the file again to go on.")]
    Cancelled,
}

/// Examples that a thread takes at once.
const BATCH: usize = 64;

/// How often it is asked whether to go on.
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// Tokens of all examples: five bytes each.
const MOST_TOKENS: u64 = 256_000_000;

/// Bytes of text from which on an example is rendered while no other such one is: that takes many times its text.
const LARGE: usize = 1 << 20;

/// The tokens of an example, as the model will see it in a conversation. Prompts and answers are turns of the chat template,
/// also of the plain one that stands in where a model has none, since that is what it is chatted with.
///
/// With `train_on_prompts` everything is learnt, not only answers.
///
/// # Errors
/// Where the template refuses the conversation, or no answer can be found in what it makes of it.
pub fn render(
    example: &Example,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
) -> Result<Rendered, RenderError> {
    render_while(example, tokenizer, template, train_on_prompts, &|_| true)
}

/// As [`render`]; `go_on` is told how many tokens there are of a document.
fn render_while(
    example: &Example,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    go_on: &dyn Fn(usize) -> bool,
) -> Result<Rendered, RenderError> {
    let chat = |messages: &[Message]| conversation(messages, tokenizer, template, train_on_prompts, go_on);
    let mut rendered = match &example.content {
        Content::Text(text) => document(text, tokenizer, go_on)?,
        Content::Chat(messages) => chat(messages)?,
        Content::PromptAnswer { system, prompt, answer } => chat(&turns(system.as_deref(), prompt, answer))?,
    };
    rendered.line = example.line;
    rendered.bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    if let Some(first) = rendered.trained.first_mut() {
        *first = false;
    }
    Ok(rendered)
}

/// The tokens of all examples, in their order, made by so many threads. `go_on` is told what share is done; if it says no, nothing
/// comes back. It is asked several times a second, also while one example takes long.
///
/// At most 256 million tokens come back; examples beyond them are [`RenderError::TooMany`].
pub fn render_all(
    examples: &[Example],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    threads: usize,
    go_on: &mut dyn FnMut(f32) -> bool,
) -> Option<Vec<Result<Rendered, RenderError>>> {
    let shared = Shared::default();
    let asker = Asker {
        go_on: RefCell::new(go_on),
        asked: Cell::new(None),
        share: Cell::new(0.0),
        stopped: &shared.stopped,
    };
    let one = |example: &Example, go_on: &dyn Fn() -> bool| {
        let _alone = (example.texts().map(str::len).sum::<usize>() > LARGE)
            .then(|| shared.large.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let before = shared.tokens.load(Ordering::Relaxed);
        let go_on = |tokens: usize| before + tokens as u64 <= MOST_TOKENS && go_on();
        if !go_on(0) {
            return Err(shared.refused());
        }
        let rendered = render_while(example, tokenizer, template, train_on_prompts, &go_on);
        let tokens = rendered.as_ref().map_or(0, |rendered| rendered.ids.len() as u64);
        if shared.tokens.fetch_add(tokens, Ordering::Relaxed) + tokens > MOST_TOKENS {
            return Err(RenderError::TooMany);
        }
        rendered.map_err(|error| match error {
            RenderError::Cancelled => shared.refused(),
            other => other,
        })
    };
    let flag = || !shared.stopped.load(Ordering::Relaxed);
    let mut all = Vec::with_capacity(examples.len());
    for round in examples.chunks(BATCH * threads.max(1)) {
        asker.share.set(all.len() as f32 / examples.len() as f32);
        if !asker.ask() {
            return None;
        }
        std::thread::scope(|scope| {
            // One of them is this thread.
            let mut batches = round.chunks(BATCH);
            let first = batches.next().unwrap_or_default();
            let others: Vec<_> = batches
                .map(|batch| scope.spawn(|| batch.iter().map(|example| one(example, &flag)).collect::<Vec<_>>()))
                .collect();
            all.extend(first.iter().map(|example| one(example, &|| asker.ask_now_and_then())));
            for other in others {
                while !other.is_finished() {
                    asker.ask_now_and_then();
                    std::thread::sleep(Duration::from_millis(1));
                }
                match other.join() {
                    Ok(batch) => all.extend(batch),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        if shared.stopped.load(Ordering::Relaxed) {
            return None;
        }
    }
    Some(all)
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    tokens: AtomicU64,
    large: Mutex<()>,
}

impl Shared {
    /// Why an example has no tokens though nothing is wrong with it.
    fn refused(&self) -> RenderError {
        match self.stopped.load(Ordering::Relaxed) {
            true => RenderError::Cancelled,
            false => RenderError::TooMany,
        }
    }
}

/// Asks whether to go on, from one thread for all.
struct Asker<'a> {
    go_on: RefCell<&'a mut dyn FnMut(f32) -> bool>,
    asked: Cell<Option<Instant>>,
    share: Cell<f32>,
    stopped: &'a AtomicBool,
}

impl Asker<'_> {
    fn ask(&self) -> bool {
        self.asked.set(Some(Instant::now()));
        let is_stopped = self.stopped.load(Ordering::Relaxed);
        if is_stopped || !(self.go_on.borrow_mut())(self.share.get()) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    fn ask_now_and_then(&self) -> bool {
        match self.asked.get() {
            Some(asked) if asked.elapsed() < ASKED_EVERY => !self.stopped.load(Ordering::Relaxed),
            _ => self.ask(),
        }
    }
}

/// A question with its answer as a conversation.
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
    fn new(ids: Vec<u32>, trained: Vec<bool>) -> Self {
        Self {
            line: 0,
            ids,
            trained,
            document: false,
            last_answer_only: false,
            bos: None,
        }
    }

    /// Sequences of at most `sequence` tokens (two at least).
    ///
    /// A conversation is cut at its end; where nothing learnt is left of it, there is none. A document becomes as many sequences
    /// as it needs: each after the first begins with the token that begins texts, or where the model has none with the token
    /// before, so that every token is learnt exactly once.
    pub fn chunks(mut self, sequence: u32) -> Vec<Self> {
        let sequence = sequence.max(2) as usize;
        if !self.document {
            self.ids.truncate(sequence);
            self.trained.truncate(sequence);
        }
        if self.ids.len() <= sequence {
            return if self.trained.contains(&true) {
                vec![self]
            } else {
                Vec::new()
            };
        }
        let mut chunks = Vec::with_capacity(self.ids.len().div_ceil(sequence - 1));
        let mut done = 0;
        while done < self.ids.len() {
            let begin = if done == 0 {
                None
            } else {
                Some(self.bos.unwrap_or(self.ids[done - 1]))
            };
            let end = (done + sequence - usize::from(begin.is_some())).min(self.ids.len());
            let mut chunk = Self {
                ids: begin.into_iter().collect(),
                trained: vec![false; usize::from(begin.is_some())],
                ..self
            };
            chunk.ids.extend(&self.ids[done..end]);
            chunk.trained.extend(&self.trained[done..end]);
            chunks.push(chunk);
            done = end;
        }
        chunks
    }

    /// The same for the same tokens, on every machine and in every version.
    pub fn fingerprint(&self) -> u64 {
        let bytes: Vec<u8> = self.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        hash::bytes(&bytes)
    }
}

/// A text with the tokens that begin and end one.
fn document(text: &str, tokenizer: &Tokenizer, go_on: &dyn Fn(usize) -> bool) -> Result<Rendered, RenderError> {
    let begin = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let mut ids = tokenizer.encode_while(text, go_on).ok_or(RenderError::Cancelled)?;
    if let Some(begin) = begin {
        ids.insert(0, begin);
    }
    ids.extend(tokenizer.eos());
    ids.shrink_to_fit();
    let trained = vec![true; ids.len()];
    Ok(Rendered {
        document: true,
        ..Rendered::new(ids, trained)
    })
}

fn conversation(
    messages: &[Message],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    go_on: &dyn Fn(usize) -> bool,
) -> Result<Rendered, RenderError> {
    let ids = template.encode(tokenizer, messages, Turn::Closed)?;
    let search = Search {
        messages,
        tokenizer,
        template,
        ids: &ids,
        go_on: &|| go_on(ids.len()),
    };
    let (spans, last_answer_only) = if train_on_prompts {
        (std::iter::once(0..ids.len()).collect(), false)
    } else {
        match search.spans() {
            Some(spans) => spans,
            None if !go_on(ids.len()) => return Err(RenderError::Cancelled),
            None => return Err(RenderError::NoAnswer),
        }
    };
    let mut trained = vec![false; ids.len()];
    for span in &spans {
        trained[span.clone()].fill(true);
    }
    let end = search.missing_end();
    let mut rendered = Rendered {
        last_answer_only,
        ..Rendered::new(ids, trained)
    };
    if let Some(end) = end {
        // What the template puts after the answer comes before its end.
        let from = spans.last().map_or(0, |last| last.end);
        rendered.trained[from..].fill(true);
        rendered.ids.push(end);
        rendered.trained.push(true);
    }
    Ok(rendered)
}
