//! Decoding weights of a file's blocks, for every format: one weight, or a segment of eight by
//! whole words if the layout allows it, so that neighboring units read neighboring words and a
//! scale is unpacked once for all its weights. The functions of a format are in its file in
//! [`blocks`](crate::blocks).

use super::bytes::SEGMENT;
use crate::blocks::{Quant, quants};
use cubecl::prelude::*;

/// Dispatches to the formats' functions.
macro_rules! dispatch {
    ($($name:ident: $kind:ident $Type:ident in $($module:ident)::+, $gguf:literal, $file:literal, $next:ident;)*) => {
        /// Weight `i` of the block whose first byte is `at`.
        #[cube]
        pub(super) fn weight(words: &[u32], at: usize, i: usize, #[comptime] quant: Quant) -> f32 {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::weight(words, at, i),)*
            }
        }

        /// Decodes a segment of the block whose first byte is `at`.
        #[cube]
        pub(super) fn segment(words: &[u32], at: usize, segment: usize, #[comptime] quant: Quant) -> Array<f32> {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::segment(words, at, segment),)*
            }
        }

        /// Distance between the two halves of a segment.
        const fn distance(quant: Quant) -> usize {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::DISTANCE,)*
            }
        }
    };
}
quants!(dispatch);

/// Weights that whole segments span: a run of segments covers two runs of [`distance`] weights, the
/// first of each with the low bits of some bytes and the second with their high bits.
pub(super) const fn segment_span(quant: Quant) -> usize {
    2 * distance(quant)
}

/// The index in its block of weight `i` of a segment.
#[cube]
pub(super) fn place(segment: usize, i: usize, #[comptime] quant: Quant) -> usize {
    let span = comptime!(segment_span(quant));
    let each = comptime!(segment_span(quant) / SEGMENT);
    span * (segment / each) + 4 * (segment % each) + i % 4 + comptime!(distance(quant)) * (i / 4)
}

/// Defines `segment` by `weight`, in a format whose layout has no other.
macro_rules! segment_by_weight {
    () => {
        /// See [`place`](crate::gpu::decode::place): the weights of a segment are neighbors.
        pub(crate) const DISTANCE: usize = 4;

        #[cube]
        pub(crate) fn segment(words: &[u32], at: usize, segment: usize) -> Array<f32> {
            let mut out = Array::<f32>::new(SEGMENT);
            #[unroll]
            for i in 0..SEGMENT {
                out[i] = weight(words, at, SEGMENT * segment + i);
            }
            out
        }
    };
}
pub(crate) use segment_by_weight;
