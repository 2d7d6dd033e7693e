//! The GEMM of rows of floats with many tokens, in f32. It has the sums of [`dot_block`](super::dot_block), to the bit.
//!
//! A dot product adds up the columns that are `i` modulo 16 in lane `i`, and then the lanes by a tree of its own. Here a lane is a row, so
//! that no lanes are added: sixteen passes over a tile take the columns of one lane each, in an order in which each sum of the tree has its
//! two sides one after the other.

use super::dot_block::Element;
use crate::dense::{TALL, WIDE, add_products};
use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::team;
use std::ops::Range;

/// Tall tiles that meet a panel one after the other, pass by pass: what they hold of the tree stays in the first cache.
const TILES: usize = 4;
/// Levels of the tree.
const LEVELS: usize = WIDTH.ilog2() as usize;

type Tall = [f32; TALL];
type Wide = [f32; WIDE];
type Tile = [Wide; TALL];

/// Rows of activations in tall tiles, `[tokens / TALL][lane][step][TALL]`; zeros after the last token and the last column.
pub(super) struct Tokens {
    numbers: Scratch<f32>,
    steps: usize,
}

impl Tokens {
    /// Tiles of `x [tokens, cols]`.
    pub fn of(x: &[f32], cols: usize) -> Self {
        let (rows, steps) = (x.len() / cols.max(1), cols.div_ceil(WIDTH));
        let size = WIDTH * steps * TALL;
        let mut numbers = Scratch::new(rows.div_ceil(TALL) * size);
        team::run_over(&mut numbers, size.max(1), &|tile, out| {
            let rows = &x[tile * TALL * cols..rows.min((tile + 1) * TALL) * cols];
            pack(Isa::best(), rows, cols, out.as_chunks_mut().0);
        });
        Self { numbers, steps }
    }

    fn tile(&self, tile: usize) -> &[Tall] {
        let size = WIDTH * self.steps;
        &self.numbers.as_chunks().0[tile * size..][..size]
    }
}

on_lanes! {
    fn pack<L>(l; rows: &[f32], cols: usize, out: &mut [Tall]) {
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
                out[lane * steps + step].copy_from_slice(&column[..TALL]);
            }
        }
    }
}

/// Up to sixteen numbers, zeros behind them.
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

/// Rows of a weight as the right-hand factor, `[lane][step][WIDE]`, a step more than there are: lanes a power of two apart would evict each
/// other from the cache.
pub(super) struct Panel {
    numbers: Scratch<f32>,
    steps: usize,
    /// Room for products.
    trees: Box<[Tree; TILES]>,
}

impl Panel {
    /// Room for rows of `cols` numbers.
    pub fn new(cols: usize) -> Self {
        let steps = cols.div_ceil(WIDTH);
        Self {
            numbers: Scratch::new(WIDTH * (steps + 1) * WIDE),
            steps,
            trees: Box::new([[[[0.0; WIDE]; TALL]; LEVELS]; TILES]),
        }
    }

    /// Becomes up to [`WIDE`] rows; the last row stands in for missing ones.
    pub fn fill<E: Element>(&mut self, isa: Isa, rows: &[E], cols: usize) {
        for (number, rows) in rows.chunks(ROWS * cols).enumerate() {
            expand(isa, rows, cols, number * ROWS, self.numbers.as_chunks_mut().0);
        }
    }
}

on_lanes! {
    fn expand<L>[E: Element][E](l; rows: &[E], cols: usize, at: usize, panel: &mut [Wide]) {
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

/// What a tile holds while it is made: the left side of a sum at each level of the tree.
type Tree = [Tile; LEVELS];

/// The products of tall tiles with `rows` rows of a panel; a tile of `out` each.
pub(super) fn product(isa: Isa, tokens: &Tokens, tiles: Range<usize>, panel: &mut Panel, rows: usize, out: &mut [f32]) {
    let out = out.as_chunks_mut::<WIDE>().0.as_chunks_mut::<TALL>().0;
    for (first, out) in tiles.clone().step_by(TILES).zip(out.chunks_mut(TILES)) {
        let mut talls = [&[][..]; TILES];
        let tiles = first..tiles.end.min(first + TILES);
        for (tile, tall) in tiles.clone().zip(&mut talls) {
            *tall = tokens.tile(tile);
        }
        let numbers = panel.numbers.as_chunks().0;
        passes(
            isa,
            &talls[..tiles.len()],
            numbers,
            panel.steps,
            rows > WIDTH,
            &mut panel.trees,
            out,
        );
    }
}

on_lanes! {
    fn passes<L>(l; talls: &[&[Tall]], panel: &[Wide], steps: usize, both: bool, trees: &mut [Tree; TILES], out: &mut [Tile]) {
        for number in 0..WIDTH {
            let lane = L::SUM_ORDER[number];
            let panel = &panel[lane * (steps + 1)..][..steps];
            for ((tall, tree), out) in talls.iter().zip(&mut *trees).zip(&mut *out) {
                let tall = &tall[lane * steps..][..steps];
                if L::REGISTERS < 32 {
                    for half in [0, TALL / 2] {
                        pass::<L, { TALL / 2 }, 1>(l, tall, panel, half, 0, number, tree, out);
                        if both {
                            pass::<L, { TALL / 2 }, 1>(l, tall, panel, half, WIDTH, number, tree, out);
                        }
                    }
                } else if both {
                    pass::<L, TALL, 2>(l, tall, panel, 0, 0, number, tree, out);
                } else {
                    pass::<L, TALL, 1>(l, tall, panel, 0, 0, number, tree, out);
                }
            }
        }
    }
}

/// One of the sixteen passes over `R` rows by `C` vectors of a tile, from row `row` and column `col` on.
#[inline(always)]
fn pass<L: Lanes, const R: usize, const C: usize>(
    l: L,
    tall: &[Tall],
    wide: &[Wide],
    row: usize,
    col: usize,
    number: usize,
    tree: &mut Tree,
    out: &mut Tile,
) {
    let mut sums = [[l.splat(0.0); C]; R];
    add_products(l, tall, wide, row, col / WIDTH, &mut sums);
    // A sum is whole once its right side is.
    let whole = number.trailing_ones() as usize;
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
    use crate::linear::dot_block::{self, Rows};
    use crate::reference::noise;

    /// Which NaN it is, is the chip's choice.
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
                // A row of zeros, and tokens that are zero, too large and no number.
                weights[(rows - 1) * cols..].fill(-0.0);
                for (token, number) in [(2, -0.0), (3, f32::INFINITY), (4, f32::NAN)] {
                    x.iter_mut().skip(token * cols).take(cols).for_each(|x| *x = number);
                }
                let mut expected = vec![0.0; count * rows];
                for (first, strip) in (0..rows).step_by(ROWS).zip(weights.chunks(ROWS * cols)) {
                    let strip = Rows::packed(strip, strip.len() / cols, cols);
                    let x = Rows::packed(&x[..], count, cols);
                    dot_block::products(isa, strip, x, &mut |token, results| {
                        expected[token * rows + first..][..results.len()].copy_from_slice(results);
                    });
                }
                let (tokens, mut panel) = (Tokens::of(&x, cols), Panel::new(cols));
                panel.fill(isa, &weights, cols);
                let tiles = count.div_ceil(TALL);
                let mut out = vec![f32::NAN; tiles * TALL * WIDE];
                product(isa, &tokens, 0..tiles, &mut panel, rows, &mut out);
                for (token, out) in out.chunks(WIDE).enumerate().take(count) {
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
