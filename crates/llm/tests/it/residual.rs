//! The sums of the residual stream: its factor, and linear layers without a norm before
//! them. Forward against f64, and the gradients of the tape.

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use hearth_kernels::reference::{self, central_differences, noise, relative_error, wide};
use hearth_kernels::{Layout, Quant};
use hearth_llm::ops::{
    Activation, Adapter, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, OptionalNorm, feed_forward,
    linear_add, norm_linears,
};

const TOKENS: usize = 3;
const WIDTH: usize = 8;
const INNER: usize = 6;
const RANK: usize = 2;
const EPS: f32 = 1e-3;
/// Relative tolerance of sums of at most eight products in f32.
const TOLERANCE: f64 = 1e-5;
/// Relative tolerance of gradients, as in `hearth_kernels::gradients`.
const GRADIENTS: f64 = 1e-4;
const F32: MatmulPrecision = MatmulPrecision::F32;

fn device() -> Device {
    Device::flex().autodiff()
}

fn matrix(values: Vec<f32>, rows: usize, cols: usize) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, [rows, cols]), &device())
}

fn trainable(seed: u64, rows: usize, cols: usize) -> Tensor<2> {
    matrix(noise(seed, rows * cols), rows, cols).require_grad()
}

fn vector(values: Vec<f32>) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), &device())
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("f32")
}

/// A linear layer with an adapter and a bias, its formula, and the adapter's `a` and `b`.
struct TestLinear {
    linear: Linear<Dispatch>,
    formula: reference::Linear,
    adapter: [Tensor<2>; 2],
}

impl TestLinear {
    fn new(seed: u64, rows: usize, cols: usize) -> Self {
        let (weight, bias) = (noise(seed, rows * cols), noise(seed + 3, rows));
        let adapter = [trainable(seed + 1, RANK, cols), trainable(seed + 2, rows, RANK)];
        let bytes: Vec<u8> = weight.iter().flat_map(|x| x.to_le_bytes()).collect();
        let length = bytes.len();
        let blocks = Tensor::<1, Int>::from_data(TensorData::new(bytes, [length]), (&device(), DType::U8));
        let formula = reference::Linear {
            weight: wide(&weight),
            rows,
            cols,
            scale: 0.5,
            lora: Some(reference::Lora {
                a: wide(&noise(seed + 1, RANK * cols)),
                b: wide(&noise(seed + 2, rows * RANK)),
                scale: 1.5,
                mask: None,
            }),
            bias: Some(wide(&bias)),
        };
        let linear = Linear {
            weight: blocks.into_dispatch(),
            spec: MatrixSpec {
                quant: Quant::F32,
                layout: Layout::Plain,
                rows,
                cols,
                scale: 0.5,
            },
            adapter: Adapter::Lora {
                a: adapter[0].clone().into_dispatch(),
                b: adapter[1].clone().into_dispatch(),
                scale: 1.5,
                dropout: None,
            },
            bias: Bias::Add(vector(bias).into_dispatch()),
        };
        Self {
            linear,
            formula,
            adapter,
        }
    }
}

/// The gradients of these tensors, if the output has this gradient.
fn gradients(out: Tensor<2>, probe: &[f32], tensors: &[&Tensor<2>]) -> Vec<Vec<f32>> {
    let [rows, cols] = out.dims();
    let gradients = (out * matrix(probe.to_vec(), rows, cols)).sum().backward();
    let gradient = |tensor: &&Tensor<2>| values(tensor.grad(&gradients).expect("it has a gradient"));
    tensors.iter().map(gradient).collect()
}

fn halved(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| 0.5 * x).collect()
}

#[track_caller]
fn assert_near(what: &str, actual: &[f32], expected: &[f64], tolerance: f64) {
    let error = relative_error(actual, expected);
    assert!(error <= tolerance, "{what}: off by {error}");
}

/// The output of [`linear_add`], and the gradients of the residual, of `h`, and of the adapter.
fn run_linear_add(scale: f32, has_norm: bool) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (residual, h) = (trainable(1, TOKENS, WIDTH), trainable(2, TOKENS, INNER));
    let layer = TestLinear::new(10, WIDTH, INNER);
    let norm = if has_norm {
        OptionalNorm::Norm(vector(noise(3, WIDTH)).into_dispatch(), EPS)
    } else {
        OptionalNorm::None
    };
    let out = linear_add(residual.clone(), h.clone(), &layer.linear, &norm, scale, F32);
    let [a, b] = &layer.adapter;
    let gradients = gradients(out.clone(), &noise(4, TOKENS * WIDTH), &[&residual, &h, a, b]);
    (values(out), gradients)
}

/// A factor of one half changes no mantissa, so gradients are halved exactly.
#[test]
fn the_factor_of_a_branch_is_in_its_gradients_and_not_in_the_residuals() {
    for has_norm in [false, true] {
        let mut branch = TestLinear::new(10, WIDTH, INNER)
            .formula
            .over(&wide(&noise(2, TOKENS * INNER)));
        if has_norm {
            branch = reference::rms_norm(&branch, &wide(&noise(3, WIDTH)), f64::from(EPS));
        }
        for scale in [1.0_f32, 0.5, 0.22, -3.0] {
            let (actual, _) = run_linear_add(scale, has_norm);
            let add = |(residual, y): (f64, &f64)| residual + f64::from(scale) * y;
            let residual = wide(&noise(1, TOKENS * WIDTH)).into_iter();
            let expected: Vec<f64> = residual.zip(&branch).map(add).collect();
            assert_near(&format!("the sum, times {scale}"), &actual, &expected, TOLERANCE);
        }
        let [(_, whole), (_, half)] = [1.0, 0.5].map(|scale| run_linear_add(scale, has_norm));
        assert_eq!(whole[0], noise(4, TOKENS * WIDTH));
        assert_eq!(half[0], whole[0]);
        for (whole, half) in whole.iter().zip(&half).skip(1) {
            assert_eq!(*half, halved(whole), "norm after: {has_norm}");
        }
    }
}

#[test]
fn a_feed_forward_may_have_no_norm_and_a_factor() {
    let [gate, up] = [20, 30].map(|seed| TestLinear::new(seed, INNER, WIDTH));
    let down = TestLinear::new(40, WIDTH, INNER);
    let probe = noise(6, TOKENS * WIDTH);
    let run = |scale: f32| {
        let x = trainable(5, TOKENS, WIDTH);
        let gated = Gated {
            norm: OptionalNorm::None,
            gate: gate.linear.clone(),
            up: up.linear.clone(),
            activation: Activation::Silu,
        };
        let out = feed_forward(x.clone(), &gated, &down.linear, &OptionalNorm::None, scale, F32);
        let adapters = [&gate, &up, &down].into_iter().flat_map(|linear| &linear.adapter);
        let tensors: Vec<&Tensor<2>> = std::iter::once(&x).chain(adapters).collect();
        let gradients = gradients(out.clone(), &probe, &tensors);
        (values(out), gradients)
    };
    let forward = |x: &[f64], scale: f32| -> Vec<f64> {
        let h = reference::gated(Activation::Silu, &gate.formula.over(x), &up.formula.over(x));
        let branch = down.formula.over(&h);
        x.iter().zip(branch).map(|(x, y)| x + f64::from(scale) * y).collect()
    };
    let x = wide(&noise(5, TOKENS * WIDTH));
    for scale in [1.0, 0.5, -1.5] {
        let (actual, gradients) = run(scale);
        assert_near(
            &format!("the sum, times {scale}"),
            &actual,
            &forward(&x, scale),
            TOLERANCE,
        );
        let expected = central_differences(&x, &wide(&probe), |x| forward(x, scale));
        assert_near(
            &format!("the gradient, times {scale}"),
            &gradients[0],
            &expected,
            TOLERANCE,
        );
    }
    let [(_, whole), (_, half)] = [1.0, 0.5].map(run);
    assert_eq!(whole.len(), 1 + 2 * 3);
    for (whole, half) in whole.iter().zip(&half).skip(1) {
        assert_eq!(*half, halved(whole));
    }
}

/// The second of three linear layers has no adapter. The gradients of the others belong to their
/// own adapters.
#[test]
fn linears_without_a_norm_have_the_gradients_of_their_own_adapters() {
    let [q, k, v] = [50, 60, 70].map(|seed| TestLinear::new(seed, 4, WIDTH));
    let without_adapter = Linear {
        adapter: Adapter::None,
        ..k.linear.clone()
    };
    let formula_of_k = reference::Linear {
        lora: None,
        ..k.formula.clone()
    };
    let linears = Linears::Three(q.linear.clone(), without_adapter, v.linear.clone());
    let (x, probe) = (trainable(7, TOKENS, WIDTH), noise(8, TOKENS * 3 * 4));
    let out = norm_linears(x.clone(), &OptionalNorm::None, &linears, F32);
    let forward = |x: &[f64]| -> Vec<f64> {
        let outputs = [&q.formula, &formula_of_k, &v.formula].map(|linear| linear.over(x));
        let row = |token: usize| outputs.iter().flat_map(move |y| y[4 * token..][..4].to_vec());
        (0..TOKENS).flat_map(row).collect()
    };
    let wide_x = wide(&noise(7, TOKENS * WIDTH));
    assert_near("the output", &values(out.clone()), &forward(&wide_x), TOLERANCE);
    let tensors = [&x, &q.adapter[0], &q.adapter[1], &v.adapter[0], &v.adapter[1]];
    let actual = gradients(out, &probe, &tensors);
    let expected = central_differences(&wide_x, &wide(&probe), forward);
    assert_near("the gradient of x", &actual[0], &expected, GRADIENTS);
    for (layer, column, actual) in [(&q, 0, &actual[1..3]), (&v, 8, &actual[3..5])] {
        let alone = norm_linears(x.clone(), &OptionalNorm::None, &Linears::One(layer.linear.clone()), F32);
        let columns: Vec<f32> = probe.chunks(12).flat_map(|row| row[column..][..4].to_vec()).collect();
        let [a, b] = &layer.adapter;
        let expected = gradients(alone, &columns, &[a, b]);
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_near("the gradient of an adapter", actual, &wide(expected), GRADIENTS);
        }
    }
}
