//! Products of packed unquantised rows with tokens, in f32.
//!
//! Each half of a span of [`SPAN`] columns is summed in order; the sums of halves are added in
//! order. That is all that results depend on, so they are the same for any number of tokens.

use crate::gemv::Element;
use crate::isa::{Isa, on_set};
use crate::lanes::{Lanes, Token, on_lanes, prefetch};
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::team;
use std::ops::Range;

/// Columns that are summed before they are added to the sums of earlier ones. Two groups of as many
/// columns in f32 fit into L1.
const SPAN: usize = 256;
/// Halves of a span, each with sums of its own. One token takes both at once: the additions to one
/// sum wait for each other, and would be slower than memory.
const HALVES: usize = 2;
/// Groups multiplied at once.
pub(super) const AT_ONCE: usize = 2;
/// Tokens in a tile on CPUs with 32 registers of sixteen floats: 12 * 2 sums, two vectors of
/// weights, and a broadcast.
const WIDE: usize = 12;
/// Tokens in a tile on other CPUs: six sums in pairs of registers.
const NARROW: usize = WIDE / 2;
/// From this many tiles on, a span of weights is widened to f32 once for all of them.
const MANY_TILES: usize = 4;

/// Tokens per tile of an instruction set.
fn tokens_a_tile(isa: Isa) -> usize {
    on_set!(isa, token => of_lanes(token.lanes()))
}

fn of_lanes<L: Lanes>(_: L) -> usize {
    if L::REGISTERS < 32 { NARROW } else { WIDE }
}

/// Activations in tiles of tokens, `[tile][column][token]`. The last tile may have fewer tokens.
pub(crate) struct Tokens {
    packed: Scratch<f32>,
    count: usize,
    cols: usize,
    /// Tokens in a tile.
    tile: usize,
}

impl Tokens {
    /// Packs `x [tokens, cols]`.
    pub fn of(isa: Isa, x: &[f32], cols: usize) -> Self {
        let (tile, mut packed) = (tokens_a_tile(isa), Scratch::new(x.len()));
        team::run_over(&mut packed, (tile * cols).max(1), &|which, out| {
            let x = &x[which * tile * cols..][..out.len()];
            match out.len() == cols {
                true => out.copy_from_slice(x),
                false => pack(isa, x, cols, out),
            }
        });
        Self {
            packed,
            count: x.len() / cols.max(1),
            cols,
            tile,
        }
    }

    /// Tokens of a tile, and the activations of a span of columns.
    fn tile(&self, tile: usize, columns: Range<usize>) -> (Range<usize>, &[f32]) {
        let tokens = tile * self.tile..self.count.min((tile + 1) * self.tile);
        let of_tile = &self.packed[tokens.start * self.cols..tokens.end * self.cols];
        let x = &of_tile[columns.start * tokens.len()..columns.end * tokens.len()];
        (tokens, x)
    }
}

on_lanes! {
    /// Transposes up to sixteen rows of `cols` columns.
    fn pack<L>(l; rows: &[f32], cols: usize, out: &mut [f32]) {
        let count = rows.len() / cols;
        for first in (0..cols).step_by(ROWS) {
            let width = ROWS.min(cols - first);
            let mut vectors = [l.splat(0.0); ROWS];
            for (row, vector) in rows.chunks_exact(cols).zip(&mut vectors) {
                *vector = load(l, &row[first..]);
            }
            let columns = l.transpose(vectors);
            for (column, vector) in columns.iter().enumerate().take(width) {
                let out = &mut out[(first + column) * count..];
                // What is stored beyond the tokens is overwritten by the next column.
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

/// Up to sixteen floats, padded with zeros.
#[inline(always)]
fn load<L: Lanes>(l: L, x: &[f32]) -> L::Floats {
    match x.first_chunk() {
        Some(whole) => l.load(whole),
        None => {
            let mut padded = [0.0; ROWS];
            padded[..x.len()].copy_from_slice(x);
            l.load(&padded)
        }
    }
}

/// A span of a group's columns in f32.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Panel([[f32; ROWS]; SPAN]);

/// Products of up to [`AT_ONCE`] groups, the columns of which are given, with whole tiles of tokens
/// that contain `tokens`: `sink(which, token, results)` for the tokens in the range.
pub(super) fn product<E: Element>(
    isa: Isa,
    groups: &[&[[E; ROWS]]],
    x: &Tokens,
    tokens: Range<usize>,
    sink: &mut dyn FnMut(usize, usize, &[f32; ROWS]),
) {
    let tiles = tokens.start / x.tile..tokens.end.div_ceil(x.tile);
    let first = tiles.start * x.tile;
    let count = tokens.end.next_multiple_of(x.tile) - first;
    let mut sums = Scratch::<f32>::new(groups.len() * count * ROWS);
    sums.fill(0.0);
    let sums = sums.as_chunks_mut::<ROWS>().0;
    let cols = groups.first().map_or(0, |group| group.len());
    for start in (0..cols).step_by(SPAN) {
        let columns = start..cols.min(start + SPAN);
        if tiles.len() >= MANY_TILES {
            widened(isa, groups, x, columns, tiles.clone(), sums);
        } else {
            stored(isa, groups, x, columns, tiles.clone(), sums);
        }
    }
    for (which, sums) in sums.chunks_exact(count).enumerate() {
        for token in tokens.clone() {
            sink(which, token, &sums[token - first]);
        }
    }
}

on_lanes! {
    /// Adds the products of a span of columns, read as stored.
    fn stored<L>[E: Element][E](
        l; groups: &[&[[E; ROWS]]], x: &Tokens, columns: Range<usize>, tiles: Range<usize>, sums: &mut [[f32; ROWS]]
    ) {
        let mut spans = [&[][..]; AT_ONCE];
        for (span, group) in spans.iter_mut().zip(groups) {
            *span = &group[columns.clone()];
        }
        add_tiles(l, &spans[..groups.len()], x, columns, tiles, sums);
    }
}

on_lanes! {
    /// Adds the products of a span of columns, widened first.
    fn widened<L>[E: Element][E](
        l; groups: &[&[[E; ROWS]]], x: &Tokens, columns: Range<usize>, tiles: Range<usize>, sums: &mut [[f32; ROWS]]
    ) {
        let mut panels = [Panel([[0.0; ROWS]; SPAN]); AT_ONCE];
        let mut spans = [&[][..]; AT_ONCE];
        for ((panel, group), span) in panels.iter_mut().zip(groups).zip(&mut spans) {
            for (out, column) in panel.0.iter_mut().zip(&group[columns.clone()]) {
                l.store(E::load(l, column), out);
            }
            *span = &panel.0[..columns.len()];
        }
        add_tiles(l, &spans[..groups.len()], x, columns, tiles, sums);
    }
}

/// Adds the products of spans of groups with tiles to `sums`, `[group][token]`.
#[inline(always)]
fn add_tiles<L: Lanes, E: Element>(
    l: L,
    spans: &[&[[E; ROWS]]],
    x: &Tokens,
    columns: Range<usize>,
    tiles: Range<usize>,
    sums: &mut [[f32; ROWS]],
) {
    let of_group = sums.len() / spans.len().max(1);
    let first = tiles.start * x.tile;
    if let (true, [one, other]) = (L::REGISTERS >= 32 || x.count <= 2, spans) {
        let (sums, others) = sums.split_at_mut(of_group);
        for tile in tiles {
            let (tokens, x) = x.tile(tile, columns.clone());
            let at = tokens.start - first;
            add_tile(l, x, tokens.len(), [one, other], [&mut sums[at..], &mut others[at..]]);
        }
        return;
    }
    for (span, sums) in spans.iter().zip(sums.chunks_exact_mut(of_group)) {
        for tile in tiles.clone() {
            let (tokens, x) = x.tile(tile, columns.clone());
            add_tile(l, x, tokens.len(), [span], [&mut sums[tokens.start - first..]]);
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

/// Adds the products of `C` spans with `T` tokens, `P` halves of a span at once. Their sums stay in
/// registers.
#[inline(always)]
fn add<L: Lanes, E: Element, const T: usize, const C: usize, const P: usize>(
    l: L,
    x: &[f32],
    spans: [&[[E; ROWS]]; C],
    sums: [&mut [[f32; ROWS]]; C],
) {
    let x = x.as_chunks::<T>().0;
    let half = x.len() / HALVES;
    for first in (0..HALVES).step_by(P) {
        let x: [&[[f32; T]]; P] = std::array::from_fn(|p| &x[(first + p) * half..][..half]);
        let spans: [[&[[E; ROWS]]; C]; P] =
            std::array::from_fn(|p| std::array::from_fn(|c| &spans[c][(first + p) * half..][..half]));
        let mut of_halves = [[[l.splat(0.0); C]; T]; P];
        for k in 0..half {
            for p in 0..P {
                let mut weights = [l.splat(0.0); C];
                for c in 0..C {
                    if T == 1 {
                        prefetch(&spans[p][c][k], SPAN * ROWS);
                    }
                    weights[c] = E::load(l, &spans[p][c][k]);
                }
                for t in 0..T {
                    let x = l.splat(x[p][k][t]);
                    for c in 0..C {
                        of_halves[p][t][c] = l.mul_add(weights[c], x, of_halves[p][t][c]);
                    }
                }
            }
        }
        for t in 0..T {
            for c in 0..C {
                let mut sum = l.load(&sums[c][t]);
                for of_half in &of_halves {
                    sum = l.add(sum, of_half[t][c]);
                }
                l.store(sum, &mut sums[c][t]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Bf16, F32, Float, Fp16};
    use crate::packed::{PackedFloats, pack_group};
    use crate::reference::noise;
    use crate::{Quant, ShapeError};

    /// Rows of a weight, packed.
    fn packed<E: Element + Float>(quant: Quant, rows: usize, cols: usize) -> Result<Vec<u8>, ShapeError> {
        let elements: Vec<E> = noise(1, rows * cols).into_iter().map(E::from_f32).collect();
        let mut packed = vec![0; size_of_val(&elements[..])];
        let groups = elements.chunks(ROWS * cols);
        for (group, packed) in groups.zip(packed.chunks_mut(ROWS * cols * size_of::<E>())) {
            pack_group(quant, cols, bytemuck::cast_slice(group), packed)?;
        }
        Ok(packed)
    }

    /// Products of all groups with a range of tokens, `[token][row]`.
    fn all<E: Element + Float>(
        isa: Isa,
        weight: &PackedFloats<E>,
        count: usize,
        x: &Tokens,
        tokens: Range<usize>,
    ) -> Vec<f32> {
        let (first, rows) = (tokens.start, count * ROWS);
        let groups: Vec<_> = (0..count).map(|group| weight.group(group)).collect();
        let mut found = vec![f32::NAN; tokens.len() * rows];
        product(isa, &groups, x, tokens, &mut |which, token, results| {
            found[(token - first) * rows + which * ROWS..][..ROWS].copy_from_slice(results);
        });
        found
    }

    fn products_match_f64_in_any_batch<E: Element + Float>(quant: Quant) -> Result<(), ShapeError> {
        for (groups, cols, count) in [(1, 32, 1), (2, 288, 29), (2, 544, 70), (1, 256, 12)] {
            let packed = packed::<E>(quant, groups * ROWS, cols)?;
            let (weight, x) = (PackedFloats::<E>::new(cols, &packed), noise(2, count * cols));
            let mut row = vec![0.0; cols];
            for isa in Isa::available() {
                let tokens = Tokens::of(isa, &x, cols);
                let together = all(isa, &weight, groups, &tokens, 0..count);
                for (i, found) in together.iter().enumerate() {
                    weight.dequantize_row(i % (groups * ROWS), &mut row);
                    let products = row.iter().zip(&x[i / (groups * ROWS) * cols..]);
                    let expected: f64 = products.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-4,
                        "{quant} {isa:?} {cols} {count} {i}"
                    );
                }
                for at_once in 1..=count {
                    let of_part = |first: usize| {
                        let part = first..count.min(first + at_once);
                        let alone = Tokens::of(isa, &x[part.start * cols..part.end * cols], cols);
                        let found = all(isa, &weight, groups, &alone, 0..part.len());
                        // The same tokens of a larger batch.
                        assert_eq!(found, all(isa, &weight, groups, &tokens, part));
                        found
                    };
                    let found: Vec<f32> = (0..count).step_by(at_once).flat_map(of_part).collect();
                    assert_eq!(found, together, "{quant} {isa:?} {cols} {at_once} of {count}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn products_match_f64_and_do_not_depend_on_the_batch() -> Result<(), ShapeError> {
        products_match_f64_in_any_batch::<F32>(Quant::F32)?;
        products_match_f64_in_any_batch::<Fp16>(Quant::F16)?;
        products_match_f64_in_any_batch::<Bf16>(Quant::BF16)
    }
}
