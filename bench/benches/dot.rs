//! GEMV of a stored matrix on one thread, in bytes of weights per second.
//!
//! 576x576 is a square matrix of the default model and stays in cache; 4096x4096 streams from
//! memory.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::blocks::Quant;
use hearth_kernels::gemv::{ActivationChunk, Activations};
use hearth_kernels::isa::Isa;

/// Sides of the square matrices.
const SIDES: [usize; 2] = [576, 4096];

/// A row of varied values.
fn row(cols: usize) -> Vec<f32> {
    (0..cols).map(|i| (i as f32 * 0.37).sin()).collect()
}

fn gemv(c: &mut Criterion) {
    for side in SIDES {
        let mut group = c.benchmark_group(format!("gemv {side}x{side}"));
        let x = row(side);
        let mut chunks = vec![ActivationChunk::ZERO; Activations::chunks_for(side)];
        let Ok(activations) = Activations::quantize(&x, &mut chunks) else {
            continue;
        };
        let mut y = vec![0.0; side];
        for quant in Quant::ALL {
            let Some(stride) = quant.row_bytes(side) else { continue };
            let mut quantized_row = vec![0; stride];
            if quant.quantize_row(&x, &mut quantized_row).is_err() {
                continue;
            }
            let rows = quantized_row.repeat(side);
            group.throughput(Throughput::Bytes(rows.len() as u64));
            for isa in Isa::available().into_iter().skip(1) {
                group.bench_function(BenchmarkId::new(quant.name(), isa.name()), |b| {
                    b.iter(|| quant.gemv_on(isa, black_box(&rows), &activations, &mut y));
                });
            }
        }
    }
}

fn dequantize(c: &mut Criterion) {
    let x = row(4096);
    let mut group = c.benchmark_group("dequantize 4096");
    let mut out = vec![0.0; x.len()];
    for quant in Quant::ALL {
        let Some(stride) = quant.row_bytes(x.len()) else {
            continue;
        };
        let mut bytes = vec![0; stride];
        if quant.quantize_row(&x, &mut bytes).is_err() {
            continue;
        }
        group.throughput(Throughput::Elements(x.len() as u64));
        for isa in Isa::available() {
            group.bench_function(BenchmarkId::new(quant.name(), isa.name()), |b| {
                b.iter(|| quant.dequantize_row_on(isa, black_box(&bytes), &mut out));
            });
        }
    }
}

fn quantize_activations(c: &mut Criterion) {
    let x = row(4096);
    let mut chunks = vec![ActivationChunk::ZERO; Activations::chunks_for(x.len())];
    let mut group = c.benchmark_group("activations 4096");
    group.throughput(Throughput::Elements(x.len() as u64));
    for isa in Isa::available() {
        group.bench_function(isa.name(), |b| {
            b.iter(|| Activations::quantize_on(isa, black_box(&x), &mut chunks).is_ok());
        });
    }
}

criterion_group!(benches, gemv, dequantize, quantize_activations);
criterion_main!(benches);
