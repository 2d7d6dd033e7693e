//! Fused AdamW over one tensor, Adam with decoupled weight decay, in one pass over the elements, as
//! `ggml_opt_step_adamw`.
//! <https://arxiv.org/abs/1711.05101>

use crate::isa::Isa;
use crate::lanes::on_lanes;
use crate::norm::squares;
use crate::shape::{self, ShapeError};

/// The scalars of a step, the same for all tensors. Computed in f64, as in PyTorch, and rounded to
/// f32 once, on use: `1 - 0.999` in f32 has a relative error of 1.3e-5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Multiplies each gradient before it is used.
    pub factor: f64,
    /// `1 - beta1`: weight of a gradient in the first moment.
    pub share_1: f64,
    /// `1 - beta2`: weight of a squared gradient in the second moment.
    pub share_2: f64,
    /// The learning rate divided by the bias correction of the first moment.
    pub rate: f64,
    /// Square root of the bias correction of the second moment.
    pub root: f64,
    /// Added to the denominator for numerical stability.
    pub epsilon: f64,
    /// The learning rate times the weight decay.
    pub decay: f64,
}

impl Step {
    /// The scalars of step `number`, counted from 1, with decoupled weight decay.
    pub fn new(number: usize, betas: [f64; 2], epsilon: f64, learning_rate: f64, weight_decay: f64) -> Self {
        let [correction_1, correction_2] = betas.map(|beta| 1.0 - beta.powf(number as f64));
        Self {
            factor: 1.0,
            share_1: 1.0 - betas[0],
            share_2: 1.0 - betas[1],
            rate: learning_rate / correction_1,
            root: correction_2.sqrt(),
            epsilon,
            decay: learning_rate * weight_decay,
        }
    }
}

on_lanes! {
    /// Updates both moments and the weight.
    fn update<L>(_l; step: Step, gradient: &[f32], first: &mut [f32], second: &mut [f32], weight: &mut [f32]) {
        let Step { factor, share_1, share_2, rate, root, epsilon, decay } = step;
        let [factor, share_1, share_2] = [factor, share_1, share_2].map(|x| x as f32);
        let [rate, root, epsilon, decay] = [rate, root, epsilon, decay].map(|x| x as f32);
        let means = first.iter_mut().zip(second);
        for ((gradient, (first, second)), weight) in gradient.iter().zip(means).zip(weight) {
            let gradient = gradient * factor;
            // As increments (lerp): `beta` and `1 - beta`, each rounded to f32, do not sum to 1,
            // and rounding `1 - decay` would change the decay by one percent.
            *first += (gradient - *first) * share_1;
            *second += (gradient * gradient - *second) * share_2;
            *weight -= *weight * decay + *first / (second.sqrt() / root + epsilon) * rate;
        }
    }
}

/// One optimizer step of a tensor, on this thread: updates both moments and the weight.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn step(
    step: Step,
    gradient: &[f32],
    [first, second]: [&mut [f32]; 2],
    weight: &mut [f32],
) -> Result<(), ShapeError> {
    shape::length("a gradient", gradient.len(), Some(weight.len()))?;
    shape::length("the first moment", first.len(), Some(weight.len()))?;
    shape::length("the second moment", second.len(), Some(weight.len()))?;
    update(Isa::best(), step, gradient, first, second, weight);
    Ok(())
}

/// The sum of the squares of a gradient, on this thread.
pub fn sum_of_squares(gradient: &[f32]) -> f32 {
    squares(Isa::best(), gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tensor's weight and moments after `steps` steps of PyTorch's AdamW in f64, from
    /// `tests/fixtures/training/adamw.py`.
    struct Expected {
        steps: usize,
        weight: [f64; 3],
        first: [f64; 3],
        second: [f64; 3],
    }

    const EXPECTED: &[Expected] = &[
        Expected {
            steps: 1,
            weight: [0.9997980000089214, -0.010199878522543192, 0.3001994119204357],
            first: [0.022418235242366785, 1.9742317817872384e-06, -0.42606539726257314],
            second: [5.025772713820969e-05, 3.8975911282188195e-13, 0.018153172274451453],
        },
        Expected {
            steps: 2,
            weight: [0.9996020979933364, -0.010384996337354683, 0.3003899496700641],
            first: [0.03501288250088691, 2.7252724248683073e-06, -0.6355896759033202],
            second: [7.221955593983112e-05, 4.79327715732933e-13, 0.024492014059218543],
        },
        Expected {
            steps: 10,
            weight: [0.9987614724598816, -0.011225826831661963, 0.3003385077796927],
            first: [0.053605030796588675, 5.5202259450793e-06, 0.43966828429309296],
            second: [0.00023222338378317897, 2.7313358250294953e-12, 0.19474821589646252],
        },
        Expected {
            steps: 100,
            weight: [0.9923425838418637, -0.017940159585499382, 0.29480047847518703],
            first: [0.07089675886552735, 6.820242427738363e-06, 0.8964525046916747],
            second: [0.0022908700816845996, 2.2840338556249093e-11, 1.8999808860911704],
        },
        Expected {
            steps: 1000,
            weight: [0.9320699315266207, -0.07580697609407208, 0.23478853925196191],
            first: [0.05986895274009751, 4.2246025363455505e-06, 2.617850178214822],
            second: [0.0147299130736686, 1.4710351188073475e-10, 13.325791961188576],
        },
        Expected {
            steps: 5000,
            weight: [0.664872952520768, -0.33483357849677986, -0.02675232017621643],
            first: [0.06445634162679126, 3.4232140634735613e-06, 1.996096862814084],
            second: [0.023202603757257315, 2.3052753336252286e-10, 20.874272472414624],
        },
    ];

    /// The gradient of a step, with different magnitudes and signs, as in the script.
    fn gradient(step: usize) -> [f32; 3] {
        let pseudo_random = |prime: usize| (step * prime % 1009) as f32 / 1009.0 - 0.4;
        [
            pseudo_random(7919),
            1e-4 * pseudo_random(104_729),
            30.0 * pseudo_random(1_299_709),
        ]
    }

    #[test]
    fn thousands_of_steps_match_pytorch_in_f64() {
        for isa in Isa::available() {
            let mut weight = [1.0, -0.01, 0.3];
            let (mut first, mut second) = ([0.0; 3], [0.0; 3]);
            let mut steps_done = 0;
            for expected in EXPECTED {
                for number in steps_done + 1..=expected.steps {
                    let step = Step::new(number, [0.9, 0.999], 1e-8, 2e-4, 0.01);
                    let step = Step { factor: 0.5, ..step };
                    update(isa, step, &gradient(number), &mut first, &mut second, &mut weight);
                }
                steps_done = expected.steps;
                let assert_near = |what: &str, actual: [f32; 3], expected: [f64; 3], tolerance: f64| {
                    for (actual, expected) in actual.into_iter().zip(expected) {
                        let error = (f64::from(actual) - expected).abs() / expected.abs();
                        assert!(
                            error < tolerance,
                            "{isa:?}, step {steps_done}: {what} is {actual}, not {expected}: {error:.1e}"
                        );
                    }
                };
                // An f32 rounding error, as in `1 - 0.999f32`, would be 1.3e-5.
                assert_near("the first moment", first, expected.first, 2e-6);
                assert_near("the second moment", second, expected.second, 2e-6);
                assert_near("the weight", weight, expected.weight, 2e-5);
            }
            assert!(steps_done >= 5000, "{steps_done}");
        }
    }
}
