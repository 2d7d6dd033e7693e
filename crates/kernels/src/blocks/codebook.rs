//! Codebooks: the signed values that four-bit codes stand for.

use super::block::{GROUP, HALF_GROUP, nibbles};
use crate::gemv::Simd;

/// The value of each code, in units of the scale.
pub(crate) type Codebook = [i8; 16];

/// The code of each value; the lowest if several codes have the value.
pub(crate) const fn inverse(codebook: &Codebook) -> [u8; 256] {
    let mut codes = [0; 256];
    let mut code = codebook.len();
    while code > 0 {
        code -= 1;
        codes[codebook[code] as u8 as usize] = code as u8;
    }
    codes
}

/// The values plus `zero_point`, which makes them unsigned.
pub(crate) const fn unsigned(codebook: &Codebook, zero_point: u8) -> [u8; 16] {
    let mut values = [0; 16];
    let mut code = 0;
    while code < values.len() {
        values[code] = (codebook[code] as u8).wrapping_add(zero_point);
        code += 1;
    }
    values
}

/// Unpacks 32 codes, packed as in Q4_0, and looks up their values.
pub(super) fn group(codebook: &Codebook, packed: &[u8; HALF_GROUP]) -> [i8; GROUP] {
    nibbles(packed).map(|code| codebook[usize::from(code)])
}

/// Looks up the codes of two groups, packed as in Q4_0, in a table of signed or unsigned values.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, table: &[u8; 16], a: &[u8; HALF_GROUP], b: &[u8; HALF_GROUP]) -> S::Bytes {
    let codes = s.and(s.shift_right(s.load_quarters_twice(a, b), [0, 4, 0, 4]), 0x0f);
    s.look_up(table, codes)
}
