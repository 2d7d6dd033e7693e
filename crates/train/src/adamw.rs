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

/// The optimizer's state: for each adapter the moments of `a` and of `b`.
#[derive(Debug, Clone)]
pub(crate) struct AdamW {
    pub means: Vec<[Moments; 2]>,
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
            means: parameters
                .pairs
                .iter()
                .map(|pair| [zeros(&pair.a), zeros(&pair.b)])
                .collect(),
            steps: 0,
        }
    }

    /// One step with the gradients times `factor`.
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
        let all = weights
            .zip(self.means.iter_mut().flatten())
            .zip(gradients.into_iter().flatten());
        let (mut in_memory, nothing) = (Vec::new(), tensor_of(Vec::new(), [0, 0], &Device::flex()));
        for ((weight, means), gradient) in all {
            if weight.device() == Device::flex() {
                in_memory.push(OnCpu::take(weight, means, gradient, &nothing));
                continue;
            }
            let gradient = gradient * step.factor;
            let square = gradient.clone() * gradient.clone();
            let first = means.first.clone() + (gradient - means.first.clone()) * step.share_1;
            let second = means.second.clone() + (square - means.second.clone()) * step.share_2;
            let quotient = first.clone() / (second.clone().sqrt() / step.root + step.epsilon);
            *weight = weight.clone() - (weight.clone() * step.decay + quotient * step.rate);
            *means = Moments { first, second };
        }
        team::run_over(&mut in_memory, 1, &|_, tensor| tensor[0].step(step));
        in_memory.into_iter().for_each(OnCpu::write_back);
    }
}

/// A tensor's values, moments and gradient in host memory, taken out of the tensor for the duration
/// of a step.
struct OnCpu<'a> {
    tensors: [&'a mut Tensor<2>; 3],
    numbers: [Vec<f32>; 3],
    gradient: Vec<f32>,
    shape: [usize; 2],
}

impl<'a> OnCpu<'a> {
    fn take(weight: &'a mut Tensor<2>, means: &'a mut Moments, gradient: Tensor<2>, nothing: &Tensor<2>) -> Self {
        let shape = gradient.dims();
        let mut tensors = [weight, &mut means.first, &mut means.second];
        // A tensor with a single owner is moved, not copied.
        let numbers = |tensor: Tensor<2>| tensor.into_data().try_into_vec().unwrap_or_default();
        Self {
            numbers: tensors
                .each_mut()
                .map(|tensor| numbers(std::mem::replace(tensor, nothing.clone()))),
            tensors,
            gradient: numbers(gradient),
            shape,
        }
    }

    fn step(&mut self, step: adamw::Step) {
        let [weight, first, second] = &mut self.numbers;
        let done = adamw::step(step, &self.gradient, [first, second], weight);
        // All four have the same shape.
        debug_assert_eq!(done, Ok(()));
    }

    fn write_back(self) {
        for (tensor, numbers) in self.tensors.into_iter().zip(self.numbers) {
            *tensor = tensor_of(numbers, self.shape, &Device::flex());
        }
    }
}

/// The L2 norm over all gradients.
pub(crate) fn norm(gradients: &[[Tensor<2>; 2]]) -> f64 {
    let gradients: Vec<&Tensor<2>> = gradients.iter().flatten().collect();
    let mut sums = vec![0.0; gradients.len()];
    team::run_over(&mut sums, 1, &|at, sum| {
        if gradients[at].device() == Device::flex() {
            sum[0] = f64::from(adamw::sum_of_squares(&values(gradients[at])));
        }
    });
    // GPU gradients are summed on the GPU, so that there is one read-back and not one per tensor.
    let mut on_gpus = Vec::<Tensor<1>>::new();
    for gradient in gradients {
        let device = gradient.device();
        if device == Device::flex() {
            continue;
        }
        let square = (gradient.clone() * gradient.clone()).sum();
        match on_gpus.iter_mut().find(|sum| sum.device() == device) {
            Some(sum) => *sum = sum.clone() + square,
            None => on_gpus.push(square),
        }
    }
    let of_gpus = on_gpus.into_iter().map(|sum| f64::from(sum.into_scalar::<f32>()));
    (sums.into_iter().sum::<f64>() + of_gpus.sum::<f64>()).sqrt()
}
