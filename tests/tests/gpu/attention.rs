//! Attention of a batch over itself and over a KV cache, and writes to the cache.

use crate::device::{assert_near, floats, gpu, numbers};
use cubecl::prelude::*;
use cubecl::server::Handle;
use hearth_kernels::Quant;
use hearth_kernels::attention::{Heads, KvFormat};
use hearth_kernels::gpu::{attend_batch, attend_cells, kv_write};
use hearth_kernels::reference::{attend, cached, noise, wide};

const fn heads(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 0.7,
        window,
    }
}

/// Values rounded to f16, as f32 and as f16 bytes.
fn rounded(x: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let (mut bytes, mut back) = (vec![0; 2 * x.len()], vec![0.0; x.len()]);
    Quant::F16.quantize_row(x, &mut bytes).expect("plain numbers");
    Quant::F16.dequantize_row(&bytes, &mut back).expect("as many bytes");
    (back, bytes)
}

/// An unwritten cache of `n_cells`: its values, or their scales, are infinite.
fn cache(client: &Client, heads: &Heads, n_cells: usize, format: KvFormat) -> [Handle; 2] {
    let infinite = match format {
        KvFormat::F16 => 0x7c00_7c00,
        KvFormat::Q8_0 => f32::INFINITY.to_bits(),
    };
    let words = vec![infinite; format.gpu_words(n_cells, heads.kv_heads, heads.head_dim)];
    [numbers(client, &words), numbers(client, &words)]
}

#[test]
fn a_batch_attends_as_the_reference() {
    let Some(client) = gpu() else { return };
    let cases = [
        (heads(2, 2, 6, None), vec![0]),
        (heads(3, 1, 10, None), vec![0, 1, 1]),
        (heads(4, 2, 80, Some(5)), vec![0, 0, 0, 3, 3, 3, 3, 3, 8]),
        (heads(6, 2, 64, Some(66)), [vec![0; 50], vec![50; 85]].concat()),
        (heads(2, 1, 256, None), [vec![0; 3], vec![3; 67]].concat()),
    ];
    for (heads, starts) in cases {
        let (tokens, width) = (starts.len(), heads.qkv_width());
        let qkv: Vec<f32> = noise(1, tokens * width).iter().map(|x| 2.0 * x).collect();
        let there = floats(&client, &qkv, tokens, width);
        let found = attend_batch(&client, &there, &heads, &numbers(&client, &starts)).expect("shapes that fit");
        let expected = attend(&wide(&qkv), &heads, &starts);
        assert_near(&format!("{tokens} tokens, {heads:?}"), &client, &found, &expected, 1e-5);
        assert!(attend_batch(&client, &there, &Heads { kv_heads: 0, ..heads }, &there.handle).is_err());
    }
}

/// Checks the last `tokens` of a sequence of `length` over cells in scrambled order, in a larger
/// cache.
fn attends_over_cells(client: &Client, heads: &Heads, tokens: usize, length: usize, format: KvFormat) {
    let (width, n_cells) = (heads.qkv_width(), length + 5);
    let qkv: Vec<f32> = noise(1, length * width).iter().map(|x| 2.0 * x).collect();
    // A step coprime to the number of cells visits each once.
    let step = (1..)
        .map(|i| 17 * i + 1)
        .find(|step| (2..=*step).all(|d| step % d + n_cells % d > 0));
    let cells: Vec<u32> = (0..length)
        .map(|i| (3 + i * step.expect("there are primes")) as u32 % n_cells as u32)
        .collect();
    let [keys, values] = cache(client, heads, n_cells, format);
    let (whole, cells) = (floats(client, &qkv, length, width), numbers(client, &cells));
    kv_write(client, &whole, heads, &cells, &keys, &values, n_cells, format).expect("shapes that fit");

    let batch = floats(client, &qkv[(length - tokens) * width..], tokens, width);
    let found =
        attend_cells(client, &batch, heads, &keys, &values, n_cells, &cells, length, format).expect("shapes that fit");
    // The outputs of earlier tokens are not compared: let them see only themselves, which is fast.
    let starts: Vec<u32> = (0..length)
        .map(|token| if token < length - tokens { token as u32 } else { 0 })
        .collect();
    let near = |qkv: &[f32], tolerance| {
        let expected = attend(&wide(qkv), heads, &starts);
        let expected = &expected[(length - tokens) * heads.out_width()..];
        let what = format!("{tokens} of {length}, {heads:?} in {format:?}");
        assert_near(&what, client, &found, expected, tolerance);
    };
    // Besides the rounding of the format, only sums are rounded.
    near(&cached(&qkv, heads, format), 1e-5);
    near(
        &qkv,
        match format {
            KvFormat::F16 => 1e-3,
            KvFormat::Q8_0 => 2e-2,
        },
    );

    let wrong = |n_cells, length| {
        assert!(attend_cells(client, &batch, heads, &keys, &values, n_cells, &cells, length, format).is_err());
    };
    wrong(n_cells + 1, length);
    wrong(0, length);
    wrong(n_cells, length + 1000);
    wrong(n_cells, tokens - 1);
}

#[test]
fn attention_over_cells_matches_the_sequence() {
    let Some(client) = gpu() else { return };
    let cases = [
        (heads(2, 2, 6, None), 1, 1),
        (heads(4, 1, 10, Some(3)), 3, 9),
        (heads(6, 2, 64, None), 9, 70),
        (heads(2, 1, 80, Some(40)), 70, 130),
        // Several cubes split the keys.
        (heads(8, 2, 64, None), 1, 700),
        (heads(3, 3, 10, Some(600)), 3, 900),
    ];
    for (heads, tokens, length) in cases {
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            attends_over_cells(&client, &heads, tokens, length, format);
        }
    }
    // Only in 8 bits is a head of odd width word-aligned.
    attends_over_cells(&client, &heads(4, 2, 33, None), 2, 20, KvFormat::Q8_0);
}

/// Blocks of ordinary values, of zeros, of values (almost) too small for a scale, and of one value
/// among smaller ones.
#[test]
fn values_are_cached_in_8_bits_as_on_the_cpu() {
    let Some(client) = gpu() else { return };
    let heads = heads(1, 1, 170, None);
    let sizes = [1.0, 0.0, 1e-9, 1e-5, 300.0, 1.0];
    let mut row = noise(3, 3 * 170);
    for (i, x) in row.iter_mut().enumerate() {
        *x *= sizes[i % 170 / 32] * if i % 170 == 140 { 1e4 } else { 1.0 };
    }
    let [keys, values] = cache(&client, &heads, 2, KvFormat::Q8_0);
    let rows = floats(&client, &row, 1, 3 * 170);
    kv_write(
        &client,
        &rows,
        &heads,
        &numbers(&client, &[1]),
        &keys,
        &values,
        2,
        KvFormat::Q8_0,
    )
    .expect("shapes that fit");
    let expected = cached(&row, &heads, KvFormat::Q8_0);
    for (stored, expected) in [keys, values].into_iter().zip(expected[170..].chunks(170)) {
        let bytes = client.read_one(stored).expect("the kernel ran");
        let words = &u32::from_bytes(&bytes)[..2 * 49];
        assert_eq!(words[..49], [f32::INFINITY.to_bits(); 49]);
        let (numbers, scales) = words[49..].split_at(43);
        let number =
            |i: usize| (f32::from(numbers[i / 4].to_le_bytes()[i % 4]) - 128.0) * f32::from_bits(scales[i / 32]);
        assert_eq!((0..170).map(number).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn values_are_cached_in_f16_rounded_to_nearest() {
    let Some(client) = gpu() else { return };
    let tie = f32::from_bits;
    let (least, rest) = (2.0_f32.powi(-24), 2.0_f32.powi(-14));
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        65504.0,
        65519.9,
        -65519.9,
        rest,
        0.5 * least,
        0.500_001 * least,
    ];
    values.extend([
        1.5 * least,
        2.5 * least,
        -3.5 * least,
        rest - 0.5 * least,
        rest - 0.51 * least,
        1e-30,
    ]);
    values.extend([0x3f80_1000, 0x3f80_3000, 0x3f80_0fff, 0x3f80_1001, 0xbf80_5000].map(tie));
    values.extend((0..236).map(|i| noise(2, 236)[i] * 2.0_f32.powi(i as i32 % 40 - 26)));
    let heads = heads(1, 1, 256, None);
    let row = [vec![0.0; 256], values.clone(), values.iter().map(|x| -x).collect()].concat();
    let [keys, stored] = cache(&client, &heads, 2, KvFormat::F16);
    // The second token's cell is out of range.
    let rows = floats(&client, &[row.clone(), row].concat(), 2, 3 * 256);
    kv_write(
        &client,
        &rows,
        &heads,
        &numbers(&client, &[1, 2]),
        &keys,
        &stored,
        2,
        KvFormat::F16,
    )
    .expect("shapes that fit");
    let read = |handle| client.read_one(handle).expect("the kernel ran")[..1024].to_vec();
    let infinite = [0x00, 0x7c].repeat(256);
    let negative: Vec<f32> = values.iter().map(|x| -x).collect();
    assert_eq!(read(keys.clone()), [infinite.clone(), rounded(&values).1].concat());
    assert_eq!(read(stored.clone()), [infinite, rounded(&negative).1].concat());
    let huge = [65520.0, 1e30, f32::INFINITY, f32::NAN];
    let rows = floats(&client, &[vec![0.0; 256], huge.repeat(128)].concat(), 1, 3 * 256);
    kv_write(
        &client,
        &rows,
        &heads,
        &numbers(&client, &[0]),
        &keys,
        &stored,
        2,
        KvFormat::F16,
    )
    .expect("shapes that fit");
    assert_eq!(
        read(stored.clone())[..8],
        [0x00, 0x7c, 0x00, 0x7c, 0x00, 0x7c, 0x00, 0x7e]
    );
    let odd = Heads { head_dim: 255, ..heads };
    assert!(
        kv_write(
            &client,
            &floats(&client, &[0.0; 765], 1, 765),
            &odd,
            &stored,
            &keys,
            &stored,
            2,
            KvFormat::F16
        )
        .is_err()
    );
    assert!(kv_write(&client, &rows, &heads, &stored, &keys, &stored, 3, KvFormat::F16).is_err());
}
