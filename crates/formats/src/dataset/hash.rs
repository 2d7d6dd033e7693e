//! A hash that is stable across machines and versions, so that a resumed run has the same
//! validation split.

/// Updates an FNV-1a state with bytes. <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>
fn fnv(state: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes
        .iter()
        .fold(state, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The FNV-1a offset basis.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Hash of bytes.
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    mix(fnv(OFFSET, bytes))
}

/// Hash of a sequence of texts, including their boundaries.
pub(super) fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    // 0xff never occurs in UTF-8.
    mix(texts.fold(OFFSET, |state, text| fnv(fnv(state, text.as_bytes()), &[0xff])))
}

/// Mixes all bits (the finalizer of SplitMix64). <https://prng.di.unimi.it/splitmix64.c>
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
