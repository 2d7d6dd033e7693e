//! AdamW: Adam with decoupled weight decay. <https://arxiv.org/abs/1711.05101>

use crate::parameters::Parameters;
use burn::tensor::{Device, Tensor};

/// How much of the mean of gradients is carried from step to step.
const BETA_1: f64 = 0.9;
/// The same of the mean of their squares.
const BETA_2: f64 = 0.999;
/// Keeps the quotient finite.
const EPSILON: f64 = 1e-8;

/// Both running means of one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    pub first: Tensor<2>,
    pub second: Tensor<2>,
}

/// The optimiser's memory: for each adapter the means of `a` and of `b`.
#[derive(Debug, Clone)]
pub(crate) struct AdamW {
    pub means: Vec<[Means; 2]>,
    /// Steps made.
    pub steps: usize,
}

impl AdamW {
    pub fn new(parameters: &Parameters) -> Self {
        let zeros = |tensor: &Tensor<2>| Means {
            first: tensor.zeros_like(),
            second: tensor.zeros_like(),
        };
        Self {
            means: parameters
                .pairs
                .iter()
                .map(|pair| [zeros(&pair.a), zeros(&pair.b)])
                .collect(),
            steps: 0,
        }
    }

    /// One step along gradients that are multiplied with `factor` first.
    pub fn step(
        &mut self,
        parameters: &mut Parameters,
        gradients: Vec<[Tensor<2>; 2]>,
        factor: f64,
        learning_rate: f64,
        weight_decay: f64,
    ) {
        self.steps += 1;
        let exponent = self.steps as i32;
        let rate = learning_rate / (1.0 - BETA_1.powi(exponent));
        let root = (1.0 - BETA_2.powi(exponent)).sqrt();
        let pairs = parameters.pairs.iter_mut().zip(&mut self.means).zip(gradients);
        for ((pair, means), gradients) in pairs {
            for ((weight, means), gradient) in [&mut pair.a, &mut pair.b].into_iter().zip(means).zip(gradients) {
                let gradient = gradient * factor;
                let first = means.first.clone() * BETA_1 + gradient.clone() * (1.0 - BETA_1);
                let second = means.second.clone() * BETA_2 + gradient.clone() * gradient * (1.0 - BETA_2);
                let step = first.clone() / (second.clone().sqrt() / root + EPSILON) * rate;
                *weight = weight.clone() * (1.0 - learning_rate * weight_decay) - step;
                *means = Means { first, second };
            }
        }
    }
}

/// The norm of all gradients together.
pub(crate) fn norm(gradients: &[[Tensor<2>; 2]]) -> f64 {
    // What lies on a GPU is summed there, so that it is asked once and not for every tensor.
    let (mut sum, mut on_gpus) = (0.0, Vec::<Tensor<1>>::new());
    for gradient in gradients.iter().flatten() {
        let square = (gradient.clone() * gradient.clone()).sum();
        let device = square.device();
        match on_gpus.iter_mut().find(|sum| sum.device() == device) {
            _ if device == Device::flex() => sum += f64::from(square.into_scalar::<f32>()),
            Some(sum) => *sum = sum.clone() + square,
            None => on_gpus.push(square),
        }
    }
    let of_gpus = on_gpus.into_iter().map(|sum| f64::from(sum.into_scalar::<f32>()));
    (sum + of_gpus.sum::<f64>()).sqrt()
}
