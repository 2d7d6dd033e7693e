//! Names of presets, and the names of their files.

use crate::{
    device_name::is_device_name,
    title,
    wire::{ChatReason, Presets, Problem, ProblemCode},
};

/// Most characters of a name.
const MAX_NAME: usize = 80;

/// Most characters of a file's name, without its extension.
const MAX_STEM: usize = 60;

/// Returns a name on one line, without control characters and characters that reorder text.
///
/// # Errors
/// It is empty or too long.
pub(super) fn checked(name: &str) -> Result<String, Problem> {
    let count = name.chars().count();
    if count > MAX_NAME {
        return refuse(ChatReason::PresetNameTooLong { limit: MAX_NAME, count });
    }
    // `normalized` removes the other characters that reorder text.
    let is_direction_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}');
    let name: String = name.chars().filter(|c| !is_direction_mark(*c)).collect();
    title::normalized(&name).map_or_else(|| Err(title::empty_name()), Ok)
}

/// Refuses the name of another preset than `except`, ignoring case.
pub(super) fn refuse_taken(presets: &Presets, name: &str, except: Option<&str>) -> Result<(), Problem> {
    if is_taken(presets, name, except) {
        refuse(ChatReason::PresetNameTaken { name: name.to_owned() })
    } else {
        Ok(())
    }
}

fn is_taken(presets: &Presets, name: &str, except: Option<&str>) -> bool {
    let folded = name.to_lowercase();
    let others = presets
        .presets
        .iter()
        .filter(|preset| Some(preset.id.as_str()) != except);
    others.into_iter().any(|preset| preset.name.to_lowercase() == folded)
}

/// The name, with a number appended if it is taken.
pub(super) fn free(presets: &Presets, name: &str) -> String {
    if !is_taken(presets, name, None) {
        return name.to_owned();
    }
    let prefix: String = name.chars().take(MAX_NAME - 8).collect();
    let numbered = (2..=u32::MAX).map(|number| format!("{} {number}", prefix.trim_end()));
    numbered
        .into_iter()
        .find(|name| !is_taken(presets, name, None))
        .unwrap_or(prefix)
}

/// The name of a preset's file without its extension, valid on every system: lower-case ASCII
/// letters, digits and hyphens, and no device name.
pub fn file_stem(name: &str) -> String {
    let mut stem = String::new();
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => stem.push(c),
            _ if stem.is_empty() || stem.ends_with('-') => {}
            _ => stem.push('-'),
        }
    }
    stem.truncate(MAX_STEM);
    let stem = stem.trim_end_matches('-');
    match stem {
        "" => "preset".to_owned(),
        _ if is_device_name(stem) => format!("preset-{stem}"),
        _ => stem.to_owned(),
    }
}

fn refuse<T>(reason: ChatReason) -> Result<T, Problem> {
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_name_becomes_a_safe_file_name() {
        for (name, expected) in [
            ("My Preset", "my-preset"),
            ("../x", "x"),
            ("..", "preset"),
            ("/etc/passwd", "etc-passwd"),
            ("C:\\x", "c-x"),
            ("CON", "preset-con"),
            ("com1", "preset-com1"),
            ("nul.json", "nul-json"),
            ("\u{1f600}\u{1f600}", "preset"),
            ("Über", "ber"),
            (" -- ", "preset"),
            (".hidden", "hidden"),
        ] {
            assert_eq!(file_stem(name), expected, "{name}");
        }
        assert_eq!(file_stem(&"x".repeat(300)).len(), MAX_STEM);
    }

    #[test]
    fn a_name_is_bounded() {
        assert!(checked(&"x".repeat(300)).is_err_and(|problem| problem.to_string().contains("not 300")));
        assert!(checked(" \n\u{202e} ").is_err());
        assert_eq!(checked(" a\u{202e}\u{7}b\nc ").as_deref(), Ok("ab c"));
        assert_eq!(checked("\u{1f600}").as_deref(), Ok("\u{1f600}"));
    }

    proptest! {
        #[test]
        fn a_file_name_is_plain(name in any::<String>()) {
            let stem = file_stem(&name);
            prop_assert!(!stem.is_empty() && stem.len() <= MAX_STEM + 7);
            prop_assert!(stem.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        }
    }
}
