//! Products on matrix units, where the driver lists them; elsewhere the same cases see that nothing is rounded.

use crate::device::{floats, gpu, read, weight_of};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;
use hearth_kernels::gpu::{
    Floats, Linear, Weight, backward_takes_matrix_units, linear_takes_matrix_units, linear_within,
    weight_backward_within,
};
use hearth_kernels::reference::{matmul, noise, transpose, wide};
use hearth_kernels::{Product, Quant};

/// What a token's outputs may be off by where factors are rounded to f16, as a share of the length of the products that are summed (the
/// sums may cancel): a factor is off by one part in 2048 at most, a product by one in 1024, and about a quarter of that on the whole.
const ROUNDED: f64 = 1e-3;
/// What it may be off by where only sums are rounded, to f32.
const EXACT: f64 = 1e-5;

/// Which of the two products is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// `y = x W^T`.
    Forward,
    /// `dx = dy W`.
    Backward,
}

const WAYS: [Way; 2] = [Way::Forward, Way::Backward];

impl Way {
    /// Whether the kernels say that they take matrix units for it.
    fn takes(self, client: &Client, quant: Quant, tokens: usize, product: Product) -> bool {
        match self {
            Self::Forward => linear_takes_matrix_units(client, quant, tokens, product),
            Self::Backward => backward_takes_matrix_units(client, quant, tokens, product),
        }
    }
}

/// Whether the driver lists matrix units that multiply f16 and sum in f32, and runs planes of one size.
fn listed(client: &Client) -> bool {
    let (half, single) = (ElemType::Float(FloatKind::F16), ElemType::Float(FloatKind::F32));
    let (features, hardware) = (&client.properties().features, &client.properties().hardware);
    let mut units = features.matmul.cmma.iter();
    hardware.plane_size_min == hardware.plane_size_max
        && units.any(|unit| (unit.a_type, unit.b_type, unit.cd_type) == (half, half, single))
}

/// A product of numbers, half of which is added to what is there, or written over it.
struct Case {
    way: Way,
    product: Product,
    quant: Quant,
    tokens: usize,
    rows: usize,
    cols: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    add: bool,
    /// Bytes of a weight that a kernel may see.
    limit: u64,
}

impl Case {
    fn noise(way: Way, quant: Quant, [tokens, rows, cols]: [usize; 3]) -> Self {
        let depth = if way == Way::Forward { cols } else { rows };
        Self {
            way,
            product: Product::Bf16,
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

    /// What the device makes of it, token by token.
    fn run(&self, client: &Client) -> Vec<Outputs> {
        let Self {
            way,
            product,
            quant,
            tokens,
            rows,
            cols,
            add,
            limit,
            ..
        } = *self;
        let (weight, values) = weight_of(client, quant, &self.w, cols);
        let (depth, count) = if way == Way::Forward {
            (cols, rows)
        } else {
            (rows, cols)
        };
        // Where a linear's outputs lie in a matrix that is wider.
        let (at, beside) = (2, 5);
        let factor = match way {
            Way::Forward => transpose(&wide(&values), rows, cols),
            Way::Backward => wide(&values),
        };
        let (found, before) = match way {
            Way::Forward => {
                let before = noise(8, tokens * (count + beside));
                let (x, out) = (
                    floats(client, &self.x, tokens, depth),
                    floats(client, &before, tokens, count + beside),
                );
                self.linear(client, weight, &x, &out, at);
                let found = read(client, &out);
                for (found, before) in found.chunks(count + beside).zip(before.chunks(count + beside)) {
                    assert_eq!(found[..at], before[..at], "what is beside the outputs");
                    assert_eq!(found[at + count..], before[at + count..], "what is beside the outputs");
                }
                (inner(&found, count, at, beside), inner(&before, count, at, beside))
            }
            Way::Backward => {
                let before = noise(8, tokens * count);
                let mut dy = noise(9, tokens * (depth + beside));
                for (into, from) in dy.chunks_mut(depth + beside).zip(self.x.chunks(depth)) {
                    into[at..at + depth].copy_from_slice(from);
                }
                let (dy, dx) = (
                    floats(client, &dy, tokens, depth + beside),
                    floats(client, &before, tokens, count),
                );
                weight_backward_within(client, &dy, at, &weight, 0.5, product, &dx, add, limit)
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
            let its = token * count..(token + 1) * count;
            let expected = sums[its.clone()].iter().zip(&before[its.clone()]);
            Outputs {
                found: found[its.clone()].to_vec(),
                expected: expected
                    .map(|(y, before)| 0.5 * y + share * f64::from(*before))
                    .collect(),
                length: 0.5 * squares[its].iter().sum::<f64>().sqrt(),
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
        linear_within(client, x, &linear, self.product, out, at, self.add, self.limit).expect("shapes that fit");
    }

    /// Runs it, and fails where a token's outputs are further off than they may be, or the other kernel was taken than is said.
    #[track_caller]
    fn check(&self, client: &Client, what: &str) {
        let takes = self.way.takes(client, self.quant, self.tokens, self.product);
        let tolerance = if takes { ROUNDED } else { EXACT };
        let mut furthest: f64 = 0.0;
        for (token, outputs) in self.run(client).iter().enumerate() {
            let (error, Outputs { found, expected, .. }) = (outputs.off(), outputs);
            assert!(
                error <= tolerance,
                "{what}, {:?}, {} {} tokens, {} x {}: token {token} is off by {error:.2e}\nfound    {:?}\nexpected {:?}",
                self.way,
                self.quant,
                self.tokens,
                self.rows,
                self.cols,
                &found[..found.len().min(8)],
                &expected[..expected.len().min(8)],
            );
            furthest = furthest.max(error);
        }
        // Noise has more bits than f16.
        assert_eq!(
            furthest > EXACT,
            takes,
            "{what}: off by {furthest:.2e}, so another kernel was taken than is said"
        );
    }
}

/// Columns `at..at + count` of a matrix that has `beside` more.
fn inner(x: &[f32], count: usize, at: usize, beside: usize) -> Vec<f32> {
    x.chunks(count + beside)
        .flat_map(|row| row[at..at + count].to_vec())
        .collect()
}

/// Outputs of a token.
struct Outputs {
    found: Vec<f32>,
    expected: Vec<f64>,
    /// The length of all the products that they are sums of.
    length: f64,
}

impl Outputs {
    /// How far they are off, as a share of that length.
    fn off(&self) -> f64 {
        let pairs = self.found.iter().zip(&self.expected);
        let distance = pairs.map(|(x, y)| (f64::from(*x) - y).powi(2)).sum::<f64>().sqrt();
        match distance {
            0.0 => 0.0,
            // What is no number is far from all.
            _ if distance.is_nan() => f64::INFINITY,
            _ => distance / self.length,
        }
    }
}

/// `cargo xtask spirv` demands them: without matrix units its other tests would pass and prove nothing.
#[test]
fn the_driver_lists_matrix_units_where_they_are_demanded() {
    let Some(client) = gpu() else { return };
    let demanded = std::env::var("HEARTH_MATRIX_UNITS").is_ok_and(|value| value == "1");
    assert!(
        listed(&client) || !demanded,
        "this driver has no matrix units that multiply f16 and sum in f32: name another in VK_DRIVER_FILES"
    );
}

#[test]
fn matrix_units_are_taken_where_they_are_listed_and_factors_may_be_rounded() {
    let Some(client) = gpu() else { return };
    let listed = listed(&client);
    for quant in Quant::ALL {
        for tokens in [9, 33, 65, 1000] {
            for (way, product, may) in [
                (Way::Forward, Product::Fast, true),
                (Way::Forward, Product::Bf16, true),
                (Way::Forward, Product::Exact, false),
                (Way::Backward, Product::Fast, false),
                (Way::Backward, Product::Bf16, true),
                (Way::Backward, Product::Exact, false),
            ] {
                let what = format!("{way:?}, {product:?}, {quant}, {tokens} tokens");
                assert_eq!(way.takes(&client, quant, tokens, product), may && listed, "{what}");
                assert!(!way.takes(&client, quant, 8, product), "{what}");
            }
        }
    }
}

#[test]
fn every_format_is_multiplied_in_shapes_that_fit_no_tile() {
    let Some(client) = gpu() else { return };
    for way in WAYS {
        for quant in Quant::ALL {
            let cols = match quant.block_elements() {
                1 => 77,
                32 => 96,
                elements => elements,
            };
            Case::noise(way, quant, [9, 70, cols]).check(&client, "every format");
        }
    }
}

#[test]
fn results_are_added_in_ranges_of_rows_and_for_any_number_of_tokens() {
    let Some(client) = gpu() else { return };
    // 128 rows of three blocks end where a range may begin.
    let limit = 128 * 54 + 255;
    for way in WAYS {
        for (tokens, rows, cols, product, add, limit) in [
            (32, 64, 64, Product::Fast, false, u64::MAX),
            (33, 1, 32, Product::Fast, true, u64::MAX),
            (70, 130, 96, Product::Bf16, true, u64::MAX),
            (300, 65, 160, Product::Bf16, false, u64::MAX),
            (65, 300, 96, Product::Bf16, false, limit),
            (9, 300, 96, Product::Bf16, true, limit),
        ] {
            let case = Case {
                product,
                add,
                limit,
                ..Case::noise(way, Quant::Q4_0, [tokens, rows, cols])
            };
            case.check(&client, "shapes");
        }
    }
}

#[test]
fn what_f16_holds_is_not_rounded() {
    let Some(client) = gpu() else { return };
    let short = |x: Vec<f32>| -> Vec<f32> { x.iter().map(|x| (x * 256.0).round() / 256.0).collect() };
    for way in WAYS {
        for (quant, shape) in [(Quant::F16, [130, 200, 77]), (Quant::F32, [40, 77, 200])] {
            let noise = Case::noise(way, quant, shape);
            let case = Case {
                x: short(noise.x),
                w: short(noise.w),
                ..noise
            };
            for outputs in case.run(&client) {
                assert!(outputs.off() < 1e-6, "{way:?}, {quant}, {shape:?}");
            }
        }
    }
}

#[test]
fn numbers_far_beyond_f16_are_multiplied_as_well() {
    let Some(client) = gpu() else { return };
    // What all weights are multiplied by, and, where there are plain rows, those of every third row.
    let weights = [
        (Quant::F32, 1.0, 1.0),
        (Quant::F32, 1e5, 1.0),
        (Quant::F32, 1e-6, 1.0),
        (Quant::F32, 1e18, 1.0),
        (Quant::F32, 1e-18, 1.0),
        (Quant::F32, 1.0, 1e5),
        (Quant::F32, 1e-4, 1e3),
        (Quant::BF16, 1e-12, 1.0),
        // Scales of blocks near the greatest and the least that they can be.
        (Quant::Q8_0, 8e6, 1.0),
        (Quant::Q4_0, 3e-5, 1.0),
        (Quant::Q6_K, 1e-3, 1.0),
        (Quant::Q4_K, 1e4, 1.0),
    ];
    // What a token's activations are multiplied by, in turn.
    let tokens = [1.0, 1e5, 1e-6, 0.0, 7e4, 1e15, 1e-15];
    for way in WAYS {
        for (quant, all, third) in weights {
            let cols = quant.block_elements().max(96);
            let noise = Case::noise(way, quant, [40, 70, cols]);
            let depth = noise.x.len() / noise.tokens;
            let size = |row: usize| if row % 3 == 2 { all * third } else { all };
            let x = noise.x.iter().enumerate();
            let w = noise.w.iter().enumerate();
            let case = Case {
                x: x.map(|(i, x)| x * tokens[i / depth % tokens.len()]).collect(),
                w: w.map(|(i, w)| w * size(i / cols)).collect(),
                ..noise
            };
            case.check(&client, &format!("weights times {all:.0e} and {third:.0e}"));
        }
    }
}

#[test]
fn small_activations_beside_a_large_one_keep_their_bits() {
    let Some(client) = gpu() else { return };
    for way in WAYS {
        let noise = Case::noise(way, Quant::F32, [40, 70, 70]);
        // The large one meets weights that are as small.
        let is_large = |i: usize| i % 70 == 5;
        let x = noise.x.iter().enumerate();
        let w = noise.w.iter().enumerate();
        let case = Case {
            x: x.map(|(i, x)| if is_large(i) { 1e5 } else { *x }).collect(),
            w: w.map(|(i, w)| match way {
                Way::Forward if is_large(i) => w * 1e-5,
                Way::Backward if i / 70 == 5 => w * 1e-5,
                _ => *w,
            })
            .collect(),
            ..noise
        };
        case.check(&client, "one large activation");
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let Some(client) = gpu() else { return };
    for way in WAYS {
        for (x, w) in [
            (f32::INFINITY, 1.0),
            (f32::NAN, 1.0),
            (1.0, f32::INFINITY),
            (1.0, f32::NAN),
        ] {
            let mut case = Case::noise(way, Quant::F32, [40, 70, 70]);
            (case.x[5], case.w[5 * 70 + 5]) = (x, w);
            let found = case.run(&client);
            // The first token meets the first of all, and output 5 the other.
            let first = if w == 1.0 { 0 } else { 5 };
            assert!(!found[0].found[first].is_finite(), "{way:?}, {x} and {w}");
        }
    }
}
