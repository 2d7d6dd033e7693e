//! A step: one pass of a model over rows of any number of sequences.

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

/// Rows that continue one sequence: a chunk of a prompt, a decode row, or drafted tokens.
pub struct Rows<'a> {
    /// The sequence, to which the tokens are appended.
    pub sequence: &'a mut Sequence,
    /// The model. The models of a step share their weights and differ in adapters at most. The
    /// weights are read once for consecutive rows of one model.
    pub model: &'a Model,
    /// The tokens, at least one.
    pub ids: &'a [u32],
    /// The residual stream `[T, D]` before the first layer, on any device, instead of the
    /// embeddings of `ids`. The ids then only identify the sequence's tokens, for example when
    /// prefixes are compared.
    pub embeddings: Option<Tensor<2>>,
    /// The requested output of the rows `wanted`.
    pub want: Want,
    /// The rows with output; row 0 is the row of the first token.
    pub wanted: Range<usize>,
}

/// The requested output of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// No output, as for a chunk of a prompt.
    Nothing,
    /// The argmax of the logits, computed on the device of the output layer.
    Argmax,
    /// The logits.
    Logits,
    /// The hidden state before the output norm.
    Hidden,
}

/// The outputs of [`Rows`].
#[derive(Debug, Clone)]
pub enum Output {
    /// No output, for [`Want::Nothing`].
    Nothing,
    /// The argmax of each wanted row; `None` if no logit is finite.
    Argmax(Vec<Option<u32>>),
    /// The logits, row by row.
    Logits(Vec<f32>),
    /// The hidden states `[rows, D]`, on the device of the last layer.
    Hidden(Box<Tensor<2>>),
}

impl<'a> Rows<'a> {
    /// Rows of which only the last has output.
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

    /// Whether this is a decode step of one token.
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
/// is called before each layer with its index. On the CPU, the bits of a row depend only on its
/// sequence, position and adapters.
///
/// If `on_layer` breaks, there is an error, or an operation panics, the tokens of all sequences are
/// unchanged.
///
/// # Errors
/// If there are no rows or tokens, a token is not in the vocabulary, a sequence or the cache is
/// full, the rows have models with different weights or different caches, or a GPU failed.
pub fn step(
    rows: &mut [Rows],
    precision: MatmulPrecision,
    on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
    let number = StepNumber::next();
    let timed_step = match &*rows {
        [part] if part.is_decode() => part.model.decoder().decode_threads().begin(number),
        _ => None,
    };
    let _awake = team::enter();
    scratch::begin_step(rows.iter().map(|part| part.ids.len()).sum());
    let mut rollback = Rollback {
        lengths: rows.iter().map(|part| part.sequence.len()).collect(),
        rows,
        is_committed: false,
    };
    let batch = append(rollback.rows)?;
    let result = run(rollback.rows, &batch, precision, on_layer)?;
    rollback.is_committed = result.is_continue();
    if let (Some(timed_step), true) = (timed_step, rollback.is_committed) {
        timed_step.finish();
    }
    Ok(result)
}

/// On drop, removes the tokens of a step from the sequences unless the step was committed. So they
/// are also removed if an operation panics.
struct Rollback<'r, 'a> {
    rows: &'r mut [Rows<'a>],
    /// The length of each sequence before the step.
    lengths: Vec<usize>,
    is_committed: bool,
}

impl Drop for Rollback<'_, '_> {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        for (part, length) in self.rows.iter_mut().zip(&self.lengths) {
            // After an error or a panic, the new cells may be partly written.
            if !part.sequence.truncate(*length) {
                part.sequence.clear();
            }
        }
    }
}

/// Checks the rows and appends them to their sequences.
fn append(rows: &mut [Rows]) -> Result<Arc<Batch>, SessionError> {
    let first = rows.first().ok_or(SessionError::Empty)?.model;
    rows.iter().try_for_each(|part| part.check(first))?;
    for part in &mut *rows {
        part.sequence.append(part.ids)?;
    }
    let sequences: Vec<_> = rows.iter().map(|part| (&*part.sequence, part.ids.len())).collect();
    Ok(Arc::new(Batch::of_sequences(&sequences)?))
}

/// Runs the model on rows that were appended.
fn run(
    rows: &[Rows],
    batch: &Arc<Batch>,
    precision: MatmulPrecision,
    on_layer: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<Output>>, SessionError> {
    let groups: Vec<&[Rows]> = rows.chunk_by(|a, b| std::ptr::eq(a.model, b.model)).collect();
    let decoders: Vec<&Decoder> = groups.iter().map(|group| group[0].model.decoder()).collect();
    let mut hidden: Vec<Tensor<2>> = groups.iter().map(|group| embed(group)).collect();
    for layer in 0..decoders[0].layers().len() {
        if on_layer(layer).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        hidden = Decoder::run_parts(&decoders, hidden, layer, batch, precision);
    }
    let mut wanted = Vec::with_capacity(rows.len());
    for (group, hidden) in groups.iter().zip(&hidden) {
        let mut first = 0;
        for part in *group {
            wanted.push(slice_rows(hidden, first + part.wanted.start..first + part.wanted.end));
            first += part.ids.len();
        }
    }
    let output_layer = OutputLayer {
        model: rows[0].model,
        precision,
    };
    output_layer.outputs(rows, wanted).map(ControlFlow::Continue)
}

/// The residual stream of consecutive rows of one model before the first layer.
fn embed(group: &[Rows]) -> Tensor<2> {
    let decoder = group[0].model.decoder();
    if group.iter().all(|part| part.embeddings.is_none()) {
        let ids: Vec<u32> = group.iter().flat_map(|part| part.ids).copied().collect();
        return decoder.embed(ids.into());
    }
    let embed_part = |part: &Rows| {
        let embeddings = match &part.embeddings {
            Some(embeddings) => embeddings.clone(),
            None => decoder.embed(part.ids.into()),
        };
        embeddings.to_device(decoder.device(0))
    };
    Tensor::cat(group.iter().map(embed_part).collect(), 0)
}

/// A range of rows of a matrix. Not copied if it is the whole matrix.
fn slice_rows(x: &Tensor<2>, rows: Range<usize>) -> Tensor<2> {
    if rows.len() == x.dims()[0] {
        x.clone()
    } else {
        x.clone().slice_dim(0, rows)
    }
}

/// The output layer, which has no adapters.
struct OutputLayer<'a> {
    model: &'a Model,
    precision: MatmulPrecision,
}

impl OutputLayer<'_> {
    /// Computes the outputs of all parts from the hidden states of their wanted rows. The output
    /// layer runs once for all logits, and once for all argmaxes.
    fn outputs(&self, rows: &[Rows], wanted: Vec<Tensor<2>>) -> Result<Vec<Output>, SessionError> {
        let hidden_states = |want: Want| {
            rows.iter()
                .zip(&wanted)
                .filter(|(part, _)| part.want == want && !part.wanted.is_empty())
                .map(|(_, hidden)| hidden.clone())
                .collect::<Vec<_>>()
        };
        let vocab = self.model.config().vocab;
        let logits = self.logits(hidden_states(Want::Logits))?;
        let tokens = self.argmax(hidden_states(Want::Argmax))?;
        if logits.is_empty()
            && tokens.is_empty()
            && let Some(hidden) = wanted.first()
        {
            // A GPU runs asynchronously. The step waits for it, so that its time can be measured
            // and a prefill can be cancelled between chunks.
            hidden.device().sync().map_err(device_error)?;
        }
        let (mut logits, mut tokens) = (Splitter::new(logits), Splitter::new(tokens));
        let output = |(part, hidden): (&Rows, Tensor<2>)| match part.want {
            Want::Nothing => Output::Nothing,
            Want::Argmax => Output::Argmax(tokens.take(part.wanted.len())),
            Want::Logits => Output::Logits(logits.take(part.wanted.len() * vocab)),
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
            let data = argmax(logits).try_into_data().map_err(device_error)?;
            data.try_into_vec::<u32>().map_err(device_error)
        };
        let tokens = self.apply(hidden, &read)?;
        Ok(tokens
            .into_iter()
            .map(|id| Some(id).filter(|id| *id != u32::MAX))
            .collect())
    }

    /// Applies the output layer to all rows, and `read` to the logits, [`logit_rows`] at a time.
    /// The logits of all rows would take much memory, and may exceed a GPU's maximum buffer
    /// binding.
    fn apply<T>(
        &self,
        hidden: Vec<Tensor<2>>,
        read: &dyn Fn(Tensor<2>) -> Result<Vec<T>, SessionError>,
    ) -> Result<Vec<T>, SessionError> {
        let hidden = match <[_; 1]>::try_from(hidden) {
            Ok([hidden]) => hidden,
            Err(parts) if parts.is_empty() => return Ok(Vec::new()),
            Err(parts) => Tensor::cat(parts, 0),
        };
        let rows = hidden.dims()[0];
        let chunk_rows = logit_rows(self.model.config().vocab);
        let mut all = Vec::new();
        for first in (0..rows).step_by(chunk_rows) {
            let chunk = slice_rows(&hidden, first..rows.min(first + chunk_rows));
            let values = read(self.model.decoder().logits(chunk, self.precision))?;
            if all.is_empty() {
                all = values
            } else {
                all.extend(values)
            }
        }
        Ok(all)
    }
}

/// Copies the elements of a tensor to the host.
fn floats(x: Tensor<2>) -> Result<Vec<f32>, SessionError> {
    let data = x.try_into_data().map_err(device_error)?;
    data.try_into_vec::<f32>().map_err(device_error)
}

/// Splits a list into consecutive parts.
struct Splitter<T> {
    list: Vec<T>,
    position: usize,
}

impl<T: Copy> Splitter<T> {
    fn new(list: Vec<T>) -> Self {
        Self { list, position: 0 }
    }

    /// The next `count` elements. Not copied if they are the whole list.
    fn take(&mut self, count: usize) -> Vec<T> {
        if (self.position, count) == (0, self.list.len()) {
            return std::mem::take(&mut self.list);
        }
        let end = (self.position + count).min(self.list.len());
        let part = self.list[self.position.min(end)..end].to_vec();
        self.position = end;
        part
    }
}

fn device_error(error: impl std::fmt::Debug) -> SessionError {
    SessionError::Device(format!("{error:?}"))
}
