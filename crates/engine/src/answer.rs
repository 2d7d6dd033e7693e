//! One answer: its tokens, its text, and its statistics.

use crate::drafting::AnswerDraft;
use crate::json_schema::Schema;
use crate::numbers::saturating_u32;
use crate::problem::from_sampling;
use crate::repetition::Repetition;
use crate::repetition::exemption::{self, Exemption};
use crate::sampling::{sampler, visible_bytes};
use crate::text_stream::{TextPieces, TextStream};
use crate::texts::Texts;
use crate::thinking::Piece;
use hearth_llm::Sampler;
use hearth_protocol::{Event, FinishReason, GenerateRequest, Part, Problem, Prompt, Summary, TextKind, text_of};
use std::time::Instant;

/// An answer without its session.
pub(crate) struct Answer {
    pub request: GenerateRequest,
    /// The tokens of the prompt and of the answer.
    pub ids: Vec<u32>,
    pub is_greedy: bool,
    /// The draft and its statistics. `None` means that the model has no draft.
    pub draft: Option<AnswerDraft>,
    /// Tokens of the prompt, including the tokens of a continued answer.
    prompt: usize,
    /// Tokens of the continued answer among them.
    continued: usize,
    /// See [`Event::Started`].
    so_far: Option<Vec<Part>>,
    context: usize,
    max_tokens: Option<usize>,
    /// The repeated tokens, and the texts that may be repeated. `None` means that a repetition does
    /// not end the answer.
    repetition: Option<(Repetition, Exemption)>,
    sampler: Sampler,
    /// The JSON schema while the answer is in a thought. After the thought, the sampler has it.
    schema: Option<Schema>,
    text: TextStream,
    times: Times,
}

/// The tokens of a prompt, and the state of the answer's text after them.
pub(crate) struct PromptTokens {
    pub ids: Vec<u32>,
    /// Number of tokens at the end that belong to a continued answer.
    pub continued: usize,
    pub text: TextStream,
    /// See [`Event::Started`].
    pub so_far: Option<Vec<Part>>,
}

/// Measured times of an answer.
struct Times {
    /// When the request arrived.
    received: Instant,
    prefill: Option<PrefillStart>,
    prompt_tokens_per_second: f64,
    /// When the first token was sampled.
    first: Option<Instant>,
    /// When the last token was sampled.
    last: Instant,
    /// Number of sampled tokens, including the end of turn.
    sampled: usize,
}

/// The start of a prefill.
#[derive(Debug, Clone, Copy)]
struct PrefillStart {
    time: Instant,
    /// Tokens of the prompt that were in the KV cache.
    cached: usize,
}

/// The source of the next token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next<'a> {
    /// The sampler draws it from these logits.
    Logits(&'a [f32]),
    /// The device has computed the argmax. `None` means that no logit is finite.
    Argmax(Option<u32>),
}

impl Answer {
    /// Returns an answer to a prompt. The request arrived at `received`.
    ///
    /// # Errors
    /// A sampling parameter or the JSON schema is invalid.
    pub fn new(
        texts: &Texts,
        request: GenerateRequest,
        received: Instant,
        prompt: PromptTokens,
        context: usize,
    ) -> Result<Self, Problem> {
        let PromptTokens {
            ids,
            continued,
            text,
            so_far,
        } = prompt;
        let mut sampler = sampler(&request, &texts.tokenizer, text.markers())?;
        let mut schema = texts
            .schemas
            .for_request(&request, &texts.tokenizer, texts.markers.as_deref())?;
        let is_greedy = sampler.takes_argmax() && schema.is_none();
        let (prompt, answer) = ids.split_at(ids.len() - continued);
        prompt.iter().for_each(|&token| sampler.accept(token));
        sampler.begin_answer();
        answer.iter().for_each(|&token| sampler.accept(token));
        if let Some(mut schema) = schema.take_if(|_| !text.is_thinking()) {
            schema.follow(answer, &continued_text(&request.prompt))?;
            sampler.constrain(Box::new(schema));
        }
        Ok(Self {
            prompt: ids.len(),
            continued,
            so_far,
            ids,
            is_greedy,
            draft: None,
            context,
            max_tokens: request.max_tokens.map(|max| max as usize),
            repetition: request.max_repeated.map(|limit| {
                let repetition = Repetition::new(limit, exemption::times(&request.prompt));
                (repetition, Exemption::new(&request.prompt))
            }),
            sampler,
            schema,
            text,
            times: Times {
                received,
                prefill: None,
                prompt_tokens_per_second: 0.0,
                first: None,
                last: received,
                sampled: 0,
            },
            request,
        })
    }

    /// Takes the parts of a continued answer, for [`Event::Started`].
    pub fn take_so_far(&mut self) -> Option<Vec<Part>> {
        self.so_far.take()
    }

    /// Tokens of the prompt, including the tokens of a continued answer.
    pub fn prompt(&self) -> usize {
        self.prompt
    }

    /// The sampler, which has accepted all tokens.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Maximum number of tokens that can still be added. The last one needs no cell in the KV
    /// cache.
    pub fn max_more_tokens(&self) -> usize {
        let in_context = (self.context + 1).saturating_sub(self.ids.len());
        let max = self.max_tokens.unwrap_or(usize::MAX);
        in_context.min(max.saturating_sub(self.ids.len() - self.prompt))
    }

    /// Records the start of the prefill. Returns `false` if it had started before.
    pub fn begin(&mut self, cached: usize) -> bool {
        let is_first = self.times.prefill.is_none();
        self.times.prefill.get_or_insert_with(|| PrefillStart {
            time: Instant::now(),
            cached,
        });
        is_first
    }

    /// Records the end of the prefill, unless tokens were generated before.
    pub fn prompt_done(&mut self) {
        if let (Some(start), 0) = (self.times.prefill, self.times.sampled) {
            self.times.prompt_tokens_per_second = rate(self.prompt - start.cached, start.time.elapsed().as_secs_f64());
        }
    }

    /// Adds the next token and emits its text. Returns the reason if the answer has ended.
    ///
    /// # Errors
    /// No logit is finite, or the JSON schema cannot be followed.
    pub fn advance(
        &mut self,
        texts: &Texts,
        next: Next,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Option<FinishReason>, Problem> {
        if self.has_max_length() {
            return Ok(Some(FinishReason::Length));
        }
        let token = match next {
            Next::Argmax(Some(token)) => token,
            Next::Argmax(None) => return Err(from_sampling(hearth_llm::SamplingError::NoLogits)),
            Next::Logits(logits) => self.sampler.sample(logits).map_err(from_sampling)?,
        };
        self.times.last = Instant::now();
        self.times.first.get_or_insert(self.times.last);
        self.times.sampled += 1;
        let may_end = !self.request.ignore_end || self.request.json_schema.is_some();
        if texts.tokenizer.is_end_of_generation(token) && may_end {
            return Ok(Some(FinishReason::Stop));
        }
        self.sampler.accept(token);
        self.ids.push(token);
        let TextPieces { pieces, stopped } = self.text.push(texts, token);
        if let Some(mut schema) = self.schema.take_if(|_| !self.text.is_thinking()) {
            schema.follow_text(&text_of_pieces(&pieces))?;
            self.sampler.constrain(Box::new(schema));
        }
        self.emit(pieces, emit);
        if stopped || self.sampler.is_complete() {
            return Ok(Some(FinishReason::Stop));
        }
        Ok(if self.has_max_length() {
            Some(FinishReason::Length)
        } else if self.ids.len() > self.context {
            // The KV cache has no cell for the token.
            Some(FinishReason::ContextFull)
        } else {
            self.repeats(texts).then_some(FinishReason::Repetition)
        })
    }

    /// Counts the last token as a repeated one if it is. Returns whether the answer repeats itself
    /// more than the request allows.
    fn repeats(&mut self, texts: &Texts) -> bool {
        let Some((repetition, exemption)) = &mut self.repetition else {
            return false;
        };
        let answer = &self.ids[self.prompt - self.continued..];
        repetition.push(answer, |period| {
            let bytes = |&token: &u32| visible_bytes(&texts.tokenizer, None, token);
            let period: Vec<&[u8]> = period.iter().map(bytes).collect();
            exemption.times(&period.concat())
        })
    }

    fn has_max_length(&self) -> bool {
        self.max_tokens.is_some_and(|max| self.ids.len() - self.prompt >= max)
    }

    fn emit(&self, pieces: Vec<Piece>, emit: &mut dyn FnMut(Event)) {
        for piece in pieces {
            emit(match piece {
                Piece::Text(kind, text) => Event::Text {
                    kind,
                    text,
                    tokens: saturating_u32(self.ids.len() - self.prompt),
                },
                Piece::Folded => Event::Folded,
            });
        }
    }

    /// Emits the text that was held back, and returns the summary.
    pub fn finish(mut self, reason: FinishReason, emit: &mut dyn FnMut(Event)) -> Summary {
        let TextPieces { pieces, stopped } = self.text.finish();
        self.emit(pieces, emit);
        let finish_reason = if stopped { FinishReason::Stop } else { reason };
        let Times {
            received,
            last,
            sampled,
            ..
        } = self.times;
        let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
        let tokens_per_second = |first| rate(sampled - 1, seconds(first, last));
        Summary {
            finish_reason,
            prompt_tokens: saturating_u32(self.prompt),
            tokens: saturating_u32(self.ids.len() - self.prompt),
            prompt_tokens_per_second: self.times.prompt_tokens_per_second,
            tokens_per_second: self.times.first.map_or(0.0, tokens_per_second),
            first_token_seconds: self.times.first.map_or(0.0, |first| seconds(received, first)),
            context_used: saturating_u32(self.ids.len().min(self.context)),
            context: saturating_u32(self.context),
            draft: self.draft.as_ref().map(AnswerDraft::stats),
            ids: self.ids.split_off(self.prompt - self.continued),
        }
    }
}

/// The text of the answer that a prompt continues.
fn continued_text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Continue { messages, .. } => messages.last().map(|last| text_of(&last.parts)).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The text of these pieces without thoughts.
fn text_of_pieces(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(TextKind::Text, text) => Some(text.clone()),
        Piece::Text(TextKind::Thinking, _) | Piece::Folded => None,
    };
    pieces.iter().filter_map(text).collect()
}

/// The summary of an answer that was cancelled before it began.
pub(crate) fn cancelled() -> Summary {
    Summary {
        finish_reason: FinishReason::Cancelled,
        prompt_tokens: 0,
        tokens: 0,
        ids: Vec::new(),
        prompt_tokens_per_second: 0.0,
        tokens_per_second: 0.0,
        first_token_seconds: 0.0,
        context_used: 0,
        context: 0,
        draft: None,
    }
}

/// A rate per second. 0 if the count or the time is 0.
fn rate(count: usize, seconds: f64) -> f64 {
    if count > 0 && seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}
