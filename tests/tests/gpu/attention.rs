//! Attention of a batch over itself and over cells of a cache, and the cache.

use crate::device::{assert_near, floats, gpu, numbers};
use cubecl::prelude::*;
use cubecl::server::Handle;
use hearth_kernels::Quant;
use hearth_kernels::attention::Heads;
use hearth_kernels::gpu::{attend_batch, attend_cells, kv_write};
use hearth_kernels::reference::{attend, noise, wide};

const fn heads(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 0.7,
        window,
    }
}

/// Numbers rounded to f16, and as such.
fn rounded(x: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let (mut bytes, mut back) = (vec![0; 2 * x.len()], vec![0.0; x.len()]);
    Quant::F16.quantize_row(x, &mut bytes).expect("plain numbers");
    Quant::F16.dequantize_row(&bytes, &mut back).expect("as many bytes");
    (back, bytes)
}

/// A cache of `n_cells` that nothing was written to: its numbers are infinite.
fn cache(client: &Client, heads: &Heads, n_cells: usize) -> [Handle; 2] {
    let words = vec![0x7c00_7c00; n_cells * heads.kv_heads * heads.head_dim / 2];
    [numbers(client, &words), numbers(client, &words)]
}

#[test]
fn a_batch_attends_as_in_the_reference() {
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

/// The last `tokens` of a sequence of `length` attend over cells in scrambled order, of which there are more.
#[test]
fn cells_are_attended_to_as_the_sequence_they_hold() {
    let Some(client) = gpu() else { return };
    let cases = [
        (heads(2, 2, 6, None), 1, 1),
        (heads(4, 1, 10, Some(3)), 3, 9),
        (heads(6, 2, 64, None), 9, 70),
        (heads(2, 1, 80, Some(40)), 70, 130),
        // Several cubes share the keys.
        (heads(8, 2, 64, None), 1, 700),
        (heads(3, 3, 10, Some(600)), 3, 900),
    ];
    for (heads, tokens, length) in cases {
        let (width, n_cells) = (heads.qkv_width(), length + 5);
        let mut qkv: Vec<f32> = noise(1, length * width).iter().map(|x| 2.0 * x).collect();
        for row in qkv.chunks_mut(width) {
            let kv = &mut row[heads.out_width()..];
            kv.copy_from_slice(&rounded(kv).0);
        }
        // A step that shares no factor with the number of cells meets each once.
        let step = (1..)
            .map(|i| 17 * i + 1)
            .find(|step| (2..=*step).all(|d| step % d + n_cells % d > 0));
        let cells: Vec<u32> = (0..length)
            .map(|i| (3 + i * step.expect("there are primes")) as u32 % n_cells as u32)
            .collect();
        let [keys, values] = cache(&client, &heads, n_cells);
        let whole = floats(&client, &qkv, length, width);
        kv_write(
            &client,
            &whole,
            &heads,
            &numbers(&client, &cells),
            &keys,
            &values,
            n_cells,
        )
        .expect("shapes that fit");

        let (batch, cells) = (
            floats(&client, &qkv[(length - tokens) * width..], tokens, width),
            numbers(&client, &cells),
        );
        let found =
            attend_cells(&client, &batch, &heads, &keys, &values, n_cells, &cells, length).expect("shapes that fit");
        let expected = attend(&wide(&qkv), &heads, &vec![0; length]);
        let expected = &expected[(length - tokens) * heads.out_width()..];
        assert_near(
            &format!("{tokens} of {length}, {heads:?}"),
            &client,
            &found,
            expected,
            1e-5,
        );

        let wrong = |n_cells, length| {
            assert!(attend_cells(&client, &batch, &heads, &keys, &values, n_cells, &cells, length).is_err());
        };
        wrong(n_cells + 1000, length);
        wrong(0, length);
        wrong(n_cells, length + 1000);
        wrong(n_cells, tokens - 1);
    }
}

#[test]
fn numbers_are_cached_as_the_nearest_of_16_bits() {
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
    let [keys, stored] = cache(&client, &heads, 2);
    // The second token's cell is beyond the cache.
    let rows = floats(&client, &[row.clone(), row].concat(), 2, 3 * 256);
    kv_write(&client, &rows, &heads, &numbers(&client, &[1, 2]), &keys, &stored, 2).expect("shapes that fit");
    let read = |handle| client.read_one(handle).expect("the kernel ran")[..1024].to_vec();
    let infinite = [0x00, 0x7c].repeat(256);
    let negative: Vec<f32> = values.iter().map(|x| -x).collect();
    assert_eq!(read(keys.clone()), [infinite.clone(), rounded(&values).1].concat());
    assert_eq!(read(stored.clone()), [infinite, rounded(&negative).1].concat());
    let huge = [65520.0, 1e30, f32::INFINITY, f32::NAN];
    let rows = floats(&client, &[vec![0.0; 256], huge.repeat(128)].concat(), 1, 3 * 256);
    kv_write(&client, &rows, &heads, &numbers(&client, &[0]), &keys, &stored, 2).expect("shapes that fit");
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
            2
        )
        .is_err()
    );
    assert!(kv_write(&client, &rows, &heads, &stored, &keys, &stored, 3).is_err());
}
