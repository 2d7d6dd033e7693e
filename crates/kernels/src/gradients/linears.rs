//! Fused linears with all epilogues: with a normalized input, before a norm, and as gated units.

use super::{BF16, F32, Report, many_rows};
use crate::bf16_slices::SavedElement;
use crate::blocks::Quant;
use crate::dropout::Dropout;
use crate::fused::{gated_backward_from_saved, gated_with_saved, linear_add_backward, norm_linears_backward};
use crate::glu::Activation;
use crate::linear::{Linear, Lora, LoraGradient, MatmulPrecision, Norm};
use crate::matrix::{self, Layout, Matrix};
use crate::reference::{self, central_differences, noise, wide};
use crate::shape::ShapeError;

const EPS: f32 = 1e-3;
const RANK: usize = 3;

/// A stored weight with its adapter and bias.
pub(super) struct StoredLinear {
    quant: Quant,
    layout: Layout,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
}

impl StoredLinear {
    /// A random linear. The weight is packed for this machine, or in the file's layout.
    pub fn new(seed: u64, quant: Quant, rows: usize, cols: usize, packed: bool) -> Result<Self, ShapeError> {
        let row_bytes = quant.row_bytes(cols).unwrap_or(0);
        let mut bytes = vec![0; row_bytes * rows];
        for (x, row) in noise(seed, rows * cols)
            .chunks(cols)
            .zip(bytes.chunks_mut(row_bytes.max(1)))
        {
            quant.quantize_row(x, row)?;
        }
        let (layout, bytes) = if packed {
            matrix::pack(quant, rows, cols, &bytes)?
        } else {
            (Layout::Plain, bytes)
        };
        Ok(Self {
            quant,
            layout,
            rows,
            cols,
            bytes,
            a: noise(seed + 1, RANK * cols),
            b: noise(seed + 2, RANK * rows),
            bias: noise(seed + 3, rows),
        })
    }

    /// The weight alone.
    pub fn plain(&self) -> Result<Linear<'_>, ShapeError> {
        let matrix = Matrix::new(self.quant, self.layout, self.rows, self.cols, &self.bytes)?;
        Ok(Linear::plain(matrix))
    }

    /// The weight with a scale, an adapter and a bias.
    pub fn full(&self, dropout: Option<Dropout>) -> Result<Linear<'_>, ShapeError> {
        Ok(Linear {
            scale: 0.5,
            lora: Some(Lora {
                a: &self.a,
                b: &self.b,
                rank: RANK,
                scale: 1.5,
                dropout,
            }),
            bias: Some(&self.bias),
            ..self.plain()?
        })
    }
}

/// Computed gradients of an input and of the linears' adapters.
pub(super) struct InputAndAdapterGradients {
    pub dx: Vec<f32>,
    pub adapters: Vec<Option<LoraGradient>>,
}

/// Compares the gradient of `x` and of each adapter with the central differences of
/// `forward(x, linears)`.
pub(super) fn compare(
    report: &mut Report,
    op: &'static str,
    arrangement: &str,
    actual: Result<InputAndAdapterGradients, ShapeError>,
    x: &[f32],
    dy: &[f32],
    linears: &[Linear],
    tolerance: f64,
    forward: impl Fn(&[f64], &[reference::Linear]) -> Vec<f64>,
) {
    let cols = linears.first().map_or(1, |linear| linear.weight.cols());
    let references: Result<Vec<_>, _> = linears
        .iter()
        .map(|linear| reference::Linear::from_linear(linear, x.len() / cols))
        .collect();
    let (actual, references) = match (actual, references) {
        (Ok(actual), Ok(references)) => (actual, references),
        (Err(error), _) | (_, Err(error)) => {
            report.compare(op, arrangement.to_owned(), Err(error), &[], tolerance);
            return;
        }
    };
    let (x, dy) = (wide(x), wide(dy));
    let expected = central_differences(&x, &dy, |x| forward(x, &references));
    report.compare(op, format!("input, {arrangement}"), Ok(actual.dx), &expected, tolerance);
    let mut adapters = actual.adapters.into_iter();
    for (i, linear) in references.iter().enumerate() {
        // A missing gradient has no elements, which matches a linear without an adapter.
        let adapter = adapters
            .next()
            .flatten()
            .map_or([vec![], vec![]], |gradient| [gradient.a, gradient.b]);
        let Some(lora) = &linear.lora else {
            let arrangement = format!("none of linear {i}, {arrangement}");
            report.compare(op, arrangement, Ok(adapter.concat()), &[], tolerance);
            continue;
        };
        let forward_with = |change: &dyn Fn(&mut reference::Lora)| {
            let mut linears = references.clone();
            linears[i].lora.iter_mut().for_each(change);
            forward(&x, &linears)
        };
        let a = central_differences(&lora.a, &dy, |a| forward_with(&|lora| lora.a = a.to_vec()));
        let b = central_differences(&lora.b, &dy, |b| forward_with(&|lora| lora.b = b.to_vec()));
        for ((side, actual), expected) in ["a", "b"].into_iter().zip(adapter).zip([a, b]) {
            let arrangement = format!("{side} of linear {i}, {arrangement}");
            report.compare(op, arrangement, Ok(actual), &expected, tolerance);
        }
    }
}

pub(super) fn check(report: &mut Report) {
    for (precision, tolerance, name) in [
        (MatmulPrecision::F32, F32, "f32"),
        (MatmulPrecision::Bf16, BF16, "bf16"),
    ] {
        let cases = [
            ("one element", 1, [(Quant::F32, false); 3], [1, 1]),
            (
                "one row",
                1,
                [(Quant::Q4_1, true), (Quant::F32, false), (Quant::Q5_0, true)],
                [20, 64],
            ),
            (
                "few tokens",
                3,
                [(Quant::Q4_1, false), (Quant::Q5_1, true), (Quant::F16, false)],
                [20, 32],
            ),
            (
                "many tokens",
                many_rows().max(13),
                [(Quant::Q8_0, true), (Quant::Q4_0, true), (Quant::BF16, false)],
                [37, 32],
            ),
            (
                "blocks of 256",
                2,
                [(Quant::Q6_K, false), (Quant::Q4_1, true), (Quant::Q4_K, false)],
                [17, 256],
            ),
        ];
        for (size, tokens, formats, [rows, cols]) in cases {
            let new_linear = |i: usize| {
                let (quant, packed) = formats[i];
                StoredLinear::new(10 * (i as u64 + 1), quant, rows, cols, packed)
            };
            let case = format!("{name}, {size}");
            let stored = new_linear(0).and_then(|first| Ok([first, new_linear(1)?, new_linear(2)?]));
            let mut run = |op, check: &Check<'_>| {
                let stored = stored.as_ref().map_err(Clone::clone);
                let result = stored.and_then(|[first, second, third]| check(report, [first, second, third]));
                report.report_setup(op, &case, result);
            };
            run("norm_linears", &|report, stored| {
                check_norm_linears(report, &case, tokens, stored, precision, tolerance)
            });
            run("linear_add", &|report, [_, stored, _]| {
                check_linear_add(report, &case, tokens, stored, precision, tolerance)
            });
            run("gated", &|report, [gate, up, _]| {
                check_gated(report, &case, tokens, [gate, up], precision, tolerance)
            });
        }
    }
}

/// Checks the gradients of an operation over three linears.
type Check<'a> = dyn Fn(&mut Report, [&StoredLinear; 3]) -> Result<(), ShapeError> + 'a;

const DROPOUT: Dropout = Dropout { seed: 5, rate: 0.3 };

/// Checks the gradients of linears that read one input, with and without a norm before them.
fn check_norm_linears(
    report: &mut Report,
    case: &str,
    tokens: usize,
    stored: [&StoredLinear; 3],
    precision: MatmulPrecision,
    tolerance: f64,
) -> Result<(), ShapeError> {
    let (rows, cols) = (stored[0].rows, stored[0].cols);
    let (x, weight) = (noise(1, tokens * cols), noise(2, cols));
    let variants = [
        stored[0].full(None)?,
        stored[1].plain()?,
        stored[2].full(Some(DROPOUT))?,
    ];
    for (linears, norm, arrangement) in [
        (
            &variants[..],
            Some(Norm {
                weight: &weight,
                eps: EPS,
            }),
            "three side by side (strided), norm before",
        ),
        (&variants[..1], None, "one alone"),
    ] {
        let dy = noise(3, tokens * rows * linears.len());
        let mut dx = vec![f32::NAN; x.len()];
        let actual = norm_linears_backward(&x, norm, linears, precision, &dy, &mut dx);
        let actual = actual.map(|adapters| InputAndAdapterGradients { dx, adapters });
        let arrangement = format!("{arrangement}, {case}");
        compare(
            report,
            "norm_linears",
            &arrangement,
            actual,
            &x,
            &dy,
            linears,
            tolerance,
            |x, linears| {
                let x = match norm {
                    Some(norm) => reference::rms_norm(x, &wide(norm.weight), f64::from(EPS)),
                    None => x.to_vec(),
                };
                let outputs: Vec<Vec<f64>> = linears.iter().map(|linear| linear.over(&x)).collect();
                let row = |token: usize| outputs.iter().flat_map(move |y| &y[token * rows..][..rows]).copied();
                (0..tokens).flat_map(row).collect()
            },
        );
    }
    Ok(())
}

/// Checks the gradients of a linear that is added to the residual, with and without a norm after
/// it, and with and without a scale.
fn check_linear_add(
    report: &mut Report,
    case: &str,
    tokens: usize,
    stored: &StoredLinear,
    precision: MatmulPrecision,
    tolerance: f64,
) -> Result<(), ShapeError> {
    let (h, dy, weight) = (
        noise(4, tokens * stored.cols),
        noise(5, tokens * stored.rows),
        noise(6, stored.rows),
    );
    let linears = [stored.full(None)?];
    let norm = Norm {
        weight: &weight,
        eps: EPS,
    };
    for (norm, scale, arrangement) in [
        (None, 1.0, "no norm"),
        (None, 0.22, "no norm, scaled"),
        (Some(norm), 1.0, "norm after"),
        (Some(norm), -1.5, "norm after, scaled"),
    ] {
        let mut dx = vec![f32::NAN; h.len()];
        let actual = linear_add_backward(&h, &linears[0], norm, scale, precision, &dy, &mut dx);
        let actual = actual.map(|adapter| InputAndAdapterGradients {
            dx,
            adapters: vec![adapter],
        });
        let arrangement = format!("{arrangement}, {case}");
        compare(
            report,
            "linear_add",
            &arrangement,
            actual,
            &h,
            &dy,
            &linears,
            tolerance,
            |h, linears| {
                let y = linears[0].over(h);
                let y = match norm {
                    Some(norm) => reference::rms_norm(&y, &wide(norm.weight), f64::from(EPS)),
                    None => y,
                };
                y.iter().map(|y| f64::from(scale) * y).collect()
            },
        );
    }
    Ok(())
}

/// The gradient of a gated unit from the gate and up outputs that its forward saves as `K`.
fn gradient_from_saved<K: SavedElement>(
    zero: K,
    x: &[f32],
    norm: Option<Norm>,
    [gate, up]: [&Linear; 2],
    activation: Activation,
    precision: MatmulPrecision,
    dh: &[f32],
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    let (mut gates, mut ups, mut h) = (vec![zero; dh.len()], vec![zero; dh.len()], vec![f32::NAN; dh.len()]);
    gated_with_saved(x, norm, gate, up, activation, precision, [&mut gates, &mut ups], &mut h)?;
    gated_backward_from_saved(x, norm, gate, up, activation, precision, [&gates[..], &ups], dh, dx)
}

/// Checks the gradients of a gated unit from saved outputs of gate and up, with and without a norm
/// before it.
fn check_gated(
    report: &mut Report,
    case: &str,
    tokens: usize,
    stored: [&StoredLinear; 2],
    precision: MatmulPrecision,
    tolerance: f64,
) -> Result<(), ShapeError> {
    let (x, dh) = (noise(7, tokens * stored[0].cols), noise(8, tokens * stored[0].rows));
    let weight = noise(9, stored[0].cols);
    let norm = Some(Norm {
        weight: &weight,
        eps: EPS,
    });
    let linears = [stored[0].full(None)?, stored[1].full(None)?];
    let gate_and_up = [&linears[0], &linears[1]];
    for (activation, norm) in [
        (Activation::Silu, norm),
        (Activation::GeluTanh, norm),
        (Activation::Silu, None),
    ] {
        for (saved_as, tolerance) in [("saved as f32", tolerance), ("saved as bf16", BF16)] {
            let mut dx = vec![f32::NAN; x.len()];
            let actual = match saved_as {
                "saved as f32" => gradient_from_saved(0.0, &x, norm, gate_and_up, activation, precision, &dh, &mut dx),
                _ => gradient_from_saved(
                    half::bf16::ZERO,
                    &x,
                    norm,
                    gate_and_up,
                    activation,
                    precision,
                    &dh,
                    &mut dx,
                ),
            };
            let actual = actual.map(|adapters| InputAndAdapterGradients {
                dx,
                adapters: adapters.into(),
            });
            let norm_before = if norm.is_some() { "norm before" } else { "no norm" };
            let arrangement = format!("{activation:?}, {norm_before}, gate and up {saved_as}, {case}");
            compare(
                report,
                "gated",
                &arrangement,
                actual,
                &x,
                &dh,
                &linears,
                tolerance,
                |x, linears| {
                    let x = match norm {
                        Some(norm) => reference::rms_norm(x, &wide(norm.weight), f64::from(EPS)),
                        None => x.to_vec(),
                    };
                    reference::gated(activation, &linears[0].over(&x), &linears[1].over(&x))
                },
            );
        }
    }
    Ok(())
}
