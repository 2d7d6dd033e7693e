//! Scales and minima of a tile, for as many rows at once as a vector has lanes.

use super::ROWS;
use super::layout::{Packable, ScaleLayout};

/// Vectors with one 32-bit lane per row.
///
/// All methods must be marked `#[inline(always)]`.
///
/// # Safety
/// For every method: the CPU has the instructions, and pointers are valid for the reads.
pub(super) trait RowLanes {
    /// A float per row.
    type Floats: Copy;
    /// An integer per row.
    type Words: Copy;

    /// Rows per vector.
    const COUNT: usize;
    /// Whether codes that use all eight bits are made signed before multiplication, so that no zero
    /// point is subtracted afterwards.
    const SIGNS: bool;

    /// `x` in every lane.
    unsafe fn splat(x: f32) -> Self::Floats;
    /// Loads f16.
    unsafe fn halves(at: *const u8) -> Self::Floats;
    /// Loads 32-bit integers.
    unsafe fn words(at: *const u8) -> Self::Words;
    /// Loads u16, times sixteen.
    unsafe fn sixteen_shorts(at: *const u8) -> Self::Words;
    /// Loads i8.
    unsafe fn bytes(at: *const u8) -> Self::Words;
    /// `words >> shift & mask`.
    unsafe fn bits(words: Self::Words, shift: usize, mask: i32) -> Self::Words;
    /// `a | b`.
    unsafe fn or(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Converts signed integers to floats.
    unsafe fn floats(words: Self::Words) -> Self::Floats;
    /// `a - b`.
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
}

/// Scales and minima of the rows of a vector.
#[derive(Clone, Copy)]
pub(super) struct RowScales<F> {
    /// Scale of each half of a tile. Formats without half scales set only the first.
    pub scale: [F; 2],
    /// Added per activation, for each half of a tile, if
    /// [`PackedLayout::has_minimum`](super::layout::PackedLayout::has_minimum). Formats without
    /// half scales set only the first.
    pub minimum: [F; 2],
}

/// Whether the codes of a format are made signed on these vectors.
pub(super) const fn restores_sign<L: RowLanes, B: Packable>() -> bool {
    L::SIGNS && B::LAYOUT.fills_bytes()
}

/// Binary logarithm of the zero point of the codes; `None` means it is 0. Accumulators start with
/// the zero point times the negative sum of the activations' codes, which subtracts it in integers.
pub(super) const fn zero_point_shift<L: RowLanes, B: Packable>() -> Option<u32> {
    match B::LAYOUT.zero_point == 0 || restores_sign::<L, B>() {
        true => None,
        false => Some(B::LAYOUT.zero_point.trailing_zeros()),
    }
}

/// Loads the scales of vector `vector` of the sixteen rows, for tile `tile`.
///
/// # Safety
/// The CPU has the instructions, and `header` points to a whole header.
#[inline(always)]
pub(super) unsafe fn row_scales<L: RowLanes, B: Packable>(
    header: *const u8,
    tile: usize,
    vector: usize,
) -> RowScales<L::Floats> {
    // SAFETY: all reads are within the header.
    unsafe {
        // Elements of `size` bytes per row, starting at `offset`.
        let at = |offset: usize, size: usize| header.add(offset + size * L::COUNT * vector);
        let none = L::splat(0.0);
        let d = L::halves(at(0, 2));
        let nones = [none, none];
        let bytes = |offset: usize| L::bytes(at(offset, 1));
        let halves = [2 * tile, 2 * tile + 1];
        let (scale, minimum) = match B::LAYOUT.scales {
            ScaleLayout::Scale => ([d, none], nones),
            ScaleLayout::ScaleAndMinimum => ([d, none], [L::halves(at(2 * ROWS, 2)), none]),
            ScaleLayout::SixBits => {
                let min = L::mul(L::halves(at(2 * ROWS, 2)), six_bits::<L>(header, tile, vector, 1));
                (
                    [L::mul(d, six_bits::<L>(header, tile, vector, 0)), none],
                    [L::sub(none, min), none],
                )
            }
            ScaleLayout::Nibbles => {
                let low = L::bits(L::words(at(2 * ROWS, 4)), 4 * tile, 15);
                let high = L::bits(L::sixteen_shorts(at(6 * ROWS, 2)), 2 * tile, 48);
                let scale = L::sub(L::floats(L::or(low, high)), L::splat(32.0));
                ([L::mul(d, scale), none], nones)
            }
            ScaleLayout::Halves => {
                let scale = |half: usize| L::mul(d, L::floats(bytes(2 * ROWS + ROWS * half)));
                ([scale(halves[0]), scale(halves[1])], nones)
            }
            ScaleLayout::HalfNibblePairs => {
                let dmin = L::halves(at(2 * ROWS, 2));
                let both = |half: usize| bytes(4 * ROWS + ROWS * half);
                let scale = |half: usize| L::mul(d, L::floats(L::bits(both(half), 0, 15)));
                let min = |half: usize| L::sub(none, L::mul(dmin, L::floats(L::bits(both(half), 4, 15))));
                ([scale(halves[0]), scale(halves[1])], [min(halves[0]), min(halves[1])])
            }
            ScaleLayout::HalfSixBits => {
                let scale = |half: usize| {
                    let low = L::bits(bytes(2 * ROWS + ROWS * (half % 8)), 4 * (half / 8), 15);
                    let high = L::bits(bytes(2 * ROWS + ROWS * (8 + half % 4)), 2 * (half / 4), 3);
                    // Integers, exact in floats of this size.
                    let high = L::mul(L::floats(high), L::splat(-16.0));
                    L::mul(d, L::sub(L::sub(L::floats(low), high), L::splat(32.0)))
                };
                ([scale(halves[0]), scale(halves[1])], nones)
            }
        };
        RowScales { scale, minimum }
    }
}

/// The six-bit scales, or the minima if `which` is 1, of a vector of rows; see
/// [`super::layout::six_bits`].
///
/// # Safety
/// See [`row_scales`]; the header has six-bit scales.
#[inline(always)]
unsafe fn six_bits<L: RowLanes>(header: *const u8, tile: usize, vector: usize, which: usize) -> L::Floats {
    // SAFETY: three words of sixteen rows follow the two f16 scales.
    unsafe {
        let word = |word: usize| L::words(header.add(4 * ROWS * (1 + word) + 4 * L::COUNT * vector));
        let by = 8 * (tile % 4);
        let bits = match tile < 4 {
            true => L::bits(word(which), by, 63),
            false => L::or(L::bits(word(2), by + 4 * which, 15), L::bits(word(which), by + 2, 48)),
        };
        L::floats(bits)
    }
}
