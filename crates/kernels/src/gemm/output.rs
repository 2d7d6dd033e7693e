//! The output of a GEMM: target matrix, output tiles and epilogue.

use super::{NR, View};
use crate::lanes::{Lanes, WIDTH};
use crate::shape::{self, ShapeError};
use crate::team;

/// The mode of writing a product to its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accumulate {
    /// The product overwrites the target.
    Replace,
    /// The product is added to the target.
    Add,
    /// The product, with its bias, is multiplied by this factor and added to the target.
    AddScaled(f32),
}

impl Accumulate {
    /// Adds `factor` times the product. There is no multiplication by a factor of 1, so that it
    /// costs nothing.
    pub(crate) fn add_times(factor: f32) -> Self {
        if factor == 1.0 {
            Self::Add
        } else {
            Self::AddScaled(factor)
        }
    }

    /// The mode of further products that belong to the same sum.
    fn after_first(self) -> Self {
        match self {
            Self::Replace => Self::Add,
            Self::Add | Self::AddScaled(_) => self,
        }
    }
}

/// Epilogue of a GEMM: `scale * sum + bias`, written or added.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    pub scale: f32,
    /// One element per column of the target.
    pub bias: Option<&'a [f32]>,
    pub accumulate: Accumulate,
}

impl Epilogue<'_> {
    /// No scale and no bias.
    pub fn plain(accumulate: Accumulate) -> Self {
        Self {
            scale: 1.0,
            bias: None,
            accumulate,
        }
    }

    /// The epilogue of passes after the first: adds to the target, without the bias.
    pub fn next_pass(self) -> Self {
        Self {
            scale: self.scale,
            bias: None,
            accumulate: self.accumulate.after_first(),
        }
    }
}

/// A mutable matrix view: rows of `cols` elements, `stride` apart, starting at `offset`.
pub struct ViewMut<'a> {
    data: team::Scattered<'a, f32>,
    offset: usize,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> ViewMut<'a> {
    /// A matrix `[rows, cols]` whose rows are `stride` apart, starting at element `offset` of
    /// `data`.
    ///
    /// # Errors
    /// If it exceeds `data`, or its rows overlap.
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
    /// If `data` has a different number of elements.
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

    /// Address of an element, for prefetching.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn address(&self, row: usize, col: usize) -> *const f32 {
        self.data.address(self.offset + row * self.stride + col)
    }

    /// `count` elements of a row.
    ///
    /// # Safety
    /// No other live part may overlap this one.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // Exclusive, as the caller guarantees.
    pub(crate) unsafe fn part(&self, row: usize, col: usize, count: usize) -> &mut [f32] {
        assert!(row < self.rows && col <= self.cols && count <= self.cols - col);
        // SAFETY: guaranteed by the caller.
        unsafe { self.data.slice(self.offset + row * self.stride + col, count) }
    }
}

/// An output tile: a target, a position in it, and an epilogue.
pub(super) struct OutputTile<'a> {
    pub target: &'a ViewMut<'a>,
    pub row: usize,
    pub col: usize,
    pub epilogue: Epilogue<'a>,
}

impl OutputTile<'_> {
    /// Columns of the tile that are within the target.
    pub fn width(&self) -> usize {
        NR.min(self.target.cols - self.col)
    }

    /// Prefetches the output tile: strided rows defeat the hardware prefetcher.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn prefetch(&self) {
        for row in (self.row..self.target.rows).take(super::MR) {
            let start = self.target.address(row, self.col);
            for vector in (0..self.width()).step_by(WIDTH) {
                crate::lanes::prefetch_l1(start.wrapping_add(vector));
            }
        }
    }

    /// Applies the epilogue to vector `c` of the tile's row `r` and writes the columns within the
    /// target.
    ///
    /// # Safety
    /// See [`ViewMut::part`].
    #[inline(always)]
    pub unsafe fn write<L: Lanes>(&self, l: L, r: usize, c: usize, sums: L::Floats) {
        let (row, col) = (self.row + r, self.col + c * WIDTH);
        if row >= self.target.rows || col >= self.target.cols {
            return;
        }
        let count = WIDTH.min(self.target.cols - col);
        // SAFETY: guaranteed by the caller.
        let out = unsafe { self.target.part(row, col, count) };
        let mut sums = l.mul(sums, l.splat(self.epilogue.scale));
        if let Some(bias) = self.epilogue.bias {
            sums = l.add(sums, load_padded(l, &bias[col..col + count]));
        }
        match self.epilogue.accumulate {
            Accumulate::Replace => {}
            Accumulate::Add => sums = l.add(sums, load_padded(l, out)),
            Accumulate::AddScaled(factor) => sums = l.add(l.mul(sums, l.splat(factor)), load_padded(l, out)),
        }
        match <&mut [f32; WIDTH]>::try_from(&mut *out) {
            Ok(out) => l.store(sums, out),
            Err(_) => {
                let mut vector = [0.0; WIDTH];
                l.store(sums, &mut vector);
                out.copy_from_slice(&vector[..count]);
            }
        }
    }
}

/// Loads at most sixteen floats, padded with zeros.
#[inline(always)]
fn load_padded<L: Lanes>(l: L, x: &[f32]) -> L::Floats {
    match x.try_into() {
        Ok(x) => l.load(x),
        Err(_) => {
            let mut padded = [0.0; WIDTH];
            padded[..x.len()].copy_from_slice(x);
            l.load(&padded)
        }
    }
}
