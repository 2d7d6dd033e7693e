//! Dequantization of frozen weights into rhs panels of a GEMM.
//!
//! Forward multiplies by `W^T`: the columns of a panel are rows of the weight. The gradient of the
//! input multiplies by `W`. Both read the weight as stored and write panels in the order of use, so
//! dequantized weights live only as long as a work chunk.

use crate::blocks::GROUP;
use crate::gemm::{Factor, NR, interleave};
use crate::isa::Isa;
use crate::lanes::on_lanes;
use crate::linear::Linear;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::shape::{Outcome, ShapeError};
use std::ops::Range;

/// Weights of a row that are dequantized at a time: the largest block.
const SPAN: usize = 256;
/// Row stride: [`SPAN`] plus a cache line, because rows a power of two apart would evict each other
/// from the cache.
const STRIDE: usize = SPAN + 16;

on_lanes! {
    /// Packs a row, or a pair of rows, as one step of a panel.
    fn interleave_rows<L>[E: Factor][E](_l; first: &[f32], second: &[f32], out: &mut [E]) {
        for ((first, second), out) in first.iter().zip(second).zip(out) {
            *out = E::from_pair(*first, *second);
        }
    }
}

on_lanes! {
    /// Transposes rows, [`STRIDE`] apart, into columns of a panel.
    fn transpose<L>[E: Factor][E](_l; rows: &[f32], count: usize, length: usize, column: usize, out: &mut [E]) {
        for (step, out) in out.as_chunks_mut::<NR>().0.iter_mut().enumerate() {
            let k = E::DEPTH * step;
            for r in 0..count {
                let row = &rows[r * STRIDE..][..length];
                let second = if E::DEPTH == 2 && k + 1 < length { row[k + 1] } else { 0.0 };
                out[column + r] = E::from_pair(row[k], second);
            }
        }
    }
}

/// A weight times its scale, dequantized on demand.
pub(crate) struct Expand<'a> {
    matrix: Matrix<'a>,
    scale: f32,
}

impl<'a> Expand<'a> {
    /// A linear's weight and scale.
    pub fn new(linear: &Linear<'a>) -> Self {
        Self {
            matrix: linear.weight,
            scale: linear.scale,
        }
    }

    /// Minimum panels per call of [`Expand::inputs`], since an unpacked block is not split.
    pub fn panels(&self) -> usize {
        if self.matrix.packed_rows() == self.matrix.rows() {
            1
        } else {
            self.matrix.quant().block_elements().div_ceil(NR)
        }
    }

    /// Packs panels of `W^T`: columns `depth` of the weight, rows from `first` on.
    pub fn outputs<E: Factor>(&self, depth: Range<usize>, first: usize, out: &mut [E], outcome: &Outcome) {
        let size = depth.len().div_ceil(E::DEPTH) * NR;
        for (panel, out) in out.chunks_exact_mut(size.max(1)).enumerate() {
            for column in [0, ROWS] {
                let first = first + panel * NR + column;
                if first + ROWS <= self.matrix.packed_rows() {
                    outcome.note(self.packed_outputs(depth.clone(), first / ROWS, column, out));
                } else if first < self.matrix.rows() {
                    outcome.note(self.plain_outputs(depth.clone(), first, column, out));
                }
            }
        }
    }

    /// [`Expand::outputs`] of group `group` of packed rows, to sixteen columns of a panel from
    /// `column` on.
    fn packed_outputs<E: Factor>(
        &self,
        depth: Range<usize>,
        group: usize,
        column: usize,
        out: &mut [E],
    ) -> Result<(), ShapeError> {
        let (isa, first) = (Isa::best(), depth.start / GROUP);
        let mut columns = [[0.0; ROWS]; GROUP];
        self.matrix.with_packed(|packed| {
            for (tile, out) in out.chunks_exact_mut(GROUP / E::DEPTH * NR).enumerate() {
                packed.tile_columns(isa, [group, first + tile], self.scale, &mut columns);
                interleave(isa, &columns, column, out);
            }
            Ok(())
        })
    }

    /// [`Expand::outputs`] of up to sixteen unpacked rows, to the columns of a panel from `column`
    /// on.
    fn plain_outputs<E: Factor>(
        &self,
        depth: Range<usize>,
        first: usize,
        column: usize,
        out: &mut [E],
    ) -> Result<(), ShapeError> {
        let count = ROWS.min(self.matrix.rows() - first);
        let mut rows = [0.0; ROWS * STRIDE];
        for (start, out) in depth.clone().step_by(SPAN).zip(out.chunks_mut(SPAN / E::DEPTH * NR)) {
            let span = start..depth.end.min(start + SPAN);
            for r in 0..count {
                let row = &mut rows[r * STRIDE..][..span.len()];
                self.matrix.dequantize_part(first + r, span.clone(), row)?;
                self.apply_scale(row);
            }
            transpose(Isa::best(), &rows, count, span.len(), column, out);
        }
        Ok(())
    }

    /// Packs panels of `W`: rows `depth` of the weight, columns from `first` on.
    pub fn inputs<E: Factor>(&self, depth: Range<usize>, first: usize, out: &mut [E], outcome: &Outcome) {
        let packed_end = self.matrix.packed_rows().clamp(depth.start, depth.end);
        let steps = depth.len().div_ceil(E::DEPTH);
        for (panel, out) in out.chunks_exact_mut((steps * NR).max(1)).enumerate() {
            let tile = first / GROUP + panel;
            outcome.note(self.packed_inputs(depth.start..packed_end, tile, out));
        }
        if packed_end < depth.end {
            let from = (packed_end - depth.start) / E::DEPTH;
            outcome.note(self.plain_inputs(packed_end..depth.end, first, from, steps, out));
        }
    }

    /// [`Expand::inputs`] of packed rows, for the panel of tile `tile`.
    fn packed_inputs<E: Factor>(&self, rows: Range<usize>, tile: usize, out: &mut [E]) -> Result<(), ShapeError> {
        if rows.is_empty() {
            return Ok(());
        }
        let isa = Isa::best();
        let groups = rows.start / ROWS..rows.end / ROWS;
        let mut expanded = [[0.0; GROUP]; ROWS];
        self.matrix.with_packed(|packed| {
            for (group, out) in groups.zip(out.chunks_exact_mut(ROWS / E::DEPTH * NR)) {
                packed.tile_rows(isa, [group, tile], self.scale, &mut expanded);
                interleave(isa, &expanded, 0, out);
            }
            Ok(())
        })
    }

    /// [`Expand::inputs`] of unpacked rows, from step `from` of each panel on.
    fn plain_inputs<E: Factor>(
        &self,
        rows: Range<usize>,
        first: usize,
        from: usize,
        steps: usize,
        out: &mut [E],
    ) -> Result<(), ShapeError> {
        let (isa, panels) = (Isa::best(), out.len() / (steps * NR));
        let cols = first..self.matrix.cols().min(first + panels * NR);
        let mut pair = [vec![0.0; cols.len()], vec![0.0; cols.len()]];
        for (step, row) in rows.clone().step_by(E::DEPTH).enumerate() {
            for (i, weights) in pair.iter_mut().enumerate().take(E::DEPTH) {
                if row + i < rows.end {
                    self.matrix.dequantize_part(row + i, cols.clone(), weights)?;
                    self.apply_scale(weights);
                } else {
                    weights.fill(0.0);
                }
            }
            let panel_rows = pair[0].chunks(NR).zip(pair[E::DEPTH - 1].chunks(NR));
            for (panel, (first, second)) in panel_rows.enumerate() {
                let out = &mut out[(panel * steps + from + step) * NR..][..first.len()];
                interleave_rows(isa, first, second, out);
            }
        }
        Ok(())
    }

    /// Multiplies dequantized weights by the scale.
    fn apply_scale(&self, row: &mut [f32]) {
        if self.scale != 1.0 {
            row.iter_mut().for_each(|x| *x *= self.scale);
        }
    }
}
