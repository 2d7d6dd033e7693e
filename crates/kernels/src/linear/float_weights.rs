//! Products of unquantized weights (F16, BF16, F32) with activations in f32.
//!
//! Packed rows are multiplied by [`super::float_groups`], rows as stored by [`super::f32_dot`].

use super::f32_dot::{self, Rows};
use super::float_groups::{self, TokenPanels};
use crate::blocks::{Float, with_format};
use crate::gemv::Element;
use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::packed::ROWS;
use crate::shape::ShapeError;
use std::ops::Range;

/// Rows of activations, and the same rows packed into panels.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub rows: &'a [f32],
    /// `None` if the weight has no packed rows.
    pub panels: Option<&'a TokenPanels>,
}

/// Products of rows of an unquantized weight with tokens. Calls `sink(token, row, results)` with up
/// to sixteen results. `rows` begins at the start of a group, and ends at the end of a group or of
/// the weight.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: Input,
    tokens: Range<usize>,
    sink: impl FnMut(usize, usize, &[f32]),
) -> Result<(), ShapeError> {
    with_format!(matrix.quant(),
        float F => {
            product_of::<F>(isa, matrix, rows, x, tokens, sink);
            Ok(())
        },
        block _B => Err(ShapeError::Layout { quant: matrix.quant() })
    )
}

/// [`product`] for one element type.
fn product_of<E: Element + Float>(
    isa: Isa,
    matrix: &Matrix,
    rows: Range<usize>,
    x: Input,
    tokens: Range<usize>,
    mut sink: impl FnMut(usize, usize, &[f32]),
) {
    let packed_end = matrix.packed_rows().clamp(rows.start, rows.end);
    if let Some(panels) = x.panels {
        let (packed, groups) = (matrix.packed_floats::<E>(), rows.start / ROWS..packed_end / ROWS);
        float_groups::product(
            isa,
            &packed,
            groups,
            panels,
            tokens.clone(),
            &mut |token, group, results| {
                sink(token, group * ROWS, results);
            },
        );
    }
    let cols = matrix.cols();
    let x = Rows::packed(&x.rows[tokens.start * cols..tokens.end * cols], tokens.len(), cols);
    for first in (packed_end..rows.end).step_by(ROWS) {
        let strip = first..rows.end.min(first + ROWS);
        let stored = bytemuck::cast_slice::<u8, E>(matrix.plain_rows(strip.clone()));
        let weights = Rows::packed(stored, strip.len(), cols);
        f32_dot::products(isa, weights, x, &mut |token, results| {
            sink(tokens.start + token, first, results)
        });
    }
}
