//! Linears in every precision, adapters and fused operations against f64, and their gradients
//! against the formulas.

use crate::reference::{self, assert_near, noise, wide};
use hearth_kernels::cross_entropy::{Targets, linear_cross_entropy};
use hearth_kernels::fused::*;
use hearth_kernels::gemm::{Accumulate, View, ViewMut, matmul};
use hearth_kernels::glu::Activation;
use hearth_kernels::{
    Dropout, Isa, Linear, Lora, MatmulPrecision, Matrix, Norm, Quant, ShapeError, bf16, bf16_slices, matrix,
};

/// A stored weight and its dequantized values.
struct Weight {
    quant: Quant,
    layout: hearth_kernels::Layout,
    bytes: Vec<u8>,
    floats: Vec<f64>,
    rows: usize,
    cols: usize,
}

impl Weight {
    fn new(seed: u64, quant: Quant, rows: usize, cols: usize) -> Self {
        let x = noise(seed, rows * cols);
        let mut plain = vec![0; quant.row_bytes(cols).unwrap() * rows];
        let mut floats = vec![0.0; x.len()];
        quant.quantize_row(&x, &mut plain).unwrap();
        quant.dequantize_row(&plain, &mut floats).unwrap();
        let (layout, bytes) = matrix::pack(quant, rows, cols, &plain).unwrap();
        Self {
            quant,
            layout,
            bytes,
            floats: wide(&floats),
            rows,
            cols,
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(self.quant, self.layout, self.rows, self.cols, &self.bytes).unwrap()
    }

    /// `x W^T` in a precision: with operands rounded to bf16 in [`MatmulPrecision::Bf16`].
    fn product_in(&self, precision: MatmulPrecision, x: &[f32]) -> Vec<f64> {
        match precision {
            MatmulPrecision::Bf16 => {
                let round = |x: &f64| half::bf16::from_f32(*x as f32).to_f64();
                let floats = self.floats.iter().map(round).collect();
                Self {
                    floats,
                    bytes: Vec::new(),
                    ..*self
                }
                .product(&wide(x).iter().map(round).collect::<Vec<_>>())
            }
            _ => self.product(&wide(x)),
        }
    }

    /// `x W^T`.
    fn product(&self, x: &[f64]) -> Vec<f64> {
        let transposed = reference::transpose(&self.floats, self.rows, self.cols);
        reference::matmul(x, &transposed, x.len() / self.cols, self.cols, self.rows)
    }
}

/// Tolerance with int8 activations: an activation's error is at most half of 1/127 of its block's
/// maximum, and the errors of many products partly cancel.
const INT8: f64 = 8e-3;
/// Tolerance with bf16 operands: an operand's relative error is at most half of 1/256.
const BF16: f64 = 4e-3;
/// Tolerance of sums in f32.
const EXACT: f64 = 1e-6;

fn tolerance(precision: MatmulPrecision, quant: Quant) -> f64 {
    match (precision, quant) {
        (MatmulPrecision::Int8Activations, Quant::F32) | (MatmulPrecision::F32 | MatmulPrecision::Bf16, _) => EXACT,
        (MatmulPrecision::Int8Activations, Quant::F16 | Quant::BF16) => BF16,
        (MatmulPrecision::Int8Activations, _) => INT8,
    }
}

#[test]
fn every_format_multiplies_in_each_precision() {
    for quant in Quant::ALL {
        for (rows, cols) in [(16, 256), (40, 512), (7, 256), (100, 768)] {
            let weight = Weight::new(1, quant, rows, cols);
            for tokens in [1, 2, 5, 13, 200] {
                let x = noise(2, tokens * cols);
                for precision in [
                    MatmulPrecision::F32,
                    MatmulPrecision::Int8Activations,
                    MatmulPrecision::Bf16,
                ] {
                    let expected = weight.product_in(precision, &x);
                    let mut y = vec![f32::NAN; tokens * rows];
                    norm_linears(&x, None, &[Linear::plain(weight.matrix())], precision, &mut y).unwrap();
                    let case = format!("{quant} [{rows}, {cols}] x {tokens}, {precision:?}");
                    assert_near(&case, &y, &expected, tolerance(precision, quant));
                }
            }
        }
    }
}

#[test]
fn rows_are_gathered_from_every_layout() {
    for quant in Quant::ALL {
        let weight = Weight::new(3, quant, 37, 256);
        let mut actual = vec![f32::NAN; 37 * 256];
        weight.matrix().dequantize_rows(0..37, &mut actual).unwrap();
        assert_eq!(wide(&actual), weight.floats, "{quant}");
        let mut actual = vec![f32::NAN; 3 * 256];
        weight.matrix().gather(&[36, 0, 17], 2.0, &mut actual).unwrap();
        let expected = [36, 0, 17].map(|row| weight.floats[row * 256..][..256].iter().map(|x| 2.0 * x));
        assert_eq!(
            wide(&actual),
            expected.into_iter().flatten().collect::<Vec<f64>>(),
            "{quant}"
        );
        assert!(weight.matrix().gather(&[37], 1.0, &mut actual[..256]).is_err());
    }
}

#[test]
fn a_bad_scale_anywhere_is_found() {
    let mut bytes = vec![0; Quant::Q8_0.row_bytes(1024).unwrap() * 200];
    assert!(matrix::is_finite(Quant::Q8_0, 1024, &bytes));
    let last = bytes.len() - 34;
    bytes[last..last + 2].copy_from_slice(&half::f16::NAN.to_le_bytes());
    assert!(!matrix::is_finite(Quant::Q8_0, 1024, &bytes));
}

/// Three weights of one shape, with an adapter, a bias and a norm.
struct Layer {
    weights: [Weight; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    norm: Vec<f32>,
}

const RANK: usize = 4;
const EPS: f32 = 1e-3;

impl Layer {
    fn new(quants: [Quant; 3], rows: usize, cols: usize) -> Self {
        Self {
            weights: std::array::from_fn(|i| Weight::new(4 + i as u64, quants[i], rows, cols)),
            a: noise(7, RANK * cols),
            b: noise(8, RANK * rows),
            bias: noise(9, rows),
            norm: noise(10, cols),
        }
    }

    /// A plain linear, one with a scale and an adapter, and one with scale, adapter and bias.
    fn linears(&self) -> [Linear<'_>; 3] {
        let [plain, adapted, full] = [0, 1, 2].map(|i| Linear::plain(self.weights[i].matrix()));
        let lora = Some(Lora {
            a: &self.a,
            b: &self.b,
            rank: RANK,
            scale: 0.5,
            dropout: None,
        });
        [
            plain,
            Linear {
                scale: 2.0,
                lora,
                ..adapted
            },
            Linear {
                scale: 0.25,
                lora,
                bias: Some(&self.bias),
                ..full
            },
        ]
    }

    /// Tolerance of an operation over all linears.
    fn tolerance(&self, precision: MatmulPrecision) -> f64 {
        let tolerances = self.weights.iter().map(|weight| tolerance(precision, weight.quant));
        tolerances.fold(2e-6, f64::max)
    }

    fn norm(&self) -> Norm<'_> {
        Norm {
            weight: &self.norm,
            eps: EPS,
        }
    }

    /// The output of linear `i` for `x`, in f64.
    fn linear(&self, i: usize, x: &[f64]) -> Vec<f64> {
        let (weight, linear) = (&self.weights[i], &self.linears()[i]);
        let tokens = x.len() / weight.cols;
        let mut y: Vec<f64> = weight.product(x).iter().map(|y| y * f64::from(linear.scale)).collect();
        if linear.lora.is_some() {
            let a = reference::transpose(&wide(&self.a), RANK, weight.cols);
            let b = reference::transpose(&wide(&self.b), weight.rows, RANK);
            let lora_hidden = reference::matmul(x, &a, tokens, weight.cols, RANK);
            let lora_output = reference::matmul(&lora_hidden, &b, tokens, RANK, weight.rows);
            y.iter_mut().zip(lora_output).for_each(|(y, x)| *y += 0.5 * x);
        }
        if let Some(bias) = linear.bias {
            y.iter_mut()
                .enumerate()
                .for_each(|(i, y)| *y += f64::from(bias[i % weight.rows]));
        }
        y
    }
}

/// Layers in formats of blocks of 32 and of 256 weights, and in float formats.
fn layers() -> [Layer; 3] {
    [
        Layer::new([Quant::Q4_1, Quant::Q8_0, Quant::Q6_K], 24, 256),
        Layer::new([Quant::F32, Quant::F16, Quant::F32], 20, 50),
        Layer::new([Quant::Q5_0, Quant::Q4_0, Quant::Q8_0], 50, 96),
    ]
}

#[test]
fn norm_linears_with_scale_adapter_and_bias_match_f64() {
    for layer in layers() {
        let (rows, cols) = (layer.weights[0].rows, layer.weights[0].cols);
        for tokens in [1, 3, 17] {
            let x = noise(11, tokens * cols);
            let normed = reference::rms_norm(&wide(&x), &wide(&layer.norm), f64::from(EPS));
            let outputs: Vec<Vec<f64>> = (0..3).map(|i| layer.linear(i, &normed)).collect();
            let side_by_side = (0..tokens).flat_map(|token| {
                outputs
                    .iter()
                    .flat_map(move |y| y[token * rows..][..rows].to_vec())
                    .collect::<Vec<_>>()
            });
            let expected: Vec<f64> = side_by_side.collect();
            for precision in [MatmulPrecision::F32, MatmulPrecision::Int8Activations] {
                let mut y = vec![f32::NAN; expected.len()];
                norm_linears(&x, Some(layer.norm()), &layer.linears(), precision, &mut y).unwrap();
                assert_near(
                    &format!("{precision:?} x {tokens}"),
                    &y,
                    &expected,
                    layer.tolerance(precision),
                );
            }
        }
    }
}

#[test]
fn the_scale_applies_before_adapter_and_bias() {
    // A product of 8, a scale of 1/4, 3 from the adapter, 1 from the bias: 8/4 + 3 + 1.
    let bytes = bytemuck::cast_slice(&[8.0_f32]).to_vec();
    let weight = Matrix::new(Quant::F32, hearth_kernels::Layout::Plain, 1, 1, &bytes).unwrap();
    let lora = Some(Lora {
        a: &[1.0],
        b: &[3.0],
        rank: 1,
        scale: 1.0,
        dropout: None,
    });
    let linear = Linear {
        weight,
        scale: 0.25,
        lora,
        bias: Some(&[1.0]),
    };
    for precision in [
        MatmulPrecision::F32,
        MatmulPrecision::Int8Activations,
        MatmulPrecision::Bf16,
    ] {
        // One token and many tokens take different code paths.
        for tokens in [1, 7] {
            let mut y = vec![f32::NAN; tokens];
            norm_linears(&vec![1.0; tokens], None, &[linear], precision, &mut y).unwrap();
            assert_eq!(y, vec![6.0; tokens], "{precision:?}");
        }
    }
}

#[test]
fn linear_add_with_and_without_a_norm_matches_f64() {
    for layer in layers() {
        let (rows, cols) = (layer.weights[0].rows, layer.weights[0].cols);
        let weight = noise(12, rows);
        for tokens in [1, 17] {
            let (h, residual) = (noise(13, tokens * cols), noise(14, tokens * rows));
            for (i, norm) in [
                (0, None),
                (2, None),
                (
                    1,
                    Some(Norm {
                        weight: &weight,
                        eps: EPS,
                    }),
                ),
            ] {
                let mut output = layer.linear(i, &wide(&h));
                if norm.is_some() {
                    output = reference::rms_norm(&output, &wide(&weight), f64::from(EPS));
                }
                for scale in [1.0_f32, 0.22, -3.0, 0.0] {
                    let sum = |(output, residual): (&f64, f64)| residual + f64::from(scale) * output;
                    let expected: Vec<f64> = output.iter().zip(wide(&residual)).map(sum).collect();
                    for precision in [MatmulPrecision::F32, MatmulPrecision::Int8Activations] {
                        let mut y = residual.clone();
                        linear_add_in_place(&h, &layer.linears()[i], norm, scale, precision, &mut y).unwrap();
                        // A scale above 1 multiplies the output's error.
                        let factor = f64::from(scale.abs().max(1.0));
                        let tolerance = factor * tolerance(precision, layer.weights[i].quant).max(2e-6);
                        let case = format!("{precision:?} {i} x {tokens}, times {scale}");
                        assert_near(&case, &y, &expected, tolerance);
                    }
                }
            }
        }
    }
}

const PRECISIONS: [MatmulPrecision; 3] = [
    MatmulPrecision::F32,
    MatmulPrecision::Int8Activations,
    MatmulPrecision::Bf16,
];

/// The scalar specification, bit by bit: one multiplication and one addition per element, and no
/// multiplication by a scale of 1.
#[test]
fn an_output_is_scaled_once_and_added_once() {
    for layer in layers() {
        let (rows, cols) = (layer.weights[0].rows, layer.weights[0].cols);
        for tokens in [1, 2, 17] {
            let (h, residual) = (noise(13, tokens * cols), noise(14, tokens * rows));
            for linear in layer.linears() {
                for precision in PRECISIONS {
                    let mut output = vec![f32::NAN; tokens * rows];
                    norm_linears(&h, None, &[linear], precision, &mut output).unwrap();
                    for scale in [1.0, 0.22, -3.0, 0.0] {
                        let mut actual = residual.clone();
                        linear_add_in_place(&h, &linear, None, scale, precision, &mut actual).unwrap();
                        let scaled = output.iter().map(|y| if scale == 1.0 { *y } else { scale * y });
                        let expected = scaled.zip(&residual).map(|(y, residual)| residual + y);
                        let is_same = actual.iter().map(|y| y.to_bits()).eq(expected.map(f32::to_bits));
                        assert!(is_same, "{precision:?} x {tokens}, times {scale}");
                    }
                }
            }
        }
    }
}

/// Gradients are proportional to the scale, and a power of two changes no mantissa.
#[test]
fn half_the_scale_halves_the_gradients_of_the_branch() {
    for layer in layers() {
        let (rows, cols, tokens) = (layer.weights[0].rows, layer.weights[0].cols, 5);
        let (h, dy, weight) = (noise(18, tokens * cols), noise(19, tokens * rows), noise(20, rows));
        let norm = Norm {
            weight: &weight,
            eps: EPS,
        };
        let gradients = |norm, precision, scale| {
            let (linear, mut dh) = (layer.linears()[2], vec![f32::NAN; h.len()]);
            let adapter = linear_add_backward(&h, &linear, norm, scale, precision, &dy, &mut dh).unwrap();
            let adapter = adapter.unwrap();
            [dh, adapter.a, adapter.b].concat()
        };
        for norm in [None, Some(norm)] {
            for precision in PRECISIONS {
                let expected: Vec<f32> = gradients(norm, precision, 1.0).iter().map(|x| 0.5 * x).collect();
                assert_eq!(gradients(norm, precision, 0.5), expected, "{precision:?}, {norm:?}");
            }
        }
    }
}

#[test]
fn gated_units_match_f64() {
    for layer in layers() {
        let cols = layer.weights[0].cols;
        for tokens in [1, 17, 100] {
            let x = noise(15, tokens * cols);
            let normed = reference::rms_norm(&wide(&x), &wide(&layer.norm), f64::from(EPS));
            for (gate, up) in [(0, 0), (0, 1), (2, 1)] {
                let (g, u) = (layer.linear(gate, &normed), layer.linear(up, &normed));
                let expected: Vec<f64> = reference::gated(Activation::Silu, &g, &u);
                let linears = layer.linears();
                for precision in [MatmulPrecision::F32, MatmulPrecision::Int8Activations] {
                    let mut h = vec![f32::NAN; expected.len()];
                    let norm = Some(layer.norm());
                    gated(
                        &x,
                        norm,
                        &linears[gate],
                        &linears[up],
                        Activation::Silu,
                        precision,
                        &mut h,
                    )
                    .unwrap();
                    let tolerance = 2.0 * layer.tolerance(precision);
                    assert_near(
                        &format!("{precision:?} {gate} {up} x {tokens}"),
                        &h,
                        &expected,
                        tolerance,
                    );
                }
            }
        }
    }
}

/// The gradients of `x`, `a` and `b` of a linear, from the formulas.
fn linear_gradients(layer: &Layer, i: usize, x: &[f64], dy: &[f64]) -> [Vec<f64>; 3] {
    let (weight, linear) = (&layer.weights[i], &layer.linears()[i]);
    let (tokens, rows, cols) = (x.len() / weight.cols, weight.rows, weight.cols);
    let mut dx = reference::matmul(dy, &weight.floats, tokens, rows, cols);
    dx.iter_mut().for_each(|dx| *dx *= f64::from(linear.scale));
    if linear.lora.is_none() {
        return [dx, Vec::new(), Vec::new()];
    }
    let (a, b) = (wide(&layer.a), wide(&layer.b));
    let dy: Vec<f64> = dy.iter().map(|dy| 0.5 * dy).collect();
    let lora_hidden = reference::matmul(x, &reference::transpose(&a, RANK, cols), tokens, cols, RANK);
    let d_lora_hidden = reference::matmul(&dy, &b, tokens, rows, RANK);
    let dx_lora = reference::matmul(&d_lora_hidden, &a, tokens, RANK, cols);
    dx.iter_mut().zip(dx_lora).for_each(|(dx, x)| *dx += x);
    let da = reference::matmul(
        &reference::transpose(&d_lora_hidden, tokens, RANK),
        x,
        RANK,
        tokens,
        cols,
    );
    let db = reference::matmul(
        &reference::transpose(&dy, tokens, rows),
        &lora_hidden,
        rows,
        tokens,
        RANK,
    );
    [dx, da, db]
}

/// The gradient of the norm's input, from the formula.
fn norm_gradient(layer: &Layer, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let (n, weight) = (layer.norm.len(), wide(&layer.norm));
    let rows = x.chunks(n).zip(dy.chunks(n));
    rows.flat_map(|(x, dy)| {
        let squares: f64 = x.iter().map(|x| x * x).sum();
        let inverse_rms = 1.0 / (squares / n as f64 + f64::from(EPS)).sqrt();
        let products: f64 = (0..n).map(|i| x[i] * dy[i] * weight[i]).sum();
        let projection = products / (squares + n as f64 * f64::from(EPS));
        (0..n)
            .map(|i| (dy[i] * weight[i] - x[i] * projection) * inverse_rms)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// The elementwise sum.
fn sum(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    a.into_iter().zip(b).map(|(a, b)| a + b).collect()
}

#[test]
fn norm_linears_gradients_match_the_formulas() {
    for layer in layers() {
        let (rows, cols) = (layer.weights[0].rows, layer.weights[0].cols);
        for tokens in [1, 17] {
            let (x, dy) = (noise(16, tokens * cols), noise(17, tokens * 3 * rows));
            let normed = reference::rms_norm(&wide(&x), &wide(&layer.norm), f64::from(EPS));
            let dy_of = |i: usize| -> Vec<f64> {
                let row_of = |token| wide(&dy[(token * 3 + i) * rows..][..rows]);
                (0..tokens).flat_map(row_of).collect()
            };
            let expected: Vec<_> = (0..3)
                .map(|i| linear_gradients(&layer, i, &normed, &dy_of(i)))
                .collect();
            let mut dx = vec![f32::NAN; x.len()];
            let actual = norm_linears_backward(
                &x,
                Some(layer.norm()),
                &layer.linears(),
                MatmulPrecision::F32,
                &dy,
                &mut dx,
            )
            .unwrap();
            let d_normed = expected.iter().map(|[dx, _, _]| dx.clone()).reduce(sum).unwrap();
            assert_near("gradient of x", &dx, &norm_gradient(&layer, &wide(&x), &d_normed), 5e-6);
            for (actual, [_, a, b]) in actual.iter().zip(&expected) {
                match actual {
                    Some(actual) => {
                        assert_near("gradient of a", &actual.a, a, 5e-6);
                        assert_near("gradient of b", &actual.b, b, 5e-6);
                    }
                    None => assert!(a.is_empty()),
                }
            }
        }
    }
}

/// Training in bf16 also saves the input of a norm in bf16. Rounding it changes the gradients by
/// less than the rounding of the products does, even in a channel 1,000 times as large as the
/// others.
#[test]
fn gradients_from_an_input_saved_in_bf16_match_f32() {
    const LARGE: usize = 3;
    for layer in layers() {
        let (rows, cols, tokens) = (layer.weights[0].rows, layer.weights[0].cols, 17);
        let (mut x, dy) = (noise(16, tokens * cols), noise(17, tokens * 3 * rows));
        x.chunks_mut(cols)
            .for_each(|row| row[LARGE] = 1000.0 * row[LARGE].signum());
        let (mut rounded, mut saved) = (vec![bf16::ZERO; x.len()], vec![0.0; x.len()]);
        bf16_slices::to_bf16(&x, &mut rounded).unwrap();
        bf16_slices::to_f32(&rounded, &mut saved).unwrap();
        let gradients = |x: &[f32]| {
            let (norm, mut dx) = (Some(layer.norm()), vec![f32::NAN; x.len()]);
            let adapters =
                norm_linears_backward(x, norm, &layer.linears(), MatmulPrecision::Bf16, &dy, &mut dx).unwrap();
            (dx, adapters)
        };
        let ((exact, exact_adapters), (actual, adapters)) = (gradients(&x), gradients(&saved));
        let channel = |dx: &[f32]| dx.iter().skip(LARGE).step_by(cols).copied().collect::<Vec<_>>();
        assert_near("gradient of x", &actual, &wide(&exact), 1e-2);
        assert_near(
            "gradient of the channel",
            &channel(&actual),
            &wide(&channel(&exact)),
            1e-2,
        );
        for (actual, exact) in adapters.iter().zip(&exact_adapters) {
            if let (Some(actual), Some(exact)) = (actual, exact) {
                assert_near("gradient of a", &actual.a, &wide(&exact.a), 1e-2);
                assert_near("gradient of b", &actual.b, &wide(&exact.b), 1e-2);
            }
        }
    }
}

#[test]
fn linear_add_and_gated_gradients_match_the_formulas() {
    for layer in layers() {
        let (rows, cols, tokens) = (layer.weights[0].rows, layer.weights[0].cols, 5);
        let (x, dy) = (noise(18, tokens * cols), noise(19, tokens * rows));
        let mut dh = vec![f32::NAN; x.len()];
        let actual = linear_add_backward(&x, &layer.linears()[2], None, 1.0, MatmulPrecision::F32, &dy, &mut dh)
            .unwrap()
            .unwrap();
        let [expected, a, b] = linear_gradients(&layer, 2, &wide(&x), &wide(&dy));
        assert_near("gradient of h", &dh, &expected, 5e-6);
        assert_near("gradient of a", &actual.a, &a, 5e-6);
        assert_near("gradient of b", &actual.b, &b, 5e-6);

        let normed = reference::rms_norm(&wide(&x), &wide(&layer.norm), f64::from(EPS));
        let (g, u) = (layer.linear(1, &normed), layer.linear(2, &normed));
        let slope = |x: f64| {
            (reference::activated(Activation::GeluTanh, x + 1e-5)
                - reference::activated(Activation::GeluTanh, x - 1e-5))
                / 2e-5
        };
        let d_gate: Vec<f64> = wide(&dy)
            .iter()
            .zip(&g)
            .zip(&u)
            .map(|((d, g), u)| d * slope(*g) * u)
            .collect();
        let d_up: Vec<f64> = wide(&dy)
            .iter()
            .zip(&g)
            .map(|(d, g)| d * reference::activated(Activation::GeluTanh, *g))
            .collect();
        let expected_gate = linear_gradients(&layer, 1, &normed, &d_gate);
        let expected_up = linear_gradients(&layer, 2, &normed, &d_up);
        let linears = layer.linears();
        let (norm, mut dx) = (Some(layer.norm()), vec![f32::NAN; x.len()]);
        let (gate, up, activation) = (&linears[1], &linears[2], Activation::GeluTanh);
        let mut h = vec![f32::NAN; dy.len()];
        let [mut gates, mut ups] = [(); 2].map(|()| vec![f32::NAN; dy.len()]);
        let saved = [&mut gates[..], &mut ups[..]];
        gated_with_saved(&x, norm, gate, up, activation, MatmulPrecision::F32, saved, &mut h).unwrap();
        let saved = [&gates[..], &ups[..]];
        let [actual_gate, actual_up] = gated_backward_from_saved(
            &x,
            norm,
            gate,
            up,
            activation,
            MatmulPrecision::F32,
            saved,
            &dy,
            &mut dx,
        )
        .unwrap();
        let d_normed = sum(expected_gate[0].clone(), expected_up[0].clone());
        assert_near("gradient of x", &dx, &norm_gradient(&layer, &wide(&x), &d_normed), 1e-5);
        for (actual, [_, a, b]) in [(actual_gate, expected_gate), (actual_up, expected_up)] {
            let actual = actual.unwrap();
            assert_near("gradient of a", &actual.a, &a, 1e-5);
            assert_near("gradient of b", &actual.b, &b, 1e-5);
        }
    }
}

#[test]
fn the_gradient_through_a_norm_after_a_linear_matches_central_differences() {
    let layer = Layer::new([Quant::F32; 3], 6, 10);
    let (weight, x, dy) = (noise(20, 6), noise(21, 20), noise(22, 12));
    let norm = Norm {
        weight: &weight,
        eps: EPS,
    };
    let mut dh = vec![f32::NAN; x.len()];
    linear_add_backward(
        &x,
        &layer.linears()[1],
        Some(norm),
        1.0,
        MatmulPrecision::F32,
        &dy,
        &mut dh,
    )
    .unwrap();
    let forward = |x: &[f64]| reference::rms_norm(&layer.linear(1, x), &wide(&weight), f64::from(EPS));
    assert_near(
        "gradient of h",
        &dh,
        &reference::central_differences(&wide(&x), &wide(&dy), forward),
        1e-5,
    );
}

#[test]
fn dense_products_of_any_size_and_transposition_match_f64() {
    for (m, k, n) in [(1, 1, 1), (12, 16, 32), (13, 5, 33), (200, 64, 100), (1100, 3, 2)] {
        let (a, b, c) = (noise(23, m * k), noise(24, k * n), noise(25, m * n));
        let product = reference::matmul(&wide(&a), &wide(&b), m, k, n);
        let (a_t, b_t) = (
            reference::transpose(&wide(&a), m, k),
            reference::transpose(&wide(&b), k, n),
        );
        let (a_t, b_t) = (reference::narrow(&a_t), reference::narrow(&b_t));
        let views = [
            (View::all(&a, m, k).unwrap(), View::all(&b, k, n).unwrap()),
            (
                View::all(&a_t, k, m).unwrap().transposed(),
                View::all(&b_t, n, k).unwrap().transposed(),
            ),
        ];
        for (left, right) in views {
            let mut actual = c.clone();
            matmul(
                left,
                right,
                2.0,
                &mut ViewMut::all(&mut actual, m, n).unwrap(),
                Accumulate::Add,
            )
            .unwrap();
            let expected: Vec<f64> = product.iter().zip(wide(&c)).map(|(p, c)| 2.0 * p + c).collect();
            assert_near(&format!("{m} {k} {n}"), &actual, &expected, 1e-6);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let weight = Weight::new(26, Quant::Q4_1, 576, 576);
    let (x, a, b) = (noise(27, 100 * 576), noise(28, 16 * 576), noise(29, 16 * 576));
    let ids: Vec<u32> = (0..100).collect();
    let targets = Targets {
        ids: &ids,
        weights: None,
        scale: 1.0,
    };
    let lora = Some(Lora {
        a: &a,
        b: &b,
        rank: 16,
        scale: 1.0,
        dropout: Some(Dropout { seed: 1, rate: 0.1 }),
    });
    let linear = Linear {
        lora,
        ..Linear::plain(weight.matrix())
    };
    let bits = |threads| {
        hearth_kernels::team::set_threads(threads);
        let mut results = Vec::new();
        for precision in [
            MatmulPrecision::Int8Activations,
            MatmulPrecision::F32,
            MatmulPrecision::Bf16,
        ] {
            let mut y = vec![f32::NAN; 100 * 576];
            norm_linears(&x, None, &[linear], precision, &mut y).unwrap();
            let mut dx = vec![f32::NAN; x.len()];
            let adapters = norm_linears_backward(&x, None, &[linear], precision, &y, &mut dx).unwrap();
            let (mut losses, mut d_hidden) = (vec![f32::NAN; 100], vec![f32::NAN; x.len()]);
            let gradient = Some(&mut d_hidden[..]);
            linear_cross_entropy(&x, None, &linear, None, &targets, precision, &mut losses, gradient).unwrap();
            let adapter = adapters
                .into_iter()
                .flatten()
                .flat_map(|adapter| [adapter.a, adapter.b]);
            results.extend(
                [y, dx, losses, d_hidden]
                    .into_iter()
                    .chain(adapter)
                    .flatten()
                    .map(f32::to_bits),
            );
        }
        results
    };
    assert!(bits(1) == bits(8));
}

#[test]
fn bf16_is_rounded_to_the_nearest_and_back() {
    let specials = [
        0.0,
        -0.0,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        1e-40,
    ];
    let x: Vec<f32> = specials.into_iter().chain(noise(30, 40_000)).collect();
    let mut rounded = vec![bf16::ZERO; x.len()];
    bf16_slices::to_bf16(&x, &mut rounded).unwrap();
    let mut back = vec![0.0; x.len()];
    bf16_slices::to_f32(&rounded, &mut back).unwrap();
    for ((x, rounded), back) in x.iter().zip(&rounded).zip(back) {
        let expected = bf16::from_f32(*x);
        assert!(
            *rounded == expected || x.is_nan() && rounded.is_nan(),
            "{x} became {rounded}"
        );
        assert_eq!(rounded.to_f32().to_bits(), back.to_bits());
    }
    assert!(bf16_slices::to_bf16(&x, &mut rounded[1..]).is_err());
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let weight = Weight::new(28, Quant::Q8_0, 16, 64);
    let linear = Linear::plain(weight.matrix());
    let mut y = [0.0; 32];
    let run = |x: &[f32], linear: Linear, y: &mut [f32]| {
        norm_linears(x, None, &[linear], MatmulPrecision::Int8Activations, y)
    };
    assert!(matches!(
        run(&[0.0; 100], linear, &mut y),
        Err(ShapeError::Multiple { .. })
    ));
    assert!(matches!(
        run(&[0.0; 64], linear, &mut y),
        Err(ShapeError::Length { .. })
    ));
    let short = Some(Lora {
        a: &[0.0; 63],
        b: &[0.0; 16],
        rank: 1,
        scale: 1.0,
        dropout: None,
    });
    assert!(run(&[0.0; 128], Linear { lora: short, ..linear }, &mut y).is_err());
    assert!(
        run(
            &[0.0; 128],
            Linear {
                bias: Some(&[0.0; 15]),
                ..linear
            },
            &mut y
        )
        .is_err()
    );
    assert!(Matrix::new(Quant::Q8_0, hearth_kernels::Layout::Plain, 16, 65, &weight.bytes).is_err());
    assert!(Matrix::new(Quant::Q8_0, hearth_kernels::Layout::Plain, 17, 64, &weight.bytes).is_err());
    assert!(Matrix::new(Quant::F16, hearth_kernels::Layout::Rows16, 0, 255, &[]).is_err());
    assert!(matrix::pack_on(Isa::best(), Quant::Q8_0, usize::MAX, 64, &[]).is_err());
}
