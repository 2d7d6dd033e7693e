//! The cases of the device check: shapes of real models (SmolLM2's widths, heads of 64 and 128, a
//! vocabulary that no tile divides), every quantization, KV caches longer than a tile of keys,
//! adapters, shared residuals, and backward.

use super::case::{Case, LinearShape, Op, RANKS, Source};
use hearth_kernels::Quant;
use hearth_kernels::attention::{Heads, KvFormat};
use hearth_kernels::rope::Pairing;
use hearth_llm::ops::{Activation, MatmulPrecision};

/// Vocabulary size: a prime, so that the last tile of every kernel is ragged.
pub const VOCAB: usize = 331;
/// A factor of what is added to the residual, as in Granite.
const RESIDUAL_SCALE: f32 = 0.22;
/// Tokens of a pass.
const TOKENS: [usize; 6] = [1, 2, 9, 33, 70, 129];
/// Tokens of consecutive passes over a KV cache. The pass of 33 tokens attends to 328 before it.
const PASSES: [usize; 7] = [129, 70, 129, 33, 9, 2, 1];
/// Sequence lengths of a batch. The first is longer than any tile of keys.
const SEQUENCES: [usize; 3] = [270, 33, 9];
/// Sequence lengths for cases that are slow with a software driver.
const SHORT_SEQUENCES: [usize; 3] = [70, 33, 9];
/// Tokens of consecutive passes over a KV cache with a softcap.
const CAPPED_PASSES: [usize; 3] = [70, 9, 1];
/// A softcap near the size of the scores.
const SOFTCAP: f32 = 1.0;

/// Sizes of a model's layer.
struct Layer {
    width: usize,
    heads: Heads,
    pairing: Pairing,
    /// Quantization of Q, K, V, output, gate, up and down.
    formats: [Quant; 7],
    ffn_width: usize,
    activation: Activation,
    /// Whether Q and K have norms per head, and attention and feed-forward a norm after them.
    norms: bool,
}

/// Mixed formats as in real files: K-quants if rows are multiples of 256, else blocks of 32.
const LAYERS: [Layer; 2] = [
    Layer {
        width: 576,
        heads: heads(9, 3, 64),
        pairing: Pairing::Interleaved,
        formats: [
            Quant::Q5_0,
            Quant::Q8_0,
            Quant::Q5_0,
            Quant::Q5_0,
            Quant::Q4_1,
            Quant::Q4_1,
            Quant::Q4_K,
        ],
        ffn_width: 768,
        activation: Activation::Silu,
        norms: false,
    },
    Layer {
        width: 960,
        heads: heads(6, 2, 128),
        pairing: Pairing::Halves,
        formats: [
            Quant::Q8_0,
            Quant::IQ4_NL,
            Quant::F16,
            Quant::Q6_K,
            Quant::Q5_0,
            Quant::Q8_0,
            Quant::Q5_K,
        ],
        ffn_width: 1280,
        activation: Activation::GeluTanh,
        norms: true,
    },
];

const fn heads(heads: usize, kv_heads: usize, head_dim: usize) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: if head_dim == 64 { 0.125 } else { 0.088_388_35 },
        softcap: None,
        window: None,
    }
}

/// All cases in order. Those with rounded factors are only for a device with matrix units; without
/// them, every precision uses the same kernels.
pub fn cases(matrix_units: bool) -> Vec<Case> {
    let mut cases = formats();
    cases.extend(LAYERS.iter().flat_map(layer_linears));
    cases.extend(LAYERS.iter().flat_map(attention));
    let output = LinearShape::new(Quant::Q6_K, VOCAB, 768);
    let cross_entropy = |softcap, tokens| Case::new(Op::CrossEntropy { output, softcap }, tokens);
    cases.push(cross_entropy(None, 129).backward());
    cases.push(cross_entropy(None, 33));
    // Logits are about as large as inputs.
    cases.push(cross_entropy(Some(1.0), 33).backward());
    cases.push(Case::new(Op::Argmax { vocab: VOCAB }, 9));
    if matrix_units {
        cases.extend(rounded());
    }
    cases
}

/// A valid row width of a format; not a multiple of 256, if possible.
fn width(quant: Quant, index: usize) -> usize {
    let wide = !index.is_multiple_of(2);
    match (576_usize.is_multiple_of(quant.block_elements()), wide) {
        (true, false) => 576,
        (true, true) => 960,
        (false, false) => 768,
        (false, true) => 1280,
    }
}

/// A weight in each format.
fn weights() -> impl Iterator<Item = LinearShape> {
    let weight = |(index, quant)| LinearShape::new(quant, VOCAB, width(quant, index));
    Quant::ALL.into_iter().enumerate().map(weight)
}

/// Each format with 1, 5 and 33 tokens; and backward, added to a residual that the tape shares.
fn formats() -> Vec<Case> {
    let format_cases = |weight: LinearShape| {
        let forward = |tokens| Case::new(Op::NormLinears(vec![weight]), tokens);
        [forward(1), forward(5), forward(33), linear_add(weight, 70).backward()]
    };
    weights().flat_map(format_cases).collect()
}

fn linear_add(linear: LinearShape, tokens: usize) -> Case {
    let op = Op::LinearAdd {
        linear,
        norm: false,
        scale: 1.0,
    };
    Case::new(op, tokens)
}

/// Each format, and the feed-forward of each layer, with factors rounded for matrix units.
pub fn rounded() -> Vec<Case> {
    let format_cases = |weight: LinearShape| {
        [
            Case {
                precision: MatmulPrecision::Int8Activations,
                ..Case::new(Op::NormLinears(vec![weight]), 129)
            },
            Case {
                precision: MatmulPrecision::Bf16,
                ..linear_add(weight, 70).backward()
            },
        ]
    };
    let mut cases: Vec<Case> = weights().flat_map(format_cases).collect();
    for layer in &LAYERS {
        for (precision, backward) in [(MatmulPrecision::Int8Activations, false), (MatmulPrecision::Bf16, true)] {
            let case = Case {
                precision,
                ..Case::new(layer.feed_forward(), 129)
            };
            cases.push(if backward { case.backward() } else { case });
        }
    }
    cases
}

impl Layer {
    fn linear(&self, part: usize, rows: usize, cols: usize) -> LinearShape {
        LinearShape::new(self.formats[part], rows, cols).adapted(RANKS[part % RANKS.len()])
    }

    fn queries_keys_values(&self) -> Op {
        let (q_width, kv_width) = (self.heads.out_width(), self.heads.kv_heads * self.heads.head_dim);
        let linear = |part, rows| LinearShape {
            // As in Qwen 2.
            bias: !self.norms,
            ..self.linear(part, rows, self.width)
        };
        Op::NormLinears(vec![linear(0, q_width), linear(1, kv_width), linear(2, kv_width)])
    }

    fn output(&self) -> Op {
        Op::LinearAdd {
            linear: self.linear(3, self.width, self.heads.out_width()),
            norm: self.norms,
            scale: 1.0,
        }
    }

    fn feed_forward(&self) -> Op {
        Op::FeedForward {
            gated: [4, 5].map(|part| self.linear(part, self.ffn_width, self.width)),
            down: self.linear(6, self.width, self.ffn_width),
            activation: self.activation,
            norm: self.norms,
            scale: 1.0,
        }
    }
}

/// The linear layers of a layer with adapters, with each number of tokens, with an owned and a
/// shared residual, and added with a factor; and backward.
fn layer_linears(layer: &Layer) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, tokens) in TOKENS.into_iter().enumerate() {
        cases.push(Case::new(layer.queries_keys_values(), tokens));
        for op in [layer.output(), layer.feed_forward()] {
            let case = Case::new(op, tokens);
            // Alternates, so that both occur with few tokens and with many.
            cases.push(if index % 2 == 1 { case.shared() } else { case });
        }
    }
    for op in [layer.queries_keys_values(), layer.output(), layer.feed_forward()] {
        cases.push(Case::new(op, 129).backward());
    }
    for op in [layer.output(), layer.feed_forward()] {
        let op = op.scaled(RESIDUAL_SCALE);
        cases.extend([Case::new(op.clone(), 2), Case::new(op, 33).backward()]);
    }
    cases
}

/// Attention over KV caches of both types, with windows wider and narrower than a tile of keys;
/// over a batch, and backward; and with a softcap.
fn attention(layer: &Layer) -> Vec<Case> {
    let attend_with = |heads, source, tokens| {
        let op = Op::Attend {
            heads,
            pairing: layer.pairing,
            norms: layer.norms,
            source,
        };
        Case::new(op, tokens)
    };
    let attend = |window, source, tokens| attend_with(Heads { window, ..layer.heads }, source, tokens);
    let mut cases = Vec::new();
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        for (window, scattered) in [(None, false), (Some(270), true), (Some(40), false)] {
            let source = Source::Cache {
                format,
                passes: PASSES.to_vec(),
                scattered,
            };
            cases.push(attend(window, source, PASSES.iter().sum()));
        }
    }
    // Wide heads make long sequences slow, and the other layer covers those.
    let unwindowed = if layer.norms { SHORT_SEQUENCES } else { SEQUENCES };
    for (window, lengths) in [(None, unwindowed), (Some(40), SHORT_SEQUENCES)] {
        let source = Source::Batch(lengths.to_vec());
        cases.push(attend(window, source, lengths.iter().sum()).backward());
    }
    let capped = Heads {
        softcap: Some(SOFTCAP),
        ..layer.heads
    };
    let over_cache = Source::Cache {
        format: KvFormat::F16,
        passes: CAPPED_PASSES.to_vec(),
        scattered: false,
    };
    let over_batch = Source::Batch(SHORT_SEQUENCES.to_vec());
    cases.push(attend_with(capped, over_cache, CAPPED_PASSES.iter().sum()));
    cases.push(attend_with(capped, over_batch, SHORT_SEQUENCES.iter().sum()).backward());
    cases
}

#[cfg(test)]
mod tests {
    use super::super::case::EPS;
    use super::super::case::{Executor, Output};
    use super::super::compare::{Mismatch, compare, error, root_mean_square, tolerance};
    use super::super::on_device::{NormKind, OnDevice, norm_weights, weight_seed};
    use super::*;
    use burn::tensor::Device;
    use hearth_kernels::reference::{matmul, rms_norm, transpose, wide};
    use std::collections::BTreeSet;
    use std::error::Error;
    use std::ops::Range;

    /// The CPU with a fault: it runs a changed case, or changes the outputs.
    struct Faulty {
        change_case: fn(&mut Case),
        change_outputs: fn(&Case, &mut Vec<Output>),
    }

    impl Executor for Faulty {
        fn run(&self, case: &Case) -> Result<Vec<Output>, Box<dyn Error>> {
            let mut changed = case.clone();
            (self.change_case)(&mut changed);
            let mut outputs = OnDevice(Device::flex()).run(&changed)?;
            (self.change_outputs)(case, &mut outputs);
            Ok(outputs)
        }
    }

    const UNCHANGED_CASE: fn(&mut Case) = |_| {};
    const UNCHANGED_OUTPUTS: fn(&Case, &mut Vec<Output>) = |_, _| {};

    /// Returns the mismatches that a fault causes. Asserts that they are in exactly the cases for
    /// which `is_affected` returns true.
    fn mismatches(fault: &Faulty, is_affected: fn(&Case) -> bool) -> Vec<Mismatch> {
        let cpu = OnDevice(Device::flex());
        let mut actual = Vec::new();
        for case in cases(false) {
            let mismatch = compare(&case, fault, &cpu).expect("it runs").mismatch;
            assert_eq!(mismatch.is_some(), is_affected(&case), "{case}: {mismatch:?}");
            actual.extend(mismatch);
        }
        assert!(!actual.is_empty());
        actual
    }

    #[test]
    fn every_format_is_checked_forward_and_backward() {
        for quant in Quant::ALL {
            for backward in [false, true] {
                let covered = cases(false).iter().any(|case| {
                    let linears = case.op.linears();
                    case.backward == backward && linears.iter().any(|linear| linear.quant == quant)
                });
                assert!(covered, "{quant}, backward: {backward}");
            }
        }
    }

    #[test]
    fn every_rank_is_checked_forward_and_backward() {
        for rank in RANKS {
            for backward in [false, true] {
                let covered = cases(false).iter().any(|case| {
                    let linears = case.op.linears();
                    case.backward == backward && linears.iter().any(|linear| linear.rank == Some(rank))
                });
                assert!(covered, "{rank}, backward: {backward}");
            }
        }
    }

    /// Callers select cases by name.
    #[test]
    fn names_are_unique() {
        let cases = cases(true);
        let names: BTreeSet<String> = cases.iter().map(Case::to_string).collect();
        assert_eq!(names.len(), cases.len());
    }

    /// Like a kernel whose loop over tiles of keys ends at 256.
    #[test]
    fn a_kernel_wrong_only_beyond_256_keys_is_caught() {
        let fault = Faulty {
            change_case: |case| {
                if let Op::Attend { heads, .. } = &mut case.op {
                    heads.window = Some(heads.window.unwrap_or(256).min(256));
                }
            },
            change_outputs: UNCHANGED_OUTPUTS,
        };
        let actual = mismatches(
            &fault,
            |case| matches!(&case.op, Op::Attend { heads, .. } if heads.window != Some(40) && case.tokens > 256),
        );
        for mismatch in actual {
            assert!(mismatch.report().to_string().contains("attend"), "{mismatch:?}");
        }
    }

    /// Like a kernel that skips the ragged last tile of a row.
    #[test]
    fn a_kernel_wrong_only_in_the_last_ragged_column_is_caught() {
        let fault = Faulty {
            change_case: UNCHANGED_CASE,
            change_outputs: |_, outputs| {
                for output in outputs.iter_mut().filter(|output| output.cols == VOCAB) {
                    let cols = output.cols;
                    output.values.chunks_exact_mut(cols).for_each(|row| row[cols - 1] = 0.0);
                }
            },
        };
        let actual = mismatches(&fault, |case| {
            matches!(&case.op, Op::NormLinears(linears) if linears.len() == 1)
                || matches!(&case.op, Op::LinearAdd { linear, .. } if linear.rows == VOCAB)
        });
        for mismatch in actual {
            assert_eq!(mismatch.column, VOCAB - 1, "{mismatch:?}");
            assert!(mismatch.report().to_string().contains(&format!("column {}", VOCAB - 1)));
        }
    }

    #[test]
    fn a_kernel_wrong_only_with_an_adapter_is_caught() {
        // In the forward pass it is not added; in the backward pass its gradient is zero.
        let fault = Faulty {
            change_case: |case| {
                if !case.backward {
                    case.op.map_linears(|linear| linear.rank = None);
                }
            },
            change_outputs: |_, outputs| {
                let gradients = outputs.iter_mut().filter(|output| output.name.contains("of a of"));
                gradients.for_each(|gradient| gradient.values.fill(0.0));
            },
        };
        let actual = mismatches(&fault, |case| {
            case.op.linears().iter().any(|linear| linear.rank.is_some())
        });
        for mismatch in actual {
            assert!(
                mismatch.report().to_string().contains("with an adapter"),
                "{mismatch:?}"
            );
        }
    }

    #[test]
    fn a_branch_without_its_factor_is_caught() {
        let fault = Faulty {
            change_case: |case| case.op = case.op.clone().scaled(1.0),
            change_outputs: UNCHANGED_OUTPUTS,
        };
        mismatches(
            &fault,
            |case| matches!(case.op, Op::LinearAdd { scale, .. } | Op::FeedForward { scale, .. } if scale != 1.0),
        );
    }

    /// Like an in-place op on a shared residual: the sum is correct, but the other owner sees it,
    /// too.
    #[test]
    fn a_held_residual_that_is_written_over_is_caught() {
        let fault = Faulty {
            change_case: UNCHANGED_CASE,
            change_outputs: |_, outputs| {
                let sum = outputs[0].values.clone();
                if let Some(shared) = outputs.iter_mut().find(|output| output.name.contains("shared")) {
                    shared.values = sum;
                }
            },
        };
        let actual = mismatches(&fault, |case| {
            case.shared && matches!(case.op, Op::LinearAdd { .. } | Op::FeedForward { .. })
        });
        assert!(actual.iter().all(|mismatch| mismatch.output.contains("shared")));
    }

    /// Like a copy of a shared residual whose row stride is ignored.
    #[test]
    fn a_copy_of_a_held_residual_with_other_strides_is_caught() {
        let fault = Faulty {
            change_case: UNCHANGED_CASE,
            change_outputs: |case, outputs| {
                if !case.shared || !matches!(case.op, Op::LinearAdd { .. }) {
                    return;
                }
                let (cols, correct) = (outputs[0].cols, outputs[0].values.clone());
                let stride = (cols + 1).next_multiple_of(64);
                for (index, value) in outputs[0].values.iter_mut().enumerate() {
                    *value = if index % stride < cols {
                        correct[(index / stride * cols + index % stride).min(correct.len() - 1)]
                    } else {
                        0.0
                    };
                }
            },
        };
        mismatches(&fault, |case| {
            // With one row there is no stride.
            case.shared && case.tokens > 1 && matches!(case.op, Op::LinearAdd { .. })
        });
    }

    /// Index of the faulty element, at two thirds of an output.
    fn faulty_index(output: &Output) -> usize {
        output.values.len() * 2 / 3
    }

    /// In every op, forward and backward, also with rounded factors.
    #[test]
    fn one_wrong_element_of_any_output_is_caught_and_named() {
        let fault = Faulty {
            // In f32, so that no other element is out of tolerance.
            change_case: |case| *case = case.exact(),
            change_outputs: |case, outputs| {
                let output = outputs.last_mut().expect("an output");
                let (index, rms) = (faulty_index(output), root_mean_square(output));
                let error = match case.op {
                    Op::Argmax { .. } => 1.0,
                    _ => 2.1 * tolerance(case) * (f64::from(output.values[index]).abs() + rms),
                };
                output.values[index] += error as f32;
            },
        };
        let cpu = OnDevice(Device::flex());
        for case in cases(true) {
            let mismatch = compare(&case, &fault, &cpu).expect("it runs").mismatch;
            let mismatch = mismatch.unwrap_or_else(|| panic!("not seen: {case}"));
            let outputs = cpu.run(&case.exact()).expect("it runs");
            let last = outputs.last().expect("an output");
            let (row, column) = (faulty_index(last) / last.cols, faulty_index(last) % last.cols);
            assert_eq!(
                (mismatch.wrong, &mismatch.output, mismatch.row, mismatch.column),
                (1, &last.name, row, column),
                "{mismatch:?}"
            );
            let sentence = mismatch.report().to_string();
            for part in [
                case.op.name().to_owned(),
                last.name.clone(),
                format!("row {row}, column {column}"),
            ] {
                assert!(sentence.contains(&part), "{part}: {sentence}");
            }
        }
    }

    /// Like a kernel that computes only the first tile of the rank.
    #[test]
    fn a_kernel_wrong_only_beyond_32_ranks_is_caught() {
        let fault = Faulty {
            change_case: UNCHANGED_CASE,
            change_outputs: |_, outputs| {
                let gradients = outputs.iter_mut().filter(|output| output.name.contains("of a of"));
                for gradient in gradients {
                    let cols = gradient.cols;
                    gradient
                        .values
                        .iter_mut()
                        .skip(32 * cols)
                        .for_each(|value| *value = 0.0);
                }
            },
        };
        let actual = mismatches(&fault, |case| {
            case.backward && case.op.linears().iter().any(|linear| linear.rank > Some(32))
        });
        for mismatch in actual {
            assert!(mismatch.row >= 32, "{mismatch:?}");
        }
    }

    /// Outputs of a linear layer on normalized rows in f64, from these input columns only. With
    /// `rounded`, both factors are rounded to f16.
    fn product(case: &Case, rounded: bool, columns: Range<usize>) -> Vec<f64> {
        let linear = case.op.linears()[0];
        let to_f16 = |values: Vec<f32>| {
            if rounded {
                round_trip(Quant::F16, &values)
            } else {
                values
            }
        };
        let weight = to_f16(linear.values(weight_seed(0)).expect("whole blocks"));
        let x = wide(&case.leaves()[0].values);
        let x = rms_norm(&x, &wide(&norm_weights(linear.cols, NormKind::Before)), f64::from(EPS));
        let x = to_f16(x.into_iter().map(|x| x as f32).collect());
        let masked = |values: &[f32]| -> Vec<f64> {
            let value = |(index, value): (usize, &f32)| {
                if columns.contains(&(index % linear.cols)) {
                    f64::from(*value)
                } else {
                    0.0
                }
            };
            values.iter().enumerate().map(value).collect()
        };
        let weight = transpose(&masked(&weight), linear.rows, linear.cols);
        matmul(&masked(&x), &weight, case.tokens, linear.cols, linear.rows)
    }

    /// Values after quantization and dequantization.
    fn round_trip(quant: Quant, values: &[f32]) -> Vec<f32> {
        let mut bytes = vec![0; quant.row_bytes(values.len()).expect("whole blocks")];
        quant.quantize_row(values, &mut bytes).expect("numbers can be stored");
        let mut dequantized = vec![0.0; values.len()];
        quant.dequantize_row(&bytes, &mut dequantized).expect("whole blocks");
        dequantized
    }

    fn output(case: &Case, values: Vec<f64>) -> Output {
        Output {
            name: "the output".to_owned(),
            cols: case.op.linears()[0].rows,
            values: values.into_iter().map(|value| value as f32).collect(),
        }
    }

    /// Rounding to f16 is well within the tolerance. A block's scale that is off by 1 % is not, and
    /// neither is a tile of 8 by 8 outputs that lacks 8 of its inputs.
    #[test]
    fn rounded_factors_pass_and_a_wrong_scale_or_tile_beside_them_does_not() {
        let products = cases(true).into_iter().filter(|case| {
            case.precision == MatmulPrecision::Int8Activations
                && matches!(&case.op, Op::NormLinears(linears) if linears.len() == 1)
        });
        let mut checked = 0;
        for case in products {
            let linear = case.op.linears()[0];
            let (tolerance, all) = (tolerance(&case), 0..linear.cols);
            let expected = output(&case, product(&case, false, all.clone()));
            let rounded = product(&case, true, all);
            let error_of = |values: Vec<f64>| error(&output(&case, values), &expected);
            let rounding = error_of(rounded.clone());
            assert!(
                rounding < 0.9 * tolerance,
                "{case}: rounding alone is off by {rounding:.1e}"
            );
            assert!(
                rounding > 0.0 || linear.quant == Quant::F16,
                "{case}: nothing was rounded, so this proves nothing"
            );
            let block = product(&case, true, 32..64);
            let wrong_scale = rounded.iter().zip(&block).map(|(y, block)| y + 0.01 * block);
            let wrong_scale = error_of(wrong_scale.collect());
            assert!(
                wrong_scale > 2.0 * tolerance,
                "{case}: a wrong scale is off by {wrong_scale:.1e}"
            );
            let missing = product(&case, true, 64..72);
            let is_in_tile =
                |index: usize| (8..16).contains(&(index / linear.rows)) && (16..24).contains(&(index % linear.rows));
            let outputs = rounded.iter().zip(&missing).enumerate();
            let wrong_tile = error_of(
                outputs
                    .map(|(index, (y, missing))| if is_in_tile(index) { y - missing } else { *y })
                    .collect(),
            );
            assert!(
                wrong_tile > 10.0 * tolerance,
                "{case}: a wrong tile is off by {wrong_tile:.1e}"
            );
            checked += 1;
        }
        assert_eq!(checked, Quant::ALL.len());
    }

    #[test]
    fn nan_is_always_a_mismatch() {
        let fault = Faulty {
            change_case: UNCHANGED_CASE,
            change_outputs: |_, outputs| {
                if let Some(value) = outputs[0].values.last_mut() {
                    *value = f32::NAN;
                }
            },
        };
        mismatches(&fault, |_| true);
    }
}
