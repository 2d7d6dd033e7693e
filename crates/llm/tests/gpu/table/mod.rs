//! Every operation on the GPU against the CPU in f32: by format, matmul precision, layout of the
//! inputs, tokens, columns and every other parameter that kernels depend on.
//!
//! A new operation is a row of [`ROWS`]. A run takes a sample of the cases, the same on every
//! machine, of which parts may rotate between runs (`HEARTH_PART_GPU`); `HEARTH_GPU_TABLE=complete`
//! takes every combination of a row's crossed axes, which `cargo xtask gpu` does on a real GPU.

mod attention;
mod axes;
mod layout;
mod linears;

use crate::{client, gpu};
use axes::{
    Axis, CACHED, COLUMNS, Case, DIFFERENTIABLE, FORMAT, GROUP, HEAD_DIM, LAYOUT, PRODUCT, QUANT, SEED, TOKENS,
    VOCABULARY, WINDOW,
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

    /// The maximum error relative to the maximum of its row. Row maxima are clamped to 1/100 of the
    /// overall maximum: near a zero of an activation's derivative, a gradient's row is a difference
    /// of nearly equal values.
    fn off(&self, expected: &Self) -> f32 {
        if (self.values.len(), self.width) != (expected.values.len(), expected.width) {
            return f32::INFINITY;
        }
        let greatest = |x: &[f32]| x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let floor = (1e-2 * greatest(&expected.values)).max(f32::MIN_POSITIVE);
        let rows = self.values.chunks(self.width).zip(expected.values.chunks(self.width));
        let of_row = |(actual, expected): (&[f32], &[f32])| {
            let differences = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
            // NaN counts as infinite error.
            let most = differences.fold(0.0_f32, |most, x| if x <= most { most } else { x });
            let share = most / greatest(expected).max(floor);
            if share.is_nan() { f32::INFINITY } else { share }
        };
        rows.map(of_row).fold(0.0, f32::max)
    }
}

/// One operation in one direction.
struct Row {
    name: &'static str,
    direction: Direction,
    run: fn(&Case, &Device, Direction) -> Outputs,
    /// Axes whose combinations the complete table covers.
    crossed: &'static [Axis],
    /// Axes whose values are cycled through.
    cycled: &'static [Axis],
    /// Tolerance if only sums are rounded.
    exact: f32,
}

use Direction::{Forward, Gradients};

/// The table.
const ROWS: &[Row] = &[
    row("dequantize", Forward, linears::dequantized, &[QUANT, COLUMNS], &[]),
    row(
        "embed",
        Forward,
        linears::embedded,
        &[QUANT, COLUMNS, VOCABULARY],
        &[TOKENS],
    ),
    row(
        "norm_linears",
        Forward,
        linears::projected,
        &[QUANT, PRODUCT, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "norm_linears",
        Gradients,
        linears::projected,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "logits",
        Forward,
        linears::logits,
        &[QUANT, TOKENS, COLUMNS, VOCABULARY],
        &[PRODUCT, LAYOUT],
    ),
    row(
        "linear_add",
        Forward,
        linears::added,
        &[QUANT, PRODUCT, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "linear_add",
        Gradients,
        linears::added,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "feed_forward",
        Forward,
        linears::fed_forward,
        &[QUANT, PRODUCT, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "feed_forward",
        Gradients,
        linears::fed_forward,
        &[QUANT, DIFFERENTIABLE, LAYOUT, TOKENS, COLUMNS],
        &[],
    ),
    row(
        "cross_entropy",
        Forward,
        linears::losses,
        &[QUANT, TOKENS, VOCABULARY],
        &[PRODUCT, COLUMNS, LAYOUT],
    ),
    Row {
        // A sum over the vocabulary, in f32, of one term near 1 and 32,000 terms near
        // 1 / 32,000.
        exact: 1e-3,
        ..row(
            "cross_entropy",
            Gradients,
            linears::losses,
            &[QUANT, TOKENS, VOCABULARY],
            &[DIFFERENTIABLE, COLUMNS, LAYOUT],
        )
    },
    row(
        "argmax",
        Forward,
        linears::likeliest,
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
        // A last bit of f32 may round to another value in f16 or 8 bits.
        exact: 2e-2,
        ..row(
            "attend, cache",
            Forward,
            attention::over_a_cache,
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
        exact: 1e-4,
    }
}

/// Tolerance if the factors of products are rounded to f16.
const ROUNDED: f32 = 2e-2;

/// Maximum MACs of a sampled case: software drivers take seconds for more.
const SAMPLED_PRODUCTS: usize = 1 << 29;
/// The same for matrix units, which such drivers emulate far more slowly.
const MATRIX_UNIT_PRODUCTS: usize = 1 << 24;
/// Minimum tokens for matrix units.
const FEWEST_FOR_MATRIX_UNITS: usize = 9;
const VOCABULARY_FOR_MATRIX_UNITS: usize = 331;

/// The cases of the table to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Sample,
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
    fn cases(&self, number: u64, extent: Extent, device: &Device) -> Vec<Case> {
        if extent == Extent::Complete {
            return axes::complete(number, self.crossed, self.cycled);
        }
        let mut cases = axes::sample(number, self.crossed, self.cycled);
        let (most, fewest) = match extent {
            Extent::MatrixUnits => (MATRIX_UNIT_PRODUCTS, FEWEST_FOR_MATRIX_UNITS),
            _ => (SAMPLED_PRODUCTS, 1),
        };
        for case in &mut cases {
            if extent == Extent::MatrixUnits {
                case.vocabulary = VOCABULARY_FOR_MATRIX_UNITS;
            }
            case.tokens = case.tokens.max(fewest);
            while case.tokens * case.columns * case.vocabulary > most && case.tokens > fewest {
                case.tokens = case.tokens.div_ceil(4).max(fewest);
            }
        }
        cases.retain(|case| extent != Extent::MatrixUnits || self.rounds(case, device));
        cases
    }

    /// The maximum error of a case on the GPU, or the problem as a sentence.
    fn off(&self, case: &Case, device: &Device) -> Result<f32, String> {
        let exact = Case {
            precision: MatmulPrecision::F32,
            ..case.clone()
        };
        let run =
            |case: &Case, device: &Device| catch_unwind(AssertUnwindSafe(|| (self.run)(case, device, self.direction)));
        let Ok(expected) = run(&exact, &Device::flex()) else {
            return Err("the CPU panicked".to_owned());
        };
        let Ok(actual) = run(case, device) else {
            return Err("the GPU's operation panicked".to_owned());
        };
        let allowed = if self.rounds(case, device) { ROUNDED } else { self.exact };
        if actual.len() != expected.len() {
            return Err(format!("{} outputs, {} expected", actual.len(), expected.len()));
        }
        actual
            .iter()
            .zip(&expected)
            .try_fold(0.0, |most: f32, (actual, expected)| {
                let off = actual.off(expected);
                if off > allowed {
                    Err(format!("{} is off by {off:.1e}, {allowed:.0e} allowed", actual.name))
                } else {
                    Ok(most.max(off))
                }
            })
    }

    /// Returns whether the device rounds the factors of this case's products.
    fn rounds(&self, case: &Case, device: &Device) -> bool {
        let client = client(device);
        let forward = linear_uses_matrix_units(&client, case.quant, case.tokens, case.precision);
        let backward = backward_uses_matrix_units(&client, case.quant, case.tokens, case.precision);
        forward || (self.direction == Gradients && backward)
    }
}

/// CUDA and ROCm pad rows of these widths. With autodiff a residual is always shared.
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
            // Layouts, columns and seeds have four values each; a part has each pair of them once.
            let part = number + number / 4 + number / 16;
            if !parts.includes(part, &format!("{TEST} {}, {:?}, {case}", row.name, row.direction)) {
                continue;
            }
            if let Err(problem) = row.off(&case, &device) {
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
        // The first case of each row always. Complete tables are for GPUs, and are not listed.
        let always = number == 0;
        extent == Extent::Complete
            || parts.includes_or(always, row + number, &format!("{TEST} {name}, {direction:?}, {case}"))
    });
    assert!(count >= ROWS.len(), "{count} cases");
}

/// Small enough for a software driver, which emulates matrix units slowly.
#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn matrix_units_multiply_as_the_cpu_in_every_layout() {
    let device = gpu().expect("GPU tests are not left out");
    let count = run(Extent::MatrixUnits, &device, &mut |_, _, _| true);
    assert!(count > 0, "this driver has no matrix units");
}

/// Runs the cases that `select` accepts by the numbers of row and case; panics if one fails.
/// Returns how many they were.
#[track_caller]
fn run(extent: Extent, device: &Device, select: &mut dyn FnMut(usize, usize, &Case) -> bool) -> usize {
    let (mut count, mut failures) = (0, Vec::new());
    for (number, row) in ROWS.iter().enumerate() {
        let begin = std::time::Instant::now();
        let cases = row.cases(number as u64, extent, device).into_iter().enumerate();
        let cases: Vec<Case> = cases
            .filter(|(at, case)| select(number, *at, case))
            .map(|(_, case)| case)
            .collect();
        let mut most = 0.0_f32;
        for case in &cases {
            match row.off(case, device) {
                Ok(off) => most = most.max(off),
                Err(problem) => failures.push(format!("{}, {:?}, {case}: {problem}", row.name, row.direction)),
            }
        }
        count += cases.len();
        println!(
            "{}, {:?}: {} cases, off by {most:.1e} at most, {:.1} s",
            row.name,
            row.direction,
            cases.len(),
            begin.elapsed().as_secs_f64()
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
