//! Conversion of numbers for the protocol.

/// Converts a count to `u32`; saturates.
pub(crate) fn saturating_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
