//! Kernels over stored rows, written once for all formats and instruction sets.

use bytemuck::Zeroable;

use super::activations::{self, ActivationChunk, Activations};
use super::element::Element;
use super::scalar;
use super::simd_block::SimdBlock;
use crate::blocks::{Block, Float, GROUP, HALF_GROUP, QK_K, Quant, with_format};
use crate::lanes::{Kernel, Lanes, Simd, prefetch};

/// Matrix-vector product of rows, `stride` bytes apart, with one row of activations.
pub(super) struct Gemv<'a> {
    pub quant: Quant,
    pub rows: &'a [u8],
    pub stride: usize,
    pub activations: Activations<'a>,
    pub y: &'a mut [f32],
}

impl Kernel for Gemv<'_> {
    type Output = ();

    fn scalar(self) {
        for (y, row) in self.y.iter_mut().zip(self.rows.chunks_exact(self.stride)) {
            *y = scalar::dot(self.quant, row, &self.activations);
        }
    }

    #[inline(always)]
    fn simd<S: Simd>(self, s: S) {
        let rows = self.y.iter_mut().zip(self.rows.chunks_exact(self.stride));
        with_format!(self.quant,
            float F => for (y, row) in rows {
                *y = dot_floats::<S, F>(s, bytemuck::cast_slice(row), self.activations.floats());
            },
            block B => {
                let x = Row::new(self.activations.chunks(), self.stride / size_of::<B>() * B::GROUPS);
                for (y, row) in rows {
                    *y = dot_blocks::<S, B>(s, row, &x);
                }
            }
        )
    }
}

/// Activations aligned to the superblocks of a row of weights: whole superblocks, and the rest of
/// the row, aligned to the end of its [`ActivationChunk`].
///
/// The last blocks of a row of weights are read as a whole superblock that ends with the row. It
/// overlaps the previous superblock; the overlap is multiplied with zeros.
struct Row<'a> {
    whole: &'a [ActivationChunk],
    rest: ActivationChunk,
    /// Groups in `rest`.
    rest_groups: usize,
}

impl<'a> Row<'a> {
    /// Aligns the activations of a row of `groups` groups.
    fn new(chunks: &'a [ActivationChunk], groups: usize) -> Self {
        let (whole, last) = chunks.split_at(groups / 8);
        let rest_groups = groups % 8;
        let mut rest = ActivationChunk::ZERO;
        if let [last] = last {
            // It is padded with zeros at the end: rotate the padding to the front.
            let padding = 8 - rest_groups;
            rest = *last;
            rest.values.rotate_right(GROUP * padding);
            rest.scales.rotate_right(padding);
            rest.sums.rotate_right(padding);
            rest.half_sums.rotate_right(2 * padding);
            rest.minus_sums.rotate_right(padding);
            rest.minus_half_sums.rotate_right(2 * padding);
        }
        Self {
            whole,
            rest,
            rest_groups,
        }
    }
}

/// Dot product of one row of blocks with quantized activations.
#[inline(always)]
fn dot_blocks<S: Simd, B: SimdBlock>(s: S, row: &[u8], x: &Row) -> f32 {
    let mut sums = Sums::<S> {
        even: s.splat(0.0),
        odd: s.splat(0.0),
        offsets: s.splat(0.0),
    };
    let size = size_of::<B::Blocks>();
    let whole = bytemuck::cast_slice::<u8, B::Blocks>(&row[..x.whole.len() * size]);
    for (blocks, x) in whole.iter().zip(x.whole) {
        sums.add_superblock::<B>(s, blocks, x, 0);
    }
    if x.rest_groups > 0 {
        let first_pair = (8 - x.rest_groups) / 2;
        if let Some(start) = row.len().checked_sub(size) {
            sums.add_superblock::<B>(s, bytemuck::from_bytes(&row[start..]), &x.rest, first_pair);
        } else {
            // The row is shorter than a superblock: pad it with blocks of zero bytes. Their weights
            // are finite, and their activations are zero.
            let mut blocks = B::Blocks::zeroed();
            bytemuck::bytes_of_mut(&mut blocks)[size - row.len()..].copy_from_slice(row);
            sums.add_superblock::<B>(s, &blocks, &x.rest, first_pair);
        }
    }
    s.reduce_add(s.add(s.add(sums.even, sums.odd), sums.offsets))
}

/// Accumulators of a row; lanes are summed at the end.
struct Sums<S: Simd> {
    /// Codes times activations, of even pairs of groups and of odd ones: two dependency chains hide
    /// the latency.
    even: S::Floats,
    odd: S::Floats,
    /// Offsets and zero points times the sums of activations.
    offsets: S::Floats,
}

impl<S: Simd> Sums<S> {
    /// Adds the products of a superblock from pair of groups `first_pair` on; the activations of
    /// earlier groups are zeros.
    #[inline(always)]
    fn add_superblock<B: SimdBlock>(&mut self, s: S, blocks: &B::Blocks, x: &ActivationChunk, first_pair: usize) {
        let (scale, offset) = B::scales(s, blocks);
        let zero_point = f32::from(B::ZERO_POINT) + if B::SIGNED { S::SIGNED_BIAS } else { 0.0 };
        let offset = match offset {
            Some(offset) if zero_point == 0.0 => Some(offset),
            Some(offset) => Some(s.fma(scale, s.splat(-zero_point), offset)),
            None if zero_point == 0.0 => None,
            None => Some(s.mul(scale, s.splat(-zero_point))),
        };
        if let Some(offset) = offset {
            self.offsets = s.fma(offset, s.load(&x.half_sums), self.offsets);
        }
        let scale = s.mul(scale, s.load_floats_twice(&x.scales));
        // Unrolled by hand, so that each pair's shifts are constants.
        if first_pair == 0 {
            self.even = dot_pair::<S, B>(s, blocks, x, scale, 0, self.even);
        }
        if first_pair <= 1 {
            self.odd = dot_pair::<S, B>(s, blocks, x, scale, 1, self.odd);
        }
        if first_pair <= 2 {
            self.even = dot_pair::<S, B>(s, blocks, x, scale, 2, self.even);
        }
        self.odd = dot_pair::<S, B>(s, blocks, x, scale, 3, self.odd);
    }
}

/// Adds the products of one pair of groups with their activations to `sum`.
#[inline(always)]
fn dot_pair<S: Simd, B: SimdBlock>(
    s: S,
    blocks: &B::Blocks,
    x: &ActivationChunk,
    scale: S::Floats,
    pair: usize,
    sum: S::Floats,
) -> S::Floats {
    let values: &[[i8; 2 * GROUP]; 4] = bytemuck::cast_ref(&x.values);
    let codes = B::codes(s, blocks, pair);
    let products = if B::SIGNED {
        s.dot_i8_i8(codes, &values[pair])
    } else {
        s.dot_u8_i8(codes, &values[pair])
    };
    s.fma(products, s.spread(scale, pair), sum)
}

/// Prefetch distance in bytes for unquantized weights: a page, so that the TLB miss is hidden too.
const PREFETCH_BYTES: usize = 4096;

/// Dot product of one row of unquantized weights with activations in f32.
#[inline(always)]
fn dot_floats<S: Lanes, F: Element + Float>(s: S, row: &[F], x: &[f32]) -> f32 {
    // Four dependency chains hide the latency.
    let mut sums = [s.splat(0.0); 4];
    let (row, row_rest) = row.as_chunks::<16>();
    let (x, x_rest) = x.as_chunks::<16>();
    let (row4, row) = row.as_chunks::<4>();
    let (x4, x) = x.as_chunks::<4>();
    for (row, x) in row4.iter().zip(x4) {
        // Four vectors of 16-bit weights take two cache lines.
        prefetch(&row[0], PREFETCH_BYTES / size_of::<F>());
        prefetch(&row[2], PREFETCH_BYTES / size_of::<F>());
        for i in 0..4 {
            sums[i] = s.fma(F::load(s, &row[i]), s.load(&x[i]), sums[i]);
        }
    }
    for (row, x) in row.iter().zip(x) {
        sums[0] = s.fma(F::load(s, row), s.load(x), sums[0]);
    }
    let rest: f32 = row_rest.iter().zip(x_rest).map(|(w, x)| Float::to_f32(*w) * x).sum();
    s.reduce_add(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]))) + rest
}

/// Dequantizes `out.len()` stored weights.
pub(super) struct Dequantize<'a> {
    pub quant: Quant,
    pub row: &'a [u8],
    pub out: &'a mut [f32],
}

impl Kernel for Dequantize<'_> {
    type Output = ();

    fn scalar(self) {
        self.quant.dequantize_scalar(self.row, self.out);
    }

    #[inline(always)]
    fn simd<S: Simd>(self, s: S) {
        with_format!(self.quant,
            float F => expand_floats::<S, F>(s, bytemuck::cast_slice(self.row), self.out),
            block B => expand_blocks::<S, B>(s, self.row, self.out)
        )
    }
}

/// Widens a row of unquantized weights.
#[inline(always)]
fn expand_floats<S: Lanes, F: Element + Float>(s: S, row: &[F], out: &mut [f32]) {
    let (row, row_rest) = row.as_chunks::<16>();
    let (out, out_rest) = out.as_chunks_mut::<16>();
    for (row, out) in row.iter().zip(out) {
        s.store(F::load(s, row), out);
    }
    for (weight, out) in row_rest.iter().zip(out_rest) {
        *out = Float::to_f32(*weight);
    }
}

/// Dequantizes a row of blocks. Rounds like the specification: after each operation, without FMA.
#[inline(always)]
fn expand_blocks<S: Simd, B: SimdBlock>(s: S, row: &[u8], out: &mut [f32]) {
    let (row, row_rest) = row.split_at(row.len() - row.len() % size_of::<B::Blocks>());
    let (out, out_rest) = out.as_chunks_mut::<QK_K>();
    for (blocks, out) in bytemuck::cast_slice::<u8, B::Blocks>(row).iter().zip(out) {
        expand_superblock::<S, B>(s, blocks, out);
    }
    if !row_rest.is_empty() {
        let mut blocks = B::Blocks::zeroed();
        bytemuck::bytes_of_mut(&mut blocks)[..row_rest.len()].copy_from_slice(row_rest);
        let mut padded = [0.0; QK_K];
        expand_superblock::<S, B>(s, &blocks, &mut padded);
        out_rest.copy_from_slice(&padded[..out_rest.len()]);
    }
}

/// Dequantizes 256 weights.
#[inline(always)]
fn expand_superblock<S: Simd, B: SimdBlock>(s: S, blocks: &B::Blocks, out: &mut [f32; QK_K]) {
    let (scale, offset) = B::scales(s, blocks);
    let (mut scales, mut offsets) = ([0.0; 16], [0.0; 16]);
    s.store(scale, &mut scales);
    if let Some(offset) = offset {
        s.store(offset, &mut offsets);
    }
    let out: &mut [[[f32; HALF_GROUP]; 4]; 4] = bytemuck::cast_mut(out);
    expand_pair::<S, B>(s, blocks, 0, &scales, &offsets, &mut out[0]);
    expand_pair::<S, B>(s, blocks, 1, &scales, &offsets, &mut out[1]);
    expand_pair::<S, B>(s, blocks, 2, &scales, &offsets, &mut out[2]);
    expand_pair::<S, B>(s, blocks, 3, &scales, &offsets, &mut out[3]);
}

/// Dequantizes a pair of groups.
#[inline(always)]
fn expand_pair<S: Simd, B: SimdBlock>(
    s: S,
    blocks: &B::Blocks,
    pair: usize,
    scales: &[f32; 16],
    offsets: &[f32; 16],
    out: &mut [[f32; HALF_GROUP]; 4],
) {
    let codes: [[u8; 16]; 4] = bytemuck::cast(s.to_array(B::codes(s, blocks, pair)));
    for quarter in 0..4 {
        let codes = codes[quarter];
        let value = if B::SIGNED {
            s.load_i8(&bytemuck::cast(codes))
        } else {
            s.add(s.widen_u8(codes), s.splat(-f32::from(B::ZERO_POINT)))
        };
        let h = 4 * pair + quarter;
        s.store(
            s.add(s.mul(s.splat(scales[h]), value), s.splat(offsets[h])),
            &mut out[quarter],
        );
    }
}

/// Quantizes a row of activations.
pub(super) struct Quantize<'a> {
    pub floats: &'a [f32],
    pub chunks: &'a mut [ActivationChunk],
}

impl Kernel for Quantize<'_> {
    type Output = ();

    fn scalar(self) {
        activations::quantize_scalar(self.floats, self.chunks);
    }

    #[inline(always)]
    fn simd<S: Simd>(self, s: S) {
        let (whole, rest) = self.floats.as_chunks::<QK_K>();
        let (chunks, last) = self.chunks.split_at_mut(whole.len());
        for (x, quantized) in whole.iter().zip(chunks) {
            quantize_activations(s, x, quantized);
        }
        if let [last] = last {
            let mut x = [0.0; QK_K];
            x[..rest.len()].copy_from_slice(rest);
            quantize_activations(s, &x, last);
        }
    }
}

/// Quantizes 256 activations.
#[inline(always)]
fn quantize_activations<S: Simd>(s: S, x: &[f32; QK_K], quantized: &mut ActivationChunk) {
    let x: &[[[f32; HALF_GROUP]; 2]; 8] = bytemuck::cast_ref(x);
    let values: &mut [[[i8; HALF_GROUP]; 2]; 8] = bytemuck::cast_mut(&mut quantized.values);
    for (g, (x, values)) in x.iter().zip(values).enumerate() {
        let (low, high) = (s.load(&x[0]), s.load(&x[1]));
        let (scale, inverse) = activations::scale_and_inverse(s.max_magnitude(low, high));
        let inverse = s.splat(inverse);
        let low = s.round_to_i8(s.mul(low, inverse), &mut values[0]);
        let high = s.round_to_i8(s.mul(high, inverse), &mut values[1]);
        let half_sums = [scale * low as f32, scale * high as f32];
        quantized.scales[g] = scale;
        quantized.sums[g] = half_sums[0] + half_sums[1];
        quantized.half_sums[2 * g..][..2].copy_from_slice(&half_sums);
        quantized.minus_sums[g] = -(low + high);
        quantized.minus_half_sums[2 * g..][..2].copy_from_slice(&[-low, -high]);
    }
}
