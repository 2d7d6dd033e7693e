//! A step: the one way through a model, for rows of any number of sequences.

use crate::batch::Batch;
use crate::cache::Sequence;
use crate::decoder::Decoder;
use crate::error::{CacheError, SessionError};
use crate::model::Model;
use crate::ops::{MatmulPrecision, argmax, logit_rows};
use crate::placement::Place;
use crate::sample::greedy;
use crate::threads::StepNumber;
use burn::tensor::Tensor;
use hearth_kernels::{scratch, team};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Rows that continue one sequence: a chunk of a prompt, a decode row, or drafted tokens. (A tree
/// of drafts is several sequences: forks.)
pub struct Rows<'a> {
    /// The sequence, to which the tokens are appended.
    pub sequence: &'a mut Sequence,
    /// The model. All models of a step share their weights and differ in adapters at most; the
    /// weights are read once for consecutive rows of one model.
    pub model: &'a Model,
    /// The tokens, at least one.
    pub ids: &'a [u32],
    /// The residual stream `[T, D]` before the first layer, on any device, in place of the
    /// embeddings of `ids`. The ids then only tell sequences apart.
    pub embeddings: Option<Tensor<2>>,
    /// The requested output of the rows `wanted`.
    pub want: Want,
    /// The rows with output; row 0 is the row of the first token.
    pub wanted: Range<usize>,
}

/// The requested output of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Nothing: a part of a prompt.
    Nothing,
    /// The argmax of the logits, chosen on the output layer's device.
    Argmax,
    /// The logits.
    Logits,
    /// The hidden state before the output norm.
    Hidden,
}

/// The outputs of [`Rows`].
#[derive(Debug, Clone)]
pub enum Output {
    /// For [`Want::Nothing`].
    Nothing,
    /// The argmax of each wanted row; `None` if no logit is finite.
    Argmax(Vec<Option<u32>>),
    /// The logits, row by row.
    Logits(Vec<f32>),
    /// The hidden states `[rows, D]`, on the device of the last layer.
    Hidden(Box<Tensor<2>>),
}

impl<'a> Rows<'a> {
    /// Tokens of which only the last row has output.
    pub fn last(sequence: &'a mut Sequence, model: &'a Model, ids: &'a [u32], want: Want) -> Self {
        Self {
            wanted: ids.len().saturating_sub(1)..ids.len(),
            embeddings: None,
            sequence,
            model,
            ids,
            want,
        }
    }

    /// Whether it is a token of an answer.
    fn is_decode(&self) -> bool {
        self.ids.len() == 1 && self.embeddings.is_none() && matches!(self.want, Want::Argmax | Want::Logits)
    }

    fn check(&self, first: &Model) -> Result<(), SessionError> {
        if self.ids.is_empty() || self.wanted.end > self.ids.len() || self.wanted.start > self.wanted.end {
            return Err(SessionError::Empty);
        }
        if !first.decoder().shares_weights(self.model.decoder()) {
            return Err(SessionError::OtherModel);
        }
        if !self.sequence.cache().fits(self.model.groups()) {
            return Err(CacheError::OtherModel.into());
        }
        let config = self.model.config();
        if let Some(embeddings) = &self.embeddings {
            let (found, expected) = (embeddings.dims(), [self.ids.len(), config.width]);
            if found != expected {
                return Err(SessionError::Embeddings { found, expected });
            }
        }
        self.model.check_ids(self.ids)
    }
}

/// Appends the rows to their sequences, runs the model, and returns the output of each. `on_layer`
/// is called before each layer with its number. On the CPU the bits of a row depend only on its own
/// sequence, position and adapters.
///
/// If `on_layer` breaks, with an error, or if an operation panics, all sequences have the tokens
/// that they had before.
///
/// # Errors
/// If there are no rows or tokens, a token is not in the vocabulary, a sequence or the cache is
/// full, the rows' models or caches do not belong together, or a GPU failed.
pub fn step(
    rows: &mut [Rows],
    precision: MatmulPrecision,
    on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
    let number = StepNumber::next();
    let timed = match &*rows {
        [part] if part.is_decode() => part.model.decoder().decode_threads().begin(number),
        _ => None,
    };
    let _awake = team::enter();
    scratch::begin_step(rows.iter().map(|part| part.ids.len()).sum());
    let mut rollback = Rollback {
        lengths: rows.iter().map(|part| part.sequence.len()).collect(),
        rows,
        is_done: false,
    };
    let batch = append(rollback.rows)?;
    let ran = run(rollback.rows, &batch, precision, on_layer)?;
    rollback.is_done = ran.is_continue();
    if let (Some(timed), true) = (timed, rollback.is_done) {
        timed.finish();
    }
    Ok(ran)
}

/// Takes the tokens of a step back, unless it is done; also if an operation panics.
struct Rollback<'r, 'a> {
    rows: &'r mut [Rows<'a>],
    /// Tokens of each sequence before the step.
    lengths: Vec<usize>,
    is_done: bool,
}

impl Drop for Rollback<'_, '_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        for (part, length) in self.rows.iter_mut().zip(&self.lengths) {
            // After a failure of a GPU the contents of the new cells are unknown.
            if !part.sequence.truncate(*length) {
                part.sequence.clear();
            }
        }
    }
}

/// Appends the rows to their sequences.
fn append(rows: &mut [Rows]) -> Result<Arc<Batch>, SessionError> {
    let first = rows.first().ok_or(SessionError::Empty)?.model;
    rows.iter().try_for_each(|part| part.check(first))?;
    for part in &mut *rows {
        part.sequence.append(part.ids)?;
    }
    let sequences: Vec<_> = rows.iter().map(|part| (&*part.sequence, part.ids.len())).collect();
    Ok(Arc::new(Batch::of_sequences(&sequences)?))
}

fn run(
    rows: &[Rows],
    batch: &Arc<Batch>,
    precision: MatmulPrecision,
    on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
    let runs: Vec<&[Rows]> = rows.chunk_by(|a, b| std::ptr::eq(a.model, b.model)).collect();
    let decoders: Vec<&Decoder> = runs.iter().map(|run| run[0].model.decoder()).collect();
    let mut hidden: Vec<Tensor<2>> = runs.iter().map(|run| embed(run)).collect();
    for layer in 0..decoders[0].layers().len() {
        if on_layer(layer).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        hidden = Decoder::run_parts(&decoders, hidden, layer, batch, precision);
    }
    let mut wanted = Vec::with_capacity(rows.len());
    for (run, hidden) in runs.iter().zip(&hidden) {
        let mut first = 0;
        for part in *run {
            wanted.push(slice(hidden, first + part.wanted.start..first + part.wanted.end));
            first += part.ids.len();
        }
    }
    let head = Head {
        model: rows[0].model,
        precision,
    };
    head.outputs(rows, wanted).map(ControlFlow::Continue)
}

/// The residual stream of consecutive rows of one model before the first layer.
fn embed(run: &[Rows]) -> Tensor<2> {
    let decoder = run[0].model.decoder();
    if run.iter().all(|part| part.embeddings.is_none()) {
        let ids: Vec<u32> = run.iter().flat_map(|part| part.ids).copied().collect();
        return decoder.embed(ids.into());
    }
    let of_part = |part: &Rows| {
        let embedded = match &part.embeddings {
            Some(embeddings) => embeddings.clone(),
            None => decoder.embed(part.ids.into()),
        };
        embedded.to_device(decoder.device(0))
    };
    Tensor::cat(run.iter().map(of_part).collect(), 0)
}

/// Rows of a matrix; the matrix itself if they are all.
fn slice(x: &Tensor<2>, rows: Range<usize>) -> Tensor<2> {
    if rows.len() == x.dims()[0] {
        x.clone()
    } else {
        x.clone().slice_dim(0, rows)
    }
}

/// The output layer, which adapters do not change.
struct Head<'a> {
    model: &'a Model,
    precision: MatmulPrecision,
}

impl Head<'_> {
    /// The outputs of each part from the hidden states of its wanted rows. The output layer runs
    /// once for all that want logits, and once for all that want the argmax.
    fn outputs(&self, rows: &[Rows], wanted: Vec<Tensor<2>>) -> Result<Vec<Output>, SessionError> {
        let of = |want: Want| {
            let parts = rows.iter().zip(&wanted);
            let parts = parts.filter(|(part, _)| part.want == want && !part.wanted.is_empty());
            parts.map(|(_, hidden)| hidden.clone()).collect::<Vec<_>>()
        };
        let vocab = self.model.config().vocab;
        let (logits, chosen) = (self.logits(of(Want::Logits))?, self.argmax(of(Want::Argmax))?);
        if logits.is_empty()
            && chosen.is_empty()
            && let Some(hidden) = wanted.first()
        {
            // A GPU runs asynchronously: without a wait, chunks would seem instant and could not be
            // cancelled.
            hidden.device().sync().map_err(failed)?;
        }
        let (mut logits, mut chosen) = (Parts::new(logits), Parts::new(chosen));
        let output = |(part, hidden): (&Rows, Tensor<2>)| match part.want {
            Want::Nothing => Output::Nothing,
            Want::Argmax => Output::Argmax(chosen.next(part.wanted.len())),
            Want::Logits => Output::Logits(logits.next(part.wanted.len() * vocab)),
            Want::Hidden => Output::Hidden(Box::new(hidden)),
        };
        Ok(rows.iter().zip(wanted).map(output).collect())
    }

    /// The logits of all rows, row by row.
    fn logits(&self, hidden: Vec<Tensor<2>>) -> Result<Vec<f32>, SessionError> {
        self.apply(hidden, &floats)
    }

    /// The argmax of the logits of all rows.
    fn argmax(&self, hidden: Vec<Tensor<2>>) -> Result<Vec<Option<u32>>, SessionError> {
        if self.model.placement().output() == Place::Cpu {
            let vocab = self.model.config().vocab;
            let read = |logits| Ok(floats(logits)?.chunks_exact(vocab).map(greedy).collect());
            return self.apply(hidden, &read);
        }
        let read = |logits: Tensor<2>| {
            let data = argmax(logits).try_into_data().map_err(failed)?;
            data.try_into_vec::<u32>().map_err(failed)
        };
        let chosen = self.apply(hidden, &read)?;
        Ok(chosen
            .into_iter()
            .map(|id| Some(id).filter(|id| *id != u32::MAX))
            .collect())
    }

    /// Applies the output layer to all rows, and `read` to its logits, a few rows at a time: those
    /// of a large vocabulary take much memory, and may exceed a GPU's buffer binding.
    fn apply<T>(
        &self,
        hidden: Vec<Tensor<2>>,
        read: &dyn Fn(Tensor<2>) -> Result<Vec<T>, SessionError>,
    ) -> Result<Vec<T>, SessionError> {
        let hidden = match <[_; 1]>::try_from(hidden) {
            Ok([alone]) => alone,
            Err(none) if none.is_empty() => return Ok(Vec::new()),
            Err(parts) => Tensor::cat(parts, 0),
        };
        let rows = hidden.dims()[0];
        let at_once = logit_rows(self.model.config().vocab);
        let mut all = Vec::new();
        for first in (0..rows).step_by(at_once) {
            let part = slice(&hidden, first..rows.min(first + at_once));
            let values = read(self.model.decoder().logits(part, self.precision))?;
            if all.is_empty() {
                all = values
            } else {
                all.extend(values)
            }
        }
        Ok(all)
    }
}

fn floats(x: Tensor<2>) -> Result<Vec<f32>, SessionError> {
    let data = x.try_into_data().map_err(failed)?;
    data.try_into_vec::<f32>().map_err(failed)
}

/// Consecutive parts of a list.
struct Parts<T> {
    all: Vec<T>,
    done: usize,
}

impl<T: Copy> Parts<T> {
    fn new(all: Vec<T>) -> Self {
        Self { all, done: 0 }
    }

    /// The next `count` elements; the list itself if they are all.
    fn next(&mut self, count: usize) -> Vec<T> {
        if (self.done, count) == (0, self.all.len()) {
            return std::mem::take(&mut self.all);
        }
        let end = (self.done + count).min(self.all.len());
        let part = self.all[self.done.min(end)..end].to_vec();
        self.done = end;
        part
    }
}

fn failed(error: impl std::fmt::Debug) -> SessionError {
    SessionError::Device(format!("{error:?}"))
}
