//! Generation: prefill of the prompt, then decode token by token.

use crate::Engine;
use crate::problem::{from_sampling, from_session, problem};
use crate::turns::{FitError, Fitted, count, fit};
use hearth_formats::tokenizer::Special;
use hearth_llm::{Detokenizer, Sampler, SamplingError, SamplingParams, StopTexts};
use hearth_protocol::{Event, FinishReason, GenerateRequest, Problem, ProblemCode, Prompt, Summary};
use std::ops::ControlFlow;
use std::time::Instant;

/// Tokens of the context reserved for the answer, at most a quarter of it.
const ANSWER: usize = 256;
/// Maximum number of progress events of a prefill.
const PREFILL_STEPS: usize = 100;

impl Engine {
    /// Generate an answer to `request`, which arrived at `received`. `emit` receives every event
    /// but the last, whose summary is returned.
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
        let sampling = sampling(request);
        let is_greedy = sampling.is_greedy();
        let mut sampler = Sampler::new(sampling).map_err(from_sampling)?;
        let mut answer = Answer::new(self, request, received);
        if cancelled() {
            return Ok(answer.summary(self, FinishReason::Cancelled));
        }
        self.set_adapters(&request.adapters)?;
        let Fitted { ids, left_out } = self.prompt(request)?;
        answer.prompt_tokens = ids.len();
        self.make_room(ids.len());
        if let (Some(cache), Some(_)) = (&mut self.prompt_cache, request.conversation) {
            cache.restore(&mut self.session, &self.active_adapters, &ids);
        }
        let cached = self.session.reusable(&ids);
        let id = request.id;
        emit(Event::Started {
            id,
            prompt_tokens: count(ids.len()),
            cached_tokens: count(cached),
            left_out,
        });

        let reading = Instant::now();
        let mut reported = None;
        let read = self.session.prefill(&ids, &mut |done, total| {
            if cancelled() {
                return ControlFlow::Break(());
            }
            if reported.is_none_or(|reported| done > reported + total / PREFILL_STEPS) {
                reported = Some(done);
                emit(Event::Prefill {
                    id,
                    done: count(done),
                    total: count(total),
                });
            }
            ControlFlow::Continue(())
        });
        let read = read.map_err(from_session)?;
        answer.prompt_tokens_per_second = rate(read.evaluated, reading.elapsed().as_secs_f64());
        if !read.completed {
            return Ok(answer.summary(self, FinishReason::Cancelled));
        }
        ids.iter().for_each(|&token| sampler.accept(token));

        // The next token, if the device computed the argmax.
        let mut chosen = None;
        let reason = loop {
            if cancelled() {
                break FinishReason::Cancelled;
            }
            if answer.max_tokens.is_some_and(|max| answer.ids.len() >= max) {
                break FinishReason::Length;
            }
            let token = match chosen.take() {
                Some(token) => token,
                None => sampler.sample(self.session.logits()).map_err(from_sampling)?,
            };
            answer.record_time();
            if self.tokenizer.is_end_of_generation(token) {
                break FinishReason::Stop;
            }
            sampler.accept(token);
            if answer.take(self, token, emit) {
                break FinishReason::Stop;
            }
            if answer.max_tokens.is_some_and(|max| answer.ids.len() >= max) {
                break FinishReason::Length;
            }
            if self.session.tokens().len() >= self.session.context() {
                break FinishReason::ContextFull;
            }
            self.make_room(self.session.tokens().len() + 1);
            if is_greedy {
                let next = self.session.push_greedy(token).map_err(from_session)?;
                chosen = Some(next.ok_or(SamplingError::NoLogits).map_err(from_sampling)?);
            } else {
                self.session.push(token).map_err(from_session)?;
            }
        };
        let reason = if answer.flush(emit) { FinishReason::Stop } else { reason };
        Ok(answer.summary(self, reason))
    }

    /// The prompt's tokens, after dropping turns that do not fit.
    fn prompt(&self, request: &GenerateRequest) -> Result<Fitted, Problem> {
        let context = self.session.context();
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
                if ids.len() > capacity {
                    Err(FitError::TooLong { needed: ids.len() })
                } else {
                    Ok(Fitted { ids, left_out: None })
                }
            }
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

/// An answer in progress.
struct Answer {
    id: u64,
    max_tokens: Option<usize>,
    prompt_tokens: usize,
    prompt_tokens_per_second: f64,
    ids: Vec<u32>,
    detokenizer: Detokenizer,
    stop: StopTexts,
    received: Instant,
    first: Option<Instant>,
    last: Instant,
    /// Number of sampled tokens, including the end of turn.
    chosen: usize,
}

impl Answer {
    fn new(engine: &Engine, request: &GenerateRequest, received: Instant) -> Self {
        let of_template: &[String] = match request.prompt {
            Prompt::Chat(_) => engine.template.stop_strings(),
            Prompt::Raw(_) => &[],
        };
        Self {
            id: request.id,
            max_tokens: request.max_tokens.map(|max| max as usize),
            prompt_tokens: 0,
            prompt_tokens_per_second: 0.0,
            ids: Vec::new(),
            detokenizer: Detokenizer::new(),
            stop: StopTexts::new(request.stop.iter().chain(of_template).cloned()),
            received,
            first: None,
            last: received,
            chosen: 0,
        }
    }

    /// Record the time of a sampled token.
    fn record_time(&mut self) {
        self.last = Instant::now();
        self.first.get_or_insert(self.last);
        self.chosen += 1;
    }

    /// Append a token. Returns `true` at a stop string.
    fn take(&mut self, engine: &Engine, token: u32, emit: &mut dyn FnMut(Event)) -> bool {
        self.ids.push(token);
        if engine.tokenizer.is_special(token) {
            return false;
        }
        let bytes = engine.tokenizer.token_bytes(token).unwrap_or_default();
        let passed = self.stop.push(&self.detokenizer.push(bytes));
        self.emit_text(passed.text, emit);
        passed.stopped
    }

    /// Emit the text held back. Returns `true` at a stop string.
    fn flush(&mut self, emit: &mut dyn FnMut(Event)) -> bool {
        let passed = self.stop.push(&self.detokenizer.finish());
        let text = passed.text + &self.stop.finish();
        self.emit_text(text, emit);
        passed.stopped
    }

    fn emit_text(&self, text: String, emit: &mut dyn FnMut(Event)) {
        if !text.is_empty() {
            emit(Event::Text {
                id: self.id,
                text,
                tokens: count(self.ids.len()),
            });
        }
    }

    fn summary(self, engine: &Engine, reason: FinishReason) -> Summary {
        let context = engine.session.context();
        let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
        Summary {
            reason,
            prompt_tokens: count(self.prompt_tokens),
            tokens: count(self.ids.len()),
            prompt_tokens_per_second: self.prompt_tokens_per_second,
            tokens_per_second: self
                .first
                .map_or(0.0, |first| rate(self.chosen - 1, seconds(first, self.last))),
            first_token_seconds: self.first.map_or(0.0, |first| seconds(self.received, first)),
            context_used: count((self.prompt_tokens + self.ids.len()).min(context)),
            context: count(context),
            ids: self.ids,
        }
    }
}

/// The protocol's sampling parameters for the sampler; without a seed, a random one.
fn sampling(request: &GenerateRequest) -> SamplingParams {
    let given = &request.sampling;
    SamplingParams {
        temperature: given.temperature,
        top_k: given.top_k as usize,
        top_p: given.top_p,
        min_p: given.min_p,
        repetition_penalty: given.repetition_penalty,
        frequency_penalty: given.frequency_penalty,
        presence_penalty: given.presence_penalty,
        repeat_last_n: given.repeat_last_n as usize,
        seed: given.seed.unwrap_or_else(random_seed),
    }
}

/// A random seed, from the keys of the standard library's hash maps.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// A rate per second; 0 if there was nothing to measure.
fn rate(n: usize, seconds: f64) -> f64 {
    if n > 0 && seconds > 0.0 {
        n as f64 / seconds
    } else {
        0.0
    }
}
