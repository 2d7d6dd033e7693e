//! Where the answers of a conversation are in its tokens.
//!
//! What follows the conversation up to an answer, with the answer's turn opened, is the answer. To render that for every answer
//! takes time that grows with the square of their number. Most templates write one message behind the other, so that what a
//! conversation up to an answer looks like can be read off the whole: [`Whole`] does, and is checked by a sample. Few answers are
//! looked for one by one; the tests hold both ways against each other.

use crate::chat_template::{ChatTemplate, Message, Role, Turn};
use crate::tokenizer::{NONCHARACTERS, Tokenizer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

/// Answers that are looked for one by one, and the size of the sample of more of them.
const FEW: usize = 8;

/// Bytes of conversations that are rendered to look for answers one by one. Where more are needed, only the last answer is learnt. The first
/// number is for any conversation, the second goes with its length: all together they take time that is linear in the file.
const MOST_PREFIXES: [usize; 2] = [256 << 10, 32];

/// Bytes that a token stands for, about.
const BYTES_OF_TOKEN: usize = 4;

/// What a conversation up to some message has in common with the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    /// Tokens that both begin with.
    common: usize,
    /// Whether these are all of its tokens.
    whole: bool,
}

/// Conversations up to a message.
trait Prefixes {
    /// Up to an answer, with its turn opened.
    fn opened(&self, place: usize) -> Option<Prefix>;

    /// Up to an answer and with it.
    fn closed(&self, place: usize) -> Option<Prefix>;
}

/// Looks for answers in the tokens of a conversation.
pub(super) struct Search<'a> {
    pub messages: &'a [Message],
    pub tokenizer: &'a Tokenizer,
    pub template: &'a ChatTemplate,
    /// The whole conversation.
    pub ids: &'a [u32],
    /// Whether the search is still wanted.
    pub go_on: &'a dyn Fn() -> bool,
}

impl Search<'_> {
    /// Where the answers are, in order, and whether these are not all but only the last one. None: not even that is known.
    pub fn spans(&self) -> Option<(Vec<Range<usize>>, bool)> {
        let answers = (0..self.messages.len()).filter(|&place| self.messages[place].role == Role::Assistant);
        let answers: Vec<usize> = answers.collect();
        if answers.len() > FEW
            && let Some(spans) = self.spans_at_once(&answers)
        {
            return Some((spans, false));
        }
        self.spans_one_by_one(&answers)
    }

    /// As [`Search::spans`], with a rendering up to each answer.
    fn spans_one_by_one(&self, answers: &[usize]) -> Option<(Vec<Range<usize>>, bool)> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0usize;
        let most = MOST_PREFIXES[0] + MOST_PREFIXES[1] * self.ids.len() * BYTES_OF_TOKEN;
        for &place in answers.iter().rev() {
            // An answer ends before the next one begins.
            let before = spans.last().map_or(self.ids.len(), |next| next.start);
            let is_one_more = spans.is_empty() || (bytes < most && (self.go_on)());
            bytes += self.ids[..before].len() * BYTES_OF_TOKEN;
            match is_one_more.then(|| self.span(place, before, self)).flatten() {
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

    /// Where all answers are, in order, by one rendering of the whole. None where the template does not make a conversation out
    /// of its messages one behind the other: a sample of the answers, the first and the last among them, is looked for one by one
    /// and has to be in the same places.
    fn spans_at_once(&self, answers: &[usize]) -> Option<Vec<Range<usize>>> {
        let whole = Whole::new(self)?;
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(answers.len());
        let mut before = self.ids.len();
        for &place in answers.iter().rev() {
            let span = self.span(place, before, &whole)?;
            before = span.start;
            spans.push(span);
        }
        spans.reverse();
        let last = answers.len() - 1;
        let mut sample: Vec<usize> = (0..FEW).map(|part| part * last / (FEW - 1)).collect();
        sample.extend([1, last - 1]);
        let agrees = |&at: &usize| {
            let before = spans.get(at + 1).map_or(self.ids.len(), |next| next.start);
            (self.go_on)() && self.span(answers[at], before, self).as_ref() == Some(&spans[at])
        };
        sample.iter().all(agrees).then_some(spans)
    }

    /// Where one answer is, with the token that ends it.
    fn span(&self, place: usize, before: usize, prefixes: &dyn Prefixes) -> Option<Range<usize>> {
        let answer = self.messages[place].content.trim();
        let opened = prefixes.opened(place)?;
        let start = opened.common;
        // Then all that follows is said by the model, up to the end of its turn, whatever the template makes of the answer.
        let sure = opened.whole;
        if let Some(length) = self.ids.get(start..before)?.iter().position(|&id| self.is_end(id)) {
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
        let closed = prefixes.closed(place)?;
        let end = closed.common.min(before);
        let last_end = self.ids.get(start..end)?.iter().rposition(|&id| self.is_end(id));
        let span = start..last_end.map_or(end, |last| start + last + 1);
        let proven = self.text(span.clone()).trim() == answer || (sure && closed.whole && end == closed.common);
        (proven && !span.is_empty()).then_some(span)
    }

    /// The token that ends texts, where the conversation ends with an answer and the template does not end it. Without one the
    /// model would learn to go on for ever.
    pub fn missing_end(&self) -> Option<u32> {
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

impl Prefixes for Search<'_> {
    fn opened(&self, place: usize) -> Option<Prefix> {
        self.prefix(&self.messages[..place], Turn::Answer)
    }

    fn closed(&self, place: usize) -> Option<Prefix> {
        self.prefix(&self.messages[..=place], Turn::Closed)
    }
}

impl Search<'_> {
    fn prefix(&self, messages: &[Message], turn: Turn) -> Option<Prefix> {
        let ids = self.template.encode(self.tokenizer, messages, turn).ok()?;
        Some(Prefix::of(0, &ids, self.ids))
    }
}

impl Prefix {
    /// Of tokens behind `before` others, which are the same.
    fn of(before: usize, ids: &[u32], whole: &[u32]) -> Self {
        let common = common(ids, &whole[before..]);
        Self {
            common: before + common,
            whole: common == ids.len(),
        }
    }
}

/// The whole conversation, rendered once with a mark behind what each message says.
struct Whole<'a> {
    search: &'a Search<'a>,
    messages: Vec<Message>,
    /// The text, marks taken out, but for the marker that keeps texts from being tokens.
    text: String,
    marker: char,
    mark: char,
    /// Where each message's text ends.
    ends: Vec<usize>,
    /// The places behind control tokens: bytes, and tokens.
    controls: Vec<(usize, usize)>,
    /// A token that is put before those of the text.
    bos: usize,
    /// What the template writes behind the last message, by who says that and whether an answer is opened.
    tails: RefCell<HashMap<(&'static str, bool), Option<String>>>,
    /// Bytes that may still be encoded once more.
    work_left: Cell<usize>,
}

impl<'a> Whole<'a> {
    fn new(search: &'a Search<'a>) -> Option<Self> {
        let texts = || search.messages.iter().map(|message| message.content.as_str());
        let mut unused = NONCHARACTERS.filter(|&character| !texts().any(|text| text.contains(character)));
        let (marker, mark) = (unused.next()?, unused.next()?);
        let marked = |message: &Message| {
            let mut content = search.tokenizer.mark_controls(&message.content, marker);
            content.insert(content.trim_end().len(), mark);
            Message {
                role: message.role,
                content,
            }
        };
        let messages: Vec<Message> = search.messages.iter().map(marked).collect();
        let rendered = search.template.render(&messages, Turn::Closed).ok()?;
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
        let (ids, controls) = search.tokenizer.encode_marked_parts(&text, marker);
        let bos = search.ids.len().checked_sub(ids.len()).filter(|&bos| bos <= 1)?;
        if ids != search.ids[bos..] {
            return None;
        }
        Some(Self {
            search,
            messages,
            work_left: Cell::new(8 * text.len() + (1 << 20)),
            text,
            marker,
            mark,
            ends,
            controls,
            bos,
            tails: RefCell::default(),
        })
    }

    /// What the template writes behind a last message, taken from the first place in the conversation that shows it.
    fn tail(&self, role: Role, turn: Turn) -> Option<String> {
        let mut tails = self.tails.borrow_mut();
        let name = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let tail = tails.entry((name, turn == Turn::Answer)).or_insert_with(|| {
            let is_shown = |&end: &usize| {
                let opens = turn == Turn::Closed || self.messages[end].role == Role::Assistant;
                opens && self.messages[end - 1].role == role
            };
            let end = (1..self.messages.len()).find(is_shown)?;
            let rendered = self.search.template.render(&self.messages[..end], turn).ok()?;
            let (_, tail) = rendered.rsplit_once(self.mark)?;
            Some(tail.to_owned())
        });
        tail.clone()
    }

    /// The conversation up to a message, that one included.
    fn prefix(&self, last: usize, turn: Turn) -> Option<Prefix> {
        let end = *self.ends.get(last)?;
        let behind = self.controls.partition_point(|&(place, _)| place <= end);
        let (from, tokens) = behind.checked_sub(1).map_or((0, 0), |at| self.controls[at]);
        let tail = self.tail(self.messages[last].role, turn)?;
        // What stands behind the last control token is encoded by itself.
        let text = format!("{}{tail}", &self.text[from..end]);
        self.work_left.set(self.work_left.get().checked_sub(text.len())?);
        let ids = self.search.tokenizer.encode_marked(&text, self.marker);
        Some(Prefix::of(tokens + self.bos, &ids, self.search.ids))
    }
}

impl Prefixes for Whole<'_> {
    fn opened(&self, place: usize) -> Option<Prefix> {
        match place.checked_sub(1) {
            Some(last) => self.prefix(last, Turn::Answer),
            None => self.search.opened(place),
        }
    }

    fn closed(&self, place: usize) -> Option<Prefix> {
        self.prefix(place, Turn::Closed)
    }
}

/// How many tokens two texts begin with in common.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
