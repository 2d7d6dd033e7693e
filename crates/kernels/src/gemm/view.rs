//! Matrix views of slices, and packing them into panels.

use super::factor::Factor;
use super::{MR, NR};
use crate::isa::Isa;
use crate::lanes::on_lanes;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::team;
use std::ops::Range;

/// A matrix view of a slice: element `(r, c)` is `data[r * row_stride + c * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    /// A matrix `[rows, cols]` whose rows are `stride` apart, starting at element `offset` of
    /// `data`.
    ///
    /// # Errors
    /// If it exceeds `data`.
    pub fn new(data: &'a [f32], offset: usize, rows: usize, cols: usize, stride: usize) -> Result<Self, ShapeError> {
        let end = match rows {
            0 => Some(offset),
            _ => (rows - 1)
                .checked_mul(stride)
                .and_then(|last_row| last_row.checked_add(offset)?.checked_add(cols)),
        };
        match end {
            Some(end) if end <= data.len() => Ok(Self {
                data: &data[offset..],
                rows,
                cols,
                row_stride: stride,
                col_stride: 1,
            }),
            Some(end) => Err(ShapeError::Index {
                what: "a matrix's end",
                index: end,
                count: data.len(),
            }),
            None => Err(ShapeError::TooLarge { what: "a matrix" }),
        }
    }

    /// The matrix `[rows, cols]` that fills `data`.
    ///
    /// # Errors
    /// If `data` has a different number of elements.
    pub fn all(data: &'a [f32], rows: usize, cols: usize) -> Result<Self, ShapeError> {
        shape::length("a matrix", data.len(), rows.checked_mul(cols))?;
        Self::new(data, 0, rows, cols, cols)
    }

    /// The transposed matrix.
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
    /// If there are no such columns.
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

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// An element.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, col: usize) -> f32 {
        self.data[row * self.row_stride + col * self.col_stride]
    }

    /// The data from column `first` on and the row stride; `None` if columns are not contiguous.
    pub(super) fn rows_from(&self, first: usize) -> Option<(&'a [f32], usize)> {
        let data = &self.data[first.min(self.data.len())..];
        (self.col_stride == 1).then_some((data, self.row_stride))
    }

    /// Packs rows `first..first + MR` as a lhs panel `[steps][MR]`; rows past the end are zeros.
    fn fill_lhs<E: Factor>(&self, first: usize, out: &mut [E]) {
        let count = MR.min(self.rows - first);
        if self.col_stride == 1 {
            let row = |r: usize| {
                if r < count {
                    &self.data[(first + r) * self.row_stride..][..self.cols]
                } else {
                    &[]
                }
            };
            transpose(&std::array::from_fn(row), out);
            return;
        }
        for (step, out) in out.as_chunks_mut::<MR>().0.iter_mut().enumerate() {
            let element = |r: usize, k: usize| {
                if r < count && k < self.cols {
                    self.at(first + r, k)
                } else {
                    0.0
                }
            };
            *out = std::array::from_fn(|r| E::from_pair(element(r, E::DEPTH * step), element(r, E::DEPTH * step + 1)));
        }
    }

    /// Packs columns from `first` on, of the rows in `depth`, as rhs panels `[steps][NR]`; columns
    /// past the end are left unchanged.
    pub(crate) fn fill_rhs<E: Factor>(&self, depth: Range<usize>, first: usize, out: &mut [E]) {
        let steps = depth.len().div_ceil(E::DEPTH);
        for (panel, out) in out.chunks_exact_mut((steps * NR).max(1)).enumerate() {
            let first = first + panel * NR;
            let count = NR.min(self.cols - first);
            for (step, out) in out.as_chunks_mut::<NR>().0.iter_mut().enumerate() {
                let k = depth.start + E::DEPTH * step;
                for (c, out) in out[..count].iter_mut().enumerate() {
                    let second = match k + 1 {
                        k if E::DEPTH == 2 && k < self.rows => self.at(k, first + c),
                        _ => 0.0,
                    };
                    *out = E::from_pair(self.at(k, first + c), second);
                }
            }
        }
    }
}

/// Steps that are transposed at a time.
const STEPS: usize = 64;

/// Transposes the rows of a lhs panel to `[steps][MR]`; an empty row gives zeros.
fn transpose<E: Factor>(rows: &[&[f32]; MR], out: &mut [E]) {
    let isa = Isa::best();
    #[cfg(target_arch = "x86_64")]
    if let (true, Some(token)) = (E::IS_PAIR, isa.bf16()) {
        return super::avx512_bf16::transpose(token, rows, bytemuck::cast_slice_mut(out));
    }
    transpose_on_any(isa, rows, out);
}

on_lanes! {
    /// [`transpose`] on any instruction set.
    fn transpose_on_any<L>[E: Factor][E](_l; rows: &[&[f32]; MR], out: &mut [E]) {
        let mut transposed = [[E::zeroed(); STEPS]; MR];
        let mut interleaved = [[[E::zeroed(); 4]; STEPS]; MR / 4];
        for (index, out) in out.chunks_mut(STEPS * MR).enumerate() {
            for (row, transposed) in rows.iter().zip(&mut transposed) {
                let row = &row[(index * STEPS * E::DEPTH).min(row.len())..];
                let row = &row[..row.len().min(STEPS * E::DEPTH)];
                let factors = row.chunks_exact(E::DEPTH);
                if let [last] = factors.remainder() {
                    transposed[row.len() / E::DEPTH] = E::from_pair(*last, 0.0);
                }
                for (factor, transposed) in factors.zip(transposed) {
                    *transposed = E::from_pair(factor[0], factor[E::DEPTH - 1]);
                }
            }
            // Four rows at a time compile to shuffles; twelve compile to scalar moves.
            for (rows, interleaved) in transposed.as_chunks::<4>().0.iter().zip(&mut interleaved) {
                for (step, interleaved) in interleaved.iter_mut().enumerate() {
                    *interleaved = [rows[0][step], rows[1][step], rows[2][step], rows[3][step]];
                }
            }
            for (step, out) in out.as_chunks_mut::<MR>().0.iter_mut().enumerate() {
                for (interleaved, out) in interleaved.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = interleaved[step];
                }
            }
        }
    }
}

/// Packs a matrix into lhs panels, `[rows / MR][steps][MR]`, zeros past the last row.
pub(crate) fn pack_lhs<E: Factor>(matrix: View) -> Scratch<E> {
    let size = matrix.cols.div_ceil(E::DEPTH) * MR;
    let mut lhs = Scratch::new(matrix.rows.div_ceil(MR) * size);
    team::run_over(&mut lhs, size, &|tile, out| matrix.fill_lhs(tile * MR, out));
    lhs
}

/// Packs a matrix into rhs panels, `[cols / NR][steps][NR]`, zeros past the last column.
pub(crate) fn pack_rhs<E: Factor>(matrix: View) -> Vec<E> {
    let size = matrix.rows.div_ceil(E::DEPTH) * NR;
    let mut rhs = vec![E::zeroed(); matrix.cols.div_ceil(NR) * size];
    team::run_over(&mut rhs, size, &|panel, out| {
        matrix.fill_rhs(0..matrix.rows, panel * NR, out);
    });
    rhs
}
