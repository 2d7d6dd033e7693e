//! SIMD operations of GEMV over quantized blocks: bytes, and products of int8.

use super::Lanes;

/// Vectors of 64 bytes, for any register width.
///
/// 64 bytes contain the codes of two groups. A quarter, 16 bytes, contains half a group, for which
/// the finest formats have a scale. A product of codes with activations gives 16 sums of four;
/// lanes `4 q` to `4 q + 3` are the sums of quarter `q`.
pub(crate) trait Simd: Lanes {
    /// 64 bytes.
    type Bytes: Copy;

    /// Added by [`Simd::dot_i8_i8`] to each code before multiplication.
    const SIGNED_BIAS: f32;

    /// Loads 64 bytes.
    fn load_bytes(self, bytes: &[u8; 64]) -> Self::Bytes;
    /// Loads `low`, then `high`.
    fn load_halves(self, low: &[u8; 32], high: &[u8; 32]) -> Self::Bytes;
    /// Loads the same 32 bytes into both halves.
    fn load_half_twice(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// Loads `low`, `low`, `high`, `high`.
    fn load_quarters_twice(self, low: &[u8; 16], high: &[u8; 16]) -> Self::Bytes;
    /// `value` in byte `i` if bit `i` is set, else zero.
    fn expand_bits(self, bits: u64, value: u8) -> Self::Bytes;
    /// `value` in each byte that has the bit of its quarter, else zero.
    fn test_bits(self, bytes: Self::Bytes, bits: [u8; 4], value: u8) -> Self::Bytes;
    /// Shifts each quarter right by less than 8. Bits of neighboring bytes are shifted in: mask
    /// the result.
    fn shift_right(self, bytes: Self::Bytes, by: [u8; 4]) -> Self::Bytes;
    /// Shifts left by 4. Bits are shifted into the next byte: mask the input.
    fn shift_left_4(self, bytes: Self::Bytes) -> Self::Bytes;
    /// Bitwise and of each byte with `mask`.
    fn and(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Bitwise or.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// The byte of `table` at each index; indices are below 16.
    fn look_up(self, table: &[u8; 16], indices: Self::Bytes) -> Self::Bytes;
    /// Stores the 64 bytes to an array.
    fn to_array(self, bytes: Self::Bytes) -> [u8; 64];

    /// Sums of four products of unsigned codes up to 127 with activations of at least -127.
    fn dot_u8_i8(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;
    /// Sums of four products of signed codes plus [`Simd::SIGNED_BIAS`] with activations of at
    /// least -127.
    fn dot_i8_i8(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;

    /// The f16 of these bits in every lane.
    fn splat_f16(self, bits: u16) -> Self::Floats;
    /// Converts unsigned bytes to floats.
    fn widen_u8(self, bytes: [u8; 16]) -> Self::Floats;
    /// Converts eight unsigned bytes, lowest first, to floats, each in two neighboring lanes.
    fn widen_u8_twice(self, bytes: u64) -> Self::Floats;
    /// Converts eight pairs of f16 to floats: one vector with the first of each pair in two
    /// neighboring lanes, and one with the second.
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (Self::Floats, Self::Floats);
    /// Loads eight floats, each into two neighboring lanes.
    fn load_floats_twice(self, floats: &[f32; 8]) -> Self::Floats;
    /// Lanes `4 pair` to `4 pair + 3`, each four times: one for each lane of a quarter. `pair` is
    /// below 4.
    fn spread(self, floats: Self::Floats, pair: usize) -> Self::Floats;
    /// Maximum of the bits of all lanes with the sign cleared: orders magnitudes, infinity and NaN
    /// last.
    fn max_magnitude(self, a: Self::Floats, b: Self::Floats) -> u32;
    /// Rounds lanes between -127 and 127, ties to even, stores them, and returns their sum. NaN
    /// becomes zero.
    fn round_to_i8(self, floats: Self::Floats, out: &mut [i8; 16]) -> i32;
}
