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

/// Batch sizes: fewer and more tokens than the kernels process at once, and more than a work chunk.
const BATCHES: [usize; 10] = [2, 3, 4, 5, 6, 7, 11, 22, 64, 129];
const TOKENS: usize = 129;
const THREADS: [usize; 4] = [1, 2, 3, 8];
/// Threads and batch sizes of the cases that a run's parts do not include.
const FEW_PAIRS: [(usize, usize); 3] = [(2, 129), (2, 5), (3, 22)];

/// Sets the number of threads, which may exceed the machine's. Only for a test with its own
/// process; first called before any kernel runs.
fn set_threads(threads: usize) {
    team::oversubscribe(8);
    team::set_threads(threads);
    assert_eq!(team::threads(), threads);
}

/// Returns `true` if this run includes all pairs of threads and batch sizes of a case.
fn is_included(parts: &Parts, index: usize, case: &str) -> bool {
    let suffix = if cfg!(debug_assertions) { " with assertions" } else { "" };
    parts.includes(index, &format!("batch_invariance::{case}{suffix}"))
}

/// Threads and batch sizes: all pairs, or [`FEW_PAIRS`].
fn pairs(all: bool) -> Vec<(usize, usize)> {
    if all {
        THREADS
            .into_iter()
            .flat_map(|threads| BATCHES.map(|batch_size| (threads, batch_size)))
            .collect()
    } else {
        FEW_PAIRS.to_vec()
    }
}

/// A weight as in a model: packed if this machine packs the format. The number of rows need not be
/// a multiple of 16.
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

/// Columns of a row: whole blocks, but not whole vectors or activation chunks if the format allows
/// it.
fn cols(quant: Quant) -> usize {
    match quant.block_elements() {
        1 => 331,
        256 => 512,
        block => 9 * block,
    }
}

/// Calls `run` with the first token and the number of tokens of each batch.
fn in_batches(batch_size: usize, run: &dyn Fn(usize, usize) -> Vec<f32>) -> Vec<f32> {
    let first = (0..TOKENS).step_by(batch_size);
    first
        .flat_map(|first| run(first, batch_size.min(TOKENS - first)))
        .collect()
}

/// Checks that each pair of threads and batch size gives the same bits as batches of one token on
/// one thread.
fn check(case: &str, pairs: &[(usize, usize)], run: &dyn Fn(usize, usize) -> Vec<f32>) {
    set_threads(1);
    let expected = in_batches(1, run);
    assert!(expected.iter().all(|x| x.is_finite()), "{case}");
    for &(threads, batch_size) in pairs {
        set_threads(threads);
        let is_same = in_batches(batch_size, run)
            .iter()
            .map(|x| x.to_bits())
            .eq(expected.iter().map(|x| x.to_bits()));
        assert!(is_same, "{case}: {batch_size} tokens at once, {threads} threads");
    }
}

/// The formats with their indices; every fourth format under emulation.
fn formats() -> impl Iterator<Item = (usize, Quant)> {
    let step = if reference::is_emulated() { 4 } else { 1 };
    Quant::ALL.into_iter().enumerate().step_by(step)
}

#[test]
fn a_token_has_the_same_outputs_in_any_batch() {
    if !own_process::has_own_process(a_token_has_the_same_outputs_in_any_batch) {
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
    if !own_process::has_own_process(a_token_has_the_same_feed_forward_in_any_batch) {
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
        let norm_weight = noise(8, rows);
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
            let norm = Norm {
                weight: &norm_weight,
                eps: 1e-6,
            };
            for (norm, scale) in [(None, 1.0), (None, 0.3), (Some(norm), 1.0), (Some(norm), 0.3)] {
                check(
                    &format!("{quant}, down, rank {rank}, norm {}, scale {scale}", norm.is_some()),
                    &pairs,
                    &|first, tokens| {
                        let mut y = residual[first * rows..][..tokens * rows].to_vec();
                        let x = &x[first * cols..][..tokens * cols];
                        linear_add_in_place(x, &gate, norm, scale, MatmulPrecision::Int8Activations, &mut y).unwrap();
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
    if !own_process::has_own_process(a_token_has_the_same_exact_outputs_in_any_batch) {
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
        softcap: None,
        window,
    }
}

/// Attention through a cache in batches of `batch_size`; token `i` in cell `i`.
fn attend_through_cache(format: KvFormat, shape: Heads, qkv: &[f32], batch_size: usize) -> Vec<u32> {
    let width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let tokens = qkv.len() / width;
    let mut layer = KvLayer::new(format, tokens, shape.kv_heads, shape.head_dim);
    let mut out = Vec::new();
    for (batch, qkv) in qkv.chunks(batch_size * width).enumerate() {
        let (first, count) = (batch * batch_size, qkv.len() / width);
        let cells: Vec<u32> = (first as u32..(first + count) as u32).collect();
        layer.write(&shape, &cells, qkv).unwrap();
        let mut batch_out = vec![f32::NAN; count * shape.heads * shape.head_dim];
        let spans = &Spans::in_order(first + count);
        attend(
            qkv,
            &shape,
            &layer,
            &[CachedRows { rows: count, spans }],
            &mut batch_out,
        )
        .unwrap();
        out.extend(batch_out.iter().map(|x| x.to_bits()));
    }
    out
}

/// 700 tokens: more than two splits of keys.
#[test]
fn a_token_attends_to_the_same_bits_in_any_batch() {
    if !own_process::has_own_process(a_token_attends_to_the_same_bits_in_any_batch) {
        return;
    }
    set_threads(1);
    let tokens = if reference::is_emulated() { 280 } else { 700 };
    let shapes = [
        shape(3, 3, 64, None),
        shape(9, 3, 64, None),
        Heads {
            softcap: Some(0.2),
            ..shape(7, 1, 80, Some(300))
        },
        shape(8, 1, 33, Some(17)),
    ];
    let parts = Parts::from_variable("levels");
    let all_pairs = [
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
        for (format_index, format) in [KvFormat::F16, KvFormat::Q8_0].into_iter().enumerate() {
            let (heads, kv_heads) = (shape.heads, shape.kv_heads);
            let case =
                format!("a_token_attends_to_the_same_bits_in_any_batch {heads} heads over {kv_heads} in {format:?}");
            let pairs = if is_included(&parts, index + 2 * format_index, &case) {
                &all_pairs[..]
            } else {
                // With fewer tokens at once than a page has, and with more.
                &[(3, 16), (2, 512)]
            };
            set_threads(1);
            let expected = attend_through_cache(format, shape, &qkv, 1);
            for &(threads, batch_size) in pairs {
                set_threads(threads);
                let actual = attend_through_cache(format, shape, &qkv, batch_size);
                assert!(
                    actual == expected,
                    "{format:?} {shape:?}: {batch_size} tokens at once, {threads} threads"
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
        let expected = attend_through_cache(format, shape, &qkv, 1);
        assert!(
            expected.iter().all(|bits| f32::from_bits(*bits).is_finite()),
            "{format:?}"
        );
        assert!(
            attend_through_cache(format, shape, &qkv, tokens) == expected,
            "{format:?}"
        );
    }
}
