//! A session: a model with one sequence of tokens and the logits after its last token.

use crate::cache::{Cache, CacheSize, Sequence};
use crate::chunk::Chunk;
use crate::error::SessionError;
use crate::model::Model;
use crate::ops::MatmulPrecision;
use crate::placement::Place;
use crate::sample::greedy;
use crate::step::{Output, Rows, Want, step};
use hearth_kernels::attention::KvFormat;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

/// Maximum context length in tokens.
const MAX_CONTEXT: usize = 1 << 24;

/// The result of [`Session::prefill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefilled {
    /// The number of tokens that were reused from the KV cache.
    pub cached: usize,
    /// The number of tokens that the model processed.
    pub evaluated: usize,
    /// Whether all tokens were processed. If the prefill was cancelled, there are no logits.
    pub completed: bool,
}

/// A model with one sequence of tokens in its KV cache.
pub struct Session {
    pub(crate) model: Arc<Model>,
    pub(crate) sequence: Sequence,
    /// Forks at prefixes of the sequence, the shortest first. Only used if layers have sliding
    /// windows, so that the sequence cannot always be truncated.
    snapshots: Vec<Sequence>,
    pub(crate) logits: Vec<f32>,
    chunk: Chunk,
    precision: MatmulPrecision,
}

impl Session {
    /// Maximum tokens of a prompt's chunk. Larger chunks do not speed up the GEMMs.
    pub const MAX_CHUNK: usize = Chunk::MAX_TOKENS;

    /// An empty session with a KV cache of `context` tokens in f16.
    ///
    /// # Errors
    /// If the context is zero or too large, or a GPU failed.
    pub fn new(model: Arc<Model>, context: usize) -> Result<Self, SessionError> {
        Self::with_cache(model, context, KvFormat::F16)
    }

    /// An empty session with a KV cache of `context` tokens in this format.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_cache(model: Arc<Model>, context: usize, format: KvFormat) -> Result<Self, SessionError> {
        let size = CacheSize::chat(context, model.groups());
        Self::with_size(model, size, format)
    }

    /// An empty session with a KV cache of this size and format.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_size(model: Arc<Model>, size: CacheSize, format: KvFormat) -> Result<Self, SessionError> {
        if size.context == 0 || size.context > MAX_CONTEXT {
            return Err(SessionError::BadContext(size.context));
        }
        let cache = Cache::new(model.groups(), format, size);
        let mut session = Self::in_cache(model, &cache);
        session.warm_up()?;
        Ok(session)
    }

    /// An empty session in the same cache, with a model that differs in adapters at most.
    ///
    /// # Errors
    /// If the models have different weights.
    pub fn sharing_cache(&self, model: Arc<Model>) -> Result<Self, SessionError> {
        if self.model.decoder().shares_weights(model.decoder()) {
            Ok(Self::in_cache(model, self.sequence.cache()).with_precision(self.precision))
        } else {
            Err(SessionError::OtherModel)
        }
    }

    fn in_cache(model: Arc<Model>, cache: &Arc<Cache>) -> Self {
        Self {
            model,
            sequence: Sequence::new(cache),
            snapshots: Vec::new(),
            logits: Vec::new(),
            chunk: Chunk::default(),
            precision: MatmulPrecision::Int8Activations,
        }
    }

    /// On GPUs, allocates the KV cache and compiles the kernels before the first request.
    fn warm_up(&mut self) -> Result<(), SessionError> {
        if self.model.placement().gpu_layers() > 0 {
            // Steps of one, few and many tokens use different kernels.
            for tokens in [1, 2, 16] {
                let ids = vec![0; tokens.min(self.context())];
                let _ = self.run(&ids, Want::Logits, &mut never_cancel)?;
                self.clear();
            }
        }
        Ok(())
    }

    /// Sets the precision of matmuls. The default is [`MatmulPrecision::Int8Activations`].
    #[must_use]
    pub fn with_precision(mut self, precision: MatmulPrecision) -> Self {
        self.precision = precision;
        self
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The context length in tokens.
    pub fn context(&self) -> usize {
        self.sequence.cache().context()
    }

    /// The KV cache.
    pub fn cache(&self) -> &Arc<Cache> {
        self.sequence.cache()
    }

    /// The format of the KV cache.
    pub fn cache_format(&self) -> KvFormat {
        self.sequence.cache().format()
    }

    /// Allocated bytes of the KV cache.
    pub fn cache_bytes(&self) -> usize {
        self.sequence.cache().bytes()
    }

    /// The tokens in the cache, in order.
    pub fn tokens(&self) -> &[u32] {
        self.sequence.ids()
    }

    /// The logits of the next token, one per token of the vocabulary. Empty if they were not
    /// computed.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Removes all tokens and snapshots.
    pub fn clear(&mut self) {
        self.logits.clear();
        self.snapshots.clear();
        self.sequence.clear();
    }

    /// Whether the cache has enough free pages for `tokens` tokens in this session. Other sessions
    /// in the same cache take pages too.
    pub fn has_room(&self, tokens: usize) -> bool {
        self.sequence.has_room(tokens)
    }

    /// A session with the same tokens and snapshots, which shares all pages. It has no logits.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            model: Arc::clone(&self.model),
            sequence: self.sequence.clone(),
            snapshots: self.snapshots.clone(),
            logits: Vec::new(),
            chunk: self.chunk,
            precision: self.precision,
        }
    }

    /// Truncates the sequence to the longest prefix of `ids` that it can continue, and returns the
    /// length of this prefix. The last token of `ids` is not included, since its logits are needed.
    /// If positions of a sliding window were released, the prefix is the longest one that a
    /// snapshot has. [`step_sessions`] then appends the other tokens.
    ///
    /// # Errors
    /// If there are no tokens, more than the context has, or one that is not in the vocabulary. The
    /// sequence is then unchanged.
    pub fn begin(&mut self, ids: &[u32]) -> Result<usize, SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        self.check(ids, ids.len())?;
        let cached = self.reusable(ids);
        self.rewind(cached);
        self.logits.clear();
        self.take_snapshot();
        Ok(cached)
    }

    /// Makes the sequence equal to `ids`: truncates it as [`Session::begin`], and processes the
    /// other tokens in chunks. `on_progress` receives the number of tokens done, which increases
    /// with each layer, and the total number. It breaks to cancel.
    ///
    /// # Errors
    /// As [`Session::begin`], or if a GPU failed or the cache is full. In the latter cases the
    /// sequence has the tokens of the complete chunks.
    pub fn prefill(
        &mut self,
        ids: &[u32],
        on_progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Prefilled, SessionError> {
        let cached = self.begin(ids)?;
        let mut done = cached;
        let layers = self.model.config().n_layers().max(1);
        while done < ids.len() {
            let chunk = &ids[done..ids.len().min(done + self.chunk.tokens())];
            let want = if done + chunk.len() == ids.len() {
                Want::Logits
            } else {
                Want::Nothing
            };
            let start = Instant::now();
            let on_layer = &mut |layer| on_progress(done + chunk.len() * layer / layers, ids.len());
            if self.run(chunk, want, on_layer)?.is_break() {
                return Ok(Prefilled {
                    cached,
                    evaluated: done - cached,
                    completed: false,
                });
            }
            self.chunk
                .adapt(chunk.len(), start.elapsed(), Chunk::step_time(&self.model, false));
            done += chunk.len();
        }
        self.take_snapshot();
        Ok(Prefilled {
            cached,
            evaluated: done - cached,
            completed: true,
        })
    }

    /// The number of these tokens that [`Session::prefill`] would reuse.
    pub fn reusable(&self, ids: &[u32]) -> usize {
        let shared = common_prefix(self.tokens(), ids);
        self.reachable(shared.min(ids.len().saturating_sub(1)))
    }

    /// The maximum length, up to `length`, to which the sequence can be truncated, directly or
    /// through a snapshot.
    fn reachable(&self, length: usize) -> usize {
        if self.sequence.can_truncate(length) {
            return length;
        }
        let usable = self.snapshots.iter().filter(|snapshot| snapshot.can_truncate(length));
        usable.map(|snapshot| snapshot.len().min(length)).max().unwrap_or(0)
    }

    /// Truncates the sequence to a length that [`Session::reachable`] returned.
    fn rewind(&mut self, length: usize) {
        if !self.sequence.truncate(length) {
            let usable = self
                .snapshots
                .iter()
                .find(|snapshot| snapshot.len() >= length && snapshot.can_truncate(length));
            if let Some(snapshot) = usable {
                self.sequence = snapshot.clone();
            }
            if self.sequence.len() < length || !self.sequence.truncate(length) {
                self.sequence.clear();
            }
        }
        self.snapshots.retain(|snapshot| snapshot.len() <= length);
    }

    /// Takes a snapshot if the cache has pages for snapshots, which it has if layers have sliding
    /// windows. Drops the oldest snapshot if there are too many. A snapshot at the end of a prompt
    /// is needed to regenerate the answer.
    pub fn take_snapshot(&mut self) {
        let max = self.sequence.cache().size().snapshots;
        let is_taken = self
            .snapshots
            .last()
            .is_some_and(|last| last.len() == self.sequence.len());
        if max == 0 || is_taken || self.sequence.is_empty() {
            return;
        }
        if self.snapshots.len() >= max {
            self.snapshots.remove(0);
        }
        // The cache has pages for the windows of snapshots only.
        self.sequence.release_behind_windows();
        self.snapshots.push(self.sequence.clone());
    }

    /// Removes the tokens from `length` on, such as rejected drafts. If the sequence must be
    /// restored from a snapshot, because layers have sliding windows, it may have fewer than
    /// `length` tokens or none.
    pub fn truncate(&mut self, length: usize) {
        if length < self.tokens().len() {
            self.logits.clear();
            self.rewind(self.reachable(length));
        }
    }

    /// Drops all snapshots, which frees the pages that only they own. Returns whether there were
    /// any.
    pub fn drop_snapshots(&mut self) -> bool {
        let had_snapshots = !self.snapshots.is_empty();
        self.snapshots.clear();
        had_snapshots
    }

    /// Appends one token. [`Session::logits`] then predict the token after it.
    ///
    /// # Errors
    /// If the context is full, or the token is not in the vocabulary.
    pub fn push(&mut self, token: u32) -> Result<(), SessionError> {
        self.check(&[token], self.tokens().len() + 1)?;
        self.run(&[token], Want::Logits, &mut never_cancel).map(drop)
    }

    /// Appends one token and returns the argmax of the next logits; `None` if no logit is finite.
    /// The argmax is computed on the device of the output layer. On a GPU only the token is copied
    /// to the host, so that there are no [`Session::logits`].
    ///
    /// # Errors
    /// As [`Session::push`].
    pub fn push_greedy(&mut self, token: u32) -> Result<Option<u32>, SessionError> {
        if self.model.placement().output() == Place::Cpu {
            self.push(token)?;
            return Ok(greedy(&self.logits));
        }
        self.check(&[token], self.tokens().len() + 1)?;
        self.logits.clear();
        match self.step(&[token], Want::Argmax, 0..1, &mut never_cancel)? {
            ControlFlow::Continue(Output::Argmax(tokens)) => Ok(tokens.first().copied().flatten()),
            _ => Ok(None),
        }
    }

    /// The log probabilities of `ids[from..]`, each given all tokens before it. Replaces the tokens
    /// of the session.
    ///
    /// # Errors
    /// As [`Session::prefill`], or if `from` is 0 or larger than the number of tokens.
    pub fn score(&mut self, ids: &[u32], from: usize) -> Result<Vec<f64>, SessionError> {
        if ids.is_empty() || from == 0 || from > ids.len() {
            return Err(SessionError::Empty);
        }
        self.check(ids, ids.len())?;
        self.clear();
        let vocab = self.model.config().vocab;
        let mut log_probs = Vec::with_capacity(ids.len() - from);
        for start in (0..ids.len()).step_by(Self::MAX_CHUNK) {
            let chunk = &ids[start..ids.len().min(start + Self::MAX_CHUNK)];
            // The logits at a position predict the next token, so the last position needs none.
            let first = from.saturating_sub(start + 1).min(chunk.len());
            let end = (ids.len() - 1 - start).min(chunk.len());
            let logits = self.append_with_logits(chunk, first..end.max(first))?;
            for (row, position) in logits.chunks_exact(vocab).zip(start + first..) {
                log_probs.push(log_probability(row, ids[position + 1]));
            }
        }
        Ok(log_probs)
    }

    /// Appends tokens and returns the logits after each of them, row by row. For tests and
    /// measurements.
    ///
    /// # Errors
    /// As [`Session::prefill`].
    pub fn extend(&mut self, ids: &[u32]) -> Result<Vec<f32>, SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        self.check(ids, self.tokens().len() + ids.len())?;
        let mut logits = Vec::new();
        for chunk in ids.chunks(Self::MAX_CHUNK) {
            logits.extend(self.append_with_logits(chunk, 0..chunk.len())?);
        }
        Ok(logits)
    }

    /// Appends a chunk of tokens and returns the logits of the rows `wanted`.
    fn append_with_logits(&mut self, ids: &[u32], wanted: Range<usize>) -> Result<Vec<f32>, SessionError> {
        // The token that they followed is no longer the last.
        self.logits.clear();
        match self.step(ids, Want::Logits, wanted, &mut never_cancel)? {
            ControlFlow::Continue(Output::Logits(logits)) => Ok(logits),
            _ => Ok(Vec::new()),
        }
    }

    /// Checks that `needed` tokens fit the context, and that `ids` are in the vocabulary.
    pub(crate) fn check(&self, ids: &[u32], needed: usize) -> Result<(), SessionError> {
        let context = self.context();
        if needed > context {
            return Err(SessionError::ContextFull { context, needed });
        }
        self.model.check_ids(ids)
    }

    /// Appends tokens and, if requested, sets [`Session::logits`]. `on_layer` is called before each
    /// layer. If it breaks, the sequence is unchanged.
    fn run(
        &mut self,
        ids: &[u32],
        want: Want,
        on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SessionError> {
        let result = self.step(ids, want, ids.len() - 1..ids.len(), on_layer);
        Ok(match result.inspect_err(|_| self.logits.clear())? {
            ControlFlow::Break(()) => ControlFlow::Break(()),
            ControlFlow::Continue(output) => {
                if let Output::Logits(logits) = output {
                    self.logits = logits;
                }
                ControlFlow::Continue(())
            }
        })
    }

    fn rows<'a>(&'a mut self, ids: &'a [u32], want: Want, wanted: Range<usize>) -> Rows<'a> {
        Rows {
            sequence: &mut self.sequence,
            model: &self.model,
            ids,
            embeddings: None,
            want,
            wanted,
        }
    }

    fn step(
        &mut self,
        ids: &[u32],
        want: Want,
        wanted: Range<usize>,
        on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), Output>, SessionError> {
        let precision = self.precision;
        Ok(match step(&mut [self.rows(ids, want, wanted)], precision, on_layer)? {
            ControlFlow::Break(()) => ControlFlow::Break(()),
            ControlFlow::Continue(outputs) => {
                ControlFlow::Continue(outputs.into_iter().next().unwrap_or(Output::Nothing))
            }
        })
    }
}

/// Tokens that a step appends to a session.
pub struct SessionRows<'a> {
    /// The session.
    pub session: &'a mut Session,
    /// The tokens, at least one.
    pub ids: &'a [u32],
    /// The requested output of the rows `wanted`.
    pub want: Want,
    /// The rows with output; row 0 is the row of the first token.
    pub wanted: Range<usize>,
}

/// Appends tokens to sessions of one cache in one step, and returns the output of each. The weights
/// are read once for consecutive sessions of one model. Does not set [`Session::logits`].
///
/// If `on_layer` breaks or there is an error, the tokens of all sessions are unchanged.
///
/// # Errors
/// As [`step`].
pub fn step_sessions(
    parts: &mut [SessionRows],
    on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
    let precision = parts.first().ok_or(SessionError::Empty)?.session.precision;
    // The tokens that the logits followed are no longer the last.
    parts.iter_mut().for_each(|part| part.session.logits.clear());
    let mut rows: Vec<Rows> = Vec::with_capacity(parts.len());
    for part in parts {
        rows.push(part.session.rows(part.ids, part.want, part.wanted.clone()));
    }
    step(&mut rows, precision, on_layer)
}

/// A callback that never cancels.
fn never_cancel(_layer: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Log softmax of `logits` at `token`.
fn log_probability(logits: &[f32], token: u32) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - max).exp()).sum();
    f64::from(logits[token as usize] - max) - sum.ln()
}

/// The length of the common prefix of two token sequences.
pub fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
