//! Memory layout of packed rows. Each format declares its layout as data, in its file.

use super::ROWS;
use crate::blocks::{Block, Codebook, GROUP, Group, Quant, canonical_e4m3, inverse, unsigned, with_format};

/// Half tiles of a block of 256 weights: the maximum number of parts with separate scales.
const MAX_PARTS: usize = 16;

/// Scale of a block. Variants other than [`Unit::One`] hold its byte offset in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// An f16.
    F16(usize),
    /// An E8M0 float, halved.
    HalfE8m0(usize),
    /// 1: the scales of the parts are the scales of the weights.
    One,
}

/// f16 minimum of a block, with its byte offset in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Minimum {
    /// The format has none.
    None,
    /// Added to each weight.
    Added(usize),
    /// Multiplied by the minimum of a part and subtracted from its weights.
    Subtracted(usize),
}

/// Encoding of a part's scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartCode {
    /// An unsigned integer.
    Unsigned,
    /// An unsigned integer from which 32 is subtracted.
    Minus32,
    /// A signed byte.
    Signed,
    /// An unsigned E4M3 float, halved.
    HalfE4m3,
}

/// Location of a part's scale or minimum in the bytes of the parts: bits of one byte and, above the
/// lowest four, two bits of another byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits {
    pub byte: u8,
    pub shift: u8,
    pub mask: u8,
    /// Byte and shift of the top two bits.
    pub top: Option<[u8; 2]>,
}

impl Bits {
    /// The bits `mask` of a byte shifted right.
    pub const fn new(byte: u8, shift: u8, mask: u8) -> Self {
        Self {
            byte,
            shift,
            mask,
            top: None,
        }
    }

    /// Takes bits 4 and 5 from the lowest two bits of another byte shifted right.
    pub const fn and_top(self, byte: u8, shift: u8) -> Self {
        Self {
            top: Some([byte, shift]),
            ..self
        }
    }
}

/// An array of [`Bits`] by part, in a constant.
macro_rules! bits_by_part {
    ($part:ident => $bits:expr) => {{
        use $crate::packed::layout::Bits;
        let mut bits = [Bits::new(0, 0, 0); 16];
        let mut $part: u8 = 0;
        while ($part as usize) < bits.len() {
            bits[$part as usize] = $bits;
            $part += 1;
        }
        bits
    }};
}
pub(crate) use bits_by_part;

/// Scales, and minima, of the parts of a block: its tiles or half tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// `true` if half tiles have a scale, instead of tiles.
    pub halves: bool,
    /// Byte offset in the block.
    pub offset: usize,
    /// Number of bytes.
    pub bytes: usize,
    pub code: PartCode,
    pub scale: [Bits; MAX_PARTS],
    /// For formats whose minimum is [`Minimum::Subtracted`].
    pub minimum: [Bits; MAX_PARTS],
}

impl Parts {
    /// Placeholder for the minima of formats without minima.
    pub const NO_MINIMA: [Bits; MAX_PARTS] = [Bits::new(0, 0, 0); MAX_PARTS];

    /// One byte per half tile.
    pub const fn bytes_of_halves(offset: usize, bytes: usize, code: PartCode) -> Self {
        Self {
            halves: true,
            offset,
            bytes,
            code,
            scale: bits_by_part!(part => Bits::new(part, 0, 255)),
            minimum: Self::NO_MINIMA,
        }
    }
}

/// Layout of a header: the scales of sixteen blocks, one per row. A header contains, as far as the
/// format has them, the scales of the blocks, then their minima, then the bytes of the parts. The
/// sixteen rows are interleaved, so that a vector has the same element of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScaleLayout {
    pub unit: Unit,
    pub minimum: Minimum,
    pub parts: Option<Parts>,
    /// Tiles that share a header: groups of 32 weights in a block.
    pub tiles: usize,
}

impl ScaleLayout {
    /// One scale, and at most one minimum, for a block of 32 weights.
    pub const fn of_block(unit: Unit, minimum: Minimum) -> Self {
        Self {
            unit,
            minimum,
            parts: None,
            tiles: 1,
        }
    }

    /// Bytes of the unit of one row.
    const fn unit_bytes(&self) -> usize {
        match self.unit {
            Unit::F16(_) => 2,
            Unit::HalfE8m0(_) => 1,
            Unit::One => 0,
        }
    }

    /// Offset of the minima in a header.
    pub const fn minima_offset(&self) -> usize {
        self.unit_bytes() * ROWS
    }

    /// Offset of the parts' bytes in a header.
    pub const fn parts_offset(&self) -> usize {
        self.minima_offset()
            + match self.minimum {
                Minimum::None => 0,
                _ => 2 * ROWS,
            }
    }

    /// Bytes of a header.
    pub const fn bytes(&self) -> usize {
        self.parts_offset()
            + match self.parts {
                None => 0,
                Some(parts) => parts.bytes * ROWS,
            }
    }

    /// Writes the scales of a block as row `row` of a header.
    fn write_row(&self, block: &[u8], row: usize, header: &mut [u8]) {
        let mut copy = |from: usize, to: usize, bytes: usize| {
            header[to + bytes * row..][..bytes].copy_from_slice(&block[from..][..bytes]);
        };
        match self.unit {
            Unit::F16(offset) | Unit::HalfE8m0(offset) => copy(offset, 0, self.unit_bytes()),
            Unit::One => {}
        }
        match self.minimum {
            Minimum::Added(offset) | Minimum::Subtracted(offset) => copy(offset, self.minima_offset(), 2),
            Minimum::None => {}
        }
        let Some(parts) = self.parts else { return };
        for (i, byte) in block[parts.offset..][..parts.bytes].iter().enumerate() {
            header[self.parts_offset() + ROWS * i + row] = match parts.code {
                PartCode::HalfE4m3 => canonical_e4m3(*byte),
                _ => *byte,
            };
        }
    }
}

/// Layout of sixteen packed blocks of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedLayout {
    pub scales: ScaleLayout,
    /// Bits per code.
    pub bits: usize,
    /// Added to a code, or to the codebook value that it selects, to make it unsigned: a power of
    /// two, or 0.
    pub zero_point: u8,
    /// The values of the codes, if codes are indices of a codebook.
    pub codebook: Option<&'static Codebook>,
}

impl PackedLayout {
    /// The layout of a format. `None` means that the format is unquantized.
    pub const fn for_quant(quant: Quant) -> Option<&'static Self> {
        with_format!(quant, float _F => None, block B => Some(const { &B::LAYOUT }))
    }

    /// Returns `true` if every sixteen weights have a scale, instead of every 32.
    pub const fn halves(&self) -> bool {
        matches!(self.scales.parts, Some(Parts { halves: true, .. }))
    }

    /// The signed value of a code.
    #[inline(always)]
    pub fn centered(&self, code: u8) -> i32 {
        match self.codebook {
            Some(codebook) => i32::from(codebook[usize::from(code & 0x0f)]),
            None => i32::from(code) - i32::from(self.zero_point),
        }
    }

    /// Returns `true` if the format has minima beside scales.
    pub const fn has_minimum(&self) -> bool {
        !matches!(self.scales.minimum, Minimum::None)
    }

    /// Returns `true` if codes, or the codebook values that they select, use all eight bits.
    pub const fn fills_bytes(&self) -> bool {
        self.zero_point == 128
    }

    /// Bytes of the top bits of 3-bit and 5-bit codes, which come first in a tile.
    pub const fn bit_bytes(&self) -> usize {
        match self.bits {
            3 | 5 => ROWS * GROUP / 8,
            _ => 0,
        }
    }

    /// Bytes of bit pairs, which come next: all bits of 2-bit codes, the lower two of 3-bit codes,
    /// the upper two of 6-bit codes.
    pub const fn pair_bytes(&self) -> usize {
        match self.bits {
            2 | 3 | 6 => ROWS * GROUP / 4,
            _ => 0,
        }
    }

    /// Bytes of a tile before its nibbles or 8-bit codes.
    pub const fn upper_bytes(&self) -> usize {
        self.bit_bytes() + self.pair_bytes()
    }

    /// Bytes of the codes of a tile.
    pub const fn tile_bytes(&self) -> usize {
        self.upper_bytes()
            + match self.bits {
                8 => ROWS * GROUP,
                4..=6 => ROWS * GROUP / 2,
                _ => 0,
            }
    }

    /// Offset of a tile in sixteen packed blocks.
    pub const fn tile_offset(&self, tile: usize) -> usize {
        self.scales.bytes() + tile * self.tile_bytes()
    }

    /// Bytes of sixteen packed blocks.
    pub const fn bytes(&self) -> usize {
        self.tile_offset(self.scales.tiles)
    }
}

/// A format that can be packed.
pub(crate) trait Packable: Block {
    const LAYOUT: PackedLayout;

    /// The codebook plus the zero point, for unsigned multiplication; unused without a codebook.
    const UNSIGNED_VALUES: [u8; 16] = match Self::LAYOUT.codebook {
        Some(codebook) => unsigned(codebook, Self::LAYOUT.zero_point),
        None => [0; 16],
    };

    /// The code of each codebook value; unused without a codebook.
    const CODES: [u8; 256] = match Self::LAYOUT.codebook {
        Some(codebook) => inverse(codebook),
        None => [0; 256],
    };

    /// Writes the block's scales as row `row` of a header.
    fn write_scales(&self, row: usize, header: &mut [u8]) {
        Self::LAYOUT.scales.write_row(bytemuck::bytes_of(self), row, header);
    }

    /// The unsigned codes of 32 weights.
    fn codes(&self, group: &Group) -> [u8; GROUP] {
        match Self::LAYOUT.codebook {
            Some(_) => group.codes.map(|value| Self::CODES[usize::from(value as u8)]),
            None => group
                .codes
                .map(|code| (code as u8).wrapping_add(Self::LAYOUT.zero_point)),
        }
    }
}
