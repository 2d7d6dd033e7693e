//! Fused linear cross-entropy: computes the output layer and the loss for one *logit chunk* of rows
//! after another, so that the logits of all rows never exist at once.
//!
//! Untrained rows are skipped. The gradient, if requested, is computed from the same logits as the
//! loss.

use crate::fused::{forward, linears_backward};
use crate::gemm::{Accumulate, View};
use crate::isa::Isa;
use crate::linear::{Input, Linear, LoraGradient, MatmulPrecision, Norm, add};
use crate::norm::rms_norm_backward_in_place;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::softmax::{self, IGNORE_INDEX};
use crate::team;

/// Maximum bytes of a logit chunk, unless [`MIN_ROWS`] need more.
const MAX_LOGIT_BYTES: usize = 32 * 1024 * 1024;
/// Logit chunks have a multiple of this many rows: whole GEMM tiles.
const TILE: usize = 12;
/// Minimum rows of a logit chunk: with fewer, dequantizing the weight would cost more than
/// multiplying with it. With a vocabulary of 262144, they take 36 MiB.
const MIN_ROWS: usize = 3 * TILE;

/// Targets of rows of hidden states.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// One token id per row; [`IGNORE_INDEX`] for an untrained row.
    pub ids: &'a [u32],
    /// Weight of each row's loss; `None` means 1 each.
    pub weights: Option<&'a [f32]>,
    /// Multiplies the gradient, not the losses; usually one over the number of trained rows of a
    /// step.
    pub scale: f32,
}

/// Result of [`linear_cross_entropy`].
#[derive(Clone, Debug)]
pub struct Loss {
    /// The sum of the trained rows' losses, each times its weight.
    pub sum: f64,
    /// Number of trained rows.
    pub trained: usize,
    /// The gradient of the output layer's adapter; `None` without an adapter or if no gradient was
    /// requested.
    pub adapter: Option<LoraGradient>,
}

/// Computes the loss `-ln p(target)` of rows `x [T, D]`, normalized if there is a norm, through an
/// output layer `[vocab, D]` and the softcap of its logits if there is one, into `losses [T]`; 0
/// for untrained rows. If `dx [T, D]` is given, writes the gradient of the weighted sum of losses
/// times the targets' scale to it; 0 for untrained rows.
///
/// # Errors
/// Returns an error if the sizes do not match or a target is not below the vocabulary.
pub fn linear_cross_entropy(
    x: &[f32],
    norm: Option<Norm>,
    output: &Linear,
    softcap: Option<f32>,
    targets: &Targets,
    precision: MatmulPrecision,
    losses: &mut [f32],
    dx: Option<&mut [f32]>,
) -> Result<Loss, ShapeError> {
    let rows = rows_per_logit_chunk(output.weight.rows());
    in_logit_chunks(rows, x, norm, output, softcap, targets, precision, losses, dx)
}

/// [`linear_cross_entropy`] in logit chunks of `chunk_rows` trained rows.
fn in_logit_chunks(
    chunk_rows: usize,
    x: &[f32],
    norm: Option<Norm>,
    output: &Linear,
    softcap: Option<f32>,
    targets: &Targets,
    precision: MatmulPrecision,
    losses: &mut [f32],
    mut dx: Option<&mut [f32]>,
) -> Result<Loss, ShapeError> {
    let (vocab, cols) = (output.weight.rows(), output.weight.cols());
    output.check()?;
    let tokens = shape::rows("a row of hidden states", x.len(), cols)?;
    shape::length("the targets", targets.ids.len(), Some(tokens))?;
    shape::length("the losses", losses.len(), Some(tokens))?;
    if let Some(weights) = targets.weights {
        shape::length("the weights of losses", weights.len(), Some(tokens))?;
    }
    if let Some(norm) = norm {
        shape::length("a norm's weight", norm.weight.len(), Some(cols))?;
    }
    softmax::check_targets(targets.ids, vocab)?;
    losses.fill(0.0);
    if let Some(dx) = &mut dx {
        shape::length("the gradient of hidden states", dx.len(), Some(x.len()))?;
        dx.fill(0.0);
    }
    // The gradient is computed with f32 or bf16 products, so its logits must be too.
    let precision = match (precision, &dx) {
        (MatmulPrecision::Int8Activations, Some(_)) => MatmulPrecision::F32,
        (precision, _) => precision,
    };
    let trained: Vec<usize> = (0..tokens).filter(|row| targets.ids[*row] != IGNORE_INDEX).collect();
    let weight = |row: usize| targets.weights.map_or(1.0, |weights| weights[row]);
    let mut adapter: Option<LoraGradient> = None;
    for rows in trained.chunks(chunk_rows) {
        let hidden: Vec<f32> = rows.iter().flat_map(|row| &x[row * cols..][..cols]).copied().collect();
        let input = Input::new(&hidden, cols, norm, precision)?;
        let mut logits = Scratch::new(rows.len() * vocab);
        forward(&input, &[output], precision, &mut logits, Accumulate::Replace)?;
        let mut chunk_losses = vec![0.0; rows.len()];
        let scale = |row: usize| dx.is_some().then(|| targets.scale * weight(row));
        row_losses(&mut logits, rows, targets.ids, softcap, &scale, &mut chunk_losses);
        rows.iter()
            .zip(chunk_losses)
            .for_each(|(row, loss)| losses[*row] = loss);
        let Some(dx) = &mut dx else { continue };
        let mut d_hidden = vec![0.0; hidden.len()];
        let d_logits = View::all(&logits, rows.len(), vocab)?;
        let gradients = linears_backward(&[(output, d_logits)], &input.floats, precision, &mut d_hidden)?;
        if let Some(gradient) = gradients.into_iter().next().flatten() {
            match &mut adapter {
                None => adapter = Some(gradient),
                Some(sum) => {
                    add(&mut sum.a, &gradient.a);
                    add(&mut sum.b, &gradient.b);
                }
            }
        }
        if let Some(norm) = norm {
            rms_norm_backward_in_place(&hidden, norm.weight, norm.eps, &mut d_hidden)?;
        }
        for (row, gradient) in rows.iter().zip(d_hidden.chunks_exact(cols)) {
            dx[row * cols..][..cols].copy_from_slice(gradient);
        }
    }
    let sum = trained
        .iter()
        .map(|row| f64::from(weight(*row)) * f64::from(losses[*row]))
        .sum();
    Ok(Loss {
        sum,
        trained: trained.len(),
        adapter,
    })
}

/// Rows of a logit chunk. Depends only on the vocabulary, so that sums do not depend on the
/// machine.
fn rows_per_logit_chunk(vocab: usize) -> usize {
    (MAX_LOGIT_BYTES / size_of::<f32>() / vocab.max(1) / TILE * TILE).max(MIN_ROWS)
}

/// Computes the losses of rows of logits. If there is a scale, replaces the logits by the gradient.
fn row_losses(
    logits: &mut [f32],
    rows: &[usize],
    ids: &[u32],
    softcap: Option<f32>,
    scale: &(dyn Fn(usize) -> Option<f32> + Sync),
    losses: &mut [f32],
) {
    let (isa, vocab) = (Isa::best(), logits.len() / rows.len().max(1));
    let losses = team::Scattered::new(losses);
    team::run_over(logits, vocab, &|index, logits| {
        let (row, target) = (rows[index], ids[rows[index]] as usize);
        let loss = match scale(row) {
            Some(scale) => softmax::cross_entropy_row(isa, logits, target, scale, softcap),
            None => softmax::cross_entropy_loss_of_row(isa, logits, target, softcap),
        };
        // SAFETY: each row belongs to one work chunk.
        let row_loss = unsafe { losses.slice(index, 1) };
        row_loss[0] = loss;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Quant;
    use crate::matrix::{Layout, Matrix};
    use crate::reference::noise;

    const VOCAB: usize = 40;
    const COLS: usize = 24;
    const ROWS: usize = 50;

    struct Outcome {
        loss: Loss,
        losses: Vec<f32>,
        dx: Vec<f32>,
    }

    /// Loss and gradient in logit chunks of `chunk_rows` rows.
    fn loss_in_chunks(
        chunk_rows: usize,
        ids: &[u32],
        weights: Option<&[f32]>,
        softcap: Option<f32>,
    ) -> Result<Outcome, ShapeError> {
        let (x, weight) = (noise(1, ids.len() * COLS), noise(2, VOCAB * COLS));
        let matrix = Matrix::new(Quant::F32, Layout::Plain, VOCAB, COLS, bytemuck::cast_slice(&weight))?;
        let (a, b) = (noise(3, 2 * COLS), noise(4, 2 * VOCAB));
        let lora = Some(crate::Lora {
            a: &a,
            b: &b,
            rank: 2,
            scale: 1.0,
            dropout: None,
        });
        let output = Linear {
            lora,
            ..Linear::plain(matrix)
        };
        let targets = Targets {
            ids,
            weights,
            scale: 0.5,
        };
        let (mut losses, mut dx) = (vec![f32::NAN; ids.len()], vec![f32::NAN; x.len()]);
        let run = |losses: &mut [f32], dx| {
            in_logit_chunks(
                chunk_rows,
                &x,
                None,
                &output,
                softcap,
                &targets,
                MatmulPrecision::F32,
                losses,
                dx,
            )
        };
        let loss = run(&mut losses, Some(&mut dx))?;
        let mut losses_only = vec![f32::NAN; ids.len()];
        assert_eq!(
            run(&mut losses_only, None)?.sum,
            loss.sum,
            "the loss without a gradient"
        );
        Ok(Outcome { loss, losses, dx })
    }

    #[test]
    fn chunks_do_not_change_losses_and_untrained_rows_are_skipped() {
        let ids: Vec<u32> = (0..ROWS as u32)
            .map(|row| if row % 3 == 1 { IGNORE_INDEX } else { row % 40 })
            .collect();
        let weights = noise(5, ROWS);
        for softcap in [None, Some(2.0)] {
            let [whole, chunked] = [ROWS, 12].map(|rows| loss_in_chunks(rows, &ids, Some(&weights), softcap).unwrap());
            assert_eq!(
                (&whole.losses, &whole.dx, whole.loss.sum),
                (&chunked.losses, &chunked.dx, chunked.loss.sum)
            );
            assert_eq!(whole.loss.trained, 33);
            let (whole_a, chunked_a) = (whole.loss.adapter.unwrap().a, chunked.loss.adapter.unwrap().a);
            let wide_a = crate::reference::wide(&whole_a);
            assert!(crate::reference::relative_error(&chunked_a, &wide_a) < 1e-6);
            for (row, id) in ids.iter().enumerate() {
                let dx = &whole.dx[row * COLS..][..COLS];
                let is_zero = whole.losses[row] == 0.0 && dx.iter().all(|x| *x == 0.0);
                assert_eq!(is_zero, *id == IGNORE_INDEX, "row {row}");
            }
        }
        let untrained = loss_in_chunks(12, &[IGNORE_INDEX; 4], None, None).unwrap();
        assert_eq!(
            (untrained.loss.sum, untrained.loss.trained, untrained.dx),
            (0.0, 0, vec![0.0; 4 * COLS])
        );
    }

    #[test]
    fn invalid_targets_and_sizes_are_errors() {
        assert!(matches!(
            loss_in_chunks(12, &[1, 40], None, None),
            Err(ShapeError::Index { index: 40, .. })
        ));
        assert!(loss_in_chunks(12, &[1, 2], Some(&[1.0]), None).is_err());
    }
}
