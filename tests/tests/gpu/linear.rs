//! Linears over quantized weights.

use crate::device::{assert_near, floats, gpu, unpadded, weight};
use crate::matrix_units;
use cubecl::prelude::*;
use hearth_kernels::gpu::{Floats, Linear, Lora, linear, linear_add, linear_with_limit};
use hearth_kernels::reference::{self, noise, wide};
use hearth_kernels::{Dropout, MatmulPrecision, Quant};
use hearth_test_parts::Parts;

/// A linear with all its parts, or with none, over `tokens`.
struct Case {
    quant: Quant,
    tokens: usize,
    rows: usize,
    cols: usize,
    /// The adapter's rank; without an adapter there is no bias and no scale either.
    rank: usize,
    /// The adapter's dropout rate.
    rate: Option<f32>,
    /// First column of the outputs in a matrix with 3 extra columns.
    at: usize,
    add: bool,
}

impl Case {
    fn plain(quant: Quant, tokens: usize, rows: usize, cols: usize) -> Self {
        let (rank, rate, at, add) = (0, None, 0, false);
        Self {
            quant,
            tokens,
            rows,
            cols,
            rank,
            rate,
            at,
            add,
        }
    }

    /// Computes the linear with `run` and compares it with the reference.
    #[track_caller]
    fn check(&self, client: &Client, run: impl Fn(&Floats, &Linear, &Floats)) {
        let Case {
            quant,
            tokens,
            rows,
            cols,
            rank,
            rate,
            at,
            add,
        } = *self;
        let (weight, values) = weight(client, quant, rows, cols);
        let (a, b, bias) = (noise(3, rank * cols), noise(4, rows * rank), noise(5, rows));
        let dropout = rate.map(|rate| Dropout { seed: 8, rate });
        let mask = |dropout: Dropout| {
            let mut mask = vec![1.0; tokens * cols];
            dropout.drop_in_place(&mut mask, cols);
            wide(&mask)
        };
        let scale = if rank > 0 { 0.25 } else { 1.0 };
        let expected = reference::Linear {
            weight: wide(&values),
            rows,
            cols,
            scale,
            lora: (rank > 0).then(|| reference::Lora {
                a: wide(&a),
                b: wide(&b),
                scale: 2.0,
                mask: dropout.map(mask),
            }),
            bias: (rank > 0).then(|| wide(&bias)),
        };
        let on_device = Linear {
            weight,
            scale: scale as f32,
            lora: (rank > 0).then(|| Lora {
                a: floats(client, &a, rank, cols),
                b: floats(client, &b, rows, rank),
                scale: 2.0,
                dropout,
            }),
            bias: (rank > 0).then(|| floats(client, &bias, 1, rows).handle),
        };
        let (x, width) = (noise(6, tokens * cols), rows + 3);
        let before = noise(7, tokens * width);
        let mut expected_out = wide(&before);
        for (i, y) in expected.over(&wide(&x)).into_iter().enumerate() {
            let out = &mut expected_out[i / rows * width + at + i % rows];
            *out = y + if add { *out } else { 0.0 };
        }
        let out = floats(client, &before, tokens, width);
        run(&floats(client, &x, tokens, cols), &on_device, &out);
        assert_near(
            &format!("{quant}, {tokens} tokens, {rows} x {cols}"),
            client,
            &out,
            &expected_out,
            1e-5,
        );
    }
}

#[test]
fn every_format_runs_with_few_and_many_tokens() {
    let Some(client) = gpu() else { return };
    let parts = Parts::from_variable("gpu");
    for (number, quant) in Quant::ALL.into_iter().enumerate() {
        let cols = if quant.is_float() {
            77
        } else {
            3 * quant.block_elements()
        };
        for (turn, tokens) in [(0, 1), (2, 9)] {
            let case = format!("linear::every_format_runs_with_few_and_many_tokens {quant}, {tokens} tokens");
            if !parts.includes_or(number == 0, number + turn, &case) {
                continue;
            }
            Case::plain(quant, tokens, 7, cols).check(&client, |x, y, out| {
                linear(&client, x, y, MatmulPrecision::F32, out, 0, false).expect("shapes that fit");
            });
        }
    }
}

/// Rows of 12, 40 and 136 segments: lines of 32, 64 and 128 units.
#[test]
fn gemv_with_each_line_and_gemm_match_the_reference() {
    let Some(client) = gpu() else { return };
    for cols in [96, 320, 1088] {
        for tokens in [1, 8, 65] {
            Case::plain(Quant::Q5_0, tokens, 9, cols).check(&client, |x, y, out| {
                linear(&client, x, y, MatmulPrecision::F32, out, 0, false).expect("shapes that fit");
            });
        }
    }
}

#[test]
fn scale_adapter_and_bias_follow_the_product_in_any_columns() {
    let Some(client) = gpu() else { return };
    let cases = [
        (1, 4, None, 0, true),
        (3, 5, Some(0.5), 3, false),
        (8, 16, None, 1, true),
        (70, 3, Some(0.1), 2, true),
    ];
    for (tokens, rank, rate, at, add) in cases {
        let case = Case {
            rank,
            rate,
            at,
            add,
            ..Case::plain(Quant::Q4_0, tokens, 130, 96)
        };
        case.check(&client, |x, y, out| {
            linear(&client, x, y, MatmulPrecision::F32, out, at, add).expect("shapes that fit");
        });
    }
}

/// Product, adapter and bias all have the factor.
#[test]
fn a_scaled_linear_is_added_with_its_adapter_and_bias() {
    let Some(client) = gpu() else { return };
    for tokens in [1, 8, 70] {
        let (rows, cols, rank) = (130, 96, 5);
        let (weight, values) = weight(&client, Quant::Q4_0, rows, cols);
        let (a, b, bias) = (noise(3, rank * cols), noise(4, rows * rank), noise(5, rows));
        let (x, residual) = (noise(6, tokens * cols), noise(7, tokens * rows));
        let lora = reference::Lora {
            a: wide(&a),
            b: wide(&b),
            scale: 2.0,
            mask: None,
        };
        let output = reference::Linear {
            weight: wide(&values),
            rows,
            cols,
            scale: 0.25,
            lora: Some(lora),
            bias: Some(wide(&bias)),
        }
        .over(&wide(&x));
        let on_device = Linear {
            weight,
            scale: 0.25,
            lora: Some(Lora {
                a: floats(&client, &a, rank, cols),
                b: floats(&client, &b, rows, rank),
                scale: 2.0,
                dropout: None,
            }),
            bias: Some(floats(&client, &bias, 1, rows).handle),
        };
        for scale in [1.0_f32, 0.22, -3.0] {
            let out = floats(&client, &residual, tokens, rows);
            let x = floats(&client, &x, tokens, cols);
            linear_add(&client, &x, &on_device, scale, MatmulPrecision::F32, &out).expect("shapes that fit");
            let add = |(residual, y): (f64, &f64)| residual + f64::from(scale) * y;
            let expected: Vec<f64> = wide(&residual).into_iter().zip(&output).map(add).collect();
            let case = format!("{tokens} tokens, times {scale}");
            assert_near(&case, &client, &out, &expected, 1e-5);
            let wide_out = floats(&client, &vec![0.0; tokens * (rows + 1)], tokens, rows + 1);
            assert!(linear_add(&client, &x, &on_device, scale, MatmulPrecision::F32, &wide_out).is_err());
        }
    }
}

#[test]
fn a_weight_beyond_a_binding_is_processed_in_ranges() {
    let Some(client) = gpu() else { return };
    // A row of 3 blocks is 54 bytes, so 128 rows end at a multiple of 256.
    for tokens in [1, 9] {
        Case::plain(Quant::Q4_0, tokens, 300, 96).check(&client, |x, y, out| {
            linear_with_limit(&client, x, y, MatmulPrecision::F32, out, 0, false, 128 * 54 + 255)
                .expect("128 rows fit");
            assert!(linear_with_limit(&client, x, y, MatmulPrecision::F32, out, 0, false, 128 * 54 - 1).is_err());
        });
    }
}

/// The cases of matrix units, forward and backward, on the kernels that a driver without them runs;
/// a few of both directions always.
#[test]
fn plain_kernels_round_no_operand() {
    let Some(client) = gpu() else { return };
    let parts = Parts::from_variable("gpu");
    for (index, case) in matrix_units::cases().into_iter().enumerate() {
        let name = format!("linear::plain_kernels_round_no_operand {case}");
        if parts.includes_or(index % Quant::ALL.len() == 0, index, &name) {
            case.on_plain_kernels(&client).check(&client);
        }
    }
}

#[test]
fn mismatched_sizes_of_a_linear_are_errors() {
    let Some(client) = gpu() else { return };
    let (weight, _) = weight(&client, Quant::Q8_0, 5, 64);
    let plain = Linear {
        weight,
        scale: 1.0,
        lora: None,
        bias: None,
    };
    let ones = |rows, cols| floats(&client, &vec![1.0; rows * cols], rows, cols);
    let refused = |x: &Floats, y: &Linear, out: &Floats, at| {
        assert!(linear(&client, x, y, MatmulPrecision::F32, out, at, false).is_err())
    };
    refused(&ones(2, 32), &plain, &ones(2, 5), 0);
    refused(&ones(2, 64), &plain, &ones(3, 5), 0);
    refused(&ones(2, 64), &plain, &ones(2, 5), 1);
    let mut larger = plain.clone();
    larger.weight.words = unpadded(larger.weight.words);
    larger.weight.rows = 6;
    refused(&ones(2, 64), &larger, &ones(2, 6), 0);
    let bias = Some(unpadded(ones(1, 4).handle));
    refused(&ones(2, 64), &Linear { bias, ..plain.clone() }, &ones(2, 5), 0);
    let lora = Some(Lora {
        a: ones(3, 64),
        b: ones(5, 2),
        scale: 1.0,
        dropout: None,
    });
    refused(&ones(2, 64), &Linear { lora, ..plain }, &ones(2, 5), 0);
}
