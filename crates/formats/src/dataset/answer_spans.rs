//! Locates the assistant messages in the tokens of a conversation. An answer begins where the
//! conversation before it, rendered with a generation prompt, ends. Rendering that prefix for every
//! answer takes quadratic time. Most templates write messages one after the other, so the prefixes
//! can be derived from one rendering of the whole conversation: [`WholeRendering`] does so, and is
//! verified on a sample. A few answers are located one by one; the tests compare both methods.

use crate::chat_template::{Author, ChatTemplate, GenerationPrompt, Message, Role};
use crate::tokenizer::{Markers, NONCHARACTERS, Tokenizer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

/// Up to this many answers are located one by one; also the size of the verification sample.
const FEW_ANSWERS: usize = 8;

/// Budget in bytes for rendering prefixes: a constant, and a factor of the conversation's length.
/// Beyond it only the last answer is trained on. Keeps the total time linear in the file.
const PREFIX_BUDGET: [usize; 2] = [256 << 10, 32];

/// Approximate bytes that a template writes around a message.
const TURN_BYTES: usize = 16;

/// Approximate bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// The common prefix of a conversation up to a message and the whole conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    /// Number of common leading tokens.
    common: usize,
    /// Whether these are all tokens of the conversation up to the message.
    whole: bool,
}

/// Source of prefixes.
trait Prefixes {
    /// The conversation before message `index`, with a generation prompt.
    fn opened(&self, index: usize) -> Option<Prefix>;

    /// The conversation up to and including message `index`.
    fn closed(&self, index: usize) -> Option<Prefix>;
}

/// Locates the answers in the tokens of a conversation.
pub(super) struct AnswerFinder<'a> {
    pub messages: &'a [Message],
    pub tokenizer: &'a Tokenizer,
    pub template: &'a ChatTemplate,
    /// The tokens of the whole conversation.
    pub ids: &'a [u32],
    /// Returns `false` to cancel.
    pub should_continue: &'a dyn Fn() -> bool,
}

impl AnswerFinder<'_> {
    /// Returns the token ranges of the answers in order, and whether only the last one could be
    /// located; `None` if none could.
    pub fn spans(&self) -> Option<(Vec<Range<usize>>, bool)> {
        let answers = (0..self.messages.len()).filter(|&index| self.messages[index].role == Role::Assistant);
        let answers: Vec<usize> = answers.collect();
        if answers.len() > FEW_ANSWERS
            && let Some(spans) = self.spans_from_one_rendering(&answers)
        {
            return Some((spans, false));
        }
        self.spans_by_prefix(&answers)
    }

    /// As [`AnswerFinder::spans`], with one rendering per answer.
    fn spans_by_prefix(&self, answers: &[usize]) -> Option<(Vec<Range<usize>>, bool)> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0usize;
        let max_bytes = PREFIX_BUDGET[0] + PREFIX_BUDGET[1] * self.ids.len() * BYTES_PER_TOKEN;
        // If the budget suffices only for the last answer, the others are not searched. The
        // estimate may be too high by nearly half.
        let last_only = self.estimated_prefixes() > 2 * max_bytes;
        let answers = if last_only {
            &answers[answers.len() - 1..]
        } else {
            answers
        };
        for &index in answers.iter().rev() {
            // An answer ends before the next one begins.
            let limit = spans.last().map_or(self.ids.len(), |next| next.start);
            let within_budget = spans.is_empty() || (bytes < max_bytes && (self.should_continue)());
            bytes += self.ids[..limit].len() * BYTES_PER_TOKEN;
            match within_budget.then(|| self.span(index, limit, self)).flatten() {
                Some(span) => spans.push(span),
                None => {
                    spans.truncate(1);
                    return (!spans.is_empty()).then_some((spans, true));
                }
            }
        }
        spans.reverse();
        (!spans.is_empty()).then_some((spans, last_only))
    }

    /// Estimated bytes of the prefixes before all answers, from the lengths of the messages.
    fn estimated_prefixes(&self) -> usize {
        let (mut length, mut prefixes) = (0, 0.0);
        for message in self.messages {
            if message.role == Role::Assistant {
                prefixes += length as f64;
            }
            length += message.content.len() + TURN_BYTES;
        }
        (prefixes / length.max(1) as f64 * (self.ids.len() * BYTES_PER_TOKEN) as f64) as usize
    }

    /// Returns the ranges of all answers in order, from one rendering of the whole conversation.
    /// `None` if the template does not simply concatenate messages: a sample of answers, including
    /// the first and last, is located one by one and must agree.
    fn spans_from_one_rendering(&self, answers: &[usize]) -> Option<Vec<Range<usize>>> {
        let whole = WholeRendering::new(self)?;
        if whole.work(answers) > whole.work_left.get() {
            return None;
        }
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(answers.len());
        let mut limit = self.ids.len();
        for &index in answers.iter().rev() {
            let span = self.span(index, limit, &whole)?;
            limit = span.start;
            spans.push(span);
        }
        spans.reverse();
        let last = answers.len() - 1;
        let mut sample: Vec<usize> = (0..FEW_ANSWERS).map(|part| part * last / (FEW_ANSWERS - 1)).collect();
        sample.extend([1, last - 1]);
        let agrees = |&ordinal: &usize| {
            let limit = spans.get(ordinal + 1).map_or(self.ids.len(), |next| next.start);
            (self.should_continue)() && self.span(answers[ordinal], limit, self).as_ref() == Some(&spans[ordinal])
        };
        sample.iter().all(agrees).then_some(spans)
    }

    /// Returns the range of one answer, including its end-of-turn token. The range ends at `limit`
    /// at the latest.
    fn span(&self, index: usize, limit: usize, prefixes: &dyn Prefixes) -> Option<Range<usize>> {
        let answer = self.messages[index].content.trim();
        let opened = prefixes.opened(index)?;
        let start = opened.common;
        // If the generation prompt matches completely, everything up to the end of the turn is
        // generated, even if the template changes the answer.
        let is_exact = opened.whole;
        if let Some(length) = self.ids.get(start..limit)?.iter().position(|&id| self.is_end(id)) {
            let span = start..start + length + 1;
            let text = self.text(span.clone());
            let text = text.trim();
            // A template may add or remove thoughts before an answer.
            let similar = !text.is_empty() && (text.ends_with(answer) || answer.ends_with(text));
            if text == answer || (is_exact && similar) {
                return Some(span);
            }
        }
        // Templates without an end-of-turn token.
        let closed = prefixes.closed(index)?;
        let end = closed.common.min(limit);
        let last_end = self.ids.get(start..end)?.iter().rposition(|&id| self.is_end(id));
        let span = start..last_end.map_or(end, |last| start + last + 1);
        let is_verified =
            self.text(span.clone()).trim() == answer || (is_exact && closed.whole && end == closed.common);
        (is_verified && !span.is_empty()).then_some(span)
    }

    /// The EOS token, if the conversation ends with an answer that the template does not terminate.
    /// Without one the model would never learn to stop.
    pub fn missing_eos(&self) -> Option<u32> {
        let last = self.messages.last()?;
        let after_end = self
            .ids
            .iter()
            .rposition(|&id| self.is_end(id))
            .map_or(0, |end| end + 1);
        let is_terminated = after_end > 0 && self.text(after_end..self.ids.len()).trim().is_empty();
        self.tokenizer
            .eos()
            .filter(|_| last.role == Role::Assistant && !is_terminated)
    }

    fn is_end(&self, id: u32) -> bool {
        self.tokenizer.is_end_of_generation(id)
    }

    /// The text of these tokens without special tokens.
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

impl Prefixes for AnswerFinder<'_> {
    fn opened(&self, index: usize) -> Option<Prefix> {
        self.prefix(&self.messages[..index], GenerationPrompt::Add)
    }

    fn closed(&self, index: usize) -> Option<Prefix> {
        self.prefix(&self.messages[..=index], GenerationPrompt::Omit)
    }
}

impl AnswerFinder<'_> {
    fn prefix(&self, messages: &[Message], turn: GenerationPrompt) -> Option<Prefix> {
        let ids = self.template.encode(self.tokenizer, messages, turn).ok()?;
        Some(Prefix::new(0, &ids, self.ids))
    }
}

impl Prefix {
    /// Compares `ids` with the tokens of `whole` from index `offset`; all earlier tokens are equal.
    fn new(offset: usize, ids: &[u32], whole: &[u32]) -> Self {
        let common = common(ids, &whole[offset..]);
        Self {
            common: offset + common,
            whole: common == ids.len(),
        }
    }
}

/// The whole conversation, rendered once with a mark after the content of each message.
struct WholeRendering<'a> {
    finder: &'a AnswerFinder<'a>,
    messages: Vec<Message>,
    /// The rendered text without marks, but with the markers that keep message text from being
    /// parsed as special tokens.
    text: String,
    markers: Markers,
    mark: char,
    /// End offset of each message's content.
    ends: Vec<usize>,
    /// Positions after control tokens: byte offset and token index.
    controls: Vec<(usize, usize)>,
    /// Number of BOS tokens before the text, 0 or 1.
    bos: usize,
    /// Text that the template writes after the last message, by the message's role and whether a
    /// generation prompt is added.
    tails: RefCell<HashMap<(&'static str, bool), Option<String>>>,
    /// Remaining bytes that may be encoded again.
    work_left: Cell<usize>,
}

impl<'a> WholeRendering<'a> {
    fn new(finder: &'a AnswerFinder<'a>) -> Option<Self> {
        let texts = || finder.messages.iter().map(|message| message.content.as_str());
        let mut unused = NONCHARACTERS.filter(|&character| !texts().any(|text| text.contains(character)));
        let (control, literal, mark) = (unused.next()?, unused.next()?, unused.next()?);
        let markers = Markers { control, literal };
        let marked = |message: &Message| {
            let author = Author::from(message.role);
            let mut content = finder
                .template
                .mark(finder.tokenizer, &message.content, author, markers);
            content.insert(content.trim_end().len(), mark);
            Message {
                role: message.role,
                content,
            }
        };
        let messages: Vec<Message> = finder.messages.iter().map(marked).collect();
        let rendered = finder.template.render(&messages, GenerationPrompt::Omit).ok()?;
        let mut text = String::with_capacity(rendered.len());
        let mut ends = Vec::with_capacity(messages.len());
        let mut parts = rendered.split(mark);
        text.push_str(parts.next()?);
        for part in parts {
            ends.push(text.len());
            text.push_str(part);
        }
        if ends.len() != messages.len() {
            return None;
        }
        let (ids, controls) = finder.tokenizer.encode_marked_with_boundaries(&text, markers);
        let bos = finder.ids.len().checked_sub(ids.len()).filter(|&bos| bos <= 1)?;
        if ids != finder.ids[bos..] {
            return None;
        }
        Some(Self {
            finder,
            messages,
            work_left: Cell::new(8 * text.len() + (1 << 20)),
            text,
            markers,
            mark,
            ends,
            controls,
            bos,
            tails: RefCell::default(),
        })
    }

    /// The text that the template writes after a last message of this role, from the first prefix
    /// of the conversation that ends with such a message.
    fn tail(&self, role: Role, turn: GenerationPrompt) -> Option<String> {
        let mut tails = self.tails.borrow_mut();
        let name = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let tail = tails.entry((name, turn == GenerationPrompt::Add)).or_insert_with(|| {
            let has_tail = |&end: &usize| {
                let opens = turn == GenerationPrompt::Omit || self.messages[end].role == Role::Assistant;
                opens && self.messages[end - 1].role == role
            };
            let end = (1..self.messages.len()).find(has_tail)?;
            let rendered = self.finder.template.render(&self.messages[..end], turn).ok()?;
            let (_, tail) = rendered.rsplit_once(self.mark)?;
            Some(tail.to_owned())
        });
        tail.clone()
    }

    /// The last control token that ends at or before an offset of the text: its end, and the number
    /// of tokens up to it.
    fn control_before(&self, offset: usize) -> (usize, usize) {
        let count = self.controls.partition_point(|&(end, _)| end <= offset);
        count.checked_sub(1).map_or((0, 0), |last| self.controls[last])
    }

    /// Minimum bytes that are encoded again to locate these answers.
    fn work(&self, answers: &[usize]) -> usize {
        let ends = answers.iter().filter_map(|index| self.ends.get(index.checked_sub(1)?));
        ends.map(|&end| end - self.control_before(end).0).sum()
    }

    /// The prefix up to and including message `last`.
    fn prefix(&self, last: usize, turn: GenerationPrompt) -> Option<Prefix> {
        let end = *self.ends.get(last)?;
        let (from, tokens) = self.control_before(end);
        let tail = self.tail(self.messages[last].role, turn)?;
        // Text after the last control token is encoded independently of what precedes it.
        let text = format!("{}{tail}", &self.text[from..end]);
        self.work_left.set(self.work_left.get().checked_sub(text.len())?);
        let ids = self.finder.tokenizer.encode_marked(&text, self.markers);
        Some(Prefix::new(tokens + self.bos, &ids, self.finder.ids))
    }
}

impl Prefixes for WholeRendering<'_> {
    fn opened(&self, index: usize) -> Option<Prefix> {
        match index.checked_sub(1) {
            Some(last) => self.prefix(last, GenerationPrompt::Add),
            None => self.finder.opened(index),
        }
    }

    fn closed(&self, index: usize) -> Option<Prefix> {
        self.prefix(index, GenerationPrompt::Omit)
    }
}

/// Length of the common prefix.
fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
