//! What the fast loops ask of a machine's vectors. A format's fast variant is written once, on these words.
//!
//! A value that implements [`Simd`] is a proof that the machine has the instructions: it is made only after they were
//! found, so its methods are safe to call. They must be inlined into the function that enables the instructions,
//! which [`super::Isa::run`] takes care of.

/// Vectors of 64 bytes and of 16 floats, for whatever width the machine has.
///
/// 64 bytes hold the codes of two groups. A quarter, 16 bytes, holds half a group: the grain of the finest scales. A
/// product of codes with activations leaves 16 sums of four; those of quarter `q` are lanes `4 q` to `4 q + 3`.
pub(crate) trait Simd: Copy {
    /// 64 bytes.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;

    /// What [`Simd::dot_signed`] adds to each code before it multiplies.
    const SIGNED_BIAS: f32;

    /// 64 bytes as they are.
    fn bytes(self, bytes: &[u8; 64]) -> Self::Bytes;
    /// `low`, then `high`.
    fn join(self, low: &[u8; 32], high: &[u8; 32]) -> Self::Bytes;
    /// The same 32 bytes twice.
    fn twice(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// `low`, `low`, `high`, `high`.
    fn each_twice(self, low: &[u8; 16], high: &[u8; 16]) -> Self::Bytes;
    /// `value` in byte `i` where bit `i` is set, zero elsewhere.
    fn bits(self, bits: u64, value: u8) -> Self::Bytes;
    /// `value` in each byte that has the bit of its quarter, zero elsewhere.
    fn flags(self, bytes: Self::Bytes, bits: [u8; 4], value: u8) -> Self::Bytes;
    /// Shifts each quarter right by less than 8. Bits of neighbouring bytes come in at the top: mask them away.
    fn shift_right(self, bytes: Self::Bytes, by: [u8; 4]) -> Self::Bytes;
    /// Shifts left by 4. Bits leave for the next byte: mask first.
    fn shift_left_4(self, bytes: Self::Bytes) -> Self::Bytes;
    /// Keeps of each byte the bits of `mask`.
    fn and(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Bits of either.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Of `table`, the byte that each byte numbers; all are below 16.
    fn look_up(self, table: &[u8; 16], numbers: Self::Bytes) -> Self::Bytes;
    /// The bytes in order.
    fn store_bytes(self, bytes: Self::Bytes) -> [u8; 64];

    /// Sums of four products of codes up to 127 with activations of at least -127.
    fn dot(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;
    /// The same for signed codes, to each of which [`Simd::SIGNED_BIAS`] is added first.
    fn dot_signed(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats;

    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Floats;
    /// The f16 of these bits in every lane.
    fn splat_f16(self, bits: u16) -> Self::Floats;
    /// 16 floats in order.
    fn floats(self, floats: &[f32; 16]) -> Self::Floats;
    /// Writes the floats in order.
    fn store(self, floats: Self::Floats, out: &mut [f32; 16]);
    /// 16 stored f32 at any address.
    fn stored_floats(self, floats: &[u8; 64]) -> Self::Floats;
    /// 16 stored f16, exactly.
    fn widen_f16(self, halves: &[u8; 32]) -> Self::Floats;
    /// 16 stored bf16, exactly.
    fn widen_bf16(self, halves: &[u8; 32]) -> Self::Floats;
    /// Unsigned bytes as floats.
    fn widen_u8(self, bytes: [u8; 16]) -> Self::Floats;
    /// Signed bytes as floats.
    fn widen_i8(self, bytes: [i8; 16]) -> Self::Floats;
    /// Eight unsigned bytes, lowest first, as floats, each twice.
    fn widen_u8_twice(self, bytes: u64) -> Self::Floats;
    /// Eight pairs of f16 as floats: the first of each pair twice, and the second of each pair twice.
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (Self::Floats, Self::Floats);
    /// Eight floats, each twice.
    fn floats_twice(self, floats: &[f32; 8]) -> Self::Floats;
    /// Lanes `4 pair` to `4 pair + 3`, each four times: one for each lane of a quarter. `pair` is below 4.
    fn spread(self, floats: Self::Floats, pair: usize) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// The sum of all lanes.
    fn sum(self, floats: Self::Floats) -> f32;
    /// The largest of all lanes' bits, signs cleared: it orders magnitudes, infinity and NaN last.
    fn magnitude(self, a: Self::Floats, b: Self::Floats) -> u32;
    /// Rounds lanes between -127 and 127, ties to even, and sums them. NaN becomes zero.
    fn round(self, floats: Self::Floats, out: &mut [i8; 16]) -> i32;
}

/// A computation that has a plain form, which specifies it, and one on vectors.
pub(crate) trait Kernel {
    /// What comes of it.
    type Output;

    /// The specification.
    fn scalar(self) -> Self::Output;

    /// The same on vectors; to be marked `#[inline(always)]`.
    fn simd<S: Simd>(self, s: S) -> Self::Output;
}
