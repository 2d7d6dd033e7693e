//! GEMM, split into work chunks for the thread team.

use super::factor::{Factor, Panels};
use super::microkernel::microkernel;
use super::output::{Epilogue, OutputTile, ViewMut};
use super::{MR, NR};
use crate::isa::Isa;
use crate::scratch::{SLACK, before_line};
use crate::team;
use std::cell::Cell;
use std::ops::Range;

/// Bytes of rhs panels that a work chunk holds at once: they stay in the core's private cache
/// during the loop over rows.
const PANEL_BYTES: usize = 256 * 1024;
/// Ranges of the inner dimension end at a multiple of this: the largest quantization block.
const BLOCK: usize = 256;
/// Minimum rows of a work chunk, to amortize loading or dequantizing the rhs panels.
const MIN_ROWS: usize = 16 * MR;
/// Work chunks per thread: enough for all threads to finish at about the same time.
const WORK_CHUNKS_PER_THREAD: usize = 6;

/// Packs rhs columns from a given one on, for a range of the inner dimension: as many panels
/// `[steps][NR]` as the buffer holds. Columns past the last are left unchanged; if the range ends
/// within a pair, the second element of the pair is zero.
pub(crate) type Fill<'a, E> = dyn Fn(Range<usize>, usize, &mut [E]) + Sync + 'a;

/// The rhs of a product.
pub(crate) enum Rhs<'a, E> {
    /// Panels packed in advance; see [`super::pack_rhs`].
    Packed(&'a [E]),
    /// Panels packed by each work chunk.
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
    /// The factors that contain the range.
    fn steps<E: Factor>(&self) -> Range<usize> {
        self.depth.start / E::DEPTH..self.depth.end.div_ceil(E::DEPTH)
    }
}

/// Splits the inner dimension into passes: ranges whose rhs panels are held at once.
fn split_into_passes<E: Factor>(segments: &[Segment<E>], panels: usize) -> Vec<Vec<SegmentRange>> {
    let max_depth = (PANEL_BYTES / (size_of::<E>() * NR * panels) * E::DEPTH / BLOCK).max(1) * BLOCK;
    let (mut passes, mut pass_depth) = (vec![Vec::new()], 0);
    for (index, segment) in segments.iter().enumerate() {
        let mut start = 0;
        while start < segment.depth {
            let length = match segment.depth - start {
                rest if pass_depth + rest <= max_depth => rest,
                _ => (max_depth - pass_depth) / BLOCK * BLOCK,
            };
            if length == 0 {
                passes.push(Vec::new());
                pass_depth = 0;
                continue;
            }
            let depth = start..start + length;
            (start, pass_depth) = (depth.end, pass_depth + length);
            if let Some(pass) = passes.last_mut() {
                pass.push(SegmentRange { segment: index, depth });
            }
        }
    }
    passes
}

thread_local! {
    /// Buffer for rhs panels, reused by later work chunks.
    static BUFFER: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Writes, or adds, the sum of the segments' products to `target`, with an epilogue. A work chunk
/// holds `panels` rhs panels.
pub(crate) fn product<E: Factor>(segments: &[Segment<E>], panels: usize, epilogue: Epilogue, target: &mut ViewMut) {
    // Exclusive until the call returns; work chunks share it and write disjoint parts.
    let target = &*target;
    let passes = split_into_passes(segments, panels);
    let column_chunks = target.cols().div_ceil(panels * NR);
    // The split of rows changes no sum, so it may depend on the number of threads.
    let desired_row_chunks = (team::threads() * WORK_CHUNKS_PER_THREAD).div_ceil(column_chunks.max(1));
    let rows = (target.rows() / desired_row_chunks).max(MIN_ROWS).next_multiple_of(MR);
    let row_chunks = target.rows().div_ceil(rows);
    team::run(row_chunks * column_chunks, &|index| {
        let (rows, col) = (
            index % row_chunks * rows..(index % row_chunks + 1) * rows,
            index / row_chunks * panels * NR,
        );
        let work_chunk = WorkChunk {
            segments,
            target,
            rows: rows.start..rows.end.min(target.rows()),
            col,
            panels: panels.min((target.cols() - col).div_ceil(NR)),
        };
        let mut buffer = BUFFER.take();
        for (pass, ranges) in passes.iter().enumerate() {
            let epilogue = if pass == 0 { epilogue } else { epilogue.next_pass() };
            work_chunk.run_pass(ranges, epilogue, &mut buffer);
        }
        BUFFER.set(buffer);
    });
}

/// A work chunk: rows of the target, and the columns of some panels.
struct WorkChunk<'a, E> {
    segments: &'a [Segment<'a, E>],
    target: &'a ViewMut<'a>,
    rows: Range<usize>,
    col: usize,
    panels: usize,
}

impl<E: Factor> WorkChunk<'_, E> {
    /// Accumulates the products over ranges of the inner dimension.
    fn run_pass(&self, ranges: &[SegmentRange], epilogue: Epilogue, buffer: &mut Vec<u32>) {
        let isa = Isa::best();
        let expanded_len = |range: &SegmentRange| match self.segments[range.segment].rhs {
            Rhs::Packed(_) => 0,
            Rhs::Expand(_) => self.panels * range.steps::<E>().len() * NR,
        };
        let total: usize = ranges.iter().map(expanded_len).sum();
        if buffer.len() < total + SLACK {
            buffer.resize(total + SLACK, 0);
        }
        let first = before_line(buffer);
        let buffer: &mut [E] = bytemuck::cast_slice_mut(&mut buffer[first..][..total]);
        let (mut rest, mut expanded) = (buffer, Vec::with_capacity(ranges.len()));
        for range in ranges {
            let (of_range, after) = std::mem::take(&mut rest).split_at_mut(expanded_len(range));
            rest = after;
            if let Rhs::Expand(fill) = self.segments[range.segment].rhs {
                fill(range.depth.clone(), self.col, of_range);
            }
            expanded.push(&*of_range);
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
                // SAFETY: work chunks are disjoint parts of the target.
                unsafe { microkernel(isa, panels, &tile) };
            }
        }
    }

    /// The rhs panel of a range: from the packed panels, or from `expanded`.
    fn rhs<'b>(&'b self, range: &SegmentRange, expanded: &'b [E], panel: usize) -> &'b [E] {
        let (segment, steps) = (&self.segments[range.segment], range.steps::<E>());
        let (panels, first_step) = match segment.rhs {
            Rhs::Packed(panels) => {
                let panel_steps = segment.depth.div_ceil(E::DEPTH);
                (panels, (self.col / NR + panel) * panel_steps + steps.start)
            }
            Rhs::Expand(_) => (expanded, panel * steps.len()),
        };
        &panels[first_step * NR..][..steps.len() * NR]
    }

    /// The lhs panel of a range.
    fn lhs(&self, range: &SegmentRange, row: usize) -> &[E] {
        let (segment, steps) = (&self.segments[range.segment], range.steps::<E>());
        let first_step = row / MR * segment.depth.div_ceil(E::DEPTH) + steps.start;
        &segment.lhs[first_step * MR..][..steps.len() * MR]
    }
}
