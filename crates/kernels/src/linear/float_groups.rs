//! Products of packed unquantized rows with tokens, in f32.
//!
//! The columns of a row are split into spans of [`SPAN`]; the last may be shorter. Each half of a
//! span is summed in the order of columns, starting from zero; the sums of halves are added in
//! order. So results are the same for any number of tokens.

use crate::blocks::{Float, GROUP};
use crate::gemv::Element;
use crate::isa::{Isa, on_set};
use crate::lanes::{Lanes, Token, on_lanes, operands, prefetch};
use crate::packed::{PackedFloats, ROWS};
use crate::scratch::Scratch;
use crate::team;
use std::ops::Range;

/// Columns in a span. In f32, the spans of two groups fit into L1.
const SPAN: usize = 256;
/// Halves of a span, each with its own sums. With one or two tokens, both halves are summed at
/// once: consecutive additions to one sum wait for each other, which is slower than reading the
/// weights from memory.
const HALVES: usize = 2;
/// Groups multiplied at once.
pub(super) const AT_ONCE: usize = 2;
/// Tokens in a tile on CPUs with 32 registers of sixteen floats: 12 * 2 sums, and two vectors
/// of weights.
pub(super) const WIDE: usize = 12;
/// Tokens in a tile on other CPUs, where a vector takes two or four registers. [`WIDE`] is a
/// multiple, so work chunks of [`WIDE`] tokens are whole tiles on all CPUs.
const NARROW: usize = WIDE / 2;
/// From this many tiles on, a span of weights is widened to f32 once for all tiles.
const MANY_TILES: usize = 4;

/// Tokens in a tile on an instruction set.
fn tokens_per_tile(isa: Isa) -> usize {
    on_set!(isa, token => tokens_per_tile_on(token.lanes()))
}

/// [`tokens_per_tile`] on these lanes.
fn tokens_per_tile_on<L: Lanes>(_: L) -> usize {
    if L::REGISTERS < 32 { NARROW } else { WIDE }
}

/// Activations in tiles of tokens, `[tile][column][token]`. The last tile may have fewer tokens.
pub(crate) struct TokenPanels {
    packed: Scratch<f32>,
    /// Number of tokens.
    count: usize,
    cols: usize,
    /// Tokens in a tile.
    tile_tokens: usize,
}

impl TokenPanels {
    /// Packs `x [tokens, cols]`; packed weights have a multiple of 32 columns.
    pub fn new(isa: Isa, x: &[f32], cols: usize) -> Self {
        let (tile_tokens, mut packed) = (tokens_per_tile(isa), Scratch::new(x.len()));
        team::run_over(&mut packed, (tile_tokens * cols).max(1), &|tile, out| {
            let x = &x[tile * tile_tokens * cols..][..out.len()];
            if out.len() == cols {
                out.copy_from_slice(x)
            } else {
                pack(isa, x, cols, out)
            }
        });
        Self {
            packed,
            count: x.len() / cols.max(1),
            cols,
            tile_tokens,
        }
    }

    /// The tiles that contain these tokens.
    fn tiles(&self, tokens: &Range<usize>) -> Range<usize> {
        tokens.start / self.tile_tokens..tokens.end.div_ceil(self.tile_tokens)
    }

    /// The tokens of tiles.
    fn tokens(&self, tiles: &Range<usize>) -> Range<usize> {
        tiles.start * self.tile_tokens..self.count.min(tiles.end * self.tile_tokens)
    }

    /// The tokens of a tile, and their activations for a range of columns.
    fn tile(&self, tile: usize, columns: Range<usize>) -> (Range<usize>, &[f32]) {
        let tokens = self.tokens(&(tile..tile + 1));
        let panel = &self.packed[tokens.start * self.cols..tokens.end * self.cols];
        let x = &panel[columns.start * tokens.len()..columns.end * tokens.len()];
        (tokens, x)
    }
}

on_lanes! {
    /// Transposes up to sixteen rows of `cols` columns, a multiple of sixteen.
    fn pack<L>(l; rows: &[f32], cols: usize, out: &mut [f32]) {
        let count = rows.len() / cols;
        for first in (0..cols).step_by(ROWS) {
            let mut vectors = [l.splat(0.0); ROWS];
            for (row, vector) in rows.chunks_exact(cols).zip(&mut vectors) {
                if let Some(part) = row[first..].first_chunk() {
                    *vector = l.load(part);
                }
            }
            let columns = l.transpose(vectors);
            for (column, vector) in columns.iter().enumerate() {
                let out = &mut out[(first + column) * count..];
                // Lanes beyond the last token are overwritten by the next column.
                if let Some(out) = out.first_chunk_mut() {
                    l.store(*vector, out);
                } else {
                    let mut column = [0.0; ROWS];
                    l.store(*vector, &mut column);
                    out[..count].copy_from_slice(&column[..count]);
                }
            }
        }
    }
}

/// Products of groups of a weight with tokens. Calls `sink(token, group, results)`.
pub(super) fn product<E: Element + Float>(
    isa: Isa,
    weight: &PackedFloats<E>,
    groups: Range<usize>,
    x: &TokenPanels,
    tokens: Range<usize>,
    sink: &mut dyn FnMut(usize, usize, &[f32; ROWS]),
) {
    if tokens.is_empty() || groups.is_empty() {
        return;
    }
    let tiles = x.tiles(&tokens);
    let tokens_of_tiles = x.tokens(&tiles);
    let widen = tiles.len() >= MANY_TILES;
    let mut widened = Scratch::<f32>::new(if widen { AT_ONCE * SPAN * ROWS } else { 0 });
    let widened = widened.as_chunks_mut().0;
    let mut sums = Scratch::<f32>::new(AT_ONCE * tokens_of_tiles.len() * ROWS);
    for first in groups.clone().step_by(AT_ONCE) {
        let at_once = first..groups.end.min(first + AT_ONCE);
        let sums = &mut sums.as_chunks_mut::<ROWS>().0[..at_once.len() * tokens_of_tiles.len()];
        sums.fill([0.0; ROWS]);
        let columns: [&[[E; ROWS]]; AT_ONCE] = std::array::from_fn(|i| weight.group((first + i).min(at_once.end - 1)));
        let columns = &columns[..at_once.len()];
        for start in (0..x.cols).step_by(SPAN) {
            let span = start..x.cols.min(start + SPAN);
            if widen {
                add_widened(isa, columns, x, span, tiles.clone(), widened, sums)
            } else {
                add_stored(isa, columns, x, span, tiles.clone(), sums)
            }
        }
        for (group, sums) in at_once.zip(sums.chunks_exact(tokens_of_tiles.len())) {
            for token in tokens.clone() {
                sink(token, group, &sums[token - tokens_of_tiles.start]);
            }
        }
    }
}

on_lanes! {
    /// Adds the products of a span of columns, read as stored, to `sums`, `[group][token]`.
    fn add_stored<L>[E: Element][E](
        l;
        groups: &[&[[E; ROWS]]],
        x: &TokenPanels,
        columns: Range<usize>,
        tiles: Range<usize>,
        sums: &mut [[f32; ROWS]]
    ) {
        let mut spans = [&[][..]; AT_ONCE];
        for (span, group) in spans.iter_mut().zip(groups) {
            *span = &group[columns.clone()];
        }
        add_tiles(l, &spans[..groups.len()], x, columns, tiles, sums);
    }
}

on_lanes! {
    /// [`add_stored`], widened to f32 first. `widened` has [`SPAN`] columns for each group.
    fn add_widened<L>[E: Element][E](
        l;
        groups: &[&[[E; ROWS]]],
        x: &TokenPanels,
        columns: Range<usize>,
        tiles: Range<usize>,
        widened: &mut [[f32; ROWS]],
        sums: &mut [[f32; ROWS]]
    ) {
        let mut spans = [&[][..]; AT_ONCE];
        for ((widened, group), span) in widened.chunks_exact_mut(SPAN).zip(groups).zip(&mut spans) {
            let widened = &mut widened[..columns.len()];
            for (out, column) in widened.iter_mut().zip(&group[columns.clone()]) {
                l.store(E::load(l, column), out);
            }
            *span = widened;
        }
        add_tiles(l, &spans[..groups.len()], x, columns, tiles, sums);
    }
}

/// Adds the products of spans of groups with tiles to `sums`, `[group][token]`.
#[inline(always)]
fn add_tiles<L: Lanes, E: Element>(
    l: L,
    spans: &[&[[E; ROWS]]],
    x: &TokenPanels,
    columns: Range<usize>,
    tiles: Range<usize>,
    sums: &mut [[f32; ROWS]],
) {
    let tokens_of_tiles = x.tokens(&tiles);
    // Two groups at once if the sums of both fit in registers.
    if let (true, [first, second]) = (L::REGISTERS >= 32 || x.count == 1, spans) {
        let (first_sums, second_sums) = sums.split_at_mut(tokens_of_tiles.len());
        for tile in tiles {
            let (tokens, x) = x.tile(tile, columns.clone());
            let first_sum = tokens.start - tokens_of_tiles.start;
            let sums = [&mut first_sums[first_sum..], &mut second_sums[first_sum..]];
            add_tile(l, x, tokens.len(), [first, second], sums);
        }
        return;
    }
    for (span, sums) in spans.iter().zip(sums.chunks_exact_mut(tokens_of_tiles.len())) {
        for tile in tiles.clone() {
            let (tokens, x) = x.tile(tile, columns.clone());
            add_tile(
                l,
                x,
                tokens.len(),
                [span],
                [&mut sums[tokens.start - tokens_of_tiles.start..]],
            );
        }
    }
}

/// Adds the products of `C` spans with the tokens of a tile.
#[inline(always)]
fn add_tile<L: Lanes, E: Element, const C: usize>(
    l: L,
    x: &[f32],
    tokens: usize,
    spans: [&[[E; ROWS]]; C],
    sums: [&mut [[f32; ROWS]]; C],
) {
    match tokens {
        1 => add::<L, E, 1, C, HALVES>(l, x, spans, sums),
        2 => add::<L, E, 2, C, HALVES>(l, x, spans, sums),
        3 => add::<L, E, 3, C, 1>(l, x, spans, sums),
        4 => add::<L, E, 4, C, 1>(l, x, spans, sums),
        5 => add::<L, E, 5, C, 1>(l, x, spans, sums),
        6 => add::<L, E, 6, C, 1>(l, x, spans, sums),
        7 => add::<L, E, 7, C, 1>(l, x, spans, sums),
        8 => add::<L, E, 8, C, 1>(l, x, spans, sums),
        9 => add::<L, E, 9, C, 1>(l, x, spans, sums),
        10 => add::<L, E, 10, C, 1>(l, x, spans, sums),
        11 => add::<L, E, 11, C, 1>(l, x, spans, sums),
        _ => add::<L, E, WIDE, C, 1>(l, x, spans, sums),
    }
}

/// Adds the products of `C` spans with `T` tokens, `H` halves of a span at once. Their sums stay in
/// registers.
#[inline(always)]
fn add<L: Lanes, E: Element, const T: usize, const C: usize, const H: usize>(
    l: L,
    x: &[f32],
    spans: [&[[E; ROWS]]; C],
    sums: [&mut [[f32; ROWS]]; C],
) {
    const { assert!(GROUP.is_multiple_of(HALVES)) };
    let x = x.as_chunks::<T>().0;
    let half = x.len() / HALVES;
    for first in (0..HALVES).step_by(H) {
        let x: [&[[f32; T]]; H] = std::array::from_fn(|h| &x[(first + h) * half..][..half]);
        let spans: [[&[[E; ROWS]]; C]; H] =
            std::array::from_fn(|h| std::array::from_fn(|c| &spans[c][(first + h) * half..][..half]));
        let mut half_sums = [[[l.splat(0.0); C]; T]; H];
        for k in 0..half {
            for h in 0..H {
                let mut weights = [l.splat(0.0); C];
                for c in 0..C {
                    if T == 1 {
                        // The same column of the next span: the hardware prefetcher stops at the
                        // end of a page.
                        prefetch(&spans[h][c][k], SPAN * ROWS);
                    }
                    weights[c] = E::load(l, &spans[h][c][k]);
                }
                let x: [_; C] = operands(l, &x[h][k]);
                for t in 0..T {
                    for c in 0..C {
                        half_sums[h][t][c] = l.fma(weights[c], l.splat(x[c][t]), half_sums[h][t][c]);
                    }
                }
            }
        }
        for t in 0..T {
            for c in 0..C {
                let mut sum = l.load(&sums[c][t]);
                for half_sums in &half_sums {
                    sum = l.add(sum, half_sums[t][c]);
                }
                l.store(sum, &mut sums[c][t]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Bf16, F32, Fp16};
    use crate::packed::{PackedRows, pack_group};
    use crate::reference::noise;
    use crate::{Quant, ShapeError};

    /// Rows of a random weight, packed.
    fn packed_rows<E: Element + Float>(quant: Quant, rows: usize, cols: usize) -> Result<Vec<u8>, ShapeError> {
        let elements: Vec<E> = noise(1, rows * cols).into_iter().map(E::from_f32).collect();
        let mut packed = vec![0; size_of_val(&elements[..])];
        let groups = elements.chunks(ROWS * cols);
        for (group, packed) in groups.zip(packed.chunks_mut(ROWS * cols * size_of::<E>())) {
            pack_group(quant, cols, bytemuck::cast_slice(group), packed)?;
        }
        Ok(packed)
    }

    /// Products of all groups with a range of tokens, `[token][row]`.
    fn all_products<E: Element + Float>(
        isa: Isa,
        weight: &PackedFloats<E>,
        groups: usize,
        x: &TokenPanels,
        tokens: Range<usize>,
    ) -> Vec<f32> {
        let (first, rows) = (tokens.start, groups * ROWS);
        let mut actual = vec![f32::NAN; tokens.len() * rows];
        product(isa, weight, 0..groups, x, tokens, &mut |token, group, results| {
            actual[(token - first) * rows + group * ROWS..][..ROWS].copy_from_slice(results);
        });
        actual
    }

    /// The product of a row in the documented order of sums, one element at a time, without FMA.
    fn product_in_order<E: Element + Float>(weight: &PackedFloats<E>, row: usize, x: &[f32]) -> f32 {
        let mut weights = vec![0.0; x.len()];
        weight.dequantize_row(row, &mut weights).expect("a row");
        let mut sum = 0.0;
        for (weights, x) in weights.chunks(SPAN).zip(x.chunks(SPAN)) {
            let half = x.len() / HALVES;
            for (weights, x) in weights.chunks(half).zip(x.chunks(half)) {
                sum += weights.iter().zip(x).fold(0.0, |sum, (w, x)| sum + w * x);
            }
        }
        sum
    }

    #[test]
    fn sums_are_in_the_documented_order() -> Result<(), ShapeError> {
        // Integers that are exact in f16, whose sums are not exact in f32: each order has a
        // different result, and FMA makes no difference.
        let (cols, mut state) = (800, 1u32);
        let mut integer = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 20) % 2047) as f32 - 1023.0
        };
        let elements: Vec<Fp16> = (0..ROWS * cols).map(|_| Fp16::from_f32(integer())).collect();
        let x: Vec<f32> = (0..cols).map(|_| integer() * 4.0 + 1.0).collect();
        let mut packed = vec![0; size_of_val(&elements[..])];
        pack_group(Quant::F16, cols, bytemuck::cast_slice(&elements), &mut packed)?;
        let weight = PackedFloats::<Fp16>::new(cols, &packed);
        let expected: Vec<f32> = (0..ROWS).map(|row| product_in_order(&weight, row, &x)).collect();
        for isa in Isa::available() {
            assert_eq!(
                all_products(isa, &weight, 1, &TokenPanels::new(isa, &x, cols), 0..1),
                expected,
                "{isa:?}"
            );
        }
        Ok(())
    }

    fn check_products<E: Element + Float>(quant: Quant) -> Result<(), ShapeError> {
        for (groups, cols, count) in [(1, 32, 1), (2, 288, 29), (3, 544, 70), (1, 256, 12)] {
            let packed = packed_rows::<E>(quant, groups * ROWS, cols)?;
            let (weight, x) = (PackedFloats::<E>::new(cols, &packed), noise(2, count * cols));
            let mut row = vec![0.0; cols];
            for isa in Isa::available() {
                let tokens = TokenPanels::new(isa, &x, cols);
                let batch_products = all_products(isa, &weight, groups, &tokens, 0..count);
                for (i, actual) in batch_products.iter().enumerate() {
                    weight.dequantize_row(i % (groups * ROWS), &mut row)?;
                    let products = row.iter().zip(&x[i / (groups * ROWS) * cols..]);
                    let expected: f64 = products.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    assert!(
                        (f64::from(*actual) - expected).abs() < 1e-4,
                        "{quant} {isa:?} {cols} {count} {i}"
                    );
                }
                for at_once in 1..=count {
                    let products_of_batch = |first: usize| {
                        let batch = first..count.min(first + at_once);
                        let panels = TokenPanels::new(isa, &x[batch.start * cols..batch.end * cols], cols);
                        let actual = all_products(isa, &weight, groups, &panels, 0..batch.len());
                        // The same tokens of a larger batch.
                        assert_eq!(actual, all_products(isa, &weight, groups, &tokens, batch));
                        actual
                    };
                    let actual: Vec<f32> = (0..count).step_by(at_once).flat_map(products_of_batch).collect();
                    assert_eq!(actual, batch_products, "{quant} {isa:?} {cols} {at_once} of {count}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn products_match_f64_and_do_not_depend_on_the_batch() -> Result<(), ShapeError> {
        check_products::<F32>(Quant::F32)?;
        check_products::<Fp16>(Quant::F16)?;
        check_products::<Bf16>(Quant::BF16)
    }
}
