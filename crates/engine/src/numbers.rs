//! Converts numbers for the protocol.

/// Converts a count to `u32`. Larger counts become the maximum.
pub(crate) fn saturating_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
