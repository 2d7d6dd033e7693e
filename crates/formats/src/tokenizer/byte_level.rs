//! The byte-level alphabet of GPT-2's vocabularies: a printable character for each byte, so that a token is always a text.

/// The byte that a character stands for.
///
/// Bytes that print in Latin-1 stand for themselves; the others, in order, are the characters from U+0100 on.
pub(super) fn byte_of(character: char) -> Option<u8> {
    match character as u32 {
        // Soft hyphen (U+00AD) does not print, though it lies among those that do.
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Appends the bytes that a text stands for, or leaves `out` as it was where a character stands for none.
pub(super) fn decode(text: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(before);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn known_characters() {
        for (character, byte) in [
            ('Ġ', b' '),
            ('Ċ', b'\n'),
            ('ĉ', b'\t'),
            ('a', b'a'),
            ('Ł', 0x9f),
            ('ł', 0xa0),
            ('Ń', 0xad),
        ] {
            assert_eq!(byte_of(character), Some(byte), "{character}");
        }
    }
}
