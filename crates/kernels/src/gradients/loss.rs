//! Fused linear cross-entropy.

use super::linears::{InputAndAdapterGradients, StoredLinear, compare};
use super::{BF16, F32, Report, many_rows};
use crate::blocks::Quant;
use crate::cross_entropy::{Targets, linear_cross_entropy};
use crate::linear::{MatmulPrecision, Norm};
use crate::reference::{self, noise, wide};
use crate::shape::ShapeError;
use crate::softmax::IGNORE_INDEX;

const EPS: f32 = 1e-3;
const SCALE: f32 = 0.25;

/// A target for each row; every third row is untrained, except the first.
fn targets(rows: usize, vocab: usize) -> Vec<u32> {
    let target = |row: usize| match row % 3 {
        2 => IGNORE_INDEX,
        _ => (row * 7 % vocab) as u32,
    };
    (0..rows).map(target).collect()
}

pub(super) fn check(report: &mut Report) {
    for (precision, tolerance, name) in [
        (MatmulPrecision::F32, F32, "f32"),
        (MatmulPrecision::Bf16, BF16, "bf16"),
    ] {
        for (size, tokens) in [("one row", 1), ("more rows than threads", many_rows())] {
            for (quant, vocab, cols) in [(Quant::Q8_0, 40, 32), (Quant::F32, 5, 7)] {
                let arrangement = format!("{name}, {quant}, {size}");
                let result = StoredLinear::new(20, quant, vocab, cols, true).and_then(|stored| {
                    compare_loss(report, &arrangement, tokens, &stored, vocab, cols, precision, tolerance)
                });
                report.report_setup("linear_cross_entropy", &arrangement, result);
            }
        }
    }
}

/// Checks the gradient of the loss through an output layer.
fn compare_loss(
    report: &mut Report,
    case: &str,
    tokens: usize,
    stored: &StoredLinear,
    vocab: usize,
    cols: usize,
    precision: MatmulPrecision,
    tolerance: f64,
) -> Result<(), ShapeError> {
    let (x, norm_weight, weights) = (noise(2, tokens * cols), noise(3, cols), noise(4, tokens));
    let ids = targets(tokens, vocab);
    for (output, weights, softcap, arrangement) in [
        (stored.plain()?, None, None, "weight alone"),
        (stored.plain()?, None, Some(2.0), "softcap"),
        (
            stored.full(None)?,
            Some(&weights[..]),
            None,
            "scale, adapter, bias, weighted rows",
        ),
    ] {
        let norm = Some(Norm {
            weight: &norm_weight,
            eps: EPS,
        });
        let targets = Targets {
            ids: &ids,
            weights,
            scale: SCALE,
        };
        let (mut dx, mut losses) = (vec![f32::NAN; x.len()], vec![f32::NAN; tokens]);
        let dx_out = Some(&mut dx[..]);
        let result = linear_cross_entropy(&x, norm, &output, softcap, &targets, precision, &mut losses, dx_out);
        let actual = result.map(|loss| InputAndAdapterGradients {
            dx,
            adapters: vec![loss.adapter],
        });
        let scales: Vec<f32> = (0..tokens)
            .map(|row| SCALE * weights.map_or(1.0, |weights| weights[row]))
            .collect();
        let arrangement = format!("{arrangement}, {case}");
        let linears = [output];
        compare(
            report,
            "linear_cross_entropy",
            &arrangement,
            actual,
            &x,
            &scales,
            &linears,
            tolerance,
            |x, linears| {
                let x = reference::rms_norm(x, &wide(&norm_weight), f64::from(EPS));
                let logits = linears[0].over(&x);
                match softcap {
                    None => reference::cross_entropy(&logits, &ids),
                    Some(cap) => reference::cross_entropy(&reference::softcapped(&logits, f64::from(cap)), &ids),
                }
            },
        );
    }
    Ok(())
}
