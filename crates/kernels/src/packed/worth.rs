//! What the codes of a tile are worth, of as many rows at once as a vector has lanes.

use super::ROWS;
use super::shape::{Head, Packable};

/// A machine's vectors with 32 bits for each of some rows.
///
/// All methods are to be marked `#[inline(always)]`.
///
/// # Safety
/// That of every method: the machine has the instructions, and what is read can be read.
pub(super) trait RowLanes {
    /// A float for each row.
    type Floats: Copy;
    /// A whole number for each row.
    type Words: Copy;

    /// Rows in a vector.
    const COUNT: usize;
    /// Whether codes that take all of a byte get their sign back before they are multiplied, so that nothing comes off afterwards.
    const SIGNS: bool;

    /// `x` in every lane.
    unsafe fn splat(x: f32) -> Self::Floats;
    /// Numbers in f16.
    unsafe fn halves(at: *const u8) -> Self::Floats;
    /// Numbers in 32 bits.
    unsafe fn words(at: *const u8) -> Self::Words;
    /// Sixteen times numbers in 16 bits without sign.
    unsafe fn sixteen_shorts(at: *const u8) -> Self::Words;
    /// Numbers in eight bits with a sign.
    unsafe fn bytes(at: *const u8) -> Self::Words;
    /// The bits of `mask`, after a shift to the right.
    unsafe fn bits(words: Self::Words, shift: usize, mask: i32) -> Self::Words;
    /// Bits of either.
    unsafe fn or(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Whole numbers with a sign as floats.
    unsafe fn floats(words: Self::Words) -> Self::Floats;
    /// `a - b`.
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
}

/// What the codes of some rows are worth.
#[derive(Clone, Copy)]
pub(super) struct Worths<F> {
    /// A step, in each half of a tile. Of formats without halves only the first is set.
    pub scale: [F; 2],
    /// Added for each activation, in each half of a tile, if [`Shape::has_minimum`](super::shape::Shape::has_minimum). Of formats without
    /// halves only the first is set.
    pub minimum: [F; 2],
}

/// Whether the codes of a format get their sign back on these vectors.
pub(super) const fn signed<L: RowLanes, B: Packable>() -> bool {
    L::SIGNS && B::SHAPE.fills_bytes()
}

/// What was added to every code, as a power of two; none where nothing was. Products begin with that times the negative sum of the
/// activations' codes, so that it comes off in whole numbers.
pub(super) const fn excess<L: RowLanes, B: Packable>() -> Option<u32> {
    match B::SHAPE.zero == 0 || signed::<L, B>() {
        true => None,
        false => Some(B::SHAPE.zero.trailing_zeros()),
    }
}

/// Those of vector `vector` of the sixteen rows, in tile `tile` under a head.
///
/// # Safety
/// The machine has the instructions, and `head` is the beginning of a whole head.
#[inline(always)]
pub(super) unsafe fn worths<L: RowLanes, B: Packable>(
    head: *const u8,
    tile: usize,
    vector: usize,
) -> Worths<L::Floats> {
    // SAFETY: all that is read lies within the head.
    unsafe {
        // Numbers of `size` bytes a row, which begin at `place`.
        let at = |place: usize, size: usize| head.add(place + size * L::COUNT * vector);
        let none = L::splat(0.0);
        let d = L::halves(at(0, 2));
        let nones = [none, none];
        let bytes = |place: usize| L::bytes(at(place, 1));
        let halves = [2 * tile, 2 * tile + 1];
        let (scale, minimum) = match B::SHAPE.head {
            Head::Scale => ([d, none], nones),
            Head::ScaleAndMinimum => ([d, none], [L::halves(at(2 * ROWS, 2)), none]),
            Head::SixBits => {
                let least = L::mul(L::halves(at(2 * ROWS, 2)), six_bits::<L>(head, tile, vector, 1));
                (
                    [L::mul(d, six_bits::<L>(head, tile, vector, 0)), none],
                    [L::sub(none, least), none],
                )
            }
            Head::Nibbles => {
                let low = L::bits(L::words(at(2 * ROWS, 4)), 4 * tile, 15);
                let high = L::bits(L::sixteen_shorts(at(6 * ROWS, 2)), 2 * tile, 48);
                let scale = L::sub(L::floats(L::or(low, high)), L::splat(32.0));
                ([L::mul(d, scale), none], nones)
            }
            Head::Halves => {
                let scale = |half: usize| L::mul(d, L::floats(bytes(2 * ROWS + ROWS * half)));
                ([scale(halves[0]), scale(halves[1])], nones)
            }
            Head::HalfNibblePairs => {
                let dmin = L::halves(at(2 * ROWS, 2));
                let both = |half: usize| bytes(4 * ROWS + ROWS * half);
                let scale = |half: usize| L::mul(d, L::floats(L::bits(both(half), 0, 15)));
                let least = |half: usize| L::sub(none, L::mul(dmin, L::floats(L::bits(both(half), 4, 15))));
                (
                    [scale(halves[0]), scale(halves[1])],
                    [least(halves[0]), least(halves[1])],
                )
            }
            Head::HalfSixBits => {
                let scale = |half: usize| {
                    let low = L::bits(bytes(2 * ROWS + ROWS * (half % 8)), 4 * (half / 8), 15);
                    let high = L::bits(bytes(2 * ROWS + ROWS * (8 + half % 4)), 2 * (half / 4), 3);
                    // Whole numbers, which floats of this size hold exactly.
                    let high = L::mul(L::floats(high), L::splat(-16.0));
                    L::mul(d, L::sub(L::sub(L::floats(low), high), L::splat(32.0)))
                };
                ([scale(halves[0]), scale(halves[1])], nones)
            }
        };
        Worths { scale, minimum }
    }
}

/// The six-bit scales, or the minima where `which` is 1, of a vector of rows: see [`super::shape::six_bits`].
///
/// # Safety
/// As [`worths`], and the head has them.
#[inline(always)]
unsafe fn six_bits<L: RowLanes>(head: *const u8, tile: usize, vector: usize, which: usize) -> L::Floats {
    // SAFETY: three words of sixteen rows follow the two scales.
    unsafe {
        let word = |word: usize| L::words(head.add(4 * ROWS * (1 + word) + 4 * L::COUNT * vector));
        let by = 8 * (tile % 4);
        let bits = match tile < 4 {
            true => L::bits(word(which), by, 63),
            false => L::or(L::bits(word(2), by + 4 * which, 15), L::bits(word(which), by + 2, 48)),
        };
        L::floats(bits)
    }
}
