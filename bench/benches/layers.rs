//! Parts of a forward pass: products of each format for one token (bytes per second) and for many
//! (multiply-adds per second), attention, the latency of a dispatch, and whole passes of models,
//! including the shape of the default model. `few` compares steps of one to eight tokens.
//!
//! `cargo bench -p hearth-bench --bench layers -- decode`. Results are in `docs/tried/`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_bench::{HEADS, Weight, noise};
use hearth_kernels::attention::{
    CachedRows, Heads, KvFormat, KvLayer, QkNormRope, Spans, attend, attend_batch, attend_batch_backward,
    attend_batch_with_lse, qk_norm_rope_in_place,
};
use hearth_kernels::fused::{gated, linear_add_in_place, norm_linears};
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::scratch::Scratch;
use hearth_kernels::{MatmulPrecision, Norm, Quant, ShapeError, team};
use std::cell::LazyCell;
use std::hint::black_box;

/// All formats but F32.
fn quants() -> impl Iterator<Item = Quant> {
    Quant::ALL.into_iter().filter(|quant| *quant != Quant::F32)
}

/// One token: bound by memory, because the weight is larger than the caches (64 MiB).
fn one_token(c: &mut Criterion) {
    let mut group = c.benchmark_group("gemv");
    for quant in quants() {
        let cols = 4096;
        let rows = (64 << 20) / quant.row_bytes(cols).expect("whole blocks");
        let (weight, x, mut y) = (
            Weight::new(quant, rows, cols).expect("whole blocks"),
            noise(cols),
            vec![0.0; rows],
        );
        let _awake = team::enter();
        group.throughput(Throughput::Bytes(weight.bytes.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(quant), |b| {
            b.iter(|| {
                norm_linears(
                    black_box(&x),
                    None,
                    &[weight.linear().expect("packed weights")],
                    MatmulPrecision::Int8Activations,
                    &mut y,
                )
            });
        });
    }
}

/// 32 and 512 tokens: bound by arithmetic. Elements are multiply-adds.
fn many_tokens(c: &mut Criterion) {
    let mut group = c.benchmark_group("gemm");
    let (rows, cols) = (1536, 768);
    let _awake = team::enter();
    for quant in quants() {
        let weight = Weight::new(quant, rows, cols).expect("whole blocks");
        for (tokens, precision) in [
            (32, MatmulPrecision::Int8Activations),
            (512, MatmulPrecision::Int8Activations),
            (512, MatmulPrecision::F32),
            (512, MatmulPrecision::Bf16),
        ] {
            let (x, mut y) = (noise(tokens * cols), vec![0.0; tokens * rows]);
            group.throughput(Throughput::Elements((rows * cols * tokens) as u64));
            group.bench_function(BenchmarkId::new(format!("{precision:?} {tokens}"), quant), |b| {
                b.iter(|| {
                    norm_linears(
                        black_box(&x),
                        None,
                        &[weight.linear().expect("packed weights")],
                        precision,
                        &mut y,
                    )
                });
            });
        }
    }
}

/// Multiply-adds of causal attention for the last `tokens` of a context of `depth`.
fn products(tokens: usize, depth: usize) -> u64 {
    let seen: usize = (depth - tokens + 1..=depth).sum();
    (2 * HEADS.heads * HEADS.head_dim * seen) as u64
}

fn attention(c: &mut Criterion) {
    let mut group = c.benchmark_group("attention");
    let _awake = team::enter();
    for (tokens, depth) in [(512, 512), (512, 4096), (1, 512), (1, 8192)] {
        group.throughput(Throughput::Elements(products(tokens, depth)));
        let cells: Vec<u32> = (0..depth as u32).collect();
        let context = noise(depth * HEADS.qkv_width());
        let (spans, qkv) = (Spans::in_order(depth), &context[..tokens * HEADS.qkv_width()]);
        let mut out = vec![0.0; tokens * HEADS.out_width()];
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            let mut layer = KvLayer::new(format, depth, HEADS.kv_heads, HEADS.head_dim);
            layer.write(&HEADS, &cells, &context).expect("all cells");
            group.bench_function(format!("{tokens} of {depth}, {format:?}"), |b| {
                let rows = [CachedRows {
                    rows: tokens,
                    spans: &spans,
                }];
                b.iter(|| attend(black_box(qkv), &HEADS, &layer, &rows, &mut out));
            });
        }
    }
    // As in a model of thirty layers: each layer's cache streams from memory.
    let (depth, cells) = (4096, (0..4096).collect::<Vec<u32>>());
    let (spans, context) = (Spans::in_order(depth), noise(depth * HEADS.qkv_width()));
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        let mut layers = vec![KvLayer::new(format, depth, HEADS.kv_heads, HEADS.head_dim); 30];
        for layer in &mut layers {
            layer.write(&HEADS, &cells, &context).expect("all cells");
        }
        let mut out = vec![0.0; HEADS.out_width()];
        let bytes = 30 * KvLayer::bytes_for(format, depth, HEADS.kv_heads, HEADS.head_dim);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("1 of {depth}, 30 layers, {format:?}"), |b| {
            b.iter(|| {
                for layer in &layers {
                    attend(
                        black_box(&context[..HEADS.qkv_width()]),
                        &HEADS,
                        layer,
                        &[CachedRows { rows: 1, spans: &spans }],
                        &mut out,
                    )?;
                }
                Ok::<_, ShapeError>(())
            });
        });
    }
    let (qkv, starts) = (noise(512 * HEADS.qkv_width()), vec![0; 512]);
    group.throughput(Throughput::Elements(products(512, 512)));
    let mut out = vec![0.0; 512 * HEADS.out_width()];
    group.bench_function("batch of 512", |b| {
        b.iter(|| attend_batch(black_box(&qkv), &HEADS, &starts, &mut out))
    });
    let mut lse = vec![0.0; 512 * HEADS.heads];
    group.bench_function("batch of 512, keeping", |b| {
        b.iter(|| attend_batch_with_lse(black_box(&qkv), &HEADS, &starts, &mut out, &mut lse))
    });
    // Minimum work: recomputed scores, and the gradients of both factors of both products.
    group.throughput(Throughput::Elements(products(512, 512) / 2 * 5));
    let mut gradient = vec![0.0; qkv.len()];
    group.bench_function("batch of 512, backward", |b| {
        b.iter(|| attend_batch_backward(black_box(&qkv), &HEADS, &starts, [&out, &lse], &out, &mut gradient));
    });
}

fn dispatch(c: &mut Criterion) {
    let _awake = team::enter();
    c.bench_function("dispatch", |b| {
        b.iter(|| {
            team::run(team::threads().max(2), &|chunk| {
                black_box(chunk);
            });
        });
    });
}

/// Shape of a model.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    layers: usize,
    heads: Heads,
    feed_forward: usize,
    vocab: usize,
}

/// The default model.
const SMALL: Shape = Shape {
    name: "135M",
    layers: 30,
    heads: HEADS,
    feed_forward: 1536,
    vocab: 49152,
};

/// The random 0.5B model of compare.py: wide enough for weights to stream from memory.
const LARGE: Shape = Shape {
    name: "0.5B",
    layers: 28,
    heads: Heads {
        heads: 16,
        kv_heads: 8,
        head_dim: 64,
        scale: 0.125,
        softcap: None,
        window: None,
    },
    feed_forward: 4096,
    vocab: 32768,
};

struct Model {
    shape: Shape,
    layers: Vec<[Weight; 7]>,
    output: Weight,
    norm: Vec<f32>,
    rope: Rope,
}

impl Model {
    fn new(shape: Shape, quant: Quant) -> Self {
        let width = shape.heads.out_width();
        let narrow = shape.heads.kv_heads * shape.heads.head_dim;
        let weight = |rows, cols| Weight::new(quant, rows, cols).expect("whole blocks");
        let layer = |_| {
            [
                weight(width, width),
                weight(narrow, width),
                weight(narrow, width),
                weight(width, width),
                weight(shape.feed_forward, width),
                weight(shape.feed_forward, width),
                weight(width, shape.feed_forward),
            ]
        };
        Self {
            shape,
            layers: (0..shape.layers).map(layer).collect(),
            output: Weight::new(Quant::Q8_0, shape.vocab, width).expect("whole blocks"),
            norm: vec![1.0; width],
            rope: Rope::plain(Pairing::Interleaved, shape.heads.head_dim, 10_000.0),
        }
    }

    /// Processes tokens starting at position `first`. Returns the logits of the last `outputs`
    /// tokens.
    fn pass(&self, layers: &mut [KvLayer], tokens: usize, first: usize, outputs: usize) -> Scratch<f32> {
        let _awake = team::enter();
        let norm = Some(Norm {
            weight: &self.norm,
            eps: 1e-5,
        });
        let Shape {
            heads, feed_forward, ..
        } = &self.shape;
        let width = heads.out_width();
        let mut x = noise(tokens * width);
        let positions: Vec<u32> = (first as u32..(first + tokens) as u32).collect();
        let spans = &Spans::in_order(first + tokens);
        let (mut qkv, mut out) = (vec![0.0; tokens * heads.qkv_width()], vec![0.0; tokens * width]);
        let mut h = vec![0.0; tokens * feed_forward];
        let qk_norm_rope = QkNormRope {
            rope: Some(&self.rope),
            ..QkNormRope::default()
        };
        let fit = "the model's own sizes";
        for ([q, k, v, o, gate, up, down], layer) in self.layers.iter().zip(layers) {
            let qkv_linears = [
                q.linear().expect("packed weights"),
                k.linear().expect("packed weights"),
                v.linear().expect("packed weights"),
            ];
            norm_linears(&x, norm, &qkv_linears, MatmulPrecision::Int8Activations, &mut qkv).expect(fit);
            qk_norm_rope_in_place(&mut qkv, heads, &positions, &qk_norm_rope).expect(fit);
            layer.write(heads, &positions, &qkv).expect(fit);
            attend(&qkv, heads, layer, &[CachedRows { rows: tokens, spans }], &mut out).expect(fit);
            linear_add_in_place(
                &out,
                &o.linear().expect("packed weights"),
                None,
                1.0,
                MatmulPrecision::Int8Activations,
                &mut x,
            )
            .expect(fit);
            let (gate, up) = (
                gate.linear().expect("packed weights"),
                up.linear().expect("packed weights"),
            );
            gated(
                &x,
                norm,
                &gate,
                &up,
                Activation::Silu,
                MatmulPrecision::Int8Activations,
                &mut h,
            )
            .expect(fit);
            linear_add_in_place(
                &h,
                &down.linear().expect("packed weights"),
                None,
                1.0,
                MatmulPrecision::Int8Activations,
                &mut x,
            )
            .expect(fit);
        }
        let mut logits = Scratch::new(outputs * self.shape.vocab);
        let last = &x[(tokens - outputs) * width..];
        norm_linears(
            last,
            norm,
            &[self.output.linear().expect("packed weights")],
            MatmulPrecision::Int8Activations,
            &mut logits,
        )
        .expect(fit);
        logits
    }
}

/// A KV cache of 1,024 cells per layer.
fn model_cache(shape: &Shape) -> Vec<KvLayer> {
    let Heads { kv_heads, head_dim, .. } = shape.heads;
    let layer = |_| KvLayer::new(KvFormat::F16, 1024, kv_heads, head_dim);
    (0..shape.layers).map(layer).collect()
}

/// Elements are tokens.
fn model(c: &mut Criterion) {
    for (shape, quant) in [
        (SMALL, Quant::Q4_1),
        (LARGE, Quant::Q4_K),
        (LARGE, Quant::Q5_0),
        (LARGE, Quant::Q8_0),
    ] {
        let model = LazyCell::new(|| Model::new(shape, quant));
        let mut layers = model_cache(&shape);
        let mut group = c.benchmark_group(shape.name);
        group.sample_size(10);
        for (name, tokens, first) in [("decode", 1, 64), ("prefill of 512", 512, 0)] {
            group.throughput(Throughput::Elements(tokens as u64));
            group.bench_function(BenchmarkId::new(name, quant), |b| {
                // Created only if the filter selects it.
                LazyCell::force(&model);
                b.iter(|| model.pass(&mut layers, tokens, first, 1));
            });
        }
    }
}

/// Token counts of a step that verifies a draft, and some more.
const FEW: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];

/// A step of few tokens beside one of a single token: products with a weight that is larger than
/// the caches, then whole passes over rows of one sequence, with the logits of each row, at a depth
/// of 512 positions. Ratios between token counts are what matters.
fn few_tokens(c: &mut Criterion) {
    let mut group = c.benchmark_group("few");
    let _awake = team::enter();
    let cols = 1536;
    for quant in quants() {
        let rows = (64 << 20) / quant.row_bytes(cols).expect("whole blocks");
        let weight = LazyCell::new(|| Weight::new(quant, rows, cols).expect("whole blocks"));
        for tokens in FEW {
            group.throughput(Throughput::Elements(tokens as u64));
            group.bench_function(BenchmarkId::new(quant.name(), tokens), |b| {
                let (x, mut y) = (noise(tokens * cols), vec![0.0; tokens * rows]);
                let linear = [weight.linear().expect("packed weights")];
                b.iter(|| norm_linears(black_box(&x), None, &linear, MatmulPrecision::Int8Activations, &mut y));
            });
        }
    }
    group.sample_size(20);
    for (shape, quant) in [
        (SMALL, Quant::Q4_1),
        (SMALL, Quant::Q8_0),
        (SMALL, Quant::BF16),
        (LARGE, Quant::Q4_K),
        (LARGE, Quant::Q6_K),
    ] {
        let model = LazyCell::new(|| Model::new(shape, quant));
        let mut layers = model_cache(&shape);
        for tokens in FEW {
            group.throughput(Throughput::Elements(tokens as u64));
            group.bench_function(BenchmarkId::new(format!("{} {quant}", shape.name), tokens), |b| {
                LazyCell::force(&model);
                b.iter(|| model.pass(&mut layers, tokens, 512, tokens));
            });
        }
    }
}

criterion_group!(benches, dispatch, model, one_token, few_tokens, many_tokens, attention);
criterion_main!(benches);
