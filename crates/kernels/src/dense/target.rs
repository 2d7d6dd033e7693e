//! Where a product goes, and what is done to it on the way.

use super::{View, WIDE};
use crate::lanes::{Lanes, WIDTH};
use crate::shape::{self, ShapeError};
use crate::team;

/// What becomes of what the result held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// It is replaced.
    Replace,
    /// The product is added to it.
    Add,
}

/// What is done to a sum before it is written: `scale * sum + bias`.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a> {
    pub scale: f32,
    /// One number for each column of the target.
    pub bias: Option<&'a [f32]>,
    pub into: Into,
}

impl Finish<'_> {
    /// The sum alone.
    pub fn plain(into: Into) -> Self {
        Self {
            scale: 1.0,
            bias: None,
            into,
        }
    }

    /// What is done to the further sums of a result that was begun with this.
    pub fn further(self) -> Self {
        Self {
            scale: self.scale,
            bias: None,
            into: Into::Add,
        }
    }
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
        shape::length("a matrix", data.len(), rows.checked_mul(cols))?;
        Self::new(data, 0, rows, cols, cols)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Where an element lies, to be prefetched.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn address(&self, row: usize, col: usize) -> *const f32 {
        self.data.address(self.offset + row * self.stride + col)
    }

    /// `count` elements of a row.
    ///
    /// # Safety
    /// No other part that is in use may overlap this one.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // The caller promises what the compiler cannot see.
    pub(crate) unsafe fn part(&self, row: usize, col: usize, count: usize) -> &mut [f32] {
        assert!(row < self.rows && col <= self.cols && count <= self.cols - col);
        // SAFETY: the caller's promise.
        unsafe { self.data.slice(self.offset + row * self.stride + col, count) }
    }
}

/// Where in a target a tile goes.
pub(super) struct Place<'a> {
    pub target: &'a Target<'a>,
    pub row: usize,
    pub col: usize,
    pub finish: Finish<'a>,
}

impl Place<'_> {
    /// Columns of the tile that the target has.
    pub fn width(&self) -> usize {
        WIDE.min(self.target.cols - self.col)
    }

    /// Prefetches the tile: its rows are too far apart for the hardware prefetcher.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn prefetch(&self) {
        for row in (self.row..self.target.rows).take(super::TALL) {
            let start = self.target.address(row, self.col);
            for vector in (0..self.width()).step_by(WIDTH) {
                crate::lanes::fetch_near(start.wrapping_add(vector));
            }
        }
    }

    /// Writes sixteen sums of the tile's row `r`, from vector `c` on, as far as the target goes.
    ///
    /// # Safety
    /// As [`Target::part`].
    #[inline(always)]
    pub unsafe fn write<L: Lanes>(&self, l: L, r: usize, c: usize, sums: L::Floats) {
        let (row, col) = (self.row + r, self.col + c * WIDTH);
        if row >= self.target.rows || col >= self.target.cols {
            return;
        }
        let count = WIDTH.min(self.target.cols - col);
        // SAFETY: the caller's promise.
        let out = unsafe { self.target.part(row, col, count) };
        let mut sums = l.mul(sums, l.splat(self.finish.scale));
        if let Some(bias) = self.finish.bias {
            sums = l.add(sums, padded(l, &bias[col..col + count]));
        }
        if self.finish.into == Into::Add {
            sums = l.add(sums, padded(l, out));
        }
        match <&mut [f32; WIDTH]>::try_from(&mut *out) {
            Ok(out) => l.store(sums, out),
            Err(_) => {
                let mut all = [0.0; WIDTH];
                l.store(sums, &mut all);
                out.copy_from_slice(&all[..count]);
            }
        }
    }
}

/// At most sixteen floats, zeros behind them.
#[inline(always)]
fn padded<L: Lanes>(l: L, x: &[f32]) -> L::Floats {
    match x.try_into() {
        Ok(whole) => l.load(whole),
        Err(_) => {
            let mut all = [0.0; WIDTH];
            all[..x.len()].copy_from_slice(x);
            l.load(&all)
        }
    }
}
