//! Gradients against the CPU's, which are tested against central differences, and against f64
//! matrix multiplication.

use crate::device::{assert_near, floats, gpu, numbers, read, unpadded, weight};
use cubecl::prelude::*;
use hearth_kernels::attention::{self, Heads, QkNormWidth, Temperature};
use hearth_kernels::glu::{Activation, glu_backward_in_place};
use hearth_kernels::gpu::{self, Floats, Linear, Lora, Norm};
use hearth_kernels::norm;
use hearth_kernels::reference::{Rotation, matmul, noise, transpose, wide};
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::softmax::{IGNORE_INDEX, cross_entropy_backward_in_place};
use hearth_kernels::{Dropout, MatmulPrecision, Quant};
use hearth_test_parts::Parts;
use std::path::Path;

/// Maximum relative error of a gradient.
const ERROR: f64 = 1e-4;

fn norm_of(client: &Client, weight: &[f32], eps: f32) -> Norm {
    Norm {
        weight: client.create_from_slice(f32::as_bytes(weight)),
        eps,
    }
}

#[test]
fn the_gradient_of_a_norm_matches_known_values() {
    let Some(client) = gpu() else { return };
    let small = (
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        1e-4,
        [0.000_799_52, 0.0, 0.0, 0.0],
    );
    let (x, dz) = ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 0.25, 2.0]);
    let ordinary = (x, dz, 1e-5, [0.094_33, -0.541_64, -0.173_45, 0.377_32]);
    for (x, dz, eps, expected) in [small, ordinary] {
        let [x, dz] = [x, dz].map(|x| floats(&client, &x, 1, 4));
        let dx = gpu::rms_norm_backward(&client, &x, &norm_of(&client, &[1.0; 4], eps), &dz).expect("sizes that fit");
        // The first element is mostly cancellation, so compare absolute errors.
        let actual = read(&client, &dx);
        let mut near = actual.iter().zip(&expected).map(|(x, y)| (x - y).abs() < 5e-6);
        assert!(near.all(|near| near), "{actual:?}, expected {expected:?}");
    }
}

#[test]
fn the_gradient_of_a_norm_matches_the_cpu() {
    let Some(client) = gpu() else { return };
    for (rows, cols) in [(1, 1), (3, 33), (70, 600)] {
        let (x, weight, dz) = (noise(1, rows * cols), noise(2, cols), noise(3, rows * cols));
        let mut expected = vec![0.0; rows * cols];
        norm::rms_norm_backward(&x, &weight, 1e-3, &dz, &mut expected).expect("sizes that fit");
        let [x, dz] = [x, dz].map(|x| floats(&client, &x, rows, cols));
        let dx = gpu::rms_norm_backward(&client, &x, &norm_of(&client, &weight, 1e-3), &dz).expect("sizes that fit");
        assert_near(&format!("{rows} rows of {cols}"), &client, &dx, &wide(&expected), ERROR);
    }
}

#[test]
fn the_gradient_of_gated_units_matches_the_cpu() {
    let Some(client) = gpu() else { return };
    for activation in [Activation::Silu, Activation::GeluTanh] {
        for (rows, cols, size) in [(1, 1, 1.0), (3, 33, 4.0), (70, 100, 1.0), (3, 33, 1e4)] {
            let mut gate_up: [Vec<f32>; 2] =
                [1, 2].map(|seed| noise(seed, rows * cols).iter().map(|x| size * x).collect());
            let side_by_side = |[gate, up]: &[Vec<f32>; 2]| -> Vec<f32> {
                let rows = gate.chunks(cols).zip(up.chunks(cols));
                rows.flat_map(|(gate, up)| gate.iter().chain(up).copied()).collect()
            };
            let (x, dh) = (
                floats(&client, &side_by_side(&gate_up), rows, 2 * cols),
                noise(3, rows * cols),
            );
            let d =
                gpu::glu_backward(&client, &x, activation, &floats(&client, &dh, rows, cols)).expect("sizes that fit");
            let [gate, up] = &mut gate_up;
            glu_backward_in_place(activation, &dh, gate, up).expect("sizes that fit");
            let case = format!("{activation:?}, {rows} rows of {cols}, up to {size}");
            assert_near(&case, &client, &d, &wide(&side_by_side(&gate_up)), ERROR);
        }
    }
}

#[test]
fn the_losses_and_their_gradient_match_the_cpu() {
    let Some(client) = gpu() else { return };
    for (rows, cols) in [(1, 1), (3, 300), (70, 33)] {
        let logits: Vec<f32> = noise(1, rows * cols).iter().map(|x| 30.0 * x).collect();
        let target = |row| {
            if row % 5 == 2 {
                IGNORE_INDEX
            } else {
                (row * 7 % cols) as u32
            }
        };
        let targets: Vec<u32> = (0..rows).map(target).collect();
        for softcap in [None, Some(20.0)] {
            let (mut gradients, mut losses) = (logits.clone(), vec![0.0; rows]);
            cross_entropy_backward_in_place(&mut gradients, &targets, 0.25, softcap, &mut losses)
                .expect("sizes that fit");
            for with_gradient in [false, true] {
                let case = format!("{rows} rows of {cols}, softcap {softcap:?}");
                let (x, ids) = (floats(&client, &logits, rows, cols), numbers(&client, &targets));
                let actual = gpu::cross_entropy_in_place(&client, &x, &ids, 0.25, softcap, with_gradient)
                    .and_then(|losses| Floats::new(losses, 1, rows))
                    .expect("sizes that fit");
                assert_near(&format!("losses of {case}"), &client, &actual, &wide(&losses), ERROR);
                let expected = if with_gradient { &gradients } else { &logits };
                assert_near(&case, &client, &x, &wide(expected), ERROR);
            }
        }
    }
}

#[test]
fn dropout_drops_the_same_elements_as_the_cpu() {
    let Some(client) = gpu() else { return };
    for (rows, cols, seed, rate) in [
        (1, 1, 0, 0.0),
        (70, 300, 7, 0.05),
        (3, 33, u64::MAX, 0.5),
        (300, 65, 0xfedc_ba98_7654_3210, 0.9),
    ] {
        let (dropout, x) = (Dropout { seed, rate }, noise(1, rows * cols));
        let actual = gpu::dropout_rows(&client, &floats(&client, &x, rows, cols), dropout).expect("sizes that fit");
        let mut expected = x;
        dropout.drop_in_place(&mut expected, cols);
        assert_eq!(read(&client, &actual), expected, "{dropout:?}, {rows} rows of {cols}");
    }
}

#[test]
fn the_gradient_of_qk_norm_rope_matches_the_cpu() {
    let Some(client) = gpu() else { return };
    let (head, all) = (QkNormWidth::Head, QkNormWidth::AllHeads);
    let temperature = Some(Temperature { scale: 0.3, length: 7 });
    // Tokens, heads, KV heads, head dimension, and rotated elements; the norms and their width; the
    // magnitude of RoPE, `None` without RoPE; the temperature.
    for ([tokens, heads, kv_heads, head_dim, dims], normed, norm_width, magnitude, temperature) in [
        ([1, 1, 1, 6, 6], [false, false], head, Some(1.0), None),
        ([3, 4, 2, 64, 64], [true, true], head, Some(1.0), None),
        ([70, 3, 1, 80, 32], [false, true], head, Some(1.0), None),
        ([3, 2, 2, 256, 256], [true, false], head, Some(1.0), None),
        ([3, 2, 2, 6, 0], [true, true], head, Some(1.0), None),
        ([3, 2, 1, 7, 8], [false, true], head, Some(1.0), None),
        ([9, 4, 2, 64, 32], [true, true], head, Some(1.25), temperature),
        ([9, 4, 2, 10, 10], [false, true], head, None, temperature),
        ([9, 5, 5, 64, 64], [true, true], all, Some(1.0), None),
        ([9, 7, 1, 80, 80], [true, false], all, None, None),
        ([9, 2, 1, 6, 6], [false, true], all, Some(0.75), temperature),
    ] {
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            let heads = Heads {
                heads,
                kv_heads,
                head_dim,
                scale: 1.0,
                softcap: None,
                window: None,
            };
            let width = heads.qkv_width();
            let (x, d) = (noise(1, tokens * width), noise(2, tokens * width));
            let lengths = norm_width.lengths(&heads);
            let weights = [0, 1].map(|i| noise(3 + i as u64, lengths[i]));
            let positions: Vec<u32> = (0..tokens as u32).map(|token| token * 5 % 37).collect();
            let frequencies = Rotation::plain(pairing, dims, 1e4).frequencies;
            let rope = magnitude.map(|magnitude| Rope::new(pairing, &frequencies, magnitude));
            let mut expected = d.clone();
            let args = attention::QkNormRope {
                norms: [0, 1].map(|i| {
                    normed[i].then_some(hearth_kernels::Norm {
                        weight: &weights[i],
                        eps: 1e-3,
                    })
                }),
                norm_width,
                rope: rope.as_ref(),
                temperature,
            };
            attention::qk_norm_rope_backward_in_place(&mut expected, &x, &heads, &positions, &args)
                .expect("sizes that fit");
            let gpu_norms = [0, 1].map(|i| normed[i].then(|| norm_of(&client, &weights[i], 1e-3)));
            let table = rope.as_ref().map(|rope| gpu::rope_table(rope, 37)).unwrap_or_default();
            // An empty table still needs a buffer of one word.
            let table = client.create_from_slice(f32::as_bytes(&[table, vec![0.0]].concat()));
            let gpu_args = gpu::QkNormRope {
                norms: gpu_norms.each_ref().map(Option::as_ref),
                norm_width,
                rotation: magnitude.map(|_| gpu::Rotation {
                    pairing,
                    dims,
                    table: &table,
                    positions: 37,
                }),
                temperature,
            };
            let actual = gpu::qk_norm_rope_backward(
                &client,
                &floats(&client, &d, tokens, width),
                &floats(&client, &x, tokens, width),
                &heads,
                &gpu_args,
                &numbers(&client, &positions),
            )
            .expect("sizes that fit");
            let case = format!(
                "{tokens} tokens, {heads:?}, {dims} rotated, {pairing:?}, norms {normed:?} {norm_width:?}, magnitude \
                 {magnitude:?}, {temperature:?}"
            );
            assert_near(&case, &client, &actual, &wide(&expected), ERROR);
        }
    }
}

/// Tokens, heads, KV heads and head dimension; the window; the softcap; the lengths of all
/// sequences but the last.
type AttentionCase<'a> = ([usize; 4], Option<usize>, Option<f32>, &'a [usize]);

#[test]
fn the_gradient_of_attention_matches_the_cpu() {
    let Some(client) = gpu() else { return };
    let cases: [AttentionCase; 10] = [
        ([1, 1, 1, 6], None, None, &[]),
        ([3, 4, 2, 64], None, None, &[]),
        ([70, 2, 1, 80], None, None, &[]),
        ([70, 4, 2, 6], Some(5), None, &[]),
        ([70, 3, 3, 64], None, None, &[1, 30, 33]),
        ([130, 2, 1, 16], Some(40), None, &[40, 60]),
        ([70, 1, 1, 256], Some(33), None, &[3]),
        ([64, 2, 2, 32], Some(1), None, &[32]),
        // Scores are around 1.
        ([70, 4, 2, 16], None, Some(1.0), &[30]),
        ([70, 2, 1, 80], Some(33), Some(0.5), &[]),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, ([tokens, heads, kv_heads, head_dim], window, softcap, lengths)) in cases.into_iter().enumerate() {
        let capped = softcap.map(|cap| format!(", softcap {cap}")).unwrap_or_default();
        let case = format!(
            "backward::the_gradient_of_attention_matches_the_cpu {tokens} tokens, {heads} heads of {head_dim} over \
             {kv_heads}, window {window:?}{capped}"
        );
        if !parts.includes_or(number == 0, number, &case) {
            continue;
        }
        let heads = Heads {
            heads,
            kv_heads,
            head_dim,
            scale: 2.0 / (head_dim as f32).sqrt(),
            softcap,
            window,
        };
        let (x, d_out) = (
            noise(1, tokens * heads.qkv_width()),
            noise(2, tokens * heads.out_width()),
        );
        let mut starts: Vec<u32> = Vec::new();
        for length in lengths {
            starts.resize(starts.len() + length, starts.len() as u32);
        }
        starts.resize(tokens, starts.len() as u32);
        let mut expected = vec![0.0; x.len()];
        let (mut out, mut lse) = (vec![0.0; d_out.len()], vec![0.0; tokens * heads.heads]);
        attention::attend_batch_with_lse(&x, &heads, &starts, &mut out, &mut lse).expect("sizes that fit");
        let saved = [&out[..], &lse];
        attention::attend_batch_backward(&x, &heads, &starts, saved, &d_out, &mut expected).expect("sizes that fit");
        let actual = gpu::attend_batch_backward(
            &client,
            &floats(&client, &x, tokens, heads.qkv_width()),
            &heads,
            &numbers(&client, &starts),
            &floats(&client, &d_out, tokens, heads.out_width()),
        )
        .expect("sizes that fit");
        let case = format!("{tokens} tokens, {heads:?}, {lengths:?}");
        assert_near(&case, &client, &actual, &wide(&expected), ERROR);
    }
}

/// Masked keys get a gradient of exactly zero, and every gradient is finite, also with scores up to
/// 1e37 apart.
#[test]
fn masked_keys_get_zero_gradient_and_distant_scores_a_finite_one() {
    let Some(client) = gpu() else { return };
    for size in [1.0, 1e10, 1e18] {
        let heads = Heads {
            heads: 2,
            kv_heads: 1,
            head_dim: 16,
            scale: 1.0,
            softcap: None,
            window: Some(5),
        };
        let (tokens, first_length, width) = (70, 33, heads.qkv_width());
        let x: Vec<f32> = noise(1, tokens * width).iter().map(|x| size * x).collect();
        // Only the last query of the last sequence has an output gradient: it sees five keys.
        let visible_keys = tokens - 5..tokens;
        let mut d_out = noise(2, tokens * heads.out_width());
        d_out[..(tokens - 1) * heads.out_width()].fill(0.0);
        let starts: Vec<u32> = (0..tokens)
            .map(|token| if token < first_length { 0 } else { first_length as u32 })
            .collect();
        let actual = gpu::attend_batch_backward(
            &client,
            &floats(&client, &x, tokens, width),
            &heads,
            &numbers(&client, &starts),
            &floats(&client, &d_out, tokens, heads.out_width()),
        )
        .expect("sizes that fit");
        for (token, row) in read(&client, &actual).chunks(width).enumerate() {
            assert!(
                row.iter().all(|x| x.is_finite()),
                "scores of {size}, token {token}: {row:?}"
            );
            let is_zero = row.iter().all(|x| *x == 0.0);
            // With distant scores, one key has all the probability.
            let expected = !visible_keys.contains(&token) || (is_zero && size > 1.0);
            assert_eq!(is_zero, expected, "scores of {size}, token {token}: {row:?}");
        }
    }
}

/// A logit of minus infinity, or near it, masks a token.
#[test]
fn masked_logits_get_zero_gradient_and_change_no_other() {
    let Some(client) = gpu() else { return };
    let (rows, cols) = (3, 700);
    for masked in [f32::MIN, -3e38, -1e30, f32::NEG_INFINITY] {
        let is_masked = |column: usize| column % 3 == 1;
        let plain: Vec<f32> = noise(1, rows * cols).iter().map(|x| 3.0 * x).collect();
        let mut logits = plain.clone();
        for (index, logit) in logits.iter_mut().enumerate() {
            if is_masked(index % cols) {
                *logit = masked;
            }
        }
        let targets: Vec<u32> = (0..rows as u32).map(|row| row * 30).collect();
        // On the CPU, without the masked logits.
        let (mut gradients, mut losses) = (Vec::new(), vec![0.0; rows]);
        for row in plain.chunks(cols) {
            let unmasked = row.iter().enumerate().filter(|(column, _)| !is_masked(*column));
            gradients.extend(unmasked.map(|(_, logit)| *logit));
        }
        let unmasked_index = |target: u32| (0..target).filter(|column| !is_masked(*column as usize)).count() as u32;
        let cpu_targets: Vec<u32> = targets.iter().map(|target| unmasked_index(*target)).collect();
        cross_entropy_backward_in_place(&mut gradients, &cpu_targets, 0.25, None, &mut losses).expect("sizes that fit");
        let x = floats(&client, &logits, rows, cols);
        let actual = gpu::cross_entropy_in_place(&client, &x, &numbers(&client, &targets), 0.25, None, true)
            .and_then(|losses| Floats::new(losses, 1, rows))
            .expect("sizes that fit");
        let case = format!("masked by {masked:e}");
        assert_near(&case, &client, &actual, &wide(&losses), ERROR);
        let (mut masked_gradients, mut other_gradients) = (Vec::new(), Vec::new());
        for (index, gradient) in read(&client, &x).into_iter().enumerate() {
            if is_masked(index % cols) {
                masked_gradients.push(gradient)
            } else {
                other_gradients.push(gradient)
            }
        }
        assert!(
            masked_gradients.iter().all(|gradient| *gradient == 0.0),
            "{case}: {:?}",
            &masked_gradients[..8]
        );
        let other_gradients = floats(&client, &other_gradients, 1, gradients.len());
        assert_near(&case, &client, &other_gradients, &wide(&gradients), ERROR);
    }
}

/// The result of `exp` far outside the range of f32 differs between devices; only `gpu/exp.rs`
/// calls it, within bounds.
#[test]
fn no_kernel_calls_exp_without_its_bounds() {
    let gpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernels/src/gpu");
    let mut unbounded = Vec::new();
    for folder in ["", "attention", "backward", "matrix_units"] {
        for entry in std::fs::read_dir(gpu.join(folder)).expect("the kernels' folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("gpu/exp.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let lines = text
                .lines()
                .filter(|line| line.contains(".exp()") || line.contains("f32::exp("));
            unbounded.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
        }
    }
    assert!(unbounded.is_empty(), "{unbounded:#?}");
}

/// Columns `first..first + count` of a matrix of `width`.
fn columns(x: &[f32], width: usize, first: usize, count: usize) -> Vec<f64> {
    x.chunks(width)
        .flat_map(|row| wide(&row[first..first + count]))
        .collect()
}

#[test]
fn the_gradient_through_a_weight_matches_the_product() {
    let Some(client) = gpu() else { return };
    let each = Quant::ALL.map(|quant| (quant, [3, 19, 512], false));
    let more = [
        (Quant::F32, [70, 33, 67], true),
        (Quant::F16, [1, 1, 1], false),
        (Quant::Q8_0, [70, 130, 96], true),
        (Quant::Q4_K, [70, 70, 256], true),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, (quant, [tokens, rows, cols], add)) in each.into_iter().chain(more).enumerate() {
        let case = format!(
            "backward::the_gradient_through_a_weight_matches_the_product {quant}, {tokens} tokens, {rows} by {cols}"
        );
        if !parts.includes_or(number == 0, number, &case) {
            continue;
        }
        let ((weight, dequantized), first_column) = (weight(&client, quant, rows, cols), 2);
        let (dy, before) = (noise(1, tokens * (rows + 5)), noise(2, tokens * cols));
        let d = columns(&dy, rows + 5, first_column, rows);
        let mut expected = matmul(&d, &wide(&dequantized), tokens, rows, cols);
        expected.iter_mut().for_each(|x| *x *= 0.5);
        if add {
            expected
                .iter_mut()
                .zip(&before)
                .for_each(|(x, before)| *x += f64::from(*before));
        }
        let dx = floats(&client, &before, tokens, cols);
        gpu::weight_backward(
            &client,
            &floats(&client, &dy, tokens, rows + 5),
            first_column,
            &weight,
            0.5,
            MatmulPrecision::F32,
            &dx,
            add,
        )
        .expect("sizes that fit");
        assert_near(
            &format!("{quant}, {tokens} tokens, {rows} by {cols}"),
            &client,
            &dx,
            &expected,
            ERROR,
        );
    }
}

#[test]
fn a_weight_beyond_a_binding_is_processed_in_ranges() {
    let Some(client) = gpu() else { return };
    // 128 rows of 34 bytes are aligned.
    let (tokens, rows, cols, limit) = (5, 300, 32, 128 * 34 + 33);
    let (weight, dequantized) = weight(&client, Quant::Q8_0, rows, cols);
    let (dy, before) = (noise(1, tokens * rows), noise(2, tokens * cols));
    let product = matmul(&wide(&dy), &wide(&dequantized), tokens, rows, cols);
    let dy = floats(&client, &dy, tokens, rows);
    for add in [false, true] {
        let dx = floats(&client, &before, tokens, cols);
        gpu::weight_backward_with_limit(&client, &dy, 0, &weight, 1.0, MatmulPrecision::F32, &dx, add, limit)
            .expect("128 rows fit");
        let share = if add { 1.0 } else { 0.0 };
        let sums = product
            .iter()
            .zip(&before)
            .map(|(x, before)| x + share * f64::from(*before));
        assert_near(&format!("added: {add}"), &client, &dx, &sums.collect::<Vec<_>>(), ERROR);
        let short = gpu::weight_backward_with_limit(
            &client,
            &dy,
            0,
            &weight,
            1.0,
            MatmulPrecision::F32,
            &dx,
            add,
            128 * 34 - 1,
        );
        assert!(short.is_err());
    }
}

#[test]
fn the_gradient_of_a_linear_covers_weight_and_adapter() {
    let Some(client) = gpu() else { return };
    // Tokens, outputs, inputs, the adapter's rank, and its dropout rate.
    let cases = [
        ([1, 3, 32, 1], None, false),
        ([3, 33, 64, 5], Some(0.5), true),
        ([70, 70, 96, 1], Some(0.1), false),
        ([70, 19, 64, 5], None, true),
        ([70, 19, 64, 0], None, false),
        // Enough tokens that several cubes split them.
        ([300, 19, 64, 5], None, false),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, ([tokens, rows, cols, rank], rate, add)) in cases.into_iter().enumerate() {
        let case = format!(
            "backward::the_gradient_of_a_linear_covers_weight_and_adapter {tokens} tokens, {rows} by {cols}, rank {rank}"
        );
        if !parts.includes_or(number == 0, number, &case) {
            continue;
        }
        let ((weight, dequantized), first_column, width) = (weight(&client, Quant::Q8_0, rows, cols), 1, rows + 3);
        let (x, dy, before) = (
            noise(1, tokens * cols),
            noise(2, tokens * width),
            noise(3, tokens * cols),
        );
        let (a, b) = (noise(4, rank * cols), noise(5, rows * rank));
        let dropout = rate.map(|rate| Dropout { seed: 11, rate });
        let mut mask = vec![1.0; tokens * cols];
        if let Some(dropout) = dropout {
            dropout.drop_in_place(&mut mask, cols);
        }
        let masked = |x: Vec<f64>| {
            x.iter()
                .zip(&mask)
                .map(|(x, mask)| x * f64::from(*mask))
                .collect::<Vec<_>>()
        };
        let scaled = |x: &[f64], factor: f64| x.iter().map(|x| factor * x).collect::<Vec<_>>();
        let d = columns(&dy, width, first_column, rows);
        let dropped_x = masked(wide(&x));
        let d_low = scaled(&matmul(&d, &wide(&b), tokens, rows, rank), 2.0);
        let low = matmul(&dropped_x, &transpose(&wide(&a), rank, cols), tokens, cols, rank);
        let adapter_dx = masked(matmul(&d_low, &wide(&a), tokens, rank, cols));
        let mut expected = scaled(&matmul(&d, &wide(&dequantized), tokens, rows, cols), 0.5);
        for ((x, adapter_dx), before) in expected.iter_mut().zip(adapter_dx).zip(&before) {
            *x += adapter_dx + if add { f64::from(*before) } else { 0.0 };
        }
        let linear = Linear {
            weight,
            scale: 0.5,
            lora: (rank > 0).then(|| Lora {
                a: floats(&client, &a, rank, cols),
                b: floats(&client, &b, rows, rank),
                scale: 2.0,
                dropout,
            }),
            bias: None,
        };
        let dx = floats(&client, &before, tokens, cols);
        let (x, dy) = (floats(&client, &x, tokens, cols), floats(&client, &dy, tokens, width));
        let adapter = gpu::linear_backward(&client, &x, &linear, MatmulPrecision::F32, &dy, first_column, &dx, add)
            .expect("sizes that fit");
        let case = format!("{tokens} tokens, {rows} by {cols}, rank {rank}, {dropout:?}");
        assert_near(&format!("dx of {case}"), &client, &dx, &expected, ERROR);
        assert_eq!(adapter.is_some(), rank > 0, "{case}");
        if let Some((da, db)) = adapter {
            let expected_da = matmul(&transpose(&d_low, tokens, rank), &dropped_x, rank, tokens, cols);
            assert_near(&format!("da of {case}"), &client, &da, &expected_da, ERROR);
            let expected_db = scaled(&matmul(&transpose(&d, tokens, rows), &low, rows, tokens, rank), 2.0);
            assert_near(&format!("db of {case}"), &client, &db, &expected_db, ERROR);
        }
    }
}

#[test]
fn mismatched_sizes_are_errors() {
    let Some(client) = gpu() else { return };
    let ones = |rows, cols| floats(&client, &vec![1.0; rows * cols], rows, cols);
    let norm = norm_of(&client, &[1.0; 4], 1e-3);
    assert!(gpu::rms_norm_backward(&client, &ones(2, 4), &norm, &ones(3, 4)).is_err());
    assert!(gpu::rms_norm_backward(&client, &ones(2, 5), &norm, &ones(2, 5)).is_err());
    assert!(gpu::glu_backward(&client, &ones(2, 5), Activation::Silu, &ones(2, 3)).is_err());
    assert!(
        gpu::cross_entropy_in_place(&client, &ones(9, 5), &unpadded(numbers(&client, &[0])), 1.0, None, true).is_err()
    );
    let (weight, _) = weight(&client, Quant::Q8_0, 3, 32);
    assert!(
        gpu::weight_backward(
            &client,
            &ones(2, 4),
            2,
            &weight,
            1.0,
            MatmulPrecision::F32,
            &ones(2, 32),
            false
        )
        .is_err()
    );
    assert!(
        gpu::weight_backward(
            &client,
            &ones(2, 4),
            1,
            &weight,
            1.0,
            MatmulPrecision::F32,
            &ones(2, 33),
            false
        )
        .is_err()
    );
    let heads = Heads {
        heads: 3,
        kv_heads: 2,
        head_dim: 2,
        scale: 1.0,
        softcap: None,
        window: None,
    };
    let starts = numbers(&client, &[0, 0]);
    assert!(gpu::attend_batch_backward(&client, &ones(2, 14), &heads, &starts, &ones(2, 6)).is_err());
}
