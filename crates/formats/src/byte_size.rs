//! Sizes in memory and on disk, as people read them.

/// Formats a number of bytes in binary units: `1.5 KiB`, `93.8 MiB`.
pub fn byte_size(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let check = |n, text: &str| assert_eq!(byte_size(n), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check(98_362_432, "93.8 MiB");
        check(u64::MAX, "16777216 TiB");
    }
}
