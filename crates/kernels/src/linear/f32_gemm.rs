//! GEMM of unquantised rows with many tokens, in f32, bit-identical to [`f32_dot`](super::f32_dot).
//!
//! A dot product sums the columns that are `i` modulo 16 in lane `i`, then adds the lanes pairwise
//! in a tree. Here a lane is a row, so lanes are never added: sixteen sweeps over a tile take the
//! columns of one lane each, ordered so that both sides of each sum of the tree are computed one
//! after the other.

use crate::gemm::{MR, NR, add_products};
use crate::gemv::Element;
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::team;
use std::ops::Range;

/// Lhs tiles multiplied with a panel in turns, sweep by sweep: their partial trees stay in L1.
const TILES: usize = 4;
/// Levels of the tree.
const LEVELS: usize = WIDTH.ilog2() as usize;

type LhsStep = [f32; MR];
type RhsStep = [f32; NR];
type Tile = [RhsStep; MR];

/// Lhs tiles of activations, `[tokens / MR][lane][step][MR]`; zeros after the last token and the
/// last column.
pub(super) struct Tokens {
    packed: Scratch<f32>,
    steps: usize,
}

impl Tokens {
    /// Packs `x [tokens, cols]`.
    pub fn of(x: &[f32], cols: usize) -> Self {
        let (rows, steps) = (x.len() / cols.max(1), cols.div_ceil(WIDTH));
        let size = WIDTH * steps * MR;
        let mut packed = Scratch::new(rows.div_ceil(MR) * size);
        team::run_over(&mut packed, size.max(1), &|tile, out| {
            let rows = &x[tile * MR * cols..rows.min((tile + 1) * MR) * cols];
            pack(Isa::best(), rows, cols, out.as_chunks_mut().0);
        });
        Self { packed, steps }
    }

    fn tile(&self, tile: usize) -> &[LhsStep] {
        let size = WIDTH * self.steps;
        &self.packed.as_chunks().0[tile * size..][..size]
    }
}

on_lanes! {
    fn pack<L>(l; rows: &[f32], cols: usize, out: &mut [LhsStep]) {
        let steps = cols.div_ceil(WIDTH);
        for step in 0..steps {
            let mut vectors = [l.splat(0.0); WIDTH];
            for (row, vector) in rows.chunks_exact(cols).zip(&mut vectors) {
                *vector = load(l, &row[step * WIDTH..]);
            }
            let columns = l.transpose(vectors);
            for lane in 0..WIDTH {
                let mut column = [0.0; WIDTH];
                l.store(columns[lane], &mut column);
                out[lane * steps + step].copy_from_slice(&column[..MR]);
            }
        }
    }
}

/// Up to sixteen elements, padded with zeros.
#[inline(always)]
fn load<L: Lanes, E: Element>(l: L, x: &[E]) -> L::Floats {
    match x.first_chunk() {
        Some(whole) => E::load(l, whole),
        None => {
            let mut filled = [E::zeroed(); WIDTH];
            filled[..x.len()].copy_from_slice(x);
            E::load(l, &filled)
        }
    }
}

/// Rhs panel of rows of a weight, `[lane][step][NR]`, padded by one step: lanes a power of two
/// apart would evict each other from the cache.
pub(super) struct Panel {
    packed: Scratch<f32>,
    steps: usize,
    /// Partial sums of the tiles in flight.
    trees: Box<[Tree; TILES]>,
}

impl Panel {
    /// Allocates a panel for rows of `cols` elements.
    pub fn new(cols: usize) -> Self {
        let steps = cols.div_ceil(WIDTH);
        Self {
            packed: Scratch::new(WIDTH * (steps + 1) * NR),
            steps,
            trees: Box::new([[[[0.0; NR]; MR]; LEVELS]; TILES]),
        }
    }

    /// Packs up to [`NR`] rows; missing ones repeat the last.
    pub fn fill<E: Element>(&mut self, isa: Isa, rows: &[E], cols: usize) {
        for (index, rows) in rows.chunks(ROWS * cols).enumerate() {
            expand(isa, rows, cols, index * ROWS, self.packed.as_chunks_mut().0);
        }
    }
}

on_lanes! {
    fn expand<L>[E: Element][E](l; rows: &[E], cols: usize, at: usize, panel: &mut [RhsStep]) {
        const { assert!(ROWS == WIDTH) };
        let (steps, last) = (cols.div_ceil(WIDTH), rows.len() / cols - 1);
        for step in 0..steps {
            let mut vectors = [l.splat(0.0); WIDTH];
            for r in 0..ROWS {
                vectors[r] = load(l, &rows[r.min(last) * cols..][..cols][step * WIDTH..]);
            }
            let columns = l.transpose(vectors);
            for lane in 0..WIDTH {
                if let Some(out) = panel[lane * (steps + 1) + step][at..].first_chunk_mut() {
                    l.store(columns[lane], out);
                }
            }
        }
    }
}

/// Partial sums of a tile: the left side of a sum at each level of the tree.
type Tree = [Tile; LEVELS];

/// Products of lhs tiles with `rows` rows of a panel, one tile of `out` each.
pub(super) fn product(isa: Isa, tokens: &Tokens, tiles: Range<usize>, panel: &mut Panel, rows: usize, out: &mut [f32]) {
    let out = out.as_chunks_mut::<NR>().0.as_chunks_mut::<MR>().0;
    for (first, out) in tiles.clone().step_by(TILES).zip(out.chunks_mut(TILES)) {
        let mut lhs = [&[][..]; TILES];
        let tiles = first..tiles.end.min(first + TILES);
        for (tile, lhs_tile) in tiles.clone().zip(&mut lhs) {
            *lhs_tile = tokens.tile(tile);
        }
        let packed = panel.packed.as_chunks().0;
        sweeps(
            isa,
            &lhs[..tiles.len()],
            packed,
            panel.steps,
            rows > WIDTH,
            &mut panel.trees,
            out,
        );
    }
}

on_lanes! {
    fn sweeps<L>(
        l;
        lhs: &[&[LhsStep]],
        panel: &[RhsStep],
        steps: usize,
        both: bool,
        trees: &mut [Tree; TILES],
        out: &mut [Tile]
    ) {
        for index in 0..WIDTH {
            let lane = L::SUM_ORDER[index];
            let panel = &panel[lane * (steps + 1)..][..steps];
            for ((lhs_tile, tree), out) in lhs.iter().zip(&mut *trees).zip(&mut *out) {
                let lhs_tile = &lhs_tile[lane * steps..][..steps];
                if L::REGISTERS < 32 {
                    for half in [0, MR / 2] {
                        sweep::<L, { MR / 2 }, 1>(l, lhs_tile, panel, half, 0, index, tree, out);
                        if both {
                            sweep::<L, { MR / 2 }, 1>(l, lhs_tile, panel, half, WIDTH, index, tree, out);
                        }
                    }
                } else if both {
                    sweep::<L, MR, 2>(l, lhs_tile, panel, 0, 0, index, tree, out);
                } else {
                    sweep::<L, MR, 1>(l, lhs_tile, panel, 0, 0, index, tree, out);
                }
            }
        }
    }
}

/// One of the sixteen sweeps over `R` rows by `C` vectors of a tile, starting at row `row` and
/// column `col`.
#[inline(always)]
fn sweep<L: Lanes, const R: usize, const C: usize>(
    l: L,
    lhs_tile: &[LhsStep],
    rhs_panel: &[RhsStep],
    row: usize,
    col: usize,
    index: usize,
    tree: &mut Tree,
    out: &mut Tile,
) {
    let mut sums = [[l.splat(0.0); C]; R];
    add_products(l, lhs_tile, rhs_panel, row, col / WIDTH, &mut sums);
    // A sum is complete once its right side is.
    let whole = index.trailing_ones() as usize;
    for left in &tree[..whole] {
        for (left, sums) in left[row..].iter().zip(&mut sums) {
            for (left, sum) in left[col..].as_chunks().0.iter().zip(sums) {
                *sum = l.add(l.load(left), *sum);
            }
        }
    }
    let to = tree.get_mut(whole).unwrap_or(out);
    for (to, sums) in to[row..].iter_mut().zip(&sums) {
        for (to, sum) in to[col..].as_chunks_mut().0.iter_mut().zip(sums) {
            l.store(*sum, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::f32_dot::{self, Rows};
    use crate::reference::noise;

    /// NaN payloads depend on the CPU.
    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter()
            .map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits())
            .collect()
    }

    #[test]
    fn products_have_the_bits_of_dot_products() {
        for isa in Isa::available() {
            for (rows, cols, count) in [(32, 576, 60), (16, 64, 12), (19, 331, 7), (1, 1, 1), (32, 17, 13)] {
                let (mut weights, mut x) = (noise(1, rows * cols), noise(2, count * cols));
                // A row of zeros, and tokens of zeros, infinities and NaN.
                weights[(rows - 1) * cols..].fill(-0.0);
                for (token, index) in [(2, -0.0), (3, f32::INFINITY), (4, f32::NAN)] {
                    x.iter_mut().skip(token * cols).take(cols).for_each(|x| *x = index);
                }
                let mut expected = vec![0.0; count * rows];
                for (first, strip) in (0..rows).step_by(ROWS).zip(weights.chunks(ROWS * cols)) {
                    let strip = Rows::packed(strip, strip.len() / cols, cols);
                    let x = Rows::packed(&x[..], count, cols);
                    f32_dot::products(isa, strip, x, &mut |token, results| {
                        expected[token * rows + first..][..results.len()].copy_from_slice(results);
                    });
                }
                let (tokens, mut panel) = (Tokens::of(&x, cols), Panel::new(cols));
                panel.fill(isa, &weights, cols);
                let tiles = count.div_ceil(MR);
                let mut out = vec![f32::NAN; tiles * MR * NR];
                product(isa, &tokens, 0..tiles, &mut panel, rows, &mut out);
                for (token, out) in out.chunks(NR).enumerate().take(count) {
                    assert_eq!(
                        bits(&out[..rows]),
                        bits(&expected[token * rows..][..rows]),
                        "{isa:?}, {rows} x {cols}, token {token}"
                    );
                }
            }
        }
    }
}
