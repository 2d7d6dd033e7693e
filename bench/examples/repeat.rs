//! Repeats one operation of a layer until it is killed, for `turns.py`.
//!
//! `repeat COUNT OPERATION FORMAT SIZE...` writes the number of repetitions to the file `COUNT`,
//! eight bytes in little-endian order. Operations, with activations in int8 if the
//! format is quantized, on all threads:
//!
//! * `gemm FORMAT ROWS COLS TOKENS`: one weight;
//! * `gated FORMAT ROWS COLS TOKENS`: gate, up and their activation;
//! * `down FORMAT ROWS COLS TOKENS`: the product with a weight of `COLS` rows and `ROWS` columns,
//!   added to the residual;
//! * `attention FORMAT TOKENS CONTEXT`: the last tokens of a context, with SmolLM2's heads;
//!   `FORMAT` is the type of the KV cache, `f16` or `q8_0`.

use hearth_bench::{HEADS, Weight, noise};
use hearth_kernels::attention::{CachedRows, KvFormat, KvLayer, Spans, attend};
use hearth_kernels::fused::{gated, linear_add_in_place, norm_linears};
use hearth_kernels::glu::Activation;
use hearth_kernels::{MatmulPrecision, Quant, ShapeError, team};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write};

const PRECISION: MatmulPrecision = MatmulPrecision::Int8Activations;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, operation, format, sizes @ ..] = &args[..] else {
        return Err("usage: repeat COUNT OPERATION FORMAT SIZE...".into());
    };
    let sizes: Vec<usize> = sizes.iter().map(|size| size.parse()).collect::<Result<_, _>>()?;
    let file = File::create(file)?;
    let _awake = team::enter();
    match (&**operation, &sizes[..]) {
        ("attention", &[tokens, context]) => attention(format, tokens, context, file),
        (_, &[rows, cols, tokens]) => product(operation, format, [rows, cols, tokens], file),
        _ => Err(format!("{operation} does not take {} sizes", sizes.len()).into()),
    }
}

/// Calls `operation` until it fails.
fn repeat(mut file: File, mut operation: impl FnMut() -> Result<(), ShapeError>) -> Result<(), Box<dyn Error>> {
    let mut count = 0_u64;
    loop {
        operation()?;
        count += 1;
        file.rewind()?;
        file.write_all(&count.to_le_bytes())?;
    }
}

fn product(operation: &str, format: &str, [rows, cols, tokens]: [usize; 3], file: File) -> Result<(), Box<dyn Error>> {
    let quant = Quant::ALL.into_iter().find(|quant| quant.to_string() == format);
    let quant = quant.ok_or_else(|| format!("there is no format {format}"))?;
    let [rows, cols] = match operation {
        "down" => [cols, rows],
        _ => [rows, cols],
    };
    let weight = Weight::new(quant, rows, cols)?;
    let linear = weight.linear()?;
    let (x, mut y) = (noise(tokens * cols), vec![0.0; tokens * rows]);
    match operation {
        "gemm" => repeat(file, || {
            norm_linears(black_box(&x), None, std::slice::from_ref(&linear), PRECISION, &mut y)
        }),
        "gated" => repeat(file, || {
            gated(
                black_box(&x),
                None,
                &linear,
                &linear,
                Activation::Silu,
                PRECISION,
                &mut y,
            )
        }),
        "down" => repeat(file, || {
            linear_add_in_place(black_box(&x), &linear, None, 1.0, PRECISION, &mut y)
        }),
        _ => Err(format!("there is no operation {operation}").into()),
    }
}

fn attention(format: &str, tokens: usize, context: usize, file: File) -> Result<(), Box<dyn Error>> {
    let format = match format {
        "f16" => KvFormat::F16,
        "q8_0" => KvFormat::Q8_0,
        _ => return Err(format!("there is no KV cache in {format}").into()),
    };
    if tokens > context {
        return Err(format!("a context of {context} does not end with {tokens} tokens").into());
    }
    let cells: Vec<u32> = (0..u32::try_from(context)?).collect();
    let all = noise(context * HEADS.qkv_width());
    let mut layer = KvLayer::new(format, context, HEADS.kv_heads, HEADS.head_dim);
    layer.write(&HEADS, &cells, &all)?;
    let (spans, qkv) = (Spans::in_order(context), &all[..tokens * HEADS.qkv_width()]);
    let rows = [CachedRows {
        rows: tokens,
        spans: &spans,
    }];
    let mut out = vec![0.0; tokens * HEADS.out_width()];
    repeat(file, || attend(black_box(qkv), &HEADS, &layer, &rows, &mut out))
}
