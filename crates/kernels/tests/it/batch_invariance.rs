//! Batch invariance: the bits of a row depend only on its sequence, position, adapters and shapes,
//! not on other rows of the batch, on the chunks of a prompt, or on threads. (The precisions of
//! chat, on each instruction set.)

use crate::own_process;
use crate::reference::{self, noise};
use hearth_kernels::attention::{CachedRows, Heads, KvFormat, KvLayer, Spans, attend};
use hearth_kernels::fused::{gated, linear_add_in_place, norm_linears};
use hearth_kernels::glu::Activation;
use hearth_kernels::{Layout, Linear, Lora, MatmulPrecision, Matrix, Norm, Quant, matrix, team};
use hearth_test_parts::Parts;

/// Batch sizes: one token, fewer and more than the kernels process at once, and more than a chunk
/// of work.
const BATCHES: [usize; 10] = [2, 3, 4, 5, 6, 7, 11, 22, 64, 129];
const TOKENS: usize = 129;
const THREADS: [usize; 4] = [1, 2, 3, 8];
/// Threads and batch sizes of the formats that a run's parts do not include.
const FEW: [(usize, usize); 3] = [(2, 129), (2, 5), (3, 22)];

/// Sets the number of threads, which may exceed the machine's. Only for a test with its own
/// process; first called before any kernel runs.
fn set_threads(threads: usize) {
    team::oversubscribe(8);
    team::set_threads(threads);
    assert_eq!(team::threads(), threads);
}

/// Whether this run includes all of a case.
fn is_included(parts: &Parts, index: usize, case: &str) -> bool {
    let suffix = if cfg!(debug_assertions) { " with assertions" } else { "" };
    parts.includes(index, &format!("batch_invariance::{case}{suffix}"))
}

/// Threads and batch sizes: all pairs, or [`FEW`].
fn pairs(all: bool) -> Vec<(usize, usize)> {
    if all {
        THREADS
            .into_iter()
            .flat_map(|threads| BATCHES.map(|at_once| (threads, at_once)))
            .collect()
    } else {
        FEW.to_vec()
    }
}

/// A weight as in a model: packed if the machine packs it, with rows after the last whole group of
/// sixteen.
struct Weight {
    quant: Quant,
    layout: Layout,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
}

impl Weight {
    fn new(seed: u64, quant: Quant, rows: usize, cols: usize) -> Self {
        let mut plain = vec![0; rows * quant.row_bytes(cols).unwrap()];
        quant.quantize_row(&noise(seed, rows * cols), &mut plain).unwrap();
        let (layout, bytes) = matrix::pack(quant, rows, cols, &plain).unwrap();
        Self {
            quant,
            layout,
            rows,
            cols,
            bytes,
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(self.quant, self.layout, self.rows, self.cols, &self.bytes).unwrap()
    }
}

/// An adapter's matrices: none, one, or two stacked, with an odd rank.
struct Adapter {
    rank: usize,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Adapter {
    fn new(seed: u64, rank: usize, rows: usize, cols: usize) -> Self {
        Self {
            rank,
            a: noise(seed, rank * cols),
            b: noise(seed + 1, rows * rank),
        }
    }

    fn lora(&self) -> Option<Lora<'_>> {
        (self.rank > 0).then_some(Lora {
            a: &self.a,
            b: &self.b,
            rank: self.rank,
            scale: 0.7,
            dropout: None,
        })
    }
}

/// Columns of a row of whole blocks that are not whole vectors or chunks where the format allows
/// that.
fn cols(quant: Quant) -> usize {
    match quant.block_elements() {
        1 => 331,
        256 => 512,
        block => 9 * block,
    }
}

/// Runs `run(first token, tokens)` for all tokens in batches of `at_once`.
fn in_batches(at_once: usize, run: &dyn Fn(usize, usize) -> Vec<f32>) -> Vec<f32> {
    let first = (0..TOKENS).step_by(at_once);
    first
        .flat_map(|first| run(first, at_once.min(TOKENS - first)))
        .collect()
}

/// Checks that these numbers of threads and batch sizes give the same bits as single tokens on one
/// thread.
fn check(what: &str, pairs: &[(usize, usize)], run: &dyn Fn(usize, usize) -> Vec<f32>) {
    set_threads(1);
    let expected = in_batches(1, run);
    assert!(expected.iter().all(|x| x.is_finite()), "{what}");
    for &(threads, at_once) in pairs {
        set_threads(threads);
        let same = in_batches(at_once, run)
            .iter()
            .map(|x| x.to_bits())
            .eq(expected.iter().map(|x| x.to_bits()));
        assert!(same, "{what}: {at_once} tokens at once, {threads} threads");
    }
}

/// The formats; few of them under emulation.
fn formats() -> impl Iterator<Item = (usize, Quant)> {
    let step = if reference::emulated() { 4 } else { 1 };
    Quant::ALL.into_iter().enumerate().step_by(step)
}

#[test]
fn a_token_has_the_same_outputs_in_any_batch() {
    if !own_process::is_own(a_token_has_the_same_outputs_in_any_batch) {
        return;
    }
    set_threads(1);
    let parts = Parts::from_variable("levels");
    for (index, quant) in formats() {
        let case = format!("a_token_has_the_same_outputs_in_any_batch {quant}");
        let pairs = pairs(is_included(&parts, index, &case));
        let (cols, rows) = (cols(quant), [67, 16, 35]);
        let x = noise(1, TOKENS * cols);
        let norm = noise(2, cols);
        let norm = Some(Norm {
            weight: &norm,
            eps: 1e-5,
        });
        let weights: Vec<Weight> = rows.map(|rows| Weight::new(rows as u64, quant, rows, cols)).into();
        let bias = noise(3, rows[0]);
        for rank in [0, 8, 19] {
            let adapters: Vec<Adapter> = rows.map(|rows| Adapter::new(rows as u64, rank, rows, cols)).into();
            let linears: Vec<Linear> = weights
                .iter()
                .zip(&adapters)
                .enumerate()
                .map(|(i, (weight, adapter))| Linear {
                    weight: weight.matrix(),
                    scale: [1.0, 0.3, 1.0][i],
                    lora: adapter.lora(),
                    bias: (i == 0).then_some(&bias),
                })
                .collect();
            let width: usize = rows.iter().sum();
            check(&format!("{quant}, rank {rank}"), &pairs, &|first, tokens| {
                let mut y = vec![f32::NAN; tokens * width];
                norm_linears(
                    &x[first * cols..][..tokens * cols],
                    norm,
                    &linears,
                    MatmulPrecision::Int8Activations,
                    &mut y,
                )
                .unwrap();
                y
            });
        }
    }
}

#[test]
fn a_token_has_the_same_feed_forward_in_any_batch() {
    if !own_process::is_own(a_token_has_the_same_feed_forward_in_any_batch) {
        return;
    }
    set_threads(1);
    let parts = Parts::from_variable("levels");
    for (index, quant) in formats() {
        let case = format!("a_token_has_the_same_feed_forward_in_any_batch {quant}");
        let pairs = pairs(is_included(&parts, index + 2, &case));
        let (cols, rows) = (cols(quant), 67);
        let x = noise(4, TOKENS * cols);
        let [gate, up] = [5, 6].map(|seed| Weight::new(seed, quant, rows, cols));
        // A down projection has as many rows as the others have columns.
        let residual = noise(7, TOKENS * rows);
        let after = noise(8, rows);
        for rank in [0, 16] {
            let adapter = Adapter::new(9, rank, rows, cols);
            let gate = Linear {
                lora: adapter.lora(),
                ..Linear::plain(gate.matrix())
            };
            let up = Linear::plain(up.matrix());
            check(
                &format!("{quant}, gate and up, rank {rank}"),
                &pairs,
                &|first, tokens| {
                    let mut h = vec![f32::NAN; tokens * rows];
                    let x = &x[first * cols..][..tokens * cols];
                    gated(
                        x,
                        None,
                        &gate,
                        &up,
                        Activation::Silu,
                        MatmulPrecision::Int8Activations,
                        &mut h,
                    )
                    .unwrap();
                    h
                },
            );
            for norm in [
                None,
                Some(Norm {
                    weight: &after,
                    eps: 1e-6,
                }),
            ] {
                check(
                    &format!("{quant}, down, rank {rank}, norm {}", norm.is_some()),
                    &pairs,
                    &|first, tokens| {
                        let mut y = residual[first * rows..][..tokens * rows].to_vec();
                        let x = &x[first * cols..][..tokens * cols];
                        linear_add_in_place(x, &gate, norm, MatmulPrecision::Int8Activations, &mut y).unwrap();
                        y
                    },
                );
            }
        }
    }
}

/// The precisions of training and of references are batch invariant, too.
#[test]
fn a_token_has_the_same_exact_outputs_in_any_batch() {
    if !own_process::is_own(a_token_has_the_same_exact_outputs_in_any_batch) {
        return;
    }
    set_threads(1);
    for (quant, precision) in [
        (Quant::Q4_K, MatmulPrecision::F32),
        (Quant::F16, MatmulPrecision::F32),
        (Quant::Q5_0, MatmulPrecision::Bf16),
    ] {
        let (cols, rows) = (cols(quant), 67);
        let (weight, x) = (Weight::new(10, quant, rows, cols), noise(11, TOKENS * cols));
        let adapter = Adapter::new(12, 8, rows, cols);
        let linears = [Linear {
            lora: adapter.lora(),
            ..Linear::plain(weight.matrix())
        }];
        check(&format!("{quant}, {precision:?}"), &pairs(true), &|first, tokens| {
            let mut y = vec![f32::NAN; tokens * rows];
            norm_linears(&x[first * cols..][..tokens * cols], None, &linears, precision, &mut y).unwrap();
            y
        });
    }
}

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 0.3 / (head_dim as f32).sqrt(),
        window,
    }
}

/// Attention through a cache in batches of `at_once`; token `i` in cell `i`.
fn through_cache(format: KvFormat, shape: Heads, qkv: &[f32], at_once: usize) -> Vec<u32> {
    let width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let tokens = qkv.len() / width;
    let mut layer = KvLayer::new(format, tokens, shape.kv_heads, shape.head_dim);
    let mut out = Vec::new();
    for (batch, qkv) in qkv.chunks(at_once * width).enumerate() {
        let (first, count) = (batch * at_once, qkv.len() / width);
        let cells: Vec<u32> = (first as u32..(first + count) as u32).collect();
        layer.write(&shape, &cells, qkv).unwrap();
        let mut part = vec![f32::NAN; count * shape.heads * shape.head_dim];
        let spans = &Spans::in_order(first + count);
        attend(qkv, &shape, &layer, &[CachedRows { rows: count, spans }], &mut part).unwrap();
        out.extend(part.iter().map(|x| x.to_bits()));
    }
    out
}

/// 700 tokens: more than two splits of keys.
#[test]
fn a_token_attends_to_the_same_bits_in_any_batch() {
    if !own_process::is_own(a_token_attends_to_the_same_bits_in_any_batch) {
        return;
    }
    set_threads(1);
    let tokens = if reference::emulated() { 280 } else { 700 };
    let shapes = [
        shape(3, 3, 64, None),
        shape(9, 3, 64, None),
        shape(7, 1, 80, Some(300)),
        shape(8, 1, 33, Some(17)),
    ];
    let parts = Parts::from_variable("levels");
    let all = [
        (2, 1),
        (1, 7),
        (3, 16),
        (8, 64),
        (2, 128),
        (2, 512),
        (1, tokens),
        (3, tokens),
    ];
    for (index, shape) in shapes.into_iter().enumerate() {
        let qkv = noise(13, tokens * (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
        for (number, format) in [KvFormat::F16, KvFormat::Q8_0].into_iter().enumerate() {
            let (heads, kv_heads) = (shape.heads, shape.kv_heads);
            let case =
                format!("a_token_attends_to_the_same_bits_in_any_batch {heads} heads over {kv_heads} in {format:?}");
            let pairs = if is_included(&parts, index + 2 * number, &case) {
                &all[..]
            } else {
                // With fewer tokens at once than a page has, and with more.
                &[(3, 16), (2, 512)]
            };
            set_threads(1);
            let expected = through_cache(format, shape, &qkv, 1);
            for &(threads, at_once) in pairs {
                set_threads(threads);
                let actual = through_cache(format, shape, &qkv, at_once);
                assert!(
                    actual == expected,
                    "{format:?} {shape:?}: {at_once} tokens at once, {threads} threads"
                );
            }
        }
    }
}

/// A value too large for f16, or for an f16 scale, reaches no row that does not see it: neither an
/// earlier row of the batch, nor a later one of the sequence after its cell was reused.
#[test]
fn overflow_in_a_cache_reaches_only_rows_that_see_it() {
    let shape = shape(4, 2, 33, None);
    let (width, tokens) = ((4 + 2 * 2) * 33, 21);
    let values = 6 * 33;
    let mut qkv = noise(14, tokens * width);
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        qkv[9 * width + values..10 * width].fill(1e9);
        let expected = through_cache(format, shape, &qkv, 1);
        assert!(
            expected.iter().all(|bits| f32::from_bits(*bits).is_finite()),
            "{format:?}"
        );
        assert!(through_cache(format, shape, &qkv, tokens) == expected, "{format:?}");
    }
}
