//! Compares every operation on the GPU with the CPU in f32: by format, matmul precision, layout of
//! the inputs, tokens, columns and every other parameter that kernels depend on.
//!
//! A new operation is a row of [`ROWS`]. A run tests a sample of the cases, which is the same on
//! every machine. Runs may test parts of the sample in rotation (`HEARTH_PART_GPU`).
//! `HEARTH_GPU_TABLE=complete` tests every combination of a row's crossed axes, as
//! `cargo xtask gpu` does on a real GPU.

mod attention;
mod axes;
mod layout;
mod linears;

use crate::{client, gpu};
use axes::{
    Axis, CACHED, COLUMNS, Case, DIFFERENTIABLE, FORMAT, GROUP, HEAD_DIM, LAYOUT, PRECISION, QK_CHANGE, QUANT, SEED,
    TOKENS, VOCABULARY, WINDOW,
};
use burn::tensor::{Device, Tensor};
use hearth_kernels::Quant;
use hearth_kernels::gpu::{backward_uses_matrix_units, linear_uses_matrix_units};
use hearth_llm::ops::MatmulPrecision;
use hearth_test_parts::Parts;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The compared outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The output.
    Forward,
    /// The gradients of the inputs and of the adapters.
    Gradients,
}

/// An output of an operation: rows of `width` values.
pub struct Output {
    name: &'static str,
    values: Vec<f32>,
    width: usize,
}

type Outputs = Vec<Output>;

impl Output {
    fn new(name: &'static str, tensor: Tensor<2>) -> Self {
        let [_, width] = tensor.dims();
        let values = tensor.into_data().try_into_vec().expect("floats");
        Self { name, values, width }
    }

    /// The maximum error relative to the maximum of its row. Row maxima are clamped to at least
    /// 1/100 of the overall maximum: near a zero of an activation's derivative, a row of gradients
    /// is a difference of nearly equal values.
    fn relative_error(&self, expected: &Self) -> f32 {
        if (self.values.len(), self.width) != (expected.values.len(), expected.width) {
            return f32::INFINITY;
        }
        let max_abs = |values: &[f32]| values.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let min_row_max = (1e-2 * max_abs(&expected.values)).max(f32::MIN_POSITIVE);
        let rows = self.values.chunks(self.width).zip(expected.values.chunks(self.width));
        let row_error = |(actual, expected): (&[f32], &[f32])| {
            let differences = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
            // Written so that NaN is the maximum, and counts as an infinite error.
            let max = differences.fold(0.0_f32, |max, x| if x <= max { max } else { x });
            let error = max / max_abs(expected).max(min_row_max);
            if error.is_nan() { f32::INFINITY } else { error }
        };
        rows.map(row_error).fold(0.0, f32::max)
    }
}

/// One operation in one direction.
struct Row {
    name: &'static str,
    direction: Direction,
    run: fn(&Case, &Device, Direction) -> Outputs,
    /// Axes whose combinations the complete table covers.
    crossed: &'static [Axis],
    /// Axes that have pseudo-random values in the complete table.
    cycled: &'static [Axis],
    /// Tolerance if inputs of products are not rounded.
    tolerance: f32,
}

use Direction::{Forward, Gradients};

/// The table.
const ROWS: &[Row] = &[
    row("dequantize", Forward, linears::run_dequantize, &[QUANT, COLUMNS], &[]),
    row(
        "embed",
        Forward,
        linears::run_embed,
        &[QUANT, COLUMNS, VOCABULARY],
        &[TOKENS],
    ),
    row(
        "norm_linears",
        Forward,
        linears::run_norm_linears,
        &[QUANT, PRECISION, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "norm_linears",
        Gradients,
        linears::run_norm_linears,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "logits",
        Forward,
        linears::run_logits,
        &[QUANT, TOKENS, COLUMNS, VOCABULARY],
        &[PRECISION, LAYOUT],
    ),
    row(
        "linear_add",
        Forward,
        linears::run_linear_add,
        &[QUANT, PRECISION, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "linear_add",
        Gradients,
        linears::run_linear_add,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "feed_forward",
        Forward,
        linears::run_feed_forward,
        &[QUANT, PRECISION, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "feed_forward",
        Gradients,
        linears::run_feed_forward,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "cross_entropy",
        Forward,
        linears::run_cross_entropy,
        &[QUANT, TOKENS, VOCABULARY],
        &[PRECISION, COLUMNS, LAYOUT],
    ),
    Row {
        // The gradient is a sum over the vocabulary, in f32, of one term near 1 and 32,000 terms
        // near 1 / 32,000.
        tolerance: 1e-3,
        ..row(
            "cross_entropy",
            Gradients,
            linears::run_cross_entropy,
            &[QUANT, TOKENS, VOCABULARY],
            &[DIFFERENTIABLE, COLUMNS, LAYOUT],
        )
    },
    row(
        "argmax",
        Forward,
        linears::run_argmax,
        &[TOKENS, VOCABULARY, LAYOUT],
        &[],
    ),
    row(
        "attend, batch",
        Forward,
        attention::over_the_batch,
        &[TOKENS, WINDOW, GROUP, HEAD_DIM],
        &[LAYOUT],
    ),
    row(
        "attend, batch",
        Gradients,
        attention::over_the_batch,
        &[TOKENS, WINDOW, GROUP, HEAD_DIM],
        &[LAYOUT],
    ),
    Row {
        // A difference in the last bit of f32 may round to another value in f16 or 8 bits.
        tolerance: 2e-2,
        ..row(
            "attend, cache",
            Forward,
            attention::over_a_cache,
            &[TOKENS, CACHED, WINDOW, GROUP, HEAD_DIM, FORMAT],
            &[LAYOUT],
        )
    },
    row(
        "attend, batch, change of Q and K",
        Forward,
        attention::over_the_batch,
        &[QK_CHANGE, GROUP, HEAD_DIM],
        &[TOKENS, WINDOW, LAYOUT],
    ),
    row(
        "attend, batch, change of Q and K",
        Gradients,
        attention::over_the_batch,
        &[QK_CHANGE, GROUP, HEAD_DIM],
        &[TOKENS, WINDOW, LAYOUT],
    ),
    Row {
        // As above.
        tolerance: 2e-2,
        ..row(
            "attend, cache, change of Q and K",
            Forward,
            attention::over_a_cache,
            &[QK_CHANGE, GROUP, HEAD_DIM],
            &[TOKENS, CACHED, WINDOW, FORMAT, LAYOUT],
        )
    },
    // At the end: the cases of a row depend on its number.
    row(
        "softcap",
        Forward,
        linears::run_softcap,
        &[TOKENS, VOCABULARY, LAYOUT],
        &[],
    ),
    row(
        "softcap",
        Gradients,
        linears::run_softcap,
        &[TOKENS, VOCABULARY, LAYOUT],
        &[],
    ),
    row(
        "cross_entropy, softcap",
        Forward,
        linears::run_capped_cross_entropy,
        &[TOKENS, VOCABULARY],
        &[COLUMNS, LAYOUT],
    ),
    Row {
        // As without a softcap.
        tolerance: 1e-3,
        ..row(
            "cross_entropy, softcap",
            Gradients,
            linears::run_capped_cross_entropy,
            &[TOKENS, VOCABULARY],
            &[COLUMNS, LAYOUT],
        )
    },
    row(
        "attend, batch, softcap",
        Forward,
        attention::capped_over_the_batch,
        &[TOKENS, WINDOW, GROUP, HEAD_DIM],
        &[LAYOUT],
    ),
    row(
        "attend, batch, softcap",
        Gradients,
        attention::capped_over_the_batch,
        &[TOKENS, WINDOW, GROUP, HEAD_DIM],
        &[LAYOUT],
    ),
    Row {
        // As without a softcap.
        tolerance: 2e-2,
        ..row(
            "attend, cache, softcap",
            Forward,
            attention::capped_over_a_cache,
            &[TOKENS, CACHED, WINDOW, GROUP, HEAD_DIM, FORMAT],
            &[LAYOUT],
        )
    },
];

const fn row(
    name: &'static str,
    direction: Direction,
    run: fn(&Case, &Device, Direction) -> Outputs,
    crossed: &'static [Axis],
    cycled: &'static [Axis],
) -> Row {
    Row {
        name,
        direction,
        run,
        crossed,
        cycled,
        tolerance: 1e-4,
    }
}

/// Tolerance if inputs of products are rounded to f16.
const F16_TOLERANCE: f32 = 2e-2;

/// Maximum MACs of a sampled case. Software drivers take seconds for more.
const MAX_MACS: usize = 1 << 29;
/// Maximum MACs of a case with matrix units, which software drivers emulate slowly.
const MATRIX_UNIT_MAX_MACS: usize = 1 << 24;
/// Minimum tokens for matrix units.
const MATRIX_UNIT_MIN_TOKENS: usize = 9;
/// The vocabulary size in cases with matrix units.
const MATRIX_UNIT_VOCABULARY: usize = 331;

/// The cases of the table to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Sampled cases.
    Sample,
    /// All cases.
    Complete,
    /// Sampled cases that use matrix units, with fewer tokens and a small vocabulary.
    MatrixUnits,
}

impl Extent {
    fn from_env() -> Self {
        match std::env::var("HEARTH_GPU_TABLE").as_deref() {
            Ok("complete") => Self::Complete,
            _ => Self::Sample,
        }
    }
}

impl Row {
    /// The cases of this row to run. `seed` is the number of the row.
    fn cases(&self, seed: u64, extent: Extent, device: &Device) -> Vec<Case> {
        if extent == Extent::Complete {
            return axes::complete(seed, self.crossed, self.cycled);
        }
        let mut cases = axes::sample(seed, self.crossed, self.cycled);
        let (max_macs, min_tokens) = match extent {
            Extent::MatrixUnits => (MATRIX_UNIT_MAX_MACS, MATRIX_UNIT_MIN_TOKENS),
            _ => (MAX_MACS, 1),
        };
        for case in &mut cases {
            if extent == Extent::MatrixUnits {
                case.vocabulary = MATRIX_UNIT_VOCABULARY;
            }
            case.tokens = case.tokens.max(min_tokens);
            while case.tokens * case.columns * case.vocabulary > max_macs && case.tokens > min_tokens {
                case.tokens = case.tokens.div_ceil(4).max(min_tokens);
            }
        }
        cases.retain(|case| extent != Extent::MatrixUnits || self.uses_matrix_units(case, device));
        cases
    }

    /// The maximum error of a case on the GPU, or the problem as a sentence.
    fn check(&self, case: &Case, device: &Device) -> Result<f32, String> {
        let reference = Case {
            precision: MatmulPrecision::F32,
            ..case.clone()
        };
        let run =
            |case: &Case, device: &Device| catch_unwind(AssertUnwindSafe(|| (self.run)(case, device, self.direction)));
        let Ok(expected) = run(&reference, &Device::flex()) else {
            return Err("the CPU panicked".to_owned());
        };
        let Ok(actual) = run(case, device) else {
            return Err("the GPU's operation panicked".to_owned());
        };
        let tolerance = if self.uses_matrix_units(case, device) {
            F16_TOLERANCE
        } else {
            self.tolerance
        };
        if actual.len() != expected.len() {
            return Err(format!("{} outputs, {} expected", actual.len(), expected.len()));
        }
        actual
            .iter()
            .zip(&expected)
            .try_fold(0.0, |max: f32, (actual, expected)| {
                let error = actual.relative_error(expected);
                if error > tolerance {
                    Err(format!(
                        "{} is off by {error:.1e}, {tolerance:.0e} allowed",
                        actual.name
                    ))
                } else {
                    Ok(max.max(error))
                }
            })
    }

    /// Whether the device uses matrix units for this case, which round the inputs of products to
    /// f16.
    fn uses_matrix_units(&self, case: &Case, device: &Device) -> bool {
        let client = client(device);
        let forward = linear_uses_matrix_units(&client, case.quant, case.tokens, case.precision);
        let backward = backward_uses_matrix_units(&client, case.quant, case.tokens, case.precision);
        forward || (self.direction == Gradients && backward)
    }
}

/// CUDA and ROCm pad rows of these widths. With autodiff, a residual is always shared.
#[test]
fn residuals_of_widths_576_and_960_are_added_to_in_every_layout() {
    let Some(device) = gpu() else { return };
    const TEST: &str = "table::residuals_of_widths_576_and_960_are_added_to_in_every_layout";
    let parts = Parts::from_variable("gpu");
    let rows = ROWS
        .iter()
        .filter(|row| ["linear_add", "feed_forward"].contains(&row.name));
    for row in rows {
        for (number, case) in axes::complete(7, &[LAYOUT, COLUMNS, SEED], &[]).into_iter().enumerate() {
            let case = Case {
                quant: Quant::Q4_0,
                tokens: 3,
                ..case
            };
            // Layouts, columns and seeds have four values each. A part has each pair of values
            // once.
            let part = number + number / 4 + number / 16;
            if !parts.includes(part, &format!("{TEST} {}, {:?}, {case}", row.name, row.direction)) {
                continue;
            }
            if let Err(problem) = row.check(&case, &device) {
                panic!("{}, {:?}, {case}: {problem}", row.name, row.direction);
            }
        }
    }
}

#[test]
fn every_operation_matches_the_cpu_in_every_layout() {
    let Some(device) = gpu() else { return };
    const TEST: &str = "table::every_operation_matches_the_cpu_in_every_layout";
    let (extent, parts) = (Extent::from_env(), Parts::from_variable("gpu"));
    let count = run(extent, &device, &mut |row, number, case| {
        let Row { name, direction, .. } = &ROWS[row];
        // The first case of each row is in every part. Complete tables are for real GPUs and are
        // not split into parts.
        let is_in_all_parts = number == 0;
        let label = format!("{TEST} {name}, {direction:?}, {case}");
        extent == Extent::Complete || parts.includes_or(is_in_all_parts, row + number, &label)
    });
    assert!(count >= ROWS.len(), "{count} cases");
}

/// The cases are small enough for a software driver, which emulates matrix units slowly.
#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn matrix_units_multiply_as_the_cpu_in_every_layout() {
    let device = gpu().expect("GPU tests are not left out");
    let count = run(Extent::MatrixUnits, &device, &mut |_, _, _| true);
    assert!(count > 0, "this driver has no matrix units");
}

/// Runs the cases that `select` accepts, which receives the numbers of row and case. Returns the
/// number of these cases. Panics if one fails.
#[track_caller]
fn run(extent: Extent, device: &Device, select: &mut dyn FnMut(usize, usize, &Case) -> bool) -> usize {
    let (mut count, mut failures) = (0, Vec::new());
    for (number, row) in ROWS.iter().enumerate() {
        let start = std::time::Instant::now();
        let cases = row.cases(number as u64, extent, device).into_iter().enumerate();
        let cases: Vec<Case> = cases
            .filter(|(case_number, case)| select(number, *case_number, case))
            .map(|(_, case)| case)
            .collect();
        let mut max_error = 0.0_f32;
        for case in &cases {
            match row.check(case, device) {
                Ok(error) => max_error = max_error.max(error),
                Err(problem) => failures.push(format!("{}, {:?}, {case}: {problem}", row.name, row.direction)),
            }
        }
        count += cases.len();
        println!(
            "{}, {:?}: {} cases, off by {max_error:.1e} at most, {:.1} s",
            row.name,
            row.direction,
            cases.len(),
            start.elapsed().as_secs_f64()
        );
    }
    assert!(
        failures.is_empty(),
        "{} of {count} cases failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    count
}
