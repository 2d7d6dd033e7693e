//! The tokens of an example, and which of them are learnt.
//!
//! Only what the model itself would say is learnt: each answer with the token that ends it. No template says where that is, so
//! it is found by rendering the conversation up to an answer, with the answer's turn opened: what follows in the whole
//! conversation is the answer. Some templates write a conversation differently once it goes on (they drop earlier thoughts, or
//! move the system prompt), so every span is checked against the words of its answer, and one that cannot be proven is not learnt.

use super::{Content, Example, hash};
use crate::chat_template::{ChatTemplate, Message, Role, TemplateError, Turn};
use crate::tokenizer::{Special, Tokenizer};
use std::ops::Range;

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
}

/// Examples that a thread takes at once, between two looks at whether to go on.
const BATCH: usize = 64;

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
    let mut rendered = match &example.content {
        Content::Text(text) => document(text, tokenizer),
        Content::Chat(messages) => conversation(messages, tokenizer, template, train_on_prompts)?,
        Content::PromptAnswer { system, prompt, answer } => {
            let messages = turns(system.as_deref(), prompt, answer);
            conversation(&messages, tokenizer, template, train_on_prompts)?
        }
    };
    rendered.line = example.line;
    rendered.bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    if let Some(first) = rendered.trained.first_mut() {
        *first = false;
    }
    Ok(rendered)
}

/// The tokens of all examples, in their order, made by so many threads. `go_on` is told what share is done; if it says no, nothing
/// comes back.
pub fn render_all(
    examples: &[Example],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
    threads: usize,
    go_on: &mut dyn FnMut(f32) -> bool,
) -> Option<Vec<Result<Rendered, RenderError>>> {
    let mut all = Vec::with_capacity(examples.len());
    for round in examples.chunks(BATCH * threads.max(1)) {
        if !go_on(all.len() as f32 / examples.len() as f32) {
            return None;
        }
        let one = |example| render(example, tokenizer, template, train_on_prompts);
        std::thread::scope(|scope| {
            // One of them is this thread.
            let mut batches = round.chunks(BATCH);
            let first = batches.next().unwrap_or_default();
            let others: Vec<_> = batches
                .map(|batch| scope.spawn(move || batch.iter().map(one).collect::<Vec<_>>()))
                .collect();
            all.extend(first.iter().map(one));
            for other in others {
                match other.join() {
                    Ok(batch) => all.extend(batch),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    Some(all)
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
fn document(text: &str, tokenizer: &Tokenizer) -> Rendered {
    let begin = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let mut ids: Vec<u32> = begin.into_iter().collect();
    ids.extend(tokenizer.encode(text, Special::Text));
    ids.extend(tokenizer.eos());
    let trained = vec![true; ids.len()];
    Rendered {
        document: true,
        ..Rendered::new(ids, trained)
    }
}

fn conversation(
    messages: &[Message],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    train_on_prompts: bool,
) -> Result<Rendered, RenderError> {
    let ids = template.encode(tokenizer, messages, Turn::Closed)?;
    let search = Search {
        messages,
        tokenizer,
        template,
        ids: &ids,
    };
    let (spans, last_answer_only) = if train_on_prompts {
        (std::iter::once(0..ids.len()).collect(), false)
    } else {
        search.spans().ok_or(RenderError::NoAnswer)?
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

/// Looks for answers in the tokens of a conversation.
struct Search<'a> {
    messages: &'a [Message],
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    /// The whole conversation.
    ids: &'a [u32],
}

impl Search<'_> {
    /// Where the answers are, in order, and whether these are not all but only the last one. None: not even that is known.
    fn spans(&self) -> Option<(Vec<Range<usize>>, bool)> {
        let answers = (0..self.messages.len()).filter(|&place| self.messages[place].role == Role::Assistant);
        let mut spans: Vec<Range<usize>> = Vec::new();
        for place in answers.rev() {
            // An answer ends before the next one begins.
            let before = spans.last().map_or(self.ids.len(), |next| next.start);
            match self.span(place, before) {
                Some(span) => spans.push(span),
                None => {
                    spans.truncate(1);
                    return (!spans.is_empty()).then_some((spans, true));
                }
            }
        }
        spans.reverse();
        (!spans.is_empty()).then_some((spans, false))
    }

    /// Where one answer is, with the token that ends it.
    fn span(&self, place: usize, before: usize) -> Option<Range<usize>> {
        let encode = |messages, turn| self.template.encode(self.tokenizer, messages, turn).ok();
        let answer = self.messages[place].content.trim();
        let opened = encode(&self.messages[..place], Turn::Answer)?;
        let start = common(&opened, self.ids);
        // Then all that follows is said by the model, up to the end of its turn, whatever the template makes of the answer.
        let sure = start == opened.len();
        if let Some(length) = self.ids[start..before].iter().position(|&id| self.is_end(id)) {
            let span = start..start + length + 1;
            let said = self.text(span.clone());
            let said = said.trim();
            // A template may put thoughts before an answer, or leave them out.
            let alike = !said.is_empty() && (said.ends_with(answer) || answer.ends_with(said));
            if said == answer || (sure && alike) {
                return Some(span);
            }
        }
        // Templates that end turns without a token of their own.
        let closed = encode(&self.messages[..=place], Turn::Closed)?;
        let end = common(&closed, self.ids).min(before);
        let whole = end == closed.len();
        let last_end = self.ids.get(start..end)?.iter().rposition(|&id| self.is_end(id));
        let span = start..last_end.map_or(end, |last| start + last + 1);
        let proven = self.text(span.clone()).trim() == answer || (sure && whole);
        (proven && !span.is_empty()).then_some(span)
    }

    /// The token that ends texts, where the conversation ends with an answer and the template does not end it. Without one the
    /// model would learn to go on for ever.
    fn missing_end(&self) -> Option<u32> {
        let last = self.messages.last()?;
        let after_end = self
            .ids
            .iter()
            .rposition(|&id| self.is_end(id))
            .map_or(0, |end| end + 1);
        let ended = after_end > 0 && self.text(after_end..self.ids.len()).trim().is_empty();
        self.tokenizer.eos().filter(|_| last.role == Role::Assistant && !ended)
    }

    fn is_end(&self, id: u32) -> bool {
        self.tokenizer.is_end_of_generation(id)
    }

    /// The text of these tokens but for the special ones.
    fn text(&self, span: Range<usize>) -> String {
        let ids = self.ids[span].iter().filter(|&&id| !self.tokenizer.is_special(id));
        let bytes: Vec<u8> = ids
            .filter_map(|&id| self.tokenizer.token_bytes(id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How many tokens two texts begin with in common.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
