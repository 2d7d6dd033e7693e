//! Checks of file names: device names of Windows, and names that are valid on every system.

use hearth_formats::characters::is_hidden;

/// Whether a file name is a device name on Windows, in any case and with any extension.
pub(crate) fn is_device_name(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end();
    let stem = stem.to_ascii_lowercase();
    // Windows also accepts superscript digits.
    let is_port = |prefix: &str| {
        let mut rest = stem.strip_prefix(prefix).unwrap_or_default().chars();
        rest.next()
            .is_some_and(|c| matches!(c, '0'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}'))
            && rest.next().is_none()
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$") || is_port("com") || is_port("lpt")
}

/// Whether an untrusted name is valid for a file on every system and not deceptive: no device, path
/// or hidden file, and no character that is forbidden, is invisible or reorders text.
pub(crate) fn is_portable_name(name: &str) -> bool {
    // Emoji and Persian words contain joiners and variation selectors.
    let is_joiner = |c: char| matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    let is_refused = |c: char| (is_hidden(c) && !is_joiner(c)) || r#"<>:"/\|?*"#.contains(c);
    !name.is_empty()
        && !name.starts_with([' ', '.'])
        && !name.ends_with([' ', '.'])
        && !name.contains(is_refused)
        && !is_device_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joiners_are_portable_and_direction_marks_are_not() {
        for name in ["\u{2764}\u{fe0f}-Q4.gguf", "\u{645}\u{6cc}\u{200c}\u{62e}.gguf"] {
            assert!(is_portable_name(name), "{name}");
        }
        for name in ["a\u{202e}ffug.gguf", "a\u{200f}.gguf", "a\u{200b}.gguf", "a\u{a0}.gguf"] {
            assert!(!is_portable_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_device_is_recognized_in_any_case_and_with_any_extension() {
        for name in [
            "CON",
            "nul.txt",
            "con .txt",
            "Com1.x.json",
            "lpt9",
            "AUX.",
            "COM\u{b9}.gguf",
            "lpt\u{b3}",
            "CONIN$",
            "conout$.txt",
            "NUL:x",
        ] {
            assert!(is_device_name(name), "{name}");
        }
        for name in [
            "",
            "console",
            "com10",
            "x.con",
            "un",
            ".con",
            "comx",
            "com",
            "com\u{2074}",
            "lpt-",
            "conin",
        ] {
            assert!(!is_device_name(name), "{name}");
        }
    }

    #[test]
    fn hidden_files_paths_devices_and_hidden_characters_are_not_portable() {
        for name in [
            "a.Q4_K_M.gguf",
            "\u{1f999} model (2).gguf",
            "comx.gguf",
            "\u{e9}t\u{e9}.gguf",
        ] {
            assert!(is_portable_name(name), "{name}");
        }
        for name in [
            "",
            ".hidden",
            "a.",
            "a/b",
            "C:x",
            "com\u{b2}.gguf",
            "a\u{202e}fug.gguf",
            "a\u{200b}b.gguf",
            "a\u{a0}b.gguf",
            "a\u{9b}b.gguf",
        ] {
            assert!(!is_portable_name(name), "{name:?}");
        }
    }
}
