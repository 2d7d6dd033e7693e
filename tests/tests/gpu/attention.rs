//! Attention of a batch over itself and over a KV cache, and writes to the cache.

use crate::device::{assert_near, floats, gpu, numbers, unpadded};
use cubecl::prelude::*;
use cubecl::server::Handle;
use hearth_kernels::Quant;
use hearth_kernels::attention::{Heads, KvFormat, PAGE};
use hearth_kernels::gpu::{CachedRows, attend_batch, attend_batch_both_ways, attend_cached, copy_page, kv_write};
use hearth_kernels::reference::{attend, attend_to, cached, noise, wide};
use hearth_test_parts::Parts;

const fn heads(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 0.7,
        softcap: None,
        window,
    }
}

/// The heads with a softcap near the size of their scores.
const fn capped(heads: Heads) -> Heads {
    Heads {
        softcap: Some(8.0),
        ..heads
    }
}

/// Values rounded to f16, as f32 and as f16 bytes.
fn rounded(x: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let (mut bytes, mut dequantized) = (vec![0; 2 * x.len()], vec![0.0; x.len()]);
    Quant::F16.quantize_row(x, &mut bytes).expect("plain numbers");
    Quant::F16
        .dequantize_row(&bytes, &mut dequantized)
        .expect("as many bytes");
    (dequantized, bytes)
}

/// An unwritten cache of `n_cells`: its values, or their scales, are infinite.
fn cache(client: &Client, heads: &Heads, n_cells: usize, format: KvFormat) -> [Handle; 2] {
    let infinite = match format {
        KvFormat::F16 => 0x7c00_7c00,
        KvFormat::Q8_0 => f32::INFINITY.to_bits(),
    };
    let words = vec![infinite; format.gpu_words(n_cells, heads.kv_heads, heads.head_dim)];
    [(); 2].map(|()| unpadded(numbers(client, &words)))
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
        (capped(heads(4, 2, 80, Some(5))), vec![0, 0, 0, 3, 3, 3, 3, 3, 3, 9]),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, (heads, starts)) in cases.into_iter().enumerate() {
        let case = format!("attention::a_batch_attends_as_the_reference {} tokens", starts.len());
        if !parts.includes_or(number == 0, number, &case) {
            continue;
        }
        let (tokens, width) = (starts.len(), heads.qkv_width());
        let qkv: Vec<f32> = noise(1, tokens * width).iter().map(|x| 2.0 * x).collect();
        let input = floats(&client, &qkv, tokens, width);
        let actual = attend_batch(&client, &input, &heads, &numbers(&client, &starts)).expect("shapes that fit");
        let expected = attend(&wide(&qkv), &heads, &starts);
        assert_near(
            &format!("{tokens} tokens, {heads:?}"),
            &client,
            &actual,
            &expected,
            1e-5,
        );
        assert!(attend_batch(&client, &input, &Heads { kv_heads: 0, ..heads }, &input.handle).is_err());
    }
}

#[test]
fn a_batch_without_a_causal_mask_attends_both_ways() {
    let Some(client) = gpu() else { return };
    let cases = [
        (heads(2, 2, 6, None), vec![1]),
        (heads(4, 2, 80, Some(5)), vec![4, 5]),
        (heads(6, 2, 64, Some(66)), vec![50, 85]),
        (heads(2, 1, 256, None), vec![3, 67]),
        // Several cubes split the keys.
        (heads(1, 1, 16, None), vec![600]),
        (capped(heads(6, 2, 64, Some(66))), vec![20, 50]),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, (heads, lengths)) in cases.into_iter().enumerate() {
        let case = format!("attention::a_batch_without_a_causal_mask_attends_both_ways {lengths:?} tokens");
        if !parts.includes_or(number == 0, number, &case) {
            continue;
        }
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let bounds: Vec<[usize; 2]> = lengths
            .iter()
            .zip(ends)
            .map(|(length, end)| [end - length, end])
            .collect();
        let bounds_of_tokens: Vec<[usize; 2]> = bounds
            .iter()
            .flat_map(|bound| vec![*bound; bound[1] - bound[0]])
            .collect();
        let (tokens, width) = (bounds_of_tokens.len(), heads.qkv_width());
        let qkv: Vec<f32> = noise(1, tokens * width).iter().map(|x| 2.0 * x).collect();
        let half = heads.window.map_or(tokens, |window| window / 2);
        let sees = bounds_of_tokens
            .iter()
            .enumerate()
            .map(|(token, [start, end])| token.saturating_sub(half).max(*start)..(token + half + 1).min(*end));
        let expected = attend_to(&wide(&qkv), &heads, sees);
        let side = |side: usize| bounds_of_tokens.iter().map(move |bounds| bounds[side] as u32);
        let lists = numbers(&client, &side(0).chain(side(1)).collect::<Vec<_>>());
        let input = floats(&client, &qkv, tokens, width);
        let actual = attend_batch_both_ways(&client, &input, &heads, &lists).expect("shapes that fit");
        assert_near(&format!("{lengths:?}, {heads:?}"), &client, &actual, &expected, 1e-5);
    }
}

/// The cell of each token of a sequence in these pages.
fn cells(pages: &[u32], length: usize) -> Vec<u32> {
    let cell = |position: usize| pages[position / PAGE] * PAGE as u32 + (position % PAGE) as u32;
    (0..length).map(cell).collect()
}

/// Checks the last `tokens` of a sequence of `length` over pages in reverse order, in a larger
/// cache, behind a row of another sequence in the batch.
fn attends_over_pages(client: &Client, heads: &Heads, tokens: usize, length: usize, format: KvFormat) {
    let (width, out_width) = (heads.qkv_width(), heads.out_width());
    let other = 3;
    let qkv: Vec<f32> = noise(1, (other + length) * width).iter().map(|x| 2.0 * x).collect();
    let (other_qkv, own_qkv) = qkv.split_at(other * width);
    let count = length.div_ceil(PAGE) as u32;
    let (other_pages, pages) = (vec![1], (0..count).map(|page| 2 + count - page).collect::<Vec<_>>());
    let n_cells = (count as usize + 3) * PAGE + 5;
    let [keys, values] = cache(client, heads, n_cells, format);
    let cells_written = [cells(&other_pages, other), cells(&pages, length)].concat();
    let (batch_of_all, cells_written) = (
        floats(client, &qkv, other + length, width),
        numbers(client, &cells_written),
    );
    kv_write(
        client,
        &batch_of_all,
        heads,
        &cells_written,
        &keys,
        &values,
        n_cells,
        format,
    )
    .expect("shapes that fit");

    // Only the pages that the rows see.
    let first_visible = (length + 1 - tokens).saturating_sub(heads.window.unwrap_or(usize::MAX));
    let first_page = first_visible / PAGE;
    let lists = [numbers(client, &other_pages), numbers(client, &pages[first_page..])];
    let last_rows = [&other_qkv[(other - 1) * width..], &own_qkv[(length - tokens) * width..]].concat();
    let batch = floats(client, &last_rows, 1 + tokens, width);
    let attend_with = |n_cells, tokens, length, first_page, pages| {
        let sequences = [
            CachedRows {
                rows: 1,
                length: other,
                first_page: 0,
                pages: &lists[0],
            },
            CachedRows {
                rows: tokens,
                length,
                first_page,
                pages,
            },
        ];
        attend_cached(client, &batch, heads, [&keys, &values], n_cells, &sequences, format)
    };
    let actual = attend_with(n_cells, tokens, length, first_page, &lists[1]).expect("shapes that fit");
    // The outputs of earlier tokens are not compared: let them see only themselves, which is fast.
    let starts = |length: usize, tokens: usize| -> Vec<u32> {
        (0..length)
            .map(|token| if token < length - tokens { token as u32 } else { 0 })
            .collect()
    };
    let expected_rows = |qkv: &[f32], length: usize, tokens: usize| {
        attend(&wide(qkv), heads, &starts(length, tokens))[(length - tokens) * out_width..].to_vec()
    };
    let check = |qkv: &[f32], tolerance| {
        let (other_qkv, own_qkv) = qkv.split_at(other * width);
        let expected = [
            expected_rows(other_qkv, other, 1),
            expected_rows(own_qkv, length, tokens),
        ]
        .concat();
        let case = format!("{tokens} of {length}, {heads:?} in {format:?}");
        assert_near(&case, client, &actual, &expected, tolerance);
    };
    // Besides the rounding of the format, only sums are rounded.
    check(&cached(&qkv, heads, format), 1e-5);
    check(
        &qkv,
        match format {
            KvFormat::F16 => 1e-3,
            KvFormat::Q8_0 => 2e-2,
        },
    );

    let pages = unpadded(lists[1].clone());
    let refused =
        |n_cells, tokens, length, first| assert!(attend_with(n_cells, tokens, length, first, &pages).is_err());
    refused(n_cells + 1, tokens, length, first_page);
    refused(0, tokens, length, first_page);
    refused(n_cells, tokens + 1, length, first_page);
    refused(n_cells, tokens, length + 1000, first_page);
    refused(n_cells, tokens, tokens - 1, first_page);
    refused(n_cells, tokens, length, first_page + 1);
}

#[test]
fn attention_over_pages_matches_the_sequence() {
    let Some(client) = gpu() else { return };
    let cases = [
        (heads(2, 2, 6, None), 1, 1),
        (heads(4, 1, 10, Some(3)), 3, 9),
        (heads(6, 2, 64, None), 9, 70),
        (heads(2, 1, 80, Some(40)), 70, 300),
        // Several cubes split the keys.
        (heads(8, 2, 64, None), 1, 700),
        (heads(3, 3, 10, Some(600)), 3, 900),
        (capped(heads(6, 2, 64, None)), 5, 70),
        (capped(heads(8, 2, 64, None)), 2, 700),
    ];
    let parts = Parts::from_variable("gpu");
    for (number, (heads, tokens, length)) in cases.into_iter().enumerate() {
        for (turn, format) in [(0, KvFormat::F16), (2, KvFormat::Q8_0)] {
            let case = format!(
                "attention::attention_over_pages_matches_the_sequence {tokens} of {length} tokens in {format:?}"
            );
            if !parts.includes_or(number == 0, number + turn, &case) {
                continue;
            }
            attends_over_pages(&client, &heads, tokens, length, format);
        }
    }
    // Only in 8 bits is a head of odd width word-aligned.
    attends_over_pages(&client, &heads(4, 2, 33, None), 2, 20, KvFormat::Q8_0);
}

#[test]
fn a_copied_page_has_the_cells_of_its_source() {
    let Some(client) = gpu() else { return };
    let heads = heads(4, 2, 34, None);
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        let n_cells = 3 * PAGE;
        let [keys, values] = cache(&client, &heads, n_cells, format);
        let rows = noise(5, PAGE * heads.qkv_width());
        let input = floats(&client, &rows, PAGE, heads.qkv_width());
        let written = numbers(&client, &cells(&[1], PAGE));
        kv_write(&client, &input, &heads, &written, &keys, &values, n_cells, format).expect("shapes that fit");
        let words = format.gpu_words(PAGE, 2, 34);
        let read = |handle: &Handle| {
            let bytes = client.read_one(handle.clone()).expect("the kernel ran");
            u32::from_bytes(&bytes)[..3 * words].to_vec()
        };
        for buffer in [&keys, &values] {
            let copy = |pages| copy_page(&client, buffer, [2, 34], n_cells, format, pages);
            let before = read(buffer);
            copy([1, 2]).expect("pages of the cache");
            let after = read(buffer);
            assert_eq!(after[..2 * words], before[..2 * words]);
            assert!(after[2 * words..] == before[words..2 * words] && before[2 * words..] != after[2 * words..]);
            assert!(copy([1, 3]).is_err() && copy([u32::MAX, 0]).is_err());
        }
    }
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
    let from_bits = f32::from_bits;
    let (min_subnormal, min_normal) = (2.0_f32.powi(-24), 2.0_f32.powi(-14));
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        65504.0,
        65519.9,
        -65519.9,
        min_normal,
        0.5 * min_subnormal,
        0.500_001 * min_subnormal,
    ];
    values.extend([
        1.5 * min_subnormal,
        2.5 * min_subnormal,
        -3.5 * min_subnormal,
        min_normal - 0.5 * min_subnormal,
        min_normal - 0.51 * min_subnormal,
        1e-30,
    ]);
    values.extend([0x3f80_1000, 0x3f80_3000, 0x3f80_0fff, 0x3f80_1001, 0xbf80_5000].map(from_bits));
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
