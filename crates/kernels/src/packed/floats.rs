//! Unquantized weights packed for the CPU: `[group][column][row]`, with sixteen rows to a group.
//!
//! A lane is a row, as with packed blocks. So results need no horizontal sum, and products with one
//! token and with many are summed in the same order without transposing weights.

use super::{PackedRows, ROWS};
use crate::blocks::{Float, GROUP};
use crate::gemv::Element;
use crate::isa::Isa;
use crate::lanes::{WIDTH, on_lanes};
use crate::shape::{self, ShapeError};
use bytemuck::Pod;

/// Packs sixteen rows of elements into `packed`, which has the same length.
pub(super) fn pack<E: Pod>(rows: &[u8], packed: &mut [u8]) {
    let (rows, packed) = (
        bytemuck::cast_slice::<u8, E>(rows),
        bytemuck::cast_slice_mut::<u8, E>(packed),
    );
    let cols = rows.len() / ROWS;
    let rows: [&[E]; ROWS] = std::array::from_fn(|row| &rows[row * cols..][..cols]);
    for (column, out) in packed.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        for (out, row) in out.iter_mut().zip(rows) {
            *out = row[column];
        }
    }
}

/// Whole groups of sixteen packed rows of unquantized weights.
#[derive(Clone, Copy)]
pub(crate) struct PackedFloats<'a, E> {
    elements: &'a [[E; ROWS]],
    cols: usize,
}

impl<'a, E: Element + Float> PackedFloats<'a, E> {
    /// `bytes` as groups of rows of `cols` elements. Bytes after the last whole group are ignored.
    pub fn new(cols: usize, bytes: &'a [u8]) -> Self {
        let elements = bytemuck::cast_slice(bytes).as_chunks().0;
        Self { elements, cols }
    }

    /// Number of groups.
    fn groups(&self) -> usize {
        self.elements.len().checked_div(self.cols).unwrap_or(0)
    }

    /// The columns of a group. Panics if it is out of range.
    pub fn group(&self, group: usize) -> &'a [[E; ROWS]] {
        &self.elements[group * self.cols..][..self.cols]
    }

    /// The columns of a tile of a group. Panics if either index is out of range.
    fn tile(&self, [group, tile]: [usize; 2]) -> &'a [[E; ROWS]] {
        &self.group(group)[tile * GROUP..][..GROUP]
    }
}

impl<E: Element + Float> PackedRows for PackedFloats<'_, E> {
    fn dequantize_row(&self, row: usize, out: &mut [f32]) -> Result<(), ShapeError> {
        shape::length("a row in f32", out.len(), Some(self.cols))?;
        super::check_row(row, self.groups() * ROWS)?;
        for (out, column) in out.iter_mut().zip(self.group(row / ROWS)) {
            *out = Float::to_f32(column[row % ROWS]);
        }
        Ok(())
    }

    fn tile_columns(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        columns(isa, self.tile(group_and_tile), scale, out);
    }

    fn tile_rows(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        rows(isa, self.tile(group_and_tile), scale, out);
    }
}

on_lanes! {
    /// See [`PackedRows::tile_columns`].
    fn columns<L>[E: Element][E](l; tile: &[[E; ROWS]], scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        let scale = l.splat(scale);
        for (column, out) in tile.iter().zip(out) {
            l.store(l.mul(E::load(l, column), scale), out);
        }
    }
}

on_lanes! {
    /// See [`PackedRows::tile_rows`].
    fn rows<L>[E: Element][E](l; tile: &[[E; ROWS]], scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        const { assert!(ROWS == WIDTH) };
        let scale = l.splat(scale);
        for (half, columns) in tile.as_chunks::<WIDTH>().0.iter().enumerate() {
            let mut vectors = [l.splat(0.0); WIDTH];
            for (vector, column) in vectors.iter_mut().zip(columns) {
                *vector = l.mul(E::load(l, column), scale);
            }
            for (row, out) in l.transpose(vectors).into_iter().zip(&mut *out) {
                if let Some(out) = out[half * WIDTH..].first_chunk_mut() {
                    l.store(row, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Bf16, F32, Fp16};
    use crate::reference::noise;

    fn check_packed_rows<E: Element + Float>() {
        let cols = 3 * GROUP;
        let rows: Vec<E> = noise(1, ROWS * cols).into_iter().map(E::from_f32).collect();
        let widened: Vec<f32> = rows.iter().map(|x| Float::to_f32(*x)).collect();
        let mut packed = vec![0; size_of_val(&rows[..])];
        pack::<E>(bytemuck::cast_slice(&rows), &mut packed);
        let weight = PackedFloats::<E>::new(cols, &packed);
        let mut row = vec![0.0; cols];
        for (r, expected) in widened.chunks(cols).enumerate() {
            weight.dequantize_row(r, &mut row).unwrap();
            assert_eq!(row, expected);
        }
        let (mut columns, mut rows) = ([[0.0; ROWS]; GROUP], [[0.0; GROUP]; ROWS]);
        for (isa, tile) in Isa::available()
            .into_iter()
            .flat_map(|isa| (0..3).map(move |tile| (isa, tile)))
        {
            weight.tile_columns(isa, [0, tile], 2.0, &mut columns);
            weight.tile_rows(isa, [0, tile], 2.0, &mut rows);
            for (r, c) in (0..ROWS).flat_map(|r| (0..GROUP).map(move |c| (r, c))) {
                let expected = 2.0 * widened[r * cols + tile * GROUP + c];
                assert_eq!(
                    [columns[c][r], rows[r][c]],
                    [expected; 2],
                    "{isa:?}, row {r}, column {c}"
                );
            }
        }
    }

    #[test]
    fn floats_keep_their_values_when_packed() {
        check_packed_rows::<F32>();
        check_packed_rows::<Fp16>();
        check_packed_rows::<Bf16>();
    }
}
