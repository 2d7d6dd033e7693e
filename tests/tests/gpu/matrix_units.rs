//! GEMM on matrix units. Tests that need a driver which lists them are ignored: `cargo xtask
//! spirv` and `cargo xtask gpu` run them. The same cases on plain kernels are in `linear.rs`.

use crate::device::{floats, gpu, read, weight_of};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;
use hearth_kernels::gpu::{
    Floats, Linear, Weight, backward_uses_matrix_units, linear_uses_matrix_units, linear_with_limit,
    weight_backward_with_limit,
};
use hearth_kernels::reference::{matmul, noise, transpose, wide};
use hearth_kernels::{MatmulPrecision, Quant};
use std::fmt;

/// Maximum error of a token's outputs with operands in f16, relative to the norm of the summed
/// products (the sums may cancel): an operand is off by at most 1/2048, a product by 1/1024, and
/// the whole by about a quarter of that.
const ROUNDED: f64 = 1e-3;
/// Maximum error in f32.
const EXACT: f64 = 1e-5;

/// Forward or backward.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    /// `y = x W^T`.
    Forward,
    /// `dx = dy W`.
    Backward,
}

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

impl Direction {
    /// Whether the kernels report that they use matrix units for it.
    fn uses(self, client: &Client, quant: Quant, tokens: usize, precision: MatmulPrecision) -> bool {
        match self {
            Self::Forward => linear_uses_matrix_units(client, quant, tokens, precision),
            Self::Backward => backward_uses_matrix_units(client, quant, tokens, precision),
        }
    }
}

/// Whether the driver lists matrix units that multiply f16 and accumulate in f32, with planes of
/// one size.
fn listed(client: &Client) -> bool {
    let (half, single) = (ElemType::Float(FloatKind::F16), ElemType::Float(FloatKind::F32));
    let (features, hardware) = (&client.properties().features, &client.properties().hardware);
    let mut units = features.matmul.cmma.iter();
    hardware.plane_size_min == hardware.plane_size_max
        && units.any(|unit| (unit.a_type, unit.b_type, unit.cd_type) == (half, half, single))
}

/// The GPU, which must have matrix units.
fn matrix_units() -> Client {
    let client = gpu().expect("GPU tests are not left out");
    assert!(
        listed(&client),
        "this driver has no matrix units that multiply f16 and sum in f32: name another in VK_DRIVER_FILES"
    );
    client
}

/// A GEMM with scale 0.5, added to the output or overwriting it.
pub struct Case {
    /// Description for error messages.
    description: String,
    direction: Direction,
    precision: MatmulPrecision,
    quant: Quant,
    tokens: usize,
    rows: usize,
    cols: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    add: bool,
    /// Maximum bytes of a binding.
    limit: u64,
}

impl Case {
    fn noise(direction: Direction, quant: Quant, [tokens, rows, cols]: [usize; 3]) -> Self {
        let depth = if direction == Direction::Forward { cols } else { rows };
        Self {
            description: "noise".to_owned(),
            direction,
            precision: MatmulPrecision::Bf16,
            quant,
            tokens,
            rows,
            cols,
            x: noise(6, tokens * depth),
            w: noise(7, rows * cols),
            add: false,
            limit: u64::MAX,
        }
    }

    /// The device's outputs, token by token.
    fn run(&self, client: &Client) -> Vec<Outputs> {
        let Self {
            direction,
            precision,
            quant,
            tokens,
            rows,
            cols,
            add,
            limit,
            ..
        } = *self;
        let (weight, values) = weight_of(client, quant, &self.w, cols);
        let (depth, count) = if direction == Direction::Forward {
            (cols, rows)
        } else {
            (rows, cols)
        };
        // First column of the outputs in a wider matrix, and the number of its other columns.
        let (first_column, extra_columns) = (2, 5);
        let factor = match direction {
            Direction::Forward => transpose(&wide(&values), rows, cols),
            Direction::Backward => wide(&values),
        };
        let (actual, before) = match direction {
            Direction::Forward => {
                let before = noise(8, tokens * (count + extra_columns));
                let (x, out) = (
                    floats(client, &self.x, tokens, depth),
                    floats(client, &before, tokens, count + extra_columns),
                );
                self.linear(client, weight, &x, &out, first_column);
                let actual = read(client, &out);
                for (actual, before) in actual
                    .chunks(count + extra_columns)
                    .zip(before.chunks(count + extra_columns))
                {
                    assert_eq!(
                        actual[..first_column],
                        before[..first_column],
                        "columns beside the outputs"
                    );
                    assert_eq!(
                        actual[first_column + count..],
                        before[first_column + count..],
                        "columns beside the outputs"
                    );
                }
                (
                    inner(&actual, count, first_column, extra_columns),
                    inner(&before, count, first_column, extra_columns),
                )
            }
            Direction::Backward => {
                let before = noise(8, tokens * count);
                let mut dy = noise(9, tokens * (depth + extra_columns));
                for (target, source) in dy.chunks_mut(depth + extra_columns).zip(self.x.chunks(depth)) {
                    target[first_column..first_column + depth].copy_from_slice(source);
                }
                let (dy, dx) = (
                    floats(client, &dy, tokens, depth + extra_columns),
                    floats(client, &before, tokens, count),
                );
                weight_backward_with_limit(client, &dy, first_column, &weight, 0.5, precision, &dx, add, limit)
                    .expect("shapes that fit");
                (read(client, &dx), before)
            }
        };
        let share = if add { 1.0 } else { 0.0 };
        let square = |x: &[f64]| x.iter().map(|x| x * x).collect::<Vec<_>>();
        let x = wide(&self.x);
        let sums = matmul(&x, &factor, tokens, depth, count);
        let squares = matmul(&square(&x), &square(&factor), tokens, depth, count);
        let token = |token: usize| {
            let range = token * count..(token + 1) * count;
            let expected = sums[range.clone()].iter().zip(&before[range.clone()]);
            Outputs {
                actual: actual[range.clone()].to_vec(),
                expected: expected
                    .map(|(y, before)| 0.5 * y + share * f64::from(*before))
                    .collect(),
                norm: 0.5 * squares[range].iter().sum::<f64>().sqrt(),
            }
        };
        (0..tokens).map(token).collect()
    }

    fn linear(&self, client: &Client, weight: Weight, x: &Floats, out: &Floats, at: usize) {
        let linear = Linear {
            weight,
            scale: 0.5,
            lora: None,
            bias: None,
        };
        linear_with_limit(client, x, &linear, self.precision, out, at, self.add, self.limit).expect("shapes that fit");
    }

    /// The same case on plain kernels, even if the driver has matrix units.
    pub fn on_plain_kernels(self, client: &Client) -> Self {
        let uses = self.direction.uses(client, self.quant, self.tokens, self.precision);
        Self {
            precision: if uses { MatmulPrecision::F32 } else { self.precision },
            ..self
        }
    }

    /// Runs the case. Panics if a token's error is too large or another kernel ran than reported.
    #[track_caller]
    pub fn check(&self, client: &Client) {
        let uses = self.direction.uses(client, self.quant, self.tokens, self.precision);
        let tolerance = if uses { ROUNDED } else { EXACT };
        let mut max_error: f64 = 0.0;
        for (token, outputs) in self.run(client).iter().enumerate() {
            let (error, Outputs { actual, expected, .. }) = (outputs.error(), outputs);
            assert!(
                error <= tolerance,
                "{self}: token {token} is off by {error:.2e}\nfound    {:?}\nexpected {:?}",
                &actual[..actual.len().min(8)],
                &expected[..expected.len().min(8)],
            );
            max_error = max_error.max(error);
        }
        // Noise has more bits than f16.
        assert_eq!(
            max_error > EXACT,
            uses,
            "{self}: off by {max_error:.2e}, so another kernel ran than reported"
        );
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            description,
            direction,
            precision,
            quant,
            tokens,
            rows,
            cols,
            ..
        } = self;
        write!(
            f,
            "{description}, {direction:?}, {precision:?}, {quant}, {tokens} tokens, {rows} x {cols}"
        )
    }
}

/// Columns `first..first + count` of a matrix that has `extra` more.
fn inner(x: &[f32], count: usize, first: usize, extra: usize) -> Vec<f32> {
    x.chunks(count + extra)
        .flat_map(|row| row[first..first + count].to_vec())
        .collect()
}

/// The outputs of one token.
struct Outputs {
    actual: Vec<f32>,
    expected: Vec<f64>,
    /// The norm of all summed products.
    norm: f64,
}

impl Outputs {
    /// The error relative to `norm`.
    fn error(&self) -> f64 {
        let pairs = self.actual.iter().zip(&self.expected);
        let distance = pairs.map(|(x, y)| (f64::from(*x) - y).powi(2)).sum::<f64>().sqrt();
        match distance {
            0.0 => 0.0,
            // NaN counts as infinitely far.
            _ if distance.is_nan() => f64::INFINITY,
            _ => distance / self.norm,
        }
    }
}

/// The first test of `cargo xtask spirv`.
#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn the_driver_lists_matrix_units() {
    matrix_units();
}

#[test]
fn matrix_units_are_used_if_listed_and_the_precision_allows() {
    let Some(client) = gpu() else { return };
    let listed = listed(&client);
    for quant in Quant::ALL {
        for tokens in [9, 33, 65, 1000] {
            for (direction, precision, is_allowed) in [
                (Direction::Forward, MatmulPrecision::Int8Activations, true),
                (Direction::Forward, MatmulPrecision::Bf16, true),
                (Direction::Forward, MatmulPrecision::F32, false),
                (Direction::Backward, MatmulPrecision::Int8Activations, false),
                (Direction::Backward, MatmulPrecision::Bf16, true),
                (Direction::Backward, MatmulPrecision::F32, false),
            ] {
                let case = format!("{direction:?}, {precision:?}, {quant}, {tokens} tokens");
                assert_eq!(
                    direction.uses(&client, quant, tokens, precision),
                    is_allowed && listed,
                    "{case}"
                );
                assert!(!direction.uses(&client, quant, 8, precision), "{case}");
            }
        }
    }
}

/// Each format, in shapes that are not multiples of the tiles.
fn formats() -> Vec<Case> {
    let format_case = |direction, quant: Quant| {
        let cols = match quant.block_elements() {
            1 => 77,
            32 => 96,
            elements => elements,
        };
        Case::noise(direction, quant, [9, 70, cols])
    };
    let each = |direction| Quant::ALL.map(|quant| format_case(direction, quant));
    DIRECTIONS.into_iter().flat_map(each).collect()
}

/// Results that are added, weights in ranges of rows, and few and many tokens.
fn shapes() -> Vec<Case> {
    // 128 rows of three blocks are aligned.
    let limit = 128 * 54 + 255;
    let shapes = [
        (32, 64, 64, MatmulPrecision::Int8Activations, false, u64::MAX),
        (33, 1, 32, MatmulPrecision::Int8Activations, true, u64::MAX),
        (70, 130, 96, MatmulPrecision::Bf16, true, u64::MAX),
        (300, 65, 160, MatmulPrecision::Bf16, false, u64::MAX),
        (65, 300, 96, MatmulPrecision::Bf16, false, limit),
        (9, 300, 96, MatmulPrecision::Bf16, true, limit),
    ];
    let shape_case = |direction, (tokens, rows, cols, precision, add, limit)| Case {
        precision,
        add,
        limit,
        ..Case::noise(direction, Quant::Q4_0, [tokens, rows, cols])
    };
    let each = |direction| shapes.map(|shape| shape_case(direction, shape));
    DIRECTIONS.into_iter().flat_map(each).collect()
}

/// Values that f16 holds exactly.
fn short_values() -> Vec<Case> {
    let short = |x: Vec<f32>| -> Vec<f32> { x.iter().map(|x| (x * 256.0).round() / 256.0).collect() };
    let shape_case = |direction, (quant, shape)| {
        let noise = Case::noise(direction, quant, shape);
        Case {
            description: "values exact in f16".to_owned(),
            x: short(noise.x),
            w: short(noise.w),
            ..noise
        }
    };
    let each = |direction| {
        [(Quant::F16, [130, 200, 77]), (Quant::F32, [40, 77, 200])].map(|shape| shape_case(direction, shape))
    };
    DIRECTIONS.into_iter().flat_map(each).collect()
}

/// Weights and activations far beyond f16.
fn far_values() -> Vec<Case> {
    // Scale of all weights, and, in float formats, of every third row.
    let weights = [
        (Quant::F32, 1.0, 1.0),
        (Quant::F32, 1e5, 1.0),
        (Quant::F32, 1e-6, 1.0),
        (Quant::F32, 1e18, 1.0),
        (Quant::F32, 1e-18, 1.0),
        (Quant::F32, 1.0, 1e5),
        (Quant::F32, 1e-4, 1e3),
        (Quant::BF16, 1e-12, 1.0),
        // Block scales near their maximum and minimum.
        (Quant::Q8_0, 8e6, 1.0),
        (Quant::Q4_0, 3e-5, 1.0),
        (Quant::Q6_K, 1e-3, 1.0),
        (Quant::Q4_K, 1e4, 1.0),
    ];
    // Scales of the tokens' activations, in turn.
    let tokens = [1.0, 1e5, 1e-6, 0.0, 7e4, 1e15, 1e-15];
    let weight_case = |direction, (quant, all, third): (Quant, f32, f32)| {
        let cols = quant.block_elements().max(96);
        let noise = Case::noise(direction, quant, [40, 70, cols]);
        let depth = noise.x.len() / noise.tokens;
        let size = |row: usize| if row % 3 == 2 { all * third } else { all };
        let x = noise.x.iter().enumerate();
        let w = noise.w.iter().enumerate();
        Case {
            description: format!("weights times {all:.0e} and {third:.0e}"),
            x: x.map(|(i, x)| x * tokens[i / depth % tokens.len()]).collect(),
            w: w.map(|(i, w)| w * size(i / cols)).collect(),
            ..noise
        }
    };
    let each = |direction| weights.map(|weight| weight_case(direction, weight));
    DIRECTIONS.into_iter().flat_map(each).collect()
}

/// One large activation among small ones, multiplied by equally small weights.
fn one_large_value() -> Vec<Case> {
    let direction_case = |direction| {
        let noise = Case::noise(direction, Quant::F32, [40, 70, 70]);
        let is_large = |i: usize| i % 70 == 5;
        let x = noise.x.iter().enumerate();
        let w = noise.w.iter().enumerate();
        Case {
            description: "one large activation".to_owned(),
            x: x.map(|(i, x)| if is_large(i) { 1e5 } else { *x }).collect(),
            w: w.map(|(i, w)| match direction {
                Direction::Forward if is_large(i) => w * 1e-5,
                Direction::Backward if i / 70 == 5 => w * 1e-5,
                _ => *w,
            })
            .collect(),
            ..noise
        }
    };
    DIRECTIONS.map(direction_case).into()
}

/// All cases of the ignored tests.
pub fn cases() -> Vec<Case> {
    [formats(), shapes(), short_values(), far_values(), one_large_value()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn every_format_is_multiplied_in_shapes_beside_whole_tiles() {
    let client = matrix_units();
    formats().iter().for_each(|case| case.check(&client));
}

#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn results_are_added_in_ranges_of_rows_and_for_any_number_of_tokens() {
    let client = matrix_units();
    shapes().iter().for_each(|case| case.check(&client));
}

#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn values_exact_in_f16_are_not_rounded() {
    let client = matrix_units();
    for case in short_values() {
        for outputs in case.run(&client) {
            assert!(outputs.error() < 1e-6, "{case}");
        }
    }
}

#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn values_far_beyond_f16_are_multiplied() {
    let client = matrix_units();
    far_values().iter().for_each(|case| case.check(&client));
}

#[test]
#[ignore = "needs matrix units: cargo xtask spirv"]
fn small_activations_beside_a_large_one_keep_their_bits() {
    let client = matrix_units();
    one_large_value().iter().for_each(|case| case.check(&client));
}

#[test]
fn nan_and_infinity_propagate() {
    let Some(client) = gpu() else { return };
    for direction in DIRECTIONS {
        for (x, w) in [
            (f32::INFINITY, 1.0),
            (f32::NAN, 1.0),
            (1.0, f32::INFINITY),
            (1.0, f32::NAN),
        ] {
            let mut case = Case::noise(direction, Quant::F32, [40, 70, 70]);
            (case.x[5], case.w[5 * 70 + 5]) = (x, w);
            let outputs = case.run(&client);
            // `x` reaches all outputs of the first token, `w` only output 5.
            let index = if w == 1.0 { 0 } else { 5 };
            assert!(!outputs[0].actual[index].is_finite(), "{direction:?}, {x} and {w}");
        }
    }
}
