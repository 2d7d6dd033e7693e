//! Names that Windows gives to devices.

/// Whether a file's name is that of a device on Windows, in any case and with any extension.
pub(crate) fn is_device_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_ascii_lowercase();
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || (stem.len() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_recognised_in_any_case_and_with_any_extension() {
        for name in ["CON", "nul.txt", "con .txt", "Com1.x.json", "lpt9", "AUX."] {
            assert!(is_device_name(name), "{name}");
        }
        for name in ["", "console", "com10", "x.con", "un", ".con"] {
            assert!(!is_device_name(name), "{name}");
        }
    }
}
