//! The loss and gradient of a batch, with gradient checkpointing.
//!
//! The layers are split into groups. All groups but the last run forward without a tape, and their
//! inputs are saved; the last one runs on a tape, through the loss, and backward. Then each earlier
//! group is recomputed on a separate tape, with the gradient of its output. With one group this is
//! an ordinary tape; with one group per layer the tape has one layer's operations at a time.
//! <https://arxiv.org/abs/1604.06174>

use crate::batch::Batch;
use crate::parameters::{DropoutPass, Parameters};
use burn::tensor::Tensor;
use hearth_kernels::team;
use hearth_llm::Decoder;
use hearth_llm::ops::MatmulPrecision;

/// Options of a gradient computation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GradientOptions {
    pub precision: MatmulPrecision,
    pub layers_on_tape: usize,
    /// Multiplies the sum of the losses.
    pub scale: f32,
    pub drop: Option<DropoutPass>,
}

/// `scale` times the sum of a batch's losses, and the gradient of that for each adapter's `a` and
/// `b`.
pub(crate) fn of_batch(
    decoder: &Decoder,
    parameters: &Parameters,
    batch: &Batch,
    options: &GradientOptions,
) -> (f64, Vec<[Tensor<2>; 2]>) {
    let _awake = team::enter();
    let plain = parameters.attach(decoder, options.drop);
    let (tracked, leaves) = parameters.attach_tracked(decoder, options.drop);
    let layers = decoder.layers().len();
    let run = |decoder: &Decoder, x: Tensor<2>, group: &std::ops::Range<usize>| {
        group.clone().fold(x, |x, layer| {
            decoder.run_layer(x, layer, &batch.rows, options.precision)
        })
    };

    let groups: Vec<_> = groups(layers, options.layers_on_tape).collect();
    let mut inputs = Vec::with_capacity(groups.len());
    let mut x = plain.embed(batch.ids.clone());
    for (at, group) in groups.iter().enumerate() {
        inputs.push(x.clone());
        if at + 1 < groups.len() {
            x = run(&plain, x, group);
        }
    }
    drop(x);

    let mut gradients: Vec<Option<[Tensor<2>; 2]>> = vec![None; leaves.len()];
    let (mut loss, mut of_output) = (0.0, None);
    for (at, group) in groups.iter().enumerate().rev() {
        let Some(input) = inputs.pop() else { break };
        // The embedding is frozen and needs no gradient.
        let input = match at {
            0 => input.autodiff(),
            _ => input.autodiff().require_grad(),
        };
        let output = run(&tracked, input.clone(), group);
        let value = match of_output.take() {
            None => {
                let value = tracked.loss(output, batch.targets.clone(), options.scale, options.precision);
                loss = f64::from(value.clone().into_scalar::<f32>());
                value
            }
            // The inner product with the output's gradient has that as its gradient.
            Some(gradient) => (output * Tensor::from_inner(gradient)).sum(),
        };
        let mut found = value.backward();
        of_output = input.grad_remove(&mut found);
        for ((leaves, pair), gradient) in leaves.iter().zip(&parameters.pairs).zip(&mut gradients) {
            if group.contains(&pair.layer) {
                let [a, b] = leaves.each_ref().map(|leaf| leaf.grad_remove(&mut found));
                *gradient = a.zip(b).map(|(a, b)| [a, b]);
            }
        }
    }
    let zeros = |leaves: &[Tensor<2>; 2]| leaves.each_ref().map(|leaf| leaf.clone().inner().zeros_like());
    let gradients = gradients.into_iter().zip(&leaves);
    (
        loss,
        gradients
            .map(|(found, leaves)| found.unwrap_or_else(|| zeros(leaves)))
            .collect(),
    )
}

/// The sum of a batch's losses, forward only.
pub fn loss(decoder: &Decoder, batch: &Batch, precision: MatmulPrecision) -> f64 {
    let _awake = team::enter();
    let hidden = decoder.hidden(batch.ids.clone(), &batch.rows, precision);
    f64::from(
        decoder
            .loss(hidden, batch.targets.clone(), 1.0, precision)
            .into_scalar::<f32>(),
    )
}

/// Layers in groups of `size`; the remainder is the first group.
fn groups(layers: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = size.clamp(1, layers.max(1));
    let first = layers % size;
    let whole = (first..layers).step_by(size).map(move |start| start..start + size);
    std::iter::once(0..first).filter(|group| !group.is_empty()).chain(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_in_one_group() {
        for layers in 1..12 {
            for size in 1..14 {
                let all: Vec<usize> = groups(layers, size).flatten().collect();
                assert_eq!(all, (0..layers).collect::<Vec<_>>());
                assert!(groups(layers, size).all(|group| group.len() <= size));
            }
        }
        assert_eq!(groups(30, 30).count(), 1);
    }
}
