//! Human-readable sizes in memory and on disk.

/// Formats a number of bytes in decimal units, as file managers and model hubs show them:
/// `1.5 kB`, `94 MB`, `16.4 GB`. Values below ten, and all from 1 GB on, have one decimal unless it
/// is 0.
///
/// `fileSize` in `ui/src/lib/text/format.ts` formats sizes in the same way.
pub fn byte_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let rounded = |value: f64, unit| {
        let has_decimal = unit >= 3 || unit > 0 && value < 9.95;
        let step = if has_decimal { 10.0 } else { 1.0 };
        (value * step).round() / step
    };
    let (mut value, mut unit) = (bytes as f64, 0);
    // Compares the rounded value, so that 999,950 bytes are 1 MB, not 1000 kB.
    while unit + 1 < UNITS.len() && rounded(value, unit) >= 1000.0 {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", rounded(value, unit), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_in_decimal_units() {
        // The same table is in ui/tests/unit/format.test.ts.
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (1250, "1.3 kB"),
            (1536, "1.5 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1 MB"),
            (999_950, "1 MB"),
            (98_362_432, "98 MB"),
            (999_499_999, "999 MB"),
            (999_500_000, "1 GB"),
            (16_384_000_000, "16.4 GB"),
            (999_949_999_999, "999.9 GB"),
            (999_950_000_000, "1 TB"),
            (u64::MAX, "18446744.1 TB"),
        ] {
            assert_eq!(byte_size(bytes), text, "{bytes}");
        }
    }
}
