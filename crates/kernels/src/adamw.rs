//! AdamW on the numbers of one tensor: Adam with decoupled weight decay, everything in one pass. <https://arxiv.org/abs/1711.05101>

use crate::dot::Isa;
use crate::lanes::on_lanes;
use crate::norm::squares;
use crate::shape::{self, ShapeError};

/// What a step is to do, the same for all tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Gradients are multiplied with this first.
    pub factor: f32,
    /// How much of the mean of gradients is carried from step to step.
    pub beta_1: f32,
    /// The same of the mean of their squares.
    pub beta_2: f32,
    /// The learning rate over what the mean of gradients falls short by in the first steps.
    pub rate: f32,
    /// The root of what the mean of squares falls short by.
    pub root: f32,
    /// Keeps the quotient finite.
    pub epsilon: f32,
    /// What is left of a weight before it moves.
    pub kept: f32,
}

on_lanes! {
    fn update<L>(_l; step: Step, gradient: &[f32], first: &mut [f32], second: &mut [f32], weight: &mut [f32]) {
        let means = first.iter_mut().zip(second);
        for ((gradient, (first, second)), weight) in gradient.iter().zip(means).zip(weight) {
            let gradient = gradient * step.factor;
            *first = *first * step.beta_1 + gradient * (1.0 - step.beta_1);
            *second = *second * step.beta_2 + gradient * gradient * (1.0 - step.beta_2);
            *weight = *weight * step.kept - *first / (second.sqrt() / step.root + step.epsilon) * step.rate;
        }
    }
}

/// One step of a tensor, on this thread: both means grow by the gradient, and the weight moves.
///
/// # Errors
/// Where the four are not of one length.
pub fn step(
    step: Step,
    gradient: &[f32],
    [first, second]: [&mut [f32]; 2],
    weight: &mut [f32],
) -> Result<(), ShapeError> {
    shape::length("a gradient", gradient.len(), Some(weight.len()))?;
    shape::length("the mean of gradients", first.len(), Some(weight.len()))?;
    shape::length("the mean of squares", second.len(), Some(weight.len()))?;
    update(Isa::best(), step, gradient, first, second, weight);
    Ok(())
}

/// The sum of the squares of a gradient, on this thread.
pub fn sum_of_squares(gradient: &[f32]) -> f32 {
    squares(Isa::best(), gradient)
}
