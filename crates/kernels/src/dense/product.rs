//! A product cut into chunks for the team.

use super::factor::Factor;
use super::target::{Finish, Place, Target};
use super::tile::{Parts, tile};
use super::{TALL, WIDE};
use crate::dot::Isa;
use crate::scratch::{SLACK, before_line};
use crate::team;
use std::cell::Cell;
use std::ops::Range;

/// Bytes of the right-hand columns that a chunk holds at once: they stay in a core's own cache while all rows pass by.
const PANEL: usize = 256 * 1024;
/// A piece of the common dimension ends at a multiple of the largest block.
const BLOCK: usize = 256;
/// Rows below which a chunk is not cut: what it takes to fetch or expand the right-hand columns is spread over them.
const LEAST_ROWS: usize = 16 * TALL;
/// Chunks that each thread should get, so that all end together.
const CHUNKS_A_THREAD: usize = 6;

/// Writes the right-hand columns from a first one on, for a range of the common dimension: as many panels `[steps][WIDE]` as fit.
/// Columns past the last are left alone; half a pair past the end is zero.
pub(crate) type Fill<'a, E> = dyn Fn(Range<usize>, usize, &mut [E]) + Sync + 'a;

/// A right-hand factor.
pub(crate) enum Wide<'a, E> {
    /// Panels made before; see [`super::pack_wide`].
    Ready(&'a [E]),
    /// Panels made where they are needed.
    Expand(&'a Fill<'a, E>),
}

/// One of the products that a result is the sum of.
pub(crate) struct Segment<'a, E> {
    /// See [`super::pack_tall`].
    pub talls: &'a [E],
    /// The common dimension, in numbers.
    pub depth: usize,
    pub wide: Wide<'a, E>,
}

/// A piece of a segment's common dimension.
struct Piece {
    segment: usize,
    depth: Range<usize>,
}

impl Piece {
    fn steps<E: Factor>(&self) -> Range<usize> {
        self.depth.start / E::DEPTH..self.depth.end.div_ceil(E::DEPTH)
    }
}

/// Pieces that are held at once, round after round.
fn rounds<E: Factor>(segments: &[Segment<E>], panels: usize) -> Vec<Vec<Piece>> {
    let most = (PANEL / (size_of::<E>() * WIDE * panels) * E::DEPTH / BLOCK).max(1) * BLOCK;
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
                round.push(Piece { segment, depth });
            }
        }
    }
    rounds
}

thread_local! {
    /// Room for panels, kept between chunks.
    static ROOM: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// `target` becomes, or grows by, the sum of the segments' products, finished. A chunk holds `panels` times [`WIDE`] columns.
pub(crate) fn product<E: Factor>(segments: &[Segment<E>], panels: usize, finish: Finish, target: &mut Target) {
    // Exclusive until the end of the call: chunks share it, and write disjoint parts.
    let target = &*target;
    let rounds = rounds(segments, panels);
    let across = target.cols().div_ceil(panels * WIDE);
    // How rows are cut changes no sum, so it may depend on the number of threads.
    let wanted = (team::threads() * CHUNKS_A_THREAD).div_ceil(across.max(1));
    let rows = (target.rows() / wanted).max(LEAST_ROWS).next_multiple_of(TALL);
    let down = target.rows().div_ceil(rows);
    team::run(down * across, &|chunk| {
        let (rows, col) = (
            chunk % down * rows..(chunk % down + 1) * rows,
            chunk / down * panels * WIDE,
        );
        let chunk = Chunk {
            segments,
            target,
            rows: rows.start..rows.end.min(target.rows()),
            col,
            panels: panels.min((target.cols() - col).div_ceil(WIDE)),
        };
        let mut room = ROOM.take();
        for (number, round) in rounds.iter().enumerate() {
            chunk.round(round, if number == 0 { finish } else { finish.further() }, &mut room);
        }
        ROOM.set(room);
    });
}

/// Some rows and columns of a product.
struct Chunk<'a, E> {
    segments: &'a [Segment<'a, E>],
    target: &'a Target<'a>,
    rows: Range<usize>,
    col: usize,
    panels: usize,
}

impl<E: Factor> Chunk<'_, E> {
    /// Adds up some pieces.
    fn round(&self, pieces: &[Piece], finish: Finish, room: &mut Vec<u32>) {
        let isa = Isa::best();
        let size = |piece: &Piece| match self.segments[piece.segment].wide {
            Wide::Ready(_) => 0,
            Wide::Expand(_) => self.panels * piece.steps::<E>().len() * WIDE,
        };
        let total: usize = pieces.iter().map(size).sum();
        if room.len() < total + SLACK {
            room.resize(total + SLACK, 0);
        }
        let first = before_line(room);
        let room: &mut [E] = bytemuck::cast_slice_mut(&mut room[first..][..total]);
        let (mut rest, mut expanded) = (room, Vec::with_capacity(pieces.len()));
        for piece in pieces {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(size(piece));
            rest = others;
            if let Wide::Expand(fill) = self.segments[piece.segment].wide {
                fill(piece.depth.clone(), self.col, own);
            }
            expanded.push(&*own);
        }
        let mut parts = Vec::with_capacity(pieces.len());
        for row in self.rows.clone().step_by(TALL) {
            for panel in 0..self.panels {
                parts.clear();
                for (piece, expanded) in pieces.iter().zip(&expanded) {
                    parts.push((self.tall(piece, row), self.wide(piece, expanded, panel)));
                }
                let place = Place {
                    target: self.target,
                    row,
                    col: self.col + panel * WIDE,
                    finish,
                };
                let parts: &Parts<E> = &parts;
                // SAFETY: chunks are disjoint parts of the target.
                unsafe { tile(isa, parts, &place) };
            }
        }
    }

    /// The wide tile of a piece, which may lie in what was expanded.
    fn wide<'b>(&'b self, piece: &Piece, expanded: &'b [E], panel: usize) -> &'b [E] {
        let (segment, steps) = (&self.segments[piece.segment], piece.steps::<E>());
        let (all, first) = match segment.wide {
            Wide::Ready(all) => {
                let of_panel = segment.depth.div_ceil(E::DEPTH);
                (all, (self.col / WIDE + panel) * of_panel + steps.start)
            }
            Wide::Expand(_) => (expanded, panel * steps.len()),
        };
        &all[first * WIDE..][..steps.len() * WIDE]
    }

    /// The tall tile of a piece.
    fn tall(&self, piece: &Piece, row: usize) -> &[E] {
        let (segment, steps) = (&self.segments[piece.segment], piece.steps::<E>());
        let first = row / TALL * segment.depth.div_ceil(E::DEPTH) + steps.start;
        &segment.talls[first * TALL..][..steps.len() * TALL]
    }
}
