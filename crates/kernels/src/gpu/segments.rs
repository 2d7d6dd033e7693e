//! Decoding of segments: eight weights of a block at a time, by whole words if the format's layout
//! allows it, so that neighbouring units read neighbouring words and a scale is unpacked once for
//! all its weights.
//!
//! The format decides which eight weights form a segment: see [`place`].

use super::blocks::{half, level, signed, six_bits, weight, xs_scale};
use crate::blocks::Quant;
use cubecl::prelude::*;

/// Weights of a segment.
pub(super) const SEGMENT: usize = 8;

/// The four bytes at `at`, which is even.
#[cube]
fn word(words: &[u32], at: usize) -> u32 {
    let mut word = words[at / 4];
    if at % 4 == 2 {
        word = (word >> 16u32) | (words[at / 4 + 1] << 16u32);
    }
    word
}

/// The index in its block of weight `i` of a segment.
#[cube]
pub(super) fn place(segment: usize, i: usize, #[comptime] quant: Quant) -> usize {
    match quant {
        // The low nibbles of four bytes, then the high ones.
        Quant::Q4_0 | Quant::Q4_1 | Quant::Q5_0 | Quant::Q5_1 => 4 * segment + i % 4 + 16 * (i / 4),
        Quant::Q4_K | Quant::Q5_K => 64 * (segment / 8) + 4 * (segment % 8) + i % 4 + 32 * (i / 4),
        Quant::Q6_K => 128 * (segment / 16) + 32 * (segment / 8 % 2) + 4 * (segment % 8) + i % 4 + 64 * (i / 4),
        // As the first arm, for each group of 32.
        Quant::IQ4_XS | Quant::IQ4_NL => 32 * (segment / 4) + 4 * (segment % 4) + i % 4 + 16 * (i / 4),
        _ => SEGMENT * segment + i,
    }
}

/// Decodes a segment of Q4_0, Q4_1, Q5_0 or Q5_1.
#[cube]
fn legacy_segment(words: &[u32], at: usize, segment: usize, out: &mut Array<f32>, #[comptime] quant: Quant) {
    let has_minimum = comptime!(matches!(quant, Quant::Q4_1 | Quant::Q5_1));
    let has_fifth = comptime!(matches!(quant, Quant::Q5_0 | Quant::Q5_1));
    let header = comptime!(if has_minimum { 4usize } else { 2usize });
    let codes = word(
        words,
        at + header + comptime!(if has_fifth { 4usize } else { 0usize }) + 4 * segment,
    );
    let mut fifths = 0u32;
    if comptime!(has_fifth) {
        fifths = word(words, at + header) >> (4 * segment) as u32;
    }
    let scale = half(words, at);
    let mut rest = -8.0f32 * scale;
    if comptime!(has_minimum) {
        rest = half(words, at + 2);
    } else if comptime!(has_fifth) {
        rest = -16.0f32 * scale;
    }
    #[unroll]
    for i in 0..SEGMENT {
        let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
        let fifth = (i % 4 + 16 * (i / 4)) as u32;
        let code = ((codes >> shift) & 15u32) | (((fifths >> fifth) & 1u32) << 4u32);
        out[i] = scale * f32::cast_from(code) + rest;
    }
}

/// Decodes a segment of Q6_K.
#[cube]
fn q6_k_segment(words: &[u32], at: usize, segment: usize, out: &mut Array<f32>) {
    let part = segment / 16;
    let second = segment / 8 % 2;
    let l = 4 * (segment % 8);
    let low = word(words, at + 64 * part + 32 * second + l);
    let top = word(words, at + 128 + 32 * part + l) >> (2 * second) as u32;
    #[unroll]
    for high in 0..2usize {
        // Sixteen weights share a scale.
        let scales = at + 192 + 8 * part + 2 * second + 4 * high + l / 16;
        let scale = half(words, at + 208) * f32::cast_from(signed(words, scales));
        #[unroll]
        for i in 0..4usize {
            let shift = (8 * i + 4 * high) as u32;
            let code = ((low >> shift) & 15u32) | (((top >> shift) & 3u32) << 4u32);
            out[4 * high + i] = scale * f32::cast_from(code as i32 - 32i32);
        }
    }
}

/// Decodes a segment of the block at `at`.
#[cube]
pub(super) fn weights(words: &[u32], at: usize, segment: usize, #[comptime] quant: Quant) -> Array<f32> {
    let mut out = Array::<f32>::new(SEGMENT);
    match quant {
        Quant::Q4_0 | Quant::Q4_1 | Quant::Q5_0 | Quant::Q5_1 => legacy_segment(words, at, segment, &mut out, quant),
        Quant::Q8_0 => {
            let scale = half(words, at);
            let low = word(words, at + 2 + SEGMENT * segment);
            let high = word(words, at + 6 + SEGMENT * segment);
            #[unroll]
            for i in 0..SEGMENT {
                let codes = select(i < 4, low, high);
                let shift = (8 * (i % 4)) as u32;
                let code = (((codes >> shift) & 0xffu32) ^ 0x80u32) as i32 - 128i32;
                out[i] = scale * f32::cast_from(code);
            }
        }
        Quant::Q4_K | Quant::Q5_K => {
            let has_fifth = comptime!(quant == Quant::Q5_K);
            let group = 2 * (segment / 8);
            let codes_at = at + comptime!(if has_fifth { 48usize } else { 16usize }) + 4 * segment;
            let codes = words[codes_at / 4];
            let mut fifths = 0u32;
            if comptime!(has_fifth) {
                fifths = words[(at + 16) / 4 + segment % 8] >> group as u32;
            }
            #[unroll]
            for high in 0..2usize {
                let g = group + high;
                let scale = half(words, at) * f32::cast_from(six_bits(words, at + 4, at + 12, g, 0u32));
                let minimum = half(words, at + 2) * f32::cast_from(six_bits(words, at + 8, at + 12, g, 4u32));
                #[unroll]
                for i in 0..4usize {
                    let shift = (8 * i + 4 * high) as u32;
                    let fifth = (8 * i + high) as u32;
                    let code = ((codes >> shift) & 15u32) | (((fifths >> fifth) & 1u32) << 4u32);
                    out[4 * high + i] = scale * f32::cast_from(code) - minimum;
                }
            }
        }
        Quant::Q6_K => q6_k_segment(words, at, segment, &mut out),
        Quant::IQ4_XS | Quant::IQ4_NL => {
            let in_groups = comptime!(quant == Quant::IQ4_XS);
            let codes = word(
                words,
                at + comptime!(if in_groups { 8usize } else { 2usize }) + 4 * segment,
            );
            let mut scale = half(words, at);
            if comptime!(in_groups) {
                scale = xs_scale(words, at, segment / 4);
            }
            #[unroll]
            for i in 0..SEGMENT {
                let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
                out[i] = scale * level((codes >> shift) & 15u32);
            }
        }
        _ =>
        {
            #[unroll]
            for i in 0..SEGMENT {
                out[i] = weight(words, at, place(segment, i, quant), quant);
            }
        }
    }
    out
}
