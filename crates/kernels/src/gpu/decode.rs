//! Decodes weights of a file's blocks in every format: one weight, or a segment of eight by whole
//! words if the layout allows it, so that neighboring units read neighboring words and a scale is
//! unpacked once for all its weights. The functions of a format are in its file in
//! [`blocks`](crate::blocks).

use super::bytes::SEGMENT;
use crate::blocks::{Quant, quants};
use cubecl::prelude::*;

/// Dispatches to the formats' functions.
macro_rules! dispatch {
    ($($name:ident: $kind:ident $Type:ident in $($module:ident)::+, $gguf:literal, $file:literal, $next:ident;)*) => {
        /// Weight `i` of the block at byte `block`.
        #[cube]
        pub(super) fn weight(words: &[u32], block: usize, i: usize, #[comptime] quant: Quant) -> f32 {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::weight(words, block, i),)*
            }
        }

        /// The weights of a segment of the block at byte `block`.
        #[cube]
        pub(super) fn segment(words: &[u32], block: usize, segment: usize, #[comptime] quant: Quant) -> Array<f32> {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::segment(words, block, segment),)*
            }
        }

        /// Distance in weights between the two halves of a segment.
        const fn distance(quant: Quant) -> usize {
            match quant {
                $(Quant::$name => crate::blocks::$($module)::+::gpu::DISTANCE,)*
            }
        }
    };
}
quants!(dispatch);

/// Weights that a run of segments covers: two runs of [`distance`] weights, the first from the low
/// bits of some bytes and the second from their high bits.
pub(super) const fn segment_span(quant: Quant) -> usize {
    2 * distance(quant)
}

/// The index in the block of weight `i` of a segment.
#[cube]
pub(super) fn weight_index(segment: usize, i: usize, #[comptime] quant: Quant) -> usize {
    let span = comptime!(segment_span(quant));
    let segments_per_span = comptime!(segment_span(quant) / SEGMENT);
    span * (segment / segments_per_span)
        + 4 * (segment % segments_per_span)
        + i % 4
        + comptime!(distance(quant)) * (i / 4)
}

/// Defines `segment` by `weight`, for formats without a segment decoder by words.
macro_rules! segment_by_weight {
    () => {
        /// See [`weight_index`](crate::gpu::decode::weight_index): the weights of a segment are
        /// neighbors.
        pub(crate) const DISTANCE: usize = 4;

        #[cube]
        pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
            let mut out = Array::<f32>::new(SEGMENT);
            #[unroll]
            for i in 0..SEGMENT {
                out[i] = weight(words, block, SEGMENT * segment + i);
            }
            out
        }
    };
}
pub(crate) use segment_by_weight;
