//! Matrices within slices, and their tiles.

use super::factor::Factor;
use super::{TALL, WIDE};
use crate::dot::Isa;
use crate::lanes::on_lanes;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::team;
use std::ops::Range;

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
        shape::length("a matrix", data.len(), rows.checked_mul(cols))?;
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
    pub(super) fn at(&self, row: usize, col: usize) -> f32 {
        self.data[row * self.row_stride + col * self.col_stride]
    }

    /// The rows from column `first` on, and how far apart they begin, where columns lie side by side.
    pub(super) fn rows_from(&self, first: usize) -> Option<(&'a [f32], usize)> {
        let from = &self.data[first.min(self.data.len())..];
        (self.col_stride == 1).then_some((from, self.row_stride))
    }

    /// Rows `first..first + TALL`, transposed to `[steps][TALL]`; rows past the end are zeros.
    fn fill_tall<E: Factor>(&self, first: usize, out: &mut [E]) {
        let count = TALL.min(self.rows - first);
        if self.col_stride == 1 {
            let row = |r: usize| match r < count {
                true => &self.data[(first + r) * self.row_stride..][..self.cols],
                false => &[],
            };
            turn(&std::array::from_fn(row), out);
            return;
        }
        for (step, out) in out.as_chunks_mut::<TALL>().0.iter_mut().enumerate() {
            let number = |r: usize, k: usize| match r < count && k < self.cols {
                true => self.at(first + r, k),
                false => 0.0,
            };
            *out = std::array::from_fn(|r| E::of(number(r, E::DEPTH * step), number(r, E::DEPTH * step + 1)));
        }
    }

    /// Columns from `first` on, of the rows in `depth`, as panels `[steps][WIDE]`; columns past the end are left alone.
    pub(crate) fn fill_wide<E: Factor>(&self, depth: Range<usize>, first: usize, out: &mut [E]) {
        let steps = depth.len().div_ceil(E::DEPTH);
        for (panel, out) in out.chunks_exact_mut((steps * WIDE).max(1)).enumerate() {
            let first = first + panel * WIDE;
            let count = WIDE.min(self.cols - first);
            for (step, out) in out.as_chunks_mut::<WIDE>().0.iter_mut().enumerate() {
                let k = depth.start + E::DEPTH * step;
                for (c, out) in out[..count].iter_mut().enumerate() {
                    let second = match k + 1 {
                        k if E::DEPTH == 2 && k < self.rows => self.at(k, first + c),
                        _ => 0.0,
                    };
                    *out = E::of(self.at(k, first + c), second);
                }
            }
        }
    }
}

/// Steps that are turned at a time.
const STEPS: usize = 64;

/// Rows of a tall tile, turned to `[steps][TALL]`; a row without numbers gives zeros.
fn turn<E: Factor>(rows: &[&[f32]; TALL], out: &mut [E]) {
    let isa = Isa::best();
    #[cfg(target_arch = "x86_64")]
    if E::PAIRS && isa.multiplies_bf16() {
        // SAFETY: an `Isa` says so only of instructions that were found on this machine.
        return unsafe { super::avx512_bf16::turn(rows, bytemuck::cast_slice_mut(out)) };
    }
    turn_on_any(isa, rows, out);
}

on_lanes! {
    fn turn_on_any<L>[E: Factor][E](_l; rows: &[&[f32]; TALL], out: &mut [E]) {
        let mut turned = [[E::zeroed(); STEPS]; TALL];
        let mut woven = [[[E::zeroed(); 4]; STEPS]; TALL / 4];
        for (at, out) in out.chunks_mut(STEPS * TALL).enumerate() {
            for (row, turned) in rows.iter().zip(&mut turned) {
                let row = &row[(at * STEPS * E::DEPTH).min(row.len())..];
                let row = &row[..row.len().min(STEPS * E::DEPTH)];
                let whole = row.chunks_exact(E::DEPTH);
                if let [last] = whole.remainder() {
                    turned[row.len() / E::DEPTH] = E::of(*last, 0.0);
                }
                for (numbers, turned) in whole.zip(turned) {
                    *turned = E::of(numbers[0], numbers[E::DEPTH - 1]);
                }
            }
            // Four rows at a time, which compilers make shuffles of; of twelve they make single moves.
            for (rows, woven) in turned.as_chunks::<4>().0.iter().zip(&mut woven) {
                for (step, woven) in woven.iter_mut().enumerate() {
                    *woven = [rows[0][step], rows[1][step], rows[2][step], rows[3][step]];
                }
            }
            for (step, out) in out.as_chunks_mut::<TALL>().0.iter_mut().enumerate() {
                for (woven, out) in woven.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = woven[step];
                }
            }
        }
    }
}

/// Tall tiles of a matrix, one behind the other: `[rows / TALL][steps][TALL]`, zeros past the last row.
pub(crate) fn pack_tall<E: Factor>(matrix: View) -> Scratch<E> {
    let size = matrix.cols.div_ceil(E::DEPTH) * TALL;
    let mut talls = Scratch::new(matrix.rows.div_ceil(TALL) * size);
    team::run_over(&mut talls, size, &|tile, out| matrix.fill_tall(tile * TALL, out));
    talls
}

/// Panels of a matrix, one behind the other: `[cols / WIDE][steps][WIDE]`, zeros past the last column.
pub(crate) fn pack_wide<E: Factor>(matrix: View) -> Vec<E> {
    let size = matrix.rows.div_ceil(E::DEPTH) * WIDE;
    let mut wides = vec![E::zeroed(); matrix.cols.div_ceil(WIDE) * size];
    team::run_over(&mut wides, size, &|panel, out| {
        matrix.fill_wide(0..matrix.rows, panel * WIDE, out);
    });
    wides
}
