//! Frozen weight matrices, in the file's layout or packed for the CPU.

use crate::blocks::{Float, Quant, with_format};
use crate::gemv::Element;
use crate::isa::Isa;
use crate::packed::{self, Packed, PackedFloats, PackedRows, ROWS};
use crate::shape::{self, Outcome, ShapeError};
use crate::team;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory layout of a matrix's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row by row, as in the file.
    Plain,
    /// Groups of sixteen interleaved rows, then the rows that do not fill a group, as in the file.
    Rows16,
}

/// Bytes of a work chunk of packing or checking.
const BYTES_PER_WORK_CHUNK: usize = 64 * 1024;

/// Version of the packed layout. Increment when the output of [`pack`] changes, so that cached
/// packed weights are not reused.
pub const LAYOUT_VERSION: u32 = 4;

/// Identifier of the layouts that [`pack`] uses on this machine: a digit each for blocks, 16-bit
/// and 32-bit floats, 1 if they are packed, then [`LAYOUT_VERSION`]. Instruction sets that use the
/// same layouts share packed weights.
pub fn layout_id() -> String {
    layout_id_on(Isa::best())
}

fn layout_id_on(isa: Isa) -> String {
    let [blocks, halves, floats] =
        [Quant::Q8_0, Quant::F16, Quant::F32].map(|quant| u8::from(packed::suits(isa, quant)));
    format!("rows{ROWS}-{blocks}{halves}{floats}-{LAYOUT_VERSION}")
}

/// The layout that [`pack`] uses for a matrix on this machine.
pub fn layout(quant: Quant, rows: usize, cols: usize) -> Layout {
    layout_on(Isa::best(), quant, rows, cols)
}

fn layout_on(isa: Isa, quant: Quant, rows: usize, cols: usize) -> Layout {
    if packed::suits(isa, quant) && packed::can_pack(quant, cols) && rows >= ROWS && cols > 0 {
        Layout::Rows16
    } else {
        Layout::Plain
    }
}

/// Packs rows in the file's layout for this machine, if that makes products faster.
///
/// # Errors
/// If `bytes` are not `rows` rows of `cols` weights.
pub fn pack(quant: Quant, rows: usize, cols: usize, bytes: &[u8]) -> Result<(Layout, Vec<u8>), ShapeError> {
    pack_on(Isa::best(), quant, rows, cols, bytes)
}

/// [`pack`] for a given instruction set.
///
/// # Errors
/// See [`pack`].
pub fn pack_on(
    isa: Isa,
    quant: Quant,
    rows: usize,
    cols: usize,
    bytes: &[u8],
) -> Result<(Layout, Vec<u8>), ShapeError> {
    let layout = layout_on(isa, quant, rows, cols);
    let mut out = vec![0; bytes.len()];
    pack_as(layout, quant, rows, cols, bytes, &mut out)?;
    Ok((layout, out))
}

/// [`pack`] into `out`, which has the same length and is zeroed, in the layout that [`layout`]
/// returns. A matrix may be packed in several ranges of rows; all but the last have a multiple of
/// [`ROWS`].
///
/// # Errors
/// See [`pack`]; also if `out` has a different length.
pub fn pack_into(quant: Quant, rows: usize, cols: usize, bytes: &[u8], out: &mut [u8]) -> Result<(), ShapeError> {
    pack_as(layout(quant, rows, cols), quant, rows, cols, bytes, out)
}

fn pack_as(
    layout: Layout,
    quant: Quant,
    rows: usize,
    cols: usize,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(), ShapeError> {
    let matrix = Matrix::new(quant, Layout::Plain, rows, cols, bytes)?;
    shape::length("a packed matrix", out.len(), Some(bytes.len()))?;
    let group_bytes = matrix.row_bytes * ROWS;
    let packed_bytes = match layout {
        Layout::Plain => 0,
        Layout::Rows16 => matrix.groups() * group_bytes,
    };
    out[packed_bytes..].copy_from_slice(&bytes[packed_bytes..]);
    if packed_bytes == 0 {
        return Ok(());
    }
    let size = (BYTES_PER_WORK_CHUNK / group_bytes).max(1) * group_bytes;
    let outcome = Outcome::default();
    team::run_over(&mut out[..packed_bytes], size, &|work_chunk, out| {
        let groups = bytes[work_chunk * size..].chunks_exact(group_bytes);
        for (group, out) in groups.zip(out.chunks_exact_mut(group_bytes)) {
            outcome.note(packed::pack_group(quant, cols, group, out));
        }
    });
    outcome.into_result()
}

/// Returns `true` if all scales of rows of `cols` weights are finite. Bytes after the last whole
/// row are ignored.
pub fn is_finite(quant: Quant, cols: usize, bytes: &[u8]) -> bool {
    let Some(row_bytes) = quant.row_bytes(cols).filter(|row_bytes| *row_bytes > 0) else {
        return true;
    };
    let size = (BYTES_PER_WORK_CHUNK / row_bytes).max(1) * row_bytes;
    let finite = AtomicBool::new(true);
    team::run(bytes.len().div_ceil(size), &|work_chunk| {
        let rows = &bytes[work_chunk * size..];
        if quant.has_bad_scale(&rows[..size.min(rows.len())]) {
            finite.store(false, Ordering::Relaxed);
        }
    });
    finite.into_inner()
}

/// A weight matrix `[rows, cols]`: rows are outputs, columns inputs.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    quant: Quant,
    layout: Layout,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// `bytes` as `rows` rows of `cols` weights.
    ///
    /// # Errors
    /// If the size does not match, or the format has no such layout.
    pub fn new(quant: Quant, layout: Layout, rows: usize, cols: usize, bytes: &'a [u8]) -> Result<Self, ShapeError> {
        let row_bytes = quant
            .row_bytes(cols)
            .ok_or(crate::blocks::BlockError::PartialBlock { quant, weights: cols })?;
        shape::length("the bytes of a weight", bytes.len(), row_bytes.checked_mul(rows))?;
        if layout == Layout::Rows16 && !packed::can_pack(quant, cols) {
            return Err(ShapeError::Layout { quant });
        }
        Ok(Self {
            quant,
            layout,
            rows,
            cols,
            row_bytes,
            bytes,
        })
    }

    /// Storage format.
    pub fn quant(&self) -> Quant {
        self.quant
    }

    /// Number of rows: outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Memory layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of all rows.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The first `rows` rows, rounded down to whole groups; all if there are fewer.
    pub(crate) fn first_rows(mut self, rows: usize) -> Self {
        if rows < self.rows {
            self.rows = rows / ROWS * ROWS;
            self.bytes = &self.bytes[..self.rows * self.row_bytes];
        }
        self
    }

    /// Number of whole groups of sixteen rows.
    fn groups(&self) -> usize {
        self.rows / ROWS
    }

    /// The packed rows of a quantized matrix, which come first; none in the plain layout.
    ///
    /// # Errors
    /// If the matrix is unquantized.
    pub(crate) fn packed(&self) -> Result<Packed<'a>, ShapeError> {
        Packed::new(self.quant, self.cols, self.packed_bytes())
    }

    /// The packed rows of an unquantized matrix of type `E`, which come first.
    pub(crate) fn packed_floats<E: Element + Float>(&self) -> PackedFloats<'a, E> {
        PackedFloats::new(self.cols, self.packed_bytes())
    }

    /// The bytes of the packed rows.
    fn packed_bytes(&self) -> &'a [u8] {
        &self.bytes[..self.packed_rows() * self.row_bytes]
    }

    /// Calls `f` with the packed rows, of which there may be none. The format is dispatched once
    /// for all rows that `f` dequantizes.
    ///
    /// # Errors
    /// Returns the errors of `f`.
    pub(crate) fn with_packed(
        &self,
        f: impl FnOnce(&dyn PackedRows) -> Result<(), ShapeError>,
    ) -> Result<(), ShapeError> {
        with_format!(self.quant,
            float F => f(&self.packed_floats::<F>()),
            block _B => f(&self.packed()?)
        )
    }

    /// Number of packed rows, which come first.
    pub(crate) fn packed_rows(&self) -> usize {
        match self.layout {
            Layout::Plain => 0,
            Layout::Rows16 => self.groups() * ROWS,
        }
    }

    /// The bytes of a range of unpacked rows.
    pub(crate) fn plain_rows(&self, rows: Range<usize>) -> &'a [u8] {
        &self.bytes[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }

    /// Bytes per row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Dequantizes row `row`.
    ///
    /// # Errors
    /// If there is no such row, or `out` has a different length.
    pub fn dequantize_row(&self, row: usize, out: &mut [f32]) -> Result<(), ShapeError> {
        if row >= self.rows {
            return Err(ShapeError::Index {
                what: "a row of a weight",
                index: row,
                count: self.rows,
            });
        }
        if row < self.packed_rows() {
            return self.with_packed(|packed| packed.dequantize_row(row, out));
        }
        Ok(self.quant.dequantize_row(self.plain_rows(row..row + 1), out)?)
    }

    /// Dequantizes columns of row `row`, which is not packed.
    ///
    /// # Errors
    /// If there is no such row, or the columns are not whole blocks of the length of `out`.
    pub(crate) fn dequantize_part(&self, row: usize, cols: Range<usize>, out: &mut [f32]) -> Result<(), ShapeError> {
        let (elements, bytes) = (self.quant.block_elements(), self.quant.block_bytes());
        let byte_range = cols.start / elements * bytes..cols.end / elements * bytes;
        Ok(self
            .quant
            .dequantize_row(&self.plain_rows(row..row + 1)[byte_range], out)?)
    }

    /// Dequantizes a range of rows.
    ///
    /// # Errors
    /// If there are no such rows, or `out` has a different length.
    pub fn dequantize_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), ShapeError> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(ShapeError::Index {
                what: "a row of a weight",
                index: rows.end,
                count: self.rows,
            });
        }
        shape::length("rows in f32", out.len(), rows.len().checked_mul(self.cols))?;
        self.dequantize_to(out, |row| rows.start + row)
    }

    /// Dequantizes the rows `ids`, times `scale`: the embedding lookup, `ggml_get_rows`.
    ///
    /// # Errors
    /// If a row is out of range, or `out` has a different length.
    pub fn gather(&self, ids: &[u32], scale: f32, out: &mut [f32]) -> Result<(), ShapeError> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.rows) {
            return Err(ShapeError::Index {
                what: "a token",
                index: *id as usize,
                count: self.rows,
            });
        }
        shape::length("rows in f32", out.len(), ids.len().checked_mul(self.cols))?;
        self.dequantize_to(out, |row| ids[row] as usize)?;
        if scale != 1.0 {
            out.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(())
    }

    /// Dequantizes row `source(i)` to row `i` of `out`.
    fn dequantize_to(&self, out: &mut [f32], source: impl Fn(usize) -> usize + Sync) -> Result<(), ShapeError> {
        let chunk_rows = crate::norm::rows_per_work_chunk(self.cols);
        let outcome = Outcome::default();
        team::run_over(out, chunk_rows * self.cols, &|work_chunk, out| {
            for (row, out) in out.chunks_exact_mut(self.cols.max(1)).enumerate() {
                outcome.note(self.dequantize_row(source(work_chunk * chunk_rows + row), out));
            }
        });
        outcome.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_with_the_same_layout_share_packed_weights() {
        let pack_quant = |isa, quant: Quant| {
            let bytes: Vec<u8> = (0..quant.row_bytes(32).unwrap() * 16).map(|i| i as u8).collect();
            pack_on(isa, quant, 16, 32, &bytes).unwrap()
        };
        let id_and_packed = |isa| {
            let quants = [Quant::Q8_0, Quant::F16, Quant::F32];
            (layout_id_on(isa), quants.map(|quant| pack_quant(isa, quant)))
        };
        for (a, b) in Isa::available()
            .into_iter()
            .flat_map(|a| Isa::available().into_iter().map(move |b| (a, b)))
        {
            let ((id_a, packed_a), (id_b, packed_b)) = (id_and_packed(a), id_and_packed(b));
            assert_eq!(id_a == id_b, packed_a == packed_b);
        }
    }

    #[test]
    fn is_finite_detects_every_non_finite_float() {
        for quant in [Quant::F32, Quant::F16, Quant::BF16] {
            let size = quant.block_bytes();
            let patterns: Vec<u8> = (0..=u16::MAX)
                .flat_map(|upper| [vec![0; size - 2], upper.to_le_bytes().to_vec()].concat())
                .collect();
            for pattern in patterns.chunks_exact(size) {
                let mut weight = [0.0];
                quant.dequantize_row(pattern, &mut weight).unwrap();
                assert_eq!(
                    is_finite(quant, 1, pattern),
                    weight[0].is_finite(),
                    "{quant} {pattern:?}"
                );
            }
            // A non-finite weight in the last row.
            let mut rows = vec![0; 64 * 1024 * size];
            assert!(is_finite(quant, 32, &rows));
            let end = rows.len();
            rows[end - 2..].fill(0xff);
            assert!(!is_finite(quant, 32, &rows));
        }
    }
}
