//! Where the parts of packed rows lie.

use super::ROWS;
use crate::blocks::{
    Block, GROUP, Group, Half, Iq4Nl, Iq4Xs, LEVELS, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Quant,
};

/// Runs a body with the type that stores a format which can be packed, or another for those that cannot.
macro_rules! with_packable {
    ($quant:expr, $B:ident => $body:expr, else $other:expr) => {{
        use $crate::blocks as b;
        macro_rules! body {
            ($T:ty) => {{
                type $B = $T;
                $body
            }};
        }
        match $quant {
            b::Quant::Q4_0 => body!(b::Q4_0),
            b::Quant::Q4_1 => body!(b::Q4_1),
            b::Quant::Q5_0 => body!(b::Q5_0),
            b::Quant::Q5_1 => body!(b::Q5_1),
            b::Quant::Q8_0 => body!(b::Q8_0),
            b::Quant::Q2_K => body!(b::Q2K),
            b::Quant::Q3_K => body!(b::Q3K),
            b::Quant::Q4_K => body!(b::Q4K),
            b::Quant::Q5_K => body!(b::Q5K),
            b::Quant::Q6_K => body!(b::Q6K),
            b::Quant::IQ4_NL => body!(b::Iq4Nl),
            b::Quant::IQ4_XS => body!(b::Iq4Xs),
            _ => $other,
        }
    }};
}
pub(super) use with_packable;

/// What stands before the codes of sixteen blocks, so that a vector has the same number of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// Sixteen scales in f16.
    Scale,
    /// Sixteen scales and sixteen minima in f16.
    ScaleAndMinimum,
    /// Sixteen scales of the scales and sixteen of the minima in f16; then the three words of each row's six-bit numbers (see
    /// [`SixBits`](crate::blocks::SixBits)), first words first.
    SixBits,
    /// Sixteen scales of the scales in f16; then for each row a word of the scales' lower four bits, the first tile's lowest; then for
    /// each row sixteen bits of their upper two.
    Nibbles,
    /// Sixteen scales of the scales in f16; then, for each half tile, sixteen scales in eight bits.
    Halves,
    /// Sixteen scales of the scales and sixteen of the minima in f16; then, for each half tile, sixteen bytes: a scale in the low nibble, a
    /// minimum in the high one.
    HalfNibblePairs,
    /// Sixteen scales of the scales in f16; then twelve times sixteen bytes: of each row the twelve that hold a six-bit scale for each
    /// half tile as Q3_K has them.
    HalfSixBits,
}

impl Head {
    pub const fn bytes(self) -> usize {
        match self {
            Head::Scale => 2 * ROWS,
            Head::ScaleAndMinimum => 4 * ROWS,
            Head::SixBits => 4 * ROWS + 12 * ROWS,
            Head::Nibbles => 2 * ROWS + 4 * ROWS + 2 * ROWS,
            Head::Halves => 2 * ROWS + 16 * ROWS,
            Head::HalfNibblePairs => 4 * ROWS + 16 * ROWS,
            Head::HalfSixBits => 2 * ROWS + 12 * ROWS,
        }
    }

    /// Tiles that share it: groups of 32 weights in a block.
    pub const fn tiles(self) -> usize {
        match self {
            Head::Scale | Head::ScaleAndMinimum => 1,
            Head::SixBits | Head::Nibbles | Head::Halves | Head::HalfNibblePairs | Head::HalfSixBits => 8,
        }
    }
}

/// What sixteen packed blocks of a format look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub head: Head,
    /// Bits of a code.
    pub bits: usize,
    /// What was added to a code, or to the level that it numbers, so that it has no sign: a power of two, or nothing.
    pub zero: u8,
    /// Whether codes number [`LEVELS`].
    pub levels: bool,
}

impl Shape {
    /// That of a format; none where it cannot be packed.
    pub const fn of(quant: Quant) -> Option<Self> {
        with_packable!(quant, B => Some(B::SHAPE), else None)
    }

    /// Whether sixteen weights share a scale, instead of 32.
    pub const fn halves(self) -> bool {
        matches!(self.head, Head::Halves | Head::HalfNibblePairs | Head::HalfSixBits)
    }

    /// What a code stands for, its sign regained.
    #[inline(always)]
    pub fn centred(self, code: u8) -> i32 {
        match self.levels {
            true => i32::from(LEVELS[usize::from(code & 0x0f)]),
            false => i32::from(code) - i32::from(self.zero),
        }
    }

    /// Whether more than a scale belongs to a weight.
    pub const fn has_minimum(self) -> bool {
        matches!(self.head, Head::ScaleAndMinimum | Head::SixBits | Head::HalfNibblePairs)
    }

    /// Whether codes, or the levels that they number, take all eight bits of a byte.
    pub const fn fills_bytes(self) -> bool {
        self.bits == 8 || self.levels
    }

    /// Bytes of single bits of codes of three and five, which come first in a tile.
    pub const fn bit_bytes(self) -> usize {
        match self.bits {
            3 | 5 => ROWS * GROUP / 8,
            _ => 0,
        }
    }

    /// Bytes of pairs of bits, which come next: all of codes of two, the lower bits of three, the upper ones of six.
    pub const fn pair_bytes(self) -> usize {
        match self.bits {
            2 | 3 | 6 => ROWS * GROUP / 4,
            _ => 0,
        }
    }

    /// Bytes before nibbles or bytes of codes.
    pub const fn upper_bytes(self) -> usize {
        self.bit_bytes() + self.pair_bytes()
    }

    /// Bytes of the codes of a tile.
    pub const fn tile_bytes(self) -> usize {
        self.upper_bytes()
            + match self.bits {
                8 => ROWS * GROUP,
                4..=6 => ROWS * GROUP / 2,
                _ => 0,
            }
    }

    /// Where the codes of a tile begin in sixteen blocks.
    pub const fn tile_at(self, tile: usize) -> usize {
        self.head.bytes() + tile * self.tile_bytes()
    }

    /// Bytes of sixteen blocks.
    pub const fn bytes(self) -> usize {
        self.tile_at(self.head.tiles())
    }
}

/// A format that can be packed.
pub(super) trait Packable: Block {
    const SHAPE: Shape;

    /// Writes the scales of the block to their places of row `row` in a head.
    fn put_head(&self, row: usize, head: &mut [u8]);

    /// The codes of 32 weights, without sign.
    fn codes(&self, group: &Group) -> [u8; GROUP] {
        match Self::SHAPE.levels {
            true => group.codes.map(|level| NUMBERS[usize::from(level as u8)]),
            false => group.codes.map(|code| (code as u8).wrapping_add(Self::SHAPE.zero)),
        }
    }
}

/// The number of each level.
const NUMBERS: [u8; 256] = {
    let mut numbers = [0; 256];
    let mut code = 0;
    while code < 16 {
        numbers[LEVELS[code] as u8 as usize] = code as u8;
        code += 1;
    }
    numbers
};

/// [`LEVELS`] with 128 added, where bytes are multiplied without sign.
#[cfg(target_arch = "x86_64")]
pub(super) const UNSIGNED_LEVELS: [u8; 16] = {
    let mut levels = [0; 16];
    let mut code = 0;
    while code < 16 {
        levels[code] = LEVELS[code] as u8 ^ 0x80;
        code += 1;
    }
    levels
};

fn put_half(half: Half, at: usize, row: usize, head: &mut [u8]) {
    head[at + 2 * row..][..2].copy_from_slice(&half.bits().to_le_bytes());
}

macro_rules! of_32 {
    ($($name:ident: $head:ident $(($minimum:ident))?, $bits:literal, $zero:literal, $levels:literal;)*) => {$(
        impl Packable for $name {
            const SHAPE: Shape = Shape {
                head: Head::$head,
                bits: $bits,
                zero: $zero,
                levels: $levels,
            };

            fn put_head(&self, row: usize, head: &mut [u8]) {
                put_half(self.d, 0, row, head);
                $(put_half(self.$minimum, 2 * ROWS, row, head);)?
            }
        }
    )*};
}

of_32! {
    Q4_0: Scale, 4, 8, false;
    Q4_1: ScaleAndMinimum(m), 4, 0, false;
    Q5_0: Scale, 5, 16, false;
    Q5_1: ScaleAndMinimum(m), 5, 0, false;
    Q8_0: Scale, 8, 128, false;
    Iq4Nl: Scale, 4, 128, true;
}

macro_rules! six_bits {
    ($($name:ident: $bits:literal;)*) => {$(
        impl Packable for $name {
            const SHAPE: Shape = Shape { head: Head::SixBits, bits: $bits, zero: 0, levels: false };

            fn put_head(&self, row: usize, head: &mut [u8]) {
                put_half(self.d, 0, row, head);
                put_half(self.dmin, 2 * ROWS, row, head);
                for (word, bytes) in bytemuck::bytes_of(&self.scales).chunks_exact(4).enumerate() {
                    head[4 * ROWS * (1 + word) + 4 * row..][..4].copy_from_slice(bytes);
                }
            }
        }
    )*};
}

six_bits! {
    Q4K: 4;
    Q5K: 5;
}

impl Packable for Q6K {
    const SHAPE: Shape = Shape {
        head: Head::Halves,
        bits: 6,
        zero: 32,
        levels: false,
    };

    fn put_head(&self, row: usize, head: &mut [u8]) {
        put_half(self.d, 0, row, head);
        for (half, scale) in self.scales.into_iter().enumerate() {
            head[2 * ROWS + ROWS * half + row] = scale as u8;
        }
    }
}

impl Packable for Q2K {
    const SHAPE: Shape = Shape {
        head: Head::HalfNibblePairs,
        bits: 2,
        zero: 0,
        levels: false,
    };

    fn put_head(&self, row: usize, head: &mut [u8]) {
        put_half(self.d, 0, row, head);
        put_half(self.dmin, 2 * ROWS, row, head);
        for (half, both) in self.scales.into_iter().enumerate() {
            head[4 * ROWS + ROWS * half + row] = both;
        }
    }
}

impl Packable for Q3K {
    const SHAPE: Shape = Shape {
        head: Head::HalfSixBits,
        bits: 3,
        zero: 4,
        levels: false,
    };

    fn put_head(&self, row: usize, head: &mut [u8]) {
        put_half(self.d, 0, row, head);
        for (at, bits) in self.scales.into_iter().enumerate() {
            head[2 * ROWS + ROWS * at + row] = bits;
        }
    }
}

impl Packable for Iq4Xs {
    const SHAPE: Shape = Shape {
        head: Head::Nibbles,
        bits: 4,
        zero: 128,
        levels: true,
    };

    fn put_head(&self, row: usize, head: &mut [u8]) {
        put_half(self.d, 0, row, head);
        head[2 * ROWS + 4 * row..][..4].copy_from_slice(&self.scales_l);
        head[6 * ROWS + 2 * row..][..2].copy_from_slice(&self.scales_h);
    }
}

/// What the codes of a row of a tile are worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Worth {
    /// Of a step, in each half of the tile.
    pub scale: [f32; 2],
    /// Added to each weight, in each half of the tile.
    pub offset: [f32; 2],
}

impl Worth {
    /// Of row `row` of tile `tile` under a head.
    pub fn of(shape: Shape, head: &[u8], tile: usize, row: usize) -> Self {
        let half = |at: usize| half::f16::from_le_bytes([head[at + 2 * row], head[at + 2 * row + 1]]).to_f32();
        let d = half(0);
        let halves = [2 * tile, 2 * tile + 1];
        let (scale, offset) = match shape.head {
            Head::Scale => ([d; 2], [0.0; 2]),
            Head::ScaleAndMinimum => ([d; 2], [half(2 * ROWS); 2]),
            Head::SixBits => {
                let [scale, minimum] = six_bits(head, tile, row);
                ([d * scale as f32; 2], [-(half(2 * ROWS) * minimum as f32); 2])
            }
            Head::Nibbles => ([d * nibble_scale(head, tile, row); 2], [0.0; 2]),
            Head::Halves => (halves.map(|half| d * half_scale(head, half, row)), [0.0; 2]),
            Head::HalfNibblePairs => {
                let both = halves.map(|half| half_nibbles(head, half, row));
                let dmin = half(2 * ROWS);
                (
                    both.map(|[scale, _]| d * scale),
                    both.map(|[_, minimum]| -(dmin * minimum)),
                )
            }
            Head::HalfSixBits => (halves.map(|half| d * half_six_bits(head, half, row)), [0.0; 2]),
        };
        Self { scale, offset }
    }
}

/// The scale and the minimum of a half tile under [`Head::HalfNibblePairs`], in steps of the scales of those.
#[inline(always)]
pub(super) fn half_nibbles(head: &[u8], half: usize, row: usize) -> [f32; 2] {
    let both = head[4 * ROWS + ROWS * half + row];
    [f32::from(both & 15), f32::from(both >> 4)]
}

/// The scale of a half tile under [`Head::HalfSixBits`], in steps of the scale of the scales.
#[inline(always)]
pub(super) fn half_six_bits(head: &[u8], half: usize, row: usize) -> f32 {
    let byte = |at: usize| head[2 * ROWS + ROWS * at + row];
    let low = byte(half % 8) >> (4 * (half / 8)) & 15;
    let high = byte(8 + half % 4) >> (2 * (half / 4)) & 3;
    f32::from((low | high << 4) as i8 - 32)
}

/// The scale of a half tile, in steps of the scale of the scales.
#[inline(always)]
pub(super) fn half_scale(head: &[u8], half: usize, row: usize) -> f32 {
    f32::from(head[2 * ROWS + ROWS * half + row] as i8)
}

/// The scale of a tile under [`Head::Nibbles`], in steps of the scale of the scales.
#[inline(always)]
pub(super) fn nibble_scale(head: &[u8], tile: usize, row: usize) -> f32 {
    let low = head[2 * ROWS + 4 * row + tile / 2] >> (4 * (tile % 2)) & 15;
    let high = head[6 * ROWS + 2 * row + tile / 4] >> (2 * (tile % 4)) & 3;
    f32::from((low | high << 4) as i8 - 32)
}

/// The six-bit scale and minimum of a tile, in steps of the scales of those.
#[inline(always)]
pub(super) fn six_bits(head: &[u8], tile: usize, row: usize) -> [u32; 2] {
    let word = |word: usize| {
        let at = 4 * ROWS * (1 + word) + 4 * row;
        u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
    };
    let by = 8 * (tile % 4);
    if tile < 4 {
        [word(0) >> by & 63, word(1) >> by & 63]
    } else {
        let low = word(2) >> by;
        [
            low & 15 | word(0) >> by >> 2 & 48,
            low >> 4 & 15 | word(1) >> by >> 2 & 48,
        ]
    }
}
