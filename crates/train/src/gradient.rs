//! The loss and gradient of a batch, with gradient checkpointing.
//!
//! The layers are split into groups. All groups but the last run forward without a tape, and their
//! inputs are saved. The last group and the loss run on a tape, forward and backward. Then each
//! earlier group is recomputed on a separate tape and continues the backward pass from the gradient
//! of its output. With one group nothing is recomputed; with one group per layer the tape never has
//! more than one layer's operations.
//! <https://arxiv.org/abs/1604.06174>

#[cfg(test)]
mod pytorch;

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
    /// Factor of the sum of the losses.
    pub scale: f32,
    pub dropout: Option<DropoutPass>,
}

/// The sum of a batch's losses times `scale`, and its gradient with respect to each adapter's `a`
/// and `b`.
pub(crate) fn batch_gradient(
    decoder: &Decoder,
    parameters: &Parameters,
    batch: &Batch,
    options: &GradientOptions,
) -> (f64, Vec<[Tensor<2>; 2]>) {
    let _awake = team::enter();
    let untracked = parameters.attach(decoder, options.dropout);
    let (tracked, leaves) = parameters.attach_tracked(decoder, options.dropout);
    let layers = decoder.layers().len();
    let run = |decoder: &Decoder, x: Tensor<2>, group: &std::ops::Range<usize>| {
        group.clone().fold(x, |x, layer| {
            decoder.run_layer(x, layer, &batch.rows, options.precision)
        })
    };

    let groups: Vec<_> = groups(layers, options.layers_on_tape).collect();
    let mut inputs = Vec::with_capacity(groups.len());
    let mut x = untracked.embed(batch.ids.clone());
    for (index, group) in groups.iter().enumerate() {
        inputs.push(x.clone());
        if index + 1 < groups.len() {
            x = run(&untracked, x, group);
        }
    }
    drop(x);

    let mut gradients: Vec<Option<[Tensor<2>; 2]>> = vec![None; leaves.len()];
    let (mut loss, mut output_gradient) = (0.0, None);
    for (index, group) in groups.iter().enumerate().rev() {
        let Some(input) = inputs.pop() else { break };
        // The embedding is frozen and needs no gradient.
        let input = match index {
            0 => input.autodiff(),
            _ => input.autodiff().require_grad(),
        };
        let output = run(&tracked, input.clone(), group);
        let root = match output_gradient.take() {
            None => {
                let scaled_loss = tracked.loss(output, batch.targets.clone(), options.scale, options.precision);
                loss = f64::from(scaled_loss.clone().into_scalar::<f32>());
                scaled_loss
            }
            // d(output · gradient) / d(output) = gradient, which starts this group's backward pass.
            Some(gradient) => (output * Tensor::from_inner(gradient)).sum(),
        };
        let mut tape_gradients = root.backward();
        output_gradient = input.grad_remove(&mut tape_gradients);
        for ((leaves, pair), gradient) in leaves.iter().zip(&parameters.pairs).zip(&mut gradients) {
            if group.contains(&pair.layer) {
                let [a, b] = leaves.each_ref().map(|leaf| leaf.grad_remove(&mut tape_gradients));
                *gradient = a.zip(b).map(|(a, b)| [a, b]);
            }
        }
    }
    let zeros = |leaves: &[Tensor<2>; 2]| leaves.each_ref().map(|leaf| leaf.clone().inner().zeros_like());
    let gradients = gradients.into_iter().zip(&leaves);
    (
        loss,
        gradients
            .map(|(gradient, leaves)| gradient.unwrap_or_else(|| zeros(leaves)))
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

/// Splits the layers into groups of `size`; the first group has the remainder.
fn groups(layers: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = size.clamp(1, layers.max(1));
    let remainder = layers % size;
    let full = (remainder..layers).step_by(size).map(move |start| start..start + size);
    std::iter::once(0..remainder)
        .filter(|group| !group.is_empty())
        .chain(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_in_one_group() {
        for layers in 1..12 {
            for size in 1..14 {
                let grouped: Vec<usize> = groups(layers, size).flatten().collect();
                assert_eq!(grouped, (0..layers).collect::<Vec<_>>());
                assert!(groups(layers, size).all(|group| group.len() <= size));
            }
        }
        assert_eq!(groups(30, 30).count(), 1);
    }
}
