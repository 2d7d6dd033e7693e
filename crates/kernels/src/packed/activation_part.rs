//! Activations as memory operands.

use super::Starts;
use super::layout::Packable;
use crate::blocks::{GROUP, QK_K};
use crate::gemv::ActivationChunk;
use crate::lanes::opaque;
use std::marker::PhantomData;
use std::mem::offset_of;

/// One part (32 columns) of the activations of `K` tokens, read through raw addresses.
///
/// All reads are at constant offsets from three addresses, each in its own register. With an
/// indexed address (base plus index), Intel's CPUs split the load from the instruction that uses it
/// (un-lamination), and the kernel is bound by the number of micro-operations.
pub(super) struct ActivationPart<'a, const K: usize> {
    /// Address of the part's codes.
    codes: *const u8,
    /// Address of the first [`ActivationChunk`] plus 4 bytes per part. Adding the offset of a field
    /// with one element per part gives the address of the part's element.
    by_part: *const u8,
    /// The same with 8 bytes per part, for fields with one element per half of a part.
    by_half: *const u8,
    /// Address of the part's starts of the first token; null without starts.
    starts: *const u8,
    borrowed: PhantomData<(&'a [ActivationChunk; K], &'a [Starts; K])>,
}

impl<'a, const K: usize> ActivationPart<'a, K> {
    /// Part `part` of the activations, and of the starts if there are any, of `K` tokens. Panics if
    /// it is out of range.
    #[inline(always)]
    pub fn new(activations: &'a [ActivationChunk; K], starts: Option<&'a [Starts; K]>, part: usize) -> Self {
        assert!(part < QK_K / GROUP, "a chunk has {} parts", QK_K / GROUP);
        let address = |offset: usize| opaque(activations.as_ptr().cast::<u8>().wrapping_add(offset));
        Self {
            codes: address(offset_of!(ActivationChunk, values) + GROUP * part),
            by_part: address(4 * part),
            by_half: address(8 * part),
            starts: starts.map_or(std::ptr::null(), |starts| {
                opaque(starts.as_ptr().cast::<u8>().wrapping_add(8 * part))
            }),
            borrowed: PhantomData,
        }
    }

    /// The same part behind new opaque addresses, so that the compiler loads values again.
    #[inline(always)]
    pub fn opaque(&self) -> Self {
        Self {
            codes: opaque(self.codes),
            by_part: opaque(self.by_part),
            by_half: opaque(self.by_half),
            ..*self
        }
    }

    /// The 32 bits of token `token` that are at `base + offset` for the first token.
    ///
    /// # Safety
    /// `base` is an address of this `ActivationPart` in the activations, and `base + offset` is the
    /// address of a 4-byte aligned value in the first token's [`ActivationChunk`].
    #[inline(always)]
    unsafe fn word(&self, base: *const u8, token: usize, offset: usize) -> i32 {
        assert!(token < K);
        // SAFETY: the caller ensures this for the first token. The activations of the `K` tokens
        // are adjacent, equally aligned, and borrowed for `'a`.
        unsafe {
            base.add(token * size_of::<ActivationChunk>() + offset)
                .cast::<i32>()
                .read()
        }
    }

    /// Initial value of the accumulators, for half `half` of the columns if the format has half
    /// scales. Panics without starts.
    #[inline(always)]
    pub fn start(&self, token: usize, half: usize) -> i32 {
        assert!(token < K && half < 2 && !self.starts.is_null());
        // SAFETY: `starts` is the address of the first of two starts of the part; the starts of the
        // next token are `size_of::<Starts>()` bytes further. They are borrowed for `'a`.
        unsafe {
            self.starts
                .add(token * size_of::<Starts>() + 4 * half)
                .cast::<i32>()
                .read()
        }
    }

    /// The codes of columns `4 v..4 v + 4` of the part; `v` is below 8.
    #[inline(always)]
    pub fn four_codes(&self, token: usize, v: usize) -> i32 {
        assert!(v < GROUP / 4);
        // SAFETY: a part has 32 codes.
        unsafe { self.word(self.codes, token, 4 * v) }
    }

    /// The bits of the scale.
    #[inline(always)]
    pub fn scale_bits(&self, token: usize) -> i32 {
        // SAFETY: `scales` has an element per part.
        unsafe { self.word(self.by_part, token, offset_of!(ActivationChunk, scales)) }
    }

    /// The bits of the [`activation_sum`](super::scales::activation_sum).
    #[inline(always)]
    pub fn sum_bits<B: Packable>(&self, token: usize, half: usize) -> i32 {
        assert!(half < 2);
        // SAFETY: `sums` has an element per part, and `half_sums` two.
        unsafe {
            if B::LAYOUT.halves() {
                self.word(self.by_half, token, offset_of!(ActivationChunk, half_sums) + 4 * half)
            } else {
                self.word(self.by_part, token, offset_of!(ActivationChunk, sums))
            }
        }
    }
}
