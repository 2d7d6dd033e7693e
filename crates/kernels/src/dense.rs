//! Products of f32 matrices, tiled: `exact` products with dequantised weights, adapters and their gradients.
//!
//! A tile of the result, twelve rows by two vectors, stays in registers while the common dimension is walked once. Its left
//! factor lies transposed, `[k][12]`, so that one broadcast serves two vectors; its right one lies `[k][32]`.

use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
use crate::shape::ShapeError;
use crate::team;

/// Rows of a tile: 12 * 2 sums, two right vectors and a broadcast fill the 32 registers of AVX-512.
pub(crate) const TALL: usize = 12;
/// Columns of a tile.
pub(crate) const WIDE: usize = 2 * WIDTH;
/// Left-hand rows of a chunk of work: enough that what it takes to fetch or expand its right-hand columns is spread thin.
const ROWS_A_CHUNK: usize = 84 * TALL;

/// A matrix within a slice: element `(r, c)` is `data[r * row_stride + c * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    /// A matrix `[rows, cols]` whose rows begin `stride` apart, from element `offset` of `data`.
    ///
    /// # Errors
    /// Where it does not lie within `data`.
    pub fn new(data: &'a [f32], offset: usize, rows: usize, cols: usize, stride: usize) -> Result<Self, ShapeError> {
        let last = match rows {
            0 => Some(offset),
            _ => (rows - 1)
                .checked_mul(stride)
                .and_then(|at| at.checked_add(offset)?.checked_add(cols)),
        };
        match last {
            Some(last) if last <= data.len() => Ok(Self {
                data: &data[offset..],
                rows,
                cols,
                row_stride: stride,
                col_stride: 1,
            }),
            Some(last) => Err(ShapeError::Index {
                what: "a matrix's end",
                index: last,
                count: data.len(),
            }),
            None => Err(ShapeError::TooLarge { what: "a matrix" }),
        }
    }

    /// The matrix `[rows, cols]` that fills `data`.
    ///
    /// # Errors
    /// Where `data` has not that many elements.
    pub fn all(data: &'a [f32], rows: usize, cols: usize) -> Result<Self, ShapeError> {
        crate::shape::length("a matrix", data.len(), rows.checked_mul(cols))?;
        Self::new(data, 0, rows, cols, cols)
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// Columns `first..first + count`.
    ///
    /// # Errors
    /// Where there are no such columns.
    pub fn columns(self, first: usize, count: usize) -> Result<Self, ShapeError> {
        if first > self.cols || count > self.cols - first {
            return Err(ShapeError::Index {
                what: "a column's end",
                index: first.saturating_add(count),
                count: self.cols,
            });
        }
        let start = (first * self.col_stride).min(self.data.len());
        Ok(Self {
            data: &self.data[start..],
            cols: count,
            ..self
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    pub fn cols(&self) -> usize {
        self.cols
    }

    #[inline(always)]
    fn at(&self, row: usize, col: usize) -> f32 {
        self.data[row * self.row_stride + col * self.col_stride]
    }

    /// Rows `first..first + TALL`, transposed to `[cols][TALL]`; rows past the end are zeros.
    fn pack_tall(&self, first: usize, out: &mut [f32]) {
        for r in 0..TALL.min(self.rows - first) {
            for (k, out) in out.as_chunks_mut::<TALL>().0.iter_mut().enumerate() {
                out[r] = self.at(first + r, k);
            }
        }
    }

    /// Columns `first..first + WIDE` as `[rows][WIDE]`; columns past the end are left alone.
    fn pack_wide(&self, first: usize, out: &mut [f32]) {
        let count = WIDE.min(self.cols - first);
        if self.col_stride == 1 {
            for (k, out) in out.as_chunks_mut::<WIDE>().0.iter_mut().enumerate() {
                out[..count].copy_from_slice(&self.data[k * self.row_stride + first..][..count]);
            }
        } else {
            for c in 0..count {
                for (k, out) in out.as_chunks_mut::<WIDE>().0.iter_mut().enumerate() {
                    out[c] = self.at(k, first + c);
                }
            }
        }
    }
}

/// The sums of one tile.
pub(crate) type Tile = [[f32; WIDE]; TALL];

on_lanes! {
    /// `tile[r][c]` becomes the sum over `k` of `tall[k][r] * wide[k][c]`.
    pub(crate) fn tile<L>(l; tall: &[f32], wide: &[f32], out: &mut Tile) {
        if L::REGISTERS < 32 {
            for half in 0..2 {
                let mut sums = [[l.splat(0.0); 1]; TALL / 2];
                part::<L, { TALL / 2 }, 1>(l, tall, half * TALL / 2, wide, 0, &mut sums);
                spill(l, &sums, half * TALL / 2, 0, out);
                let mut sums = [[l.splat(0.0); 1]; TALL / 2];
                part::<L, { TALL / 2 }, 1>(l, tall, half * TALL / 2, wide, WIDTH, &mut sums);
                spill(l, &sums, half * TALL / 2, WIDTH, out);
            }
        } else {
            let mut sums = [[l.splat(0.0); 2]; TALL];
            part::<L, TALL, 2>(l, tall, 0, wide, 0, &mut sums);
            spill(l, &sums, 0, 0, out);
        }
    }
}

/// The sums of `R` rows by `C` vectors of a tile, from row `row` and column `col` on.
#[inline(always)]
fn part<L: Lanes, const R: usize, const C: usize>(
    l: L,
    tall: &[f32],
    row: usize,
    wide: &[f32],
    col: usize,
    sums: &mut [[L::Floats; C]; R],
) {
    for (tall, wide) in tall.as_chunks::<TALL>().0.iter().zip(wide.as_chunks::<WIDE>().0) {
        let vectors = wide.as_chunks::<WIDTH>().0;
        let right: [L::Floats; C] = std::array::from_fn(|c| l.load(&vectors[col / WIDTH + c]));
        for r in 0..R {
            let left = l.splat(tall[row + r]);
            for c in 0..C {
                sums[r][c] = l.mul_add(left, right[c], sums[r][c]);
            }
        }
    }
}

#[inline(always)]
fn spill<L: Lanes, const R: usize, const C: usize>(
    l: L,
    sums: &[[L::Floats; C]; R],
    row: usize,
    col: usize,
    out: &mut Tile,
) {
    for (sums, out) in sums.iter().zip(&mut out[row..]) {
        for (sum, out) in sums.iter().zip(&mut out.as_chunks_mut::<WIDTH>().0[col / WIDTH..]) {
            l.store(*sum, out);
        }
    }
}

/// What becomes of what the result held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// It is replaced.
    Replace,
    /// The product is added to it.
    Add,
}

/// A matrix to write to: rows of `cols` elements that begin `stride` apart, from `offset` on.
pub struct Target<'a> {
    data: team::Scattered<'a, f32>,
    offset: usize,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> Target<'a> {
    /// A matrix `[rows, cols]` whose rows begin `stride` apart, from element `offset` of `data`.
    ///
    /// # Errors
    /// Where it does not lie within `data`, or its rows overlap.
    pub fn new(
        data: &'a mut [f32],
        offset: usize,
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self, ShapeError> {
        View::new(data, offset, rows, cols, stride)?;
        if rows > 1 && stride < cols {
            return Err(ShapeError::Index {
                what: "a row's end",
                index: cols,
                count: stride,
            });
        }
        Ok(Self {
            data: team::Scattered::new(data),
            offset,
            rows,
            cols,
            stride,
        })
    }

    /// The matrix `[rows, cols]` that fills `data`.
    ///
    /// # Errors
    /// Where `data` has not that many elements.
    pub fn all(data: &'a mut [f32], rows: usize, cols: usize) -> Result<Self, ShapeError> {
        crate::shape::length("a matrix", data.len(), rows.checked_mul(cols))?;
        Self::new(data, 0, rows, cols, cols)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// `count` elements of a row.
    ///
    /// # Safety
    /// No other part that is in use may overlap this one.
    #[allow(clippy::mut_from_ref)] // The caller promises what the compiler cannot see.
    pub(crate) unsafe fn part(&self, row: usize, col: usize, count: usize) -> &mut [f32] {
        assert!(row < self.rows && col <= self.cols && count <= self.cols - col);
        // SAFETY: the caller's promise.
        unsafe { self.data.slice(self.offset + row * self.stride + col, count) }
    }

    /// Writes a tile, times `scale`, at `(row, col)`, as far as the matrix goes.
    ///
    /// # Safety
    /// As [`Target::part`].
    pub(crate) unsafe fn write(&self, tile: &Tile, row: usize, col: usize, scale: f32, into: Into) {
        let count = WIDE.min(self.cols - col);
        for (r, sums) in tile.iter().enumerate().take(self.rows - row) {
            // SAFETY: the caller's promise.
            let out = unsafe { self.part(row + r, col, count) };
            match into {
                Into::Replace => out.iter_mut().zip(sums).for_each(|(out, sum)| *out = scale * sum),
                Into::Add => out.iter_mut().zip(sums).for_each(|(out, sum)| *out += scale * sum),
            }
        }
    }
}

/// Tall tiles of a matrix, one behind the other: `[rows / TALL][cols][TALL]`, zeros past the last row.
pub(crate) fn pack_tall(matrix: View) -> Vec<f32> {
    let size = matrix.cols * TALL;
    let mut talls = vec![0.0; matrix.rows.div_ceil(TALL) * size];
    team::run_over(&mut talls, size, &|tile, out| matrix.pack_tall(tile * TALL, out));
    talls
}

/// `target` becomes, or grows by, `scale` times the product of tall tiles (see [`pack_tall`]) of `depth` columns with a matrix
/// `[depth, target.cols]`, of which `fill(first, out)` writes columns `first..first + WIDE` as `[depth][WIDE]`, zeros past the last.
pub(crate) fn product(
    talls: &[f32],
    depth: usize,
    fill: &(dyn Fn(usize, &mut [f32]) + Sync),
    scale: f32,
    target: &Target,
    into: Into,
) {
    let isa = Isa::best();
    let down = target.rows.div_ceil(ROWS_A_CHUNK);
    team::run(down * target.cols.div_ceil(WIDE), &|chunk| {
        let (first, col) = (chunk % down * ROWS_A_CHUNK, chunk / down * WIDE);
        let (mut wide, mut sums) = (vec![0.0; depth * WIDE], [[0.0; WIDE]; TALL]);
        fill(col, &mut wide);
        for row in (first..(first + ROWS_A_CHUNK).min(target.rows)).step_by(TALL) {
            tile(isa, &talls[row * depth..][..TALL * depth], &wide, &mut sums);
            // SAFETY: chunks are disjoint parts of the target.
            unsafe { target.write(&sums, row, col, scale, into) };
        }
    });
}

/// `target` becomes, or grows by, `scale * left right`, with `left [m, k]` and `right [k, n]`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn matmul(left: View, right: View, scale: f32, target: &Target, into: Into) -> Result<(), ShapeError> {
    crate::shape::length("the rows of a product's right factor", right.rows, Some(left.cols))?;
    crate::shape::length("the rows of a product", target.rows, Some(left.rows))?;
    crate::shape::length("the columns of a product", target.cols, Some(right.cols))?;
    let talls = pack_tall(left);
    product(
        &talls,
        left.cols,
        &|first, out| right.pack_wide(first, out),
        scale,
        target,
        into,
    );
    Ok(())
}
