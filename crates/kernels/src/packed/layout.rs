//! Memory layout of packed rows, per format.

use super::ROWS;
use crate::blocks::{
    Block, GROUP, Group, Half, Iq4Nl, Iq4Xs, LEVELS, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Quant,
};

/// Runs a body with the block type of a format that can be packed, or another body for formats that
/// cannot.
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

/// Layout of the header of sixteen blocks: their scales, interleaved so that a vector has the same
/// element of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScaleLayout {
    /// Sixteen scales in f16.
    Scale,
    /// Sixteen scales and sixteen minima in f16.
    ScaleAndMinimum,
    /// Sixteen scales of the scales and sixteen of the minima in f16; then the three words of each
    /// row's six-bit scales and minima (see [`SixBits`](crate::blocks::SixBits)), first words
    /// first.
    SixBits,
    /// Sixteen scales of the scales in f16; then for each row a word of the scales' lower four
    /// bits, the first tile's lowest; then for each row sixteen bits of their upper two.
    Nibbles,
    /// Sixteen scales of the scales in f16; then, for each half tile, sixteen scales in eight bits.
    Halves,
    /// Sixteen scales of the scales and sixteen of the minima in f16; then, for each half tile,
    /// sixteen bytes: a scale in the low nibble, a minimum in the high one.
    HalfNibblePairs,
    /// Sixteen scales of the scales in f16; then twelve times sixteen bytes: of each row the twelve
    /// that hold a six-bit scale for each half tile as Q3_K has them.
    HalfSixBits,
}

impl ScaleLayout {
    pub const fn bytes(self) -> usize {
        match self {
            ScaleLayout::Scale => 2 * ROWS,
            ScaleLayout::ScaleAndMinimum => 4 * ROWS,
            ScaleLayout::SixBits => 4 * ROWS + 12 * ROWS,
            ScaleLayout::Nibbles => 2 * ROWS + 4 * ROWS + 2 * ROWS,
            ScaleLayout::Halves => 2 * ROWS + 16 * ROWS,
            ScaleLayout::HalfNibblePairs => 4 * ROWS + 16 * ROWS,
            ScaleLayout::HalfSixBits => 2 * ROWS + 12 * ROWS,
        }
    }

    /// Tiles that share a header: groups of 32 weights in a block.
    pub const fn tiles(self) -> usize {
        match self {
            ScaleLayout::Scale | ScaleLayout::ScaleAndMinimum => 1,
            ScaleLayout::SixBits
            | ScaleLayout::Nibbles
            | ScaleLayout::Halves
            | ScaleLayout::HalfNibblePairs
            | ScaleLayout::HalfSixBits => 8,
        }
    }
}

/// Layout of sixteen packed blocks of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedLayout {
    pub scales: ScaleLayout,
    /// Bits per code.
    pub bits: usize,
    /// Added to a code, or to the codebook value that it selects, to make it unsigned: a power of
    /// two, or 0.
    pub zero_point: u8,
    /// Whether codes are indices into the codebook [`LEVELS`].
    pub levels: bool,
}

impl PackedLayout {
    /// The layout of a format. `None` means it cannot be packed.
    pub const fn of(quant: Quant) -> Option<Self> {
        with_packable!(quant, B => Some(B::LAYOUT), else None)
    }

    /// Whether each sixteen weights have a scale, instead of each 32.
    pub const fn halves(self) -> bool {
        matches!(
            self.scales,
            ScaleLayout::Halves | ScaleLayout::HalfNibblePairs | ScaleLayout::HalfSixBits
        )
    }

    /// The signed value of a code.
    #[inline(always)]
    pub fn centred(self, code: u8) -> i32 {
        match self.levels {
            true => i32::from(LEVELS[usize::from(code & 0x0f)]),
            false => i32::from(code) - i32::from(self.zero_point),
        }
    }

    /// Whether the format has minima beside scales.
    pub const fn has_minimum(self) -> bool {
        matches!(
            self.scales,
            ScaleLayout::ScaleAndMinimum | ScaleLayout::SixBits | ScaleLayout::HalfNibblePairs
        )
    }

    /// Whether codes, or the codebook values that they select, use all eight bits.
    pub const fn fills_bytes(self) -> bool {
        self.bits == 8 || self.levels
    }

    /// Bytes of the top bits of 3-bit and 5-bit codes, which come first in a tile.
    pub const fn bit_bytes(self) -> usize {
        match self.bits {
            3 | 5 => ROWS * GROUP / 8,
            _ => 0,
        }
    }

    /// Bytes of bit pairs, which come next: all of 2-bit codes, the lower bits of 3-bit codes, the
    /// upper ones of 6-bit codes.
    pub const fn pair_bytes(self) -> usize {
        match self.bits {
            2 | 3 | 6 => ROWS * GROUP / 4,
            _ => 0,
        }
    }

    /// Bytes of a tile before its nibbles or bytes.
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

    /// Offset of a tile in sixteen packed blocks.
    pub const fn tile_at(self, tile: usize) -> usize {
        self.scales.bytes() + tile * self.tile_bytes()
    }

    /// Bytes of sixteen packed blocks.
    pub const fn bytes(self) -> usize {
        self.tile_at(self.scales.tiles())
    }
}

/// A format that can be packed.
pub(super) trait Packable: Block {
    const LAYOUT: PackedLayout;

    /// Writes the block's scales as row `row` of a header.
    fn put_scales(&self, row: usize, header: &mut [u8]);

    /// The unsigned codes of 32 weights.
    fn codes(&self, group: &Group) -> [u8; GROUP] {
        match Self::LAYOUT.levels {
            true => group.codes.map(|level| CODES[usize::from(level as u8)]),
            false => group
                .codes
                .map(|code| (code as u8).wrapping_add(Self::LAYOUT.zero_point)),
        }
    }
}

/// The code of each codebook value.
const CODES: [u8; 256] = {
    let mut codes = [0; 256];
    let mut code = 0;
    while code < 16 {
        codes[LEVELS[code] as u8 as usize] = code as u8;
        code += 1;
    }
    codes
};

/// [`LEVELS`] plus 128, for unsigned multiplication.
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

fn put_half(half: Half, at: usize, row: usize, header: &mut [u8]) {
    header[at + 2 * row..][..2].copy_from_slice(&half.bits().to_le_bytes());
}

macro_rules! of_32 {
    ($($name:ident: $header:ident $(($minimum:ident))?, $bits:literal, $zero_point:literal, $levels:literal;)*) => {$(
        impl Packable for $name {
            const LAYOUT: PackedLayout = PackedLayout {
                scales: ScaleLayout::$header,
                bits: $bits,
                zero_point: $zero_point,
                levels: $levels,
            };

            fn put_scales(&self, row: usize, header: &mut [u8]) {
                put_half(self.d, 0, row, header);
                $(put_half(self.$minimum, 2 * ROWS, row, header);)?
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
            const LAYOUT: PackedLayout = PackedLayout {
                scales: ScaleLayout::SixBits,
                bits: $bits,
                zero_point: 0,
                levels: false,
            };

            fn put_scales(&self, row: usize, header: &mut [u8]) {
                put_half(self.d, 0, row, header);
                put_half(self.dmin, 2 * ROWS, row, header);
                for (word, bytes) in bytemuck::bytes_of(&self.scales).chunks_exact(4).enumerate() {
                    header[4 * ROWS * (1 + word) + 4 * row..][..4].copy_from_slice(bytes);
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
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::Halves,
        bits: 6,
        zero_point: 32,
        levels: false,
    };

    fn put_scales(&self, row: usize, header: &mut [u8]) {
        put_half(self.d, 0, row, header);
        for (half, scale) in self.scales.into_iter().enumerate() {
            header[2 * ROWS + ROWS * half + row] = scale as u8;
        }
    }
}

impl Packable for Q2K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::HalfNibblePairs,
        bits: 2,
        zero_point: 0,
        levels: false,
    };

    fn put_scales(&self, row: usize, header: &mut [u8]) {
        put_half(self.d, 0, row, header);
        put_half(self.dmin, 2 * ROWS, row, header);
        for (half, both) in self.scales.into_iter().enumerate() {
            header[4 * ROWS + ROWS * half + row] = both;
        }
    }
}

impl Packable for Q3K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::HalfSixBits,
        bits: 3,
        zero_point: 4,
        levels: false,
    };

    fn put_scales(&self, row: usize, header: &mut [u8]) {
        put_half(self.d, 0, row, header);
        for (at, bits) in self.scales.into_iter().enumerate() {
            header[2 * ROWS + ROWS * at + row] = bits;
        }
    }
}

impl Packable for Iq4Xs {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::Nibbles,
        bits: 4,
        zero_point: 128,
        levels: true,
    };

    fn put_scales(&self, row: usize, header: &mut [u8]) {
        put_half(self.d, 0, row, header);
        header[2 * ROWS + 4 * row..][..4].copy_from_slice(&self.scales_l);
        header[6 * ROWS + 2 * row..][..2].copy_from_slice(&self.scales_h);
    }
}

/// Scales and offsets of one row of a tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TileScales {
    /// Scale of each half of the tile.
    pub scale: [f32; 2],
    /// Offset of each half of the tile.
    pub offset: [f32; 2],
}

impl TileScales {
    /// Those of row `row` of tile `tile`.
    pub fn of(layout: PackedLayout, header: &[u8], tile: usize, row: usize) -> Self {
        let half = |at: usize| half::f16::from_le_bytes([header[at + 2 * row], header[at + 2 * row + 1]]).to_f32();
        let d = half(0);
        let halves = [2 * tile, 2 * tile + 1];
        let (scale, offset) = match layout.scales {
            ScaleLayout::Scale => ([d; 2], [0.0; 2]),
            ScaleLayout::ScaleAndMinimum => ([d; 2], [half(2 * ROWS); 2]),
            ScaleLayout::SixBits => {
                let [scale, minimum] = six_bits(header, tile, row);
                ([d * scale as f32; 2], [-(half(2 * ROWS) * minimum as f32); 2])
            }
            ScaleLayout::Nibbles => ([d * nibble_scale(header, tile, row); 2], [0.0; 2]),
            ScaleLayout::Halves => (halves.map(|half| d * half_scale(header, half, row)), [0.0; 2]),
            ScaleLayout::HalfNibblePairs => {
                let both = halves.map(|half| half_nibbles(header, half, row));
                let dmin = half(2 * ROWS);
                (
                    both.map(|[scale, _]| d * scale),
                    both.map(|[_, minimum]| -(dmin * minimum)),
                )
            }
            ScaleLayout::HalfSixBits => (halves.map(|half| d * half_six_bits(header, half, row)), [0.0; 2]),
        };
        Self { scale, offset }
    }
}

/// Unscaled scale and minimum of a half tile in [`ScaleLayout::HalfNibblePairs`].
#[inline(always)]
pub(super) fn half_nibbles(header: &[u8], half: usize, row: usize) -> [f32; 2] {
    let both = header[4 * ROWS + ROWS * half + row];
    [f32::from(both & 15), f32::from(both >> 4)]
}

/// Unscaled scale of a half tile in [`ScaleLayout::HalfSixBits`].
#[inline(always)]
pub(super) fn half_six_bits(header: &[u8], half: usize, row: usize) -> f32 {
    let byte = |at: usize| header[2 * ROWS + ROWS * at + row];
    let low = byte(half % 8) >> (4 * (half / 8)) & 15;
    let high = byte(8 + half % 4) >> (2 * (half / 4)) & 3;
    f32::from((low | high << 4) as i8 - 32)
}

/// Unscaled scale of a half tile in [`ScaleLayout::Halves`].
#[inline(always)]
pub(super) fn half_scale(header: &[u8], half: usize, row: usize) -> f32 {
    f32::from(header[2 * ROWS + ROWS * half + row] as i8)
}

/// Unscaled scale of a tile in [`ScaleLayout::Nibbles`].
#[inline(always)]
pub(super) fn nibble_scale(header: &[u8], tile: usize, row: usize) -> f32 {
    let low = header[2 * ROWS + 4 * row + tile / 2] >> (4 * (tile % 2)) & 15;
    let high = header[6 * ROWS + 2 * row + tile / 4] >> (2 * (tile % 4)) & 3;
    f32::from((low | high << 4) as i8 - 32)
}

/// Unscaled six-bit scale and minimum of a tile in [`ScaleLayout::SixBits`].
#[inline(always)]
pub(super) fn six_bits(header: &[u8], tile: usize, row: usize) -> [u32; 2] {
    let word = |word: usize| {
        let at = 4 * ROWS * (1 + word) + 4 * row;
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
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
