//! The operations of GEMV over blocks: bytes, and products of int8.

use super::Lanes;

/// Vectors of 64 bytes, for any register width.
///
/// 64 bytes contain the codes of two groups. A quarter, 16 bytes, contains half a group, for which
/// the finest formats have a scale. A product of codes with activations gives 16 sums of four;
/// lanes `4 q` to `4 q + 3` have the sums of quarter `q`.
pub(crate) trait Simd: Lanes {
    /// 64 bytes.
    type Bytes: Copy;

    /// Added by [`Simd::dot_signed`] to each code before multiplication.
    const SIGNED_BIAS: f32;

    /// Loads 64 bytes.
    fn bytes(self, bytes: &[u8; 64]) -> Self::Bytes;
    /// `low`, then `high`.
    fn join(self, low: &[u8; 32], high: &[u8; 32]) -> Self::Bytes;
    /// The same 32 bytes twice.
    fn twice(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// `low`, `low`, `high`, `high`.
    fn each_twice(self, low: &[u8; 16], high: &[u8; 16]) -> Self::Bytes;
    /// `value` in byte `i` if bit `i` is set, else zero.
    fn bits(self, bits: u64, value: u8) -> Self::Bytes;
    /// `value` in each byte that has the bit of its quarter, else zero.
    fn flags(self, bytes: Self::Bytes, bits: [u8; 4], value: u8) -> Self::Bytes;
    /// Shifts each quarter right by less than 8. Bits of neighboring bytes are shifted in: mask
    /// the result.
    fn shift_right(self, bytes: Self::Bytes, by: [u8; 4]) -> Self::Bytes;
    /// Shifts left by 4. Bits are shifted into the next byte: mask the input.
    fn shift_left_4(self, bytes: Self::Bytes) -> Self::Bytes;
    /// Bitwise and of each byte with `mask`.
    fn and(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Bitwise or.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Looks up each byte, which is below 16, in `table`.
    fn look_up(self, table: &[u8; 16], indices: Self::Bytes) -> Self::Bytes;
    /// The 64 bytes.
    fn to_array(self, bytes: Self::Bytes) -> [u8; 64];

    /// Sums of four products of codes up to 127 with activations of at least -127.
    fn dot(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;
    /// The same for signed codes plus [`Simd::SIGNED_BIAS`].
    fn dot_signed(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;

    /// The f16 of these bits in every lane.
    fn splat_f16(self, bits: u16) -> Self::Floats;
    /// Unsigned bytes as floats.
    fn widen_u8(self, bytes: [u8; 16]) -> Self::Floats;
    /// Eight unsigned bytes, lowest first, as floats, each twice.
    fn widen_u8_twice(self, bytes: u64) -> Self::Floats;
    /// Eight pairs of f16 as floats: the first of each pair twice, and the second of each pair
    /// twice.
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (Self::Floats, Self::Floats);
    /// Eight floats, each twice.
    fn floats_twice(self, floats: &[f32; 8]) -> Self::Floats;
    /// Lanes `4 pair` to `4 pair + 3`, each four times: one for each lane of a quarter. `pair` is
    /// below 4.
    fn spread(self, floats: Self::Floats, pair: usize) -> Self::Floats;
    /// Maximum of all lanes' bits with the sign cleared: orders magnitudes, infinity and NaN last.
    fn magnitude(self, a: Self::Floats, b: Self::Floats) -> u32;
    /// Rounds lanes between -127 and 127, ties to even, stores them, and returns their sum. NaN
    /// becomes zero.
    fn round_to_bytes(self, floats: Self::Floats, out: &mut [i8; 16]) -> i32;
}
