//! AdamW: Adam with decoupled weight decay. <https://arxiv.org/abs/1711.05101>

use crate::parameters::{Parameters, tensor as tensor_of, values};
use burn::tensor::{Device, Tensor};
use hearth_kernels::{adamw, team};

/// Decay rates of the first and second moments.
const BETAS: [f64; 2] = [0.9, 0.999];
/// Added to the denominator for numerical stability.
const EPSILON: f64 = 1e-8;

/// First and second moments of one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    pub first: Tensor<2>,
    pub second: Tensor<2>,
}

/// The optimizer's state.
#[derive(Debug, Clone)]
pub(crate) struct AdamW {
    /// The moments of each adapter's `a` and `b`.
    pub moments: Vec<[Moments; 2]>,
    /// Steps taken.
    pub steps: usize,
}

impl AdamW {
    pub fn new(parameters: &Parameters) -> Self {
        let zeros = |tensor: &Tensor<2>| Moments {
            first: tensor.zeros_like(),
            second: tensor.zeros_like(),
        };
        Self {
            moments: parameters
                .pairs
                .iter()
                .map(|pair| [zeros(&pair.a), zeros(&pair.b)])
                .collect(),
            steps: 0,
        }
    }

    /// Updates `parameters` once. The gradients are multiplied by `factor` first.
    pub fn step(
        &mut self,
        parameters: &mut Parameters,
        gradients: Vec<[Tensor<2>; 2]>,
        factor: f64,
        learning_rate: f64,
        weight_decay: f64,
    ) {
        self.steps += 1;
        let step = adamw::Step::new(self.steps, BETAS, EPSILON, learning_rate, weight_decay);
        let step = adamw::Step { factor, ..step };
        let weights = parameters.pairs.iter_mut().flat_map(|pair| [&mut pair.a, &mut pair.b]);
        let updates = weights
            .zip(self.moments.iter_mut().flatten())
            .zip(gradients.into_iter().flatten());
        let (mut host_updates, empty) = (Vec::new(), tensor_of(Vec::new(), [0, 0], &Device::flex()));
        for ((weight, moments), gradient) in updates {
            if weight.device() == Device::flex() {
                host_updates.push(HostUpdate::take(weight, moments, gradient, &empty));
                continue;
            }
            let gradient = gradient * step.factor;
            let square = gradient.clone() * gradient.clone();
            let first = moments.first.clone() + (gradient - moments.first.clone()) * step.share_1;
            let second = moments.second.clone() + (square - moments.second.clone()) * step.share_2;
            let quotient = first.clone() / (second.clone().sqrt() / step.root + step.epsilon);
            *weight = weight.clone() - (weight.clone() * step.decay + quotient * step.rate);
            *moments = Moments { first, second };
        }
        team::run_over(&mut host_updates, 1, &|_, update| update[0].step(step));
        host_updates.into_iter().for_each(HostUpdate::write_back);
    }
}

/// The update of a weight in host memory. Its values are taken out of the tensors for the duration
/// of a step.
struct HostUpdate<'a> {
    /// The weight and its first and second moment; empty until [`HostUpdate::write_back`].
    tensors: [&'a mut Tensor<2>; 3],
    /// The values of `tensors`.
    values: [Vec<f32>; 3],
    gradient: Vec<f32>,
    shape: [usize; 2],
}

impl<'a> HostUpdate<'a> {
    fn take(weight: &'a mut Tensor<2>, moments: &'a mut Moments, gradient: Tensor<2>, empty: &Tensor<2>) -> Self {
        let shape = gradient.dims();
        let mut tensors = [weight, &mut moments.first, &mut moments.second];
        // A tensor with a single owner is moved, not copied.
        let into_values = |tensor: Tensor<2>| tensor.into_data().try_into_vec().unwrap_or_default();
        Self {
            values: tensors
                .each_mut()
                .map(|tensor| into_values(std::mem::replace(tensor, empty.clone()))),
            tensors,
            gradient: into_values(gradient),
            shape,
        }
    }

    fn step(&mut self, step: adamw::Step) {
        let [weight, first, second] = &mut self.values;
        let result = adamw::step(step, &self.gradient, [first, second], weight);
        // All four have the same shape.
        debug_assert_eq!(result, Ok(()));
    }

    fn write_back(self) {
        for (tensor, values) in self.tensors.into_iter().zip(self.values) {
            *tensor = tensor_of(values, self.shape, &Device::flex());
        }
    }
}

/// The L2 norm over all gradients.
pub(crate) fn norm(gradients: &[[Tensor<2>; 2]]) -> f64 {
    let gradients: Vec<&Tensor<2>> = gradients.iter().flatten().collect();
    let mut sums = vec![0.0; gradients.len()];
    team::run_over(&mut sums, 1, &|index, sum| {
        if gradients[index].device() == Device::flex() {
            sum[0] = f64::from(adamw::sum_of_squares(&values(gradients[index])));
        }
    });
    // Summed on each GPU, so that there is one read-back per GPU and not one per tensor.
    let mut gpu_sums = Vec::<Tensor<1>>::new();
    for gradient in gradients {
        let device = gradient.device();
        if device == Device::flex() {
            continue;
        }
        let square = (gradient.clone() * gradient.clone()).sum();
        match gpu_sums.iter_mut().find(|sum| sum.device() == device) {
            Some(sum) => *sum = sum.clone() + square,
            None => gpu_sums.push(square),
        }
    }
    let gpu_sums = gpu_sums.into_iter().map(|sum| f64::from(sum.into_scalar::<f32>()));
    (sums.into_iter().sum::<f64>() + gpu_sums.sum::<f64>()).sqrt()
}
