//! One sequence of tokens in a model: its tokens, their KV cells, and the logits after the last.

use crate::error::SessionError;
use crate::kv::KvPool;
use crate::model::Model;
use crate::ops::{CachedSequence, MatmulPrecision, SequenceView, argmax, logit_rows};
use crate::pass::{Memory, Pass};
use crate::placement::Place;
use crate::sampling::greedy;
use burn::tensor::Tensor;
use hearth_kernels::attention::KvFormat;
use hearth_kernels::team;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tokens of a prompt's first chunk, before its speed is known.
const FIRST_CHUNK: usize = 128;
/// The smallest chunk: below, its overhead is measurable.
const SMALLEST_CHUNK: usize = 16;
/// Target time between two cancellation checks of a prefill.
const STEP_TIME: Duration = Duration::from_millis(60);
/// The largest context, in tokens, that can be allocated.
const LARGEST_CONTEXT: usize = 1 << 24;

/// Result of [`Session::prefill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefilled {
    /// Tokens reused from the KV cache.
    pub cached: usize,
    /// Tokens processed by the model.
    pub evaluated: usize,
    /// Whether the end was reached; if cancelled, there are no logits.
    pub completed: bool,
}

/// One sequence of tokens in a model.
pub struct Session {
    pub(crate) model: Arc<Model>,
    pub(crate) pool: Arc<KvPool>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Vec<f32>,
    chunk: usize,
    precision: MatmulPrecision,
}

impl Session {
    /// The largest chunk of a prompt: larger ones do not speed up the GEMMs.
    pub const LARGEST_CHUNK: usize = 512;

    /// An empty sequence with a KV cache of `context` tokens in f16.
    ///
    /// # Errors
    /// If the context is zero or too large, or a GPU failed.
    pub fn new(model: Arc<Model>, context: usize) -> Result<Self, SessionError> {
        Self::with_cache(model, context, KvFormat::F16)
    }

    /// An empty sequence with a KV cache of `context` tokens in this format.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_cache(model: Arc<Model>, context: usize, format: KvFormat) -> Result<Self, SessionError> {
        if context == 0 || context > LARGEST_CONTEXT {
            return Err(SessionError::BadContext(context));
        }
        let config = model.config();
        let pool = Arc::new(KvPool::new(
            format,
            config.n_layers,
            context,
            config.kv_heads,
            config.head_dim,
        ));
        let mut session = Self {
            model,
            pool,
            tokens: Vec::new(),
            logits: Vec::new(),
            chunk: FIRST_CHUNK,
            precision: MatmulPrecision::Int8Activations,
        };
        session.warm_up()?;
        Ok(session)
    }

    /// Warms GPUs up: allocates the KV cache and compiles the kernels before the first request.
    fn warm_up(&mut self) -> Result<(), SessionError> {
        if self.model.placement().gpu_layers() > 0 {
            // One token, a few, and many: each uses kernels of its own.
            for tokens in [1, 2, 16] {
                let ids = vec![0; tokens.min(self.context())];
                let _ = self.run(&ids, true, &mut never_cancel)?;
                self.tokens.clear();
            }
            self.logits.clear();
        }
        Ok(())
    }

    /// Sets the precision of matmuls; [`Session::new`] uses [`MatmulPrecision::Int8Activations`].
    #[must_use]
    pub fn with_precision(mut self, precision: MatmulPrecision) -> Self {
        self.precision = precision;
        self
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The context length, in tokens.
    pub fn context(&self) -> usize {
        self.pool.cells()
    }

    /// The format of the KV cache.
    pub fn cache_format(&self) -> KvFormat {
        self.pool.format()
    }

    /// Bytes of the KV cache.
    pub fn cache_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// The tokens in the cache, in order.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Logits of the next token, one per token of the vocabulary; empty before the first.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Makes the sequence equal to `ids`: reuses the common prefix in the KV cache and processes
    /// the rest, at least the last token. `on_progress` receives the tokens done (within a chunk,
    /// layer by layer) and the total; it breaks to cancel.
    ///
    /// # Errors
    /// If there are no tokens, more than the context, or one that is not in the vocabulary: the
    /// sequence is then unchanged. If a GPU failed: it has the tokens processed before.
    pub fn prefill(
        &mut self,
        ids: &[u32],
        on_progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Prefilled, SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        self.check(ids, ids.len())?;
        let shared = self.tokens.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let cached = shared.min(ids.len() - 1);
        self.tokens.truncate(cached);
        self.logits.clear();
        let mut done = cached;
        let layers = self.model.config().n_layers.max(1);
        while done < ids.len() {
            let chunk = &ids[done..ids.len().min(done + self.chunk)];
            let begin = Instant::now();
            let on_layer = &mut |layer| on_progress(done + chunk.len() * layer / layers, ids.len());
            if self.run(chunk, done + chunk.len() == ids.len(), on_layer)?.is_break() {
                return Ok(Prefilled {
                    cached,
                    evaluated: done - cached,
                    completed: false,
                });
            }
            self.choose_chunk(chunk.len(), begin.elapsed());
            done += chunk.len();
        }
        Ok(Prefilled {
            cached,
            evaluated: done - cached,
            completed: true,
        })
    }

    /// Adds one token; [`Session::logits`] are then those of the token after it.
    ///
    /// # Errors
    /// If the context is full, or the token is not in the vocabulary.
    pub fn push(&mut self, token: u32) -> Result<(), SessionError> {
        self.check(&[token], self.tokens.len() + 1)?;
        self.run(&[token], true, &mut never_cancel).map(drop)
    }

    /// Adds one token and returns the argmax of the next logits, computed on the output layer's
    /// device: a GPU copies one number to the host, and there are no [`Session::logits`]. `None` if
    /// no logit is finite.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub fn push_greedy(&mut self, token: u32) -> Result<Option<u32>, SessionError> {
        if self.model.placement().output() == Place::Cpu {
            self.push(token)?;
            return Ok(greedy(&self.logits));
        }
        self.check(&[token], self.tokens.len() + 1)?;
        self.logits.clear();
        let hidden = self.hidden(&[token])?;
        let logits = self.model.decoder().logits(hidden, self.precision);
        let chosen = argmax(logits).try_into_data().map_err(failed);
        let chosen = chosen.and_then(|data| data.try_into_vec::<u32>().map_err(failed));
        // After a GPU failure the contents of the KV cache are unknown.
        let chosen = chosen.inspect_err(|_| self.tokens.truncate(self.tokens.len() - 1))?;
        Ok(chosen.first().copied().filter(|id| *id != u32::MAX))
    }

    /// Log probabilities of `ids[from..]`, each given all tokens before it, from an empty cache.
    /// `from` is at least 1.
    ///
    /// # Errors
    /// As [`Session::prefill`].
    pub fn score(&mut self, ids: &[u32], from: usize) -> Result<Vec<f64>, SessionError> {
        if ids.is_empty() || from == 0 || from > ids.len() {
            return Err(SessionError::Empty);
        }
        self.check(ids, ids.len())?;
        self.tokens.clear();
        self.logits.clear();
        let mut log_probs = Vec::with_capacity(ids.len() - from);
        for begin in (0..ids.len()).step_by(Self::LARGEST_CHUNK) {
            let chunk = &ids[begin..ids.len().min(begin + Self::LARGEST_CHUNK)];
            let hidden = self.hidden(chunk)?;
            // The logits at a position predict the next token; the last token's are not scored.
            let first = from.saturating_sub(begin + 1).min(chunk.len());
            let end = (ids.len() - 1 - begin).min(chunk.len());
            if first < end {
                let logits = self.to_logits(hidden.slice_dim(0, first..end))?;
                let vocab = self.model.config().vocab;
                for (row, position) in logits.chunks_exact(vocab).zip(begin + first..) {
                    log_probs.push(log_probability(row, ids[position + 1]));
                }
            }
        }
        Ok(log_probs)
    }

    /// The logits after every token of `ids`, row by row, continuing the sequence; for tests and
    /// measurements.
    ///
    /// # Errors
    /// As [`Session::prefill`].
    pub fn extend(&mut self, ids: &[u32]) -> Result<Vec<f32>, SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        self.check(ids, self.tokens.len() + ids.len())?;
        let hidden = self.hidden(ids)?;
        self.to_logits(hidden)
    }

    pub(crate) fn check(&self, ids: &[u32], needed: usize) -> Result<(), SessionError> {
        let (vocab, context) = (self.model.config().vocab, self.context());
        if needed > context {
            return Err(SessionError::ContextFull { context, needed });
        }
        match ids.iter().find(|id| **id as usize >= vocab) {
            Some(&id) => Err(SessionError::NoSuchToken { id, vocab }),
            None => Ok(()),
        }
    }

    /// Processes tokens and writes their KV cells; computes the last one's logits if requested. If
    /// `on_layer`, which is called before each layer, breaks, the sequence is unchanged.
    fn run(
        &mut self,
        ids: &[u32],
        want_logits: bool,
        on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SessionError> {
        let _awake = team::enter();
        let before = self.tokens.len();
        let pass = self.append(ids)?;
        let ControlFlow::Continue(hidden) = self.model.decoder().hidden_while(ids.into(), &pass, on_layer) else {
            self.tokens.truncate(before);
            return Ok(ControlFlow::Break(()));
        };
        let ran = if want_logits {
            let last = hidden.slice_dim(0, ids.len() - 1..ids.len());
            self.to_logits(last).map(|logits| self.logits = logits)
        } else {
            // A GPU runs asynchronously: without a wait, chunks would seem instant and could not be
            // cancelled.
            hidden.device().sync().map_err(failed)
        };
        // After a GPU failure the contents of the KV cache are unknown.
        ran.map(ControlFlow::Continue).inspect_err(|_| {
            self.tokens.truncate(before);
            self.logits.clear();
        })
    }

    /// Appends tokens to the sequence and returns their pass.
    fn append(&mut self, ids: &[u32]) -> Result<Pass, SessionError> {
        // One sequence owns its pool, so the cell of a position is the position.
        let view = SequenceView::in_order(self.tokens.len() + ids.len(), ids.len());
        let sequence = CachedSequence::new(self.pool.clone(), Arc::new(view))?;
        self.tokens.extend_from_slice(ids);
        Ok(Pass {
            precision: self.precision,
            memory: Memory::Pool(sequence),
        })
    }

    /// Hidden states of tokens that continue the sequence.
    fn hidden(&mut self, ids: &[u32]) -> Result<Tensor<2>, SessionError> {
        let _awake = team::enter();
        let pass = self.append(ids)?;
        Ok(self.model.decoder().hidden(ids.into(), &pass))
    }

    /// A GPU computes a few rows of logits at a time: those of a large vocabulary may exceed a
    /// buffer binding.
    fn to_logits(&self, hidden: Tensor<2>) -> Result<Vec<f32>, SessionError> {
        let _awake = team::enter();
        let (rows, vocab) = (hidden.dims()[0], self.model.config().vocab);
        let at_once = match self.model.placement().output() {
            Place::Cpu => rows.max(1),
            Place::Gpu(_) => logit_rows(vocab),
        };
        let mut all = Vec::new();
        for first in (0..rows).step_by(at_once) {
            let part = match rows <= at_once {
                true => hidden.clone(),
                false => hidden.clone().slice_dim(0, first..rows.min(first + at_once)),
            };
            let logits = self.model.decoder().logits(part, self.precision);
            let data = logits.try_into_data().map_err(failed)?;
            let logits = data.try_into_vec::<f32>().map_err(failed)?;
            match all.is_empty() {
                true => all = logits,
                false => all.extend(logits),
            }
        }
        Ok(all)
    }

    /// Adapts the chunk size so that a step takes about [`STEP_TIME`]: a layer, or on an
    /// asynchronous GPU the whole chunk.
    fn choose_chunk(&mut self, tokens: usize, took: Duration) {
        if tokens < self.chunk {
            return;
        }
        let steps = match self.model.placement().gpu_layers() {
            0 => self.model.config().n_layers.max(1) as u32,
            _ => 1,
        };
        let step = took / steps;
        if step > STEP_TIME {
            self.chunk = (self.chunk / 2).max(SMALLEST_CHUNK);
        } else if step < STEP_TIME / 2 {
            self.chunk = (self.chunk * 2).min(Self::LARGEST_CHUNK);
        }
    }
}

/// A callback that never cancels.
fn never_cancel(_layer: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn failed(error: impl std::fmt::Debug) -> SessionError {
    SessionError::Device(format!("{error:?}"))
}

/// Log softmax of `logits` at `token`.
fn log_probability(logits: &[f32], token: u32) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from(l - max).exp()).sum();
    f64::from(logits[token as usize] - max) - sum.ln()
}
