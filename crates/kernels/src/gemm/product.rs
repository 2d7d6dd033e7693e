//! GEMM, split into chunks for the thread team.

use super::factor::{Factor, Panels};
use super::microkernel::microkernel;
use super::output::{Epilogue, OutputTile, ViewMut};
use super::{MR, NR};
use crate::isa::Isa;
use crate::scratch::{SLACK, before_line};
use crate::team;
use std::cell::Cell;
use std::ops::Range;

/// Bytes of rhs panels that a chunk holds at once: they stay in the core's own cache during the
/// loop over rows.
const PANEL_BYTES: usize = 256 * 1024;
/// A range of the inner dimension ends at a multiple of the largest quantization block.
const BLOCK: usize = 256;
/// Minimum rows of a chunk, to amortise loading or dequantizing the rhs panels.
const MIN_ROWS: usize = 16 * MR;
/// Chunks per thread, so that all threads end together.
const CHUNKS_PER_THREAD: usize = 6;

/// Packs rhs columns starting at a given one, for a range of the inner dimension: as many panels
/// `[steps][NR]` as the buffer holds. Columns past the last are left unchanged; the second half of
/// a pair past the end is zero.
pub(crate) type Fill<'a, E> = dyn Fn(Range<usize>, usize, &mut [E]) + Sync + 'a;

/// The rhs of a product.
pub(crate) enum Rhs<'a, E> {
    /// Panels packed in advance; see [`super::pack_rhs`].
    Packed(&'a [E]),
    /// Panels packed by each chunk.
    Expand(&'a Fill<'a, E>),
}

/// One of the products that are summed into the target: a segment of the inner dimension.
pub(crate) struct Segment<'a, E> {
    /// See [`super::pack_lhs`].
    pub lhs: &'a [E],
    /// Size of the inner dimension, in elements.
    pub depth: usize,
    pub rhs: Rhs<'a, E>,
}

/// A range of a segment's inner dimension.
struct SegmentRange {
    segment: usize,
    depth: Range<usize>,
}

impl SegmentRange {
    fn steps<E: Factor>(&self) -> Range<usize> {
        self.depth.start / E::DEPTH..self.depth.end.div_ceil(E::DEPTH)
    }
}

/// Ranges whose rhs panels are held at once, per round.
fn rounds<E: Factor>(segments: &[Segment<E>], panels: usize) -> Vec<Vec<SegmentRange>> {
    let most = (PANEL_BYTES / (size_of::<E>() * NR * panels) * E::DEPTH / BLOCK).max(1) * BLOCK;
    let (mut rounds, mut held) = (vec![Vec::new()], 0);
    for (segment, whole) in segments.iter().enumerate() {
        let mut start = 0;
        while start < whole.depth {
            let length = match whole.depth - start {
                rest if held + rest <= most => rest,
                _ => (most - held) / BLOCK * BLOCK,
            };
            if length == 0 {
                rounds.push(Vec::new());
                held = 0;
                continue;
            }
            let depth = start..start + length;
            (start, held) = (depth.end, held + length);
            if let Some(round) = rounds.last_mut() {
                round.push(SegmentRange { segment, depth });
            }
        }
    }
    rounds
}

thread_local! {
    /// Buffer for rhs panels, reused by later chunks.
    static BUFFER: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Writes, or adds, the sum of the segments' products to `target`, with an epilogue. A chunk holds
/// `panels` rhs panels.
pub(crate) fn product<E: Factor>(segments: &[Segment<E>], panels: usize, epilogue: Epilogue, target: &mut ViewMut) {
    // Exclusive until the call returns; chunks share it and write disjoint parts.
    let target = &*target;
    let rounds = rounds(segments, panels);
    let across = target.cols().div_ceil(panels * NR);
    // The split of rows changes no sum, so it may depend on the number of threads.
    let row_chunks = (team::threads() * CHUNKS_PER_THREAD).div_ceil(across.max(1));
    let rows = (target.rows() / row_chunks).max(MIN_ROWS).next_multiple_of(MR);
    let down = target.rows().div_ceil(rows);
    team::run(down * across, &|chunk| {
        let (rows, col) = (
            chunk % down * rows..(chunk % down + 1) * rows,
            chunk / down * panels * NR,
        );
        let chunk = Chunk {
            segments,
            target,
            rows: rows.start..rows.end.min(target.rows()),
            col,
            panels: panels.min((target.cols() - col).div_ceil(NR)),
        };
        let mut buffer = BUFFER.take();
        for (index, round) in rounds.iter().enumerate() {
            chunk.round(
                round,
                if index == 0 { epilogue } else { epilogue.further() },
                &mut buffer,
            );
        }
        BUFFER.set(buffer);
    });
}

/// A range of rows and columns of the target.
struct Chunk<'a, E> {
    segments: &'a [Segment<'a, E>],
    target: &'a ViewMut<'a>,
    rows: Range<usize>,
    col: usize,
    panels: usize,
}

impl<E: Factor> Chunk<'_, E> {
    /// Accumulates the products over some ranges of the inner dimension.
    fn round(&self, ranges: &[SegmentRange], epilogue: Epilogue, buffer: &mut Vec<u32>) {
        let isa = Isa::best();
        let size = |range: &SegmentRange| match self.segments[range.segment].rhs {
            Rhs::Packed(_) => 0,
            Rhs::Expand(_) => self.panels * range.steps::<E>().len() * NR,
        };
        let total: usize = ranges.iter().map(size).sum();
        if buffer.len() < total + SLACK {
            buffer.resize(total + SLACK, 0);
        }
        let first = before_line(buffer);
        let buffer: &mut [E] = bytemuck::cast_slice_mut(&mut buffer[first..][..total]);
        let (mut rest, mut expanded) = (buffer, Vec::with_capacity(ranges.len()));
        for range in ranges {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(size(range));
            rest = others;
            if let Rhs::Expand(fill) = self.segments[range.segment].rhs {
                fill(range.depth.clone(), self.col, own);
            }
            expanded.push(&*own);
        }
        let mut panels = Vec::with_capacity(ranges.len());
        for row in self.rows.clone().step_by(MR) {
            for panel in 0..self.panels {
                panels.clear();
                for (range, expanded) in ranges.iter().zip(&expanded) {
                    panels.push((self.lhs(range, row), self.rhs(range, expanded, panel)));
                }
                let tile = OutputTile {
                    target: self.target,
                    row,
                    col: self.col + panel * NR,
                    epilogue,
                };
                let panels: &Panels<E> = &panels;
                // SAFETY: chunks are disjoint parts of the target.
                unsafe { microkernel(isa, panels, &tile) };
            }
        }
    }

    /// The rhs panel of a range: of the packed panels, or of those in `expanded`.
    fn rhs<'b>(&'b self, range: &SegmentRange, expanded: &'b [E], panel: usize) -> &'b [E] {
        let (segment, steps) = (&self.segments[range.segment], range.steps::<E>());
        let (all, first) = match segment.rhs {
            Rhs::Packed(all) => {
                let of_panel = segment.depth.div_ceil(E::DEPTH);
                (all, (self.col / NR + panel) * of_panel + steps.start)
            }
            Rhs::Expand(_) => (expanded, panel * steps.len()),
        };
        &all[first * NR..][..steps.len() * NR]
    }

    /// The lhs panel of a range.
    fn lhs(&self, range: &SegmentRange, row: usize) -> &[E] {
        let (segment, steps) = (&self.segments[range.segment], range.steps::<E>());
        let first = row / MR * segment.depth.div_ceil(E::DEPTH) + steps.start;
        &segment.lhs[first * MR..][..steps.len() * MR]
    }
}
