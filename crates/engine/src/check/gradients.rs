//! Gradient checks on any device: compares the gradients of ops on Burn's tape with finite
//! differences of the f64 formulas, and at the sizes of models with the CPU's gradients.

use super::case::{Case, Executor, LinearShape, Op, Source};
use super::cases;
use super::compare::{error, tolerance};
use super::on_device::{OnDevice, probe};
use super::reference::Formula;
use burn::tensor::Device;
use hearth_kernels::Quant;
use hearth_kernels::attention::Heads;
use hearth_kernels::gradients::GradientCheck;
use hearth_kernels::reference::{central_differences, relative_error, wide};
use hearth_kernels::rope::Pairing;
use hearth_llm::ops::{Activation, MatmulPrecision};
use hearth_llm::{Place, device};
use std::error::Error;

/// Tolerance of a gradient in f32, relative to its norm.
const F32: f64 = 1e-4;
/// Tolerance of a gradient with rounded factors or saved activations.
const ROUNDED: f64 = 5e-2;

/// Rank of the adapters: small, since finite differences evaluate each element twice.
const RANK: usize = 5;

/// Checks every gradient of the ops on a device, and reports each.
///
/// # Errors
/// The device cannot be opened, or failed.
pub fn check(place: Place, report: &mut dyn FnMut(GradientCheck)) -> Result<(), Box<dyn Error>> {
    let device = OnDevice(device::open(place)?);
    for case in small_cases() {
        compare_with_differences(&case, &device, report)?;
    }
    if place == Place::Cpu {
        return Ok(());
    }
    let cpu = OnDevice(Device::flex());
    let backward = cases::cases(device::has_matrix_units(place)?).into_iter();
    for case in backward.filter(|case| case.backward) {
        compare_with_cpu(&case, &device, &cpu, report)?;
    }
    Ok(())
}

/// Cases small enough for finite differences of every input, with 3 and 11 tokens, in every format.
fn small_cases() -> Vec<Case> {
    let linear = |quant, rows, cols| LinearShape {
        bias: true,
        ..LinearShape::new(quant, rows, cols).adapted(RANK)
    };
    let mut cases = Vec::new();
    for tokens in [3, 11] {
        let linears = [Quant::Q5_0, Quant::F16, Quant::Q8_0].map(|quant| linear(quant, 21, 64));
        cases.push(Case::new(Op::NormLinears(linears.to_vec()), tokens));
        for (norm, scale) in [(false, 1.0), (true, 1.0), (true, 0.22)] {
            let linear = linear(Quant::Q4_K, 21, 256);
            cases.push(Case::new(Op::LinearAdd { linear, norm, scale }, tokens));
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let op = Op::FeedForward {
                    gated: [linear_without_bias(64, 32), linear_without_bias(64, 32)],
                    down: linear_without_bias(32, 64),
                    activation,
                    norm,
                    scale,
                };
                cases.push(Case::new(op, tokens));
            }
        }
        // Logits are about as large as inputs.
        for softcap in [None, Some(1.0)] {
            let output = LinearShape::new(Quant::Q8_0, 37, 64);
            cases.push(Case::new(Op::CrossEntropy { output, softcap }, tokens));
        }
    }
    for quant in Quant::ALL {
        let op = Op::LinearAdd {
            linear: LinearShape::new(quant, 5, quant.block_elements().max(32)),
            norm: false,
            scale: 0.22,
        };
        cases.push(Case::new(op, 11));
    }
    cases.extend(attention_cases());
    let rounded: Vec<Case> = cases
        .iter()
        .filter(|case| case.tokens == 11 && case.op.linears().iter().any(|linear| linear.rank.is_some()))
        .map(|case| Case {
            precision: MatmulPrecision::Bf16,
            ..case.clone()
        })
        .collect();
    cases.extend(rounded);
    cases.into_iter().map(Case::backward).collect()
}

fn linear_without_bias(cols: usize, rows: usize) -> LinearShape {
    LinearShape::new(Quant::Q4_1, rows, cols).adapted(RANK)
}

fn attention_cases() -> Vec<Case> {
    let lengths = vec![7, 1, 9];
    let mut cases = Vec::new();
    for (pairing, norms) in [(Pairing::Interleaved, false), (Pairing::Halves, true)] {
        for (window, softcap) in [(None, None), (Some(3), None), (None, Some(1.5))] {
            let op = Op::Attend {
                heads: Heads {
                    heads: 4,
                    kv_heads: 2,
                    head_dim: 16,
                    scale: 0.5,
                    softcap,
                    window,
                },
                pairing,
                norms,
                source: Source::Batch(lengths.clone()),
            };
            cases.push(Case::new(op, lengths.iter().sum()));
        }
    }
    cases
}

fn compare_with_differences(
    case: &Case,
    device: &dyn Executor,
    report: &mut dyn FnMut(GradientCheck),
) -> Result<(), Box<dyn Error>> {
    let (leaves, formula) = (case.leaves(), Formula::from_case(case)?);
    let values: Vec<Vec<f64>> = leaves.iter().map(|leaf| wide(&leaf.values)).collect();
    let probe = wide(&probe(case, formula.output(&values).len()));
    let outputs = device.run(case)?;
    for (index, leaf) in leaves.iter().enumerate() {
        let expected = central_differences(&values[index], &probe, |changed| {
            let mut values = values.clone();
            values[index] = changed.to_vec();
            formula.output(&values)
        });
        let name = format!("the gradient of {}", leaf.name);
        let actual = outputs.iter().find(|output| output.name == name);
        report(GradientCheck {
            op: case.op.name(),
            arrangement: format!("{}, {} against differences", leaf.name, case.arrangement()),
            error: actual.map_or(f64::INFINITY, |actual| relative_error(&actual.values, &expected)),
            tolerance: if case.precision == MatmulPrecision::F32 {
                F32
            } else {
                ROUNDED
            },
        });
    }
    Ok(())
}

fn compare_with_cpu(
    case: &Case,
    device: &dyn Executor,
    cpu: &dyn Executor,
    report: &mut dyn FnMut(GradientCheck),
) -> Result<(), Box<dyn Error>> {
    let (actual, expected) = (device.run(case)?, cpu.run(&case.exact())?);
    for expected in expected {
        let actual = actual.iter().find(|output| output.name == expected.name);
        report(GradientCheck {
            op: case.op.name(),
            arrangement: format!("{}, {} against the CPU", expected.name, case.arrangement()),
            error: actual.map_or(f64::INFINITY, |actual| error(actual, &expected)),
            tolerance: tolerance(case),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::case::Output;
    use super::*;

    fn checks(executor: &dyn Executor) -> Vec<GradientCheck> {
        let mut checks = Vec::new();
        for case in small_cases() {
            compare_with_differences(&case, executor, &mut |check| checks.push(check)).expect("it runs");
        }
        checks
    }

    #[test]
    fn the_cpus_gradients_match_finite_differences() {
        for check in checks(&OnDevice(Device::flex())) {
            assert!(check.passed(), "{check:?}");
        }
    }

    /// The CPU with the maximum of each gradient halved.
    struct WrongMaximum;

    impl Executor for WrongMaximum {
        fn run(&self, case: &Case) -> Result<Vec<Output>, Box<dyn Error>> {
            let mut outputs = OnDevice(Device::flex()).run(case)?;
            let gradients = outputs
                .iter_mut()
                .filter(|output| output.name.starts_with("the gradient"));
            for gradient in gradients {
                let maximum = gradient.values.iter_mut().max_by(|a, b| a.abs().total_cmp(&b.abs()));
                *maximum.expect("a gradient") *= 0.5;
            }
            Ok(outputs)
        }
    }

    #[test]
    fn one_wrong_element_of_a_gradient_fails() {
        let mut exact = 0;
        // With rounded factors, an error of one element by half may be within tolerance.
        for check in checks(&WrongMaximum).iter().filter(|check| check.tolerance == F32) {
            assert!(!check.passed(), "{check:?}");
            exact += 1;
        }
        assert!(exact > 0);
        let cpu = OnDevice(Device::flex());
        for case in cases::cases(false).into_iter().filter(|case| case.backward) {
            let mut wrong = 0;
            compare_with_cpu(&case, &WrongMaximum, &cpu, &mut |check| {
                wrong += usize::from(!check.passed());
            })
            .expect("it runs");
            assert!(wrong > 0, "{case}");
        }
    }
}
