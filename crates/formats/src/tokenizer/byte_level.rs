//! GPT-2's byte-level alphabet: a printable character for each byte, so that every token is valid
//! UTF-8.

/// The byte that a character encodes. `None` if it is not in the alphabet.
///
/// Bytes that are printable in Latin-1 map to themselves, the others in ascending order to U+0100
/// and up.
pub(super) fn byte_of(character: char) -> Option<u8> {
    match character as u32 {
        // The soft hyphen (U+00AD) is not printable.
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Appends the bytes that a text encodes. Returns `false` and leaves `out` unchanged if a character
/// is not in the alphabet.
pub(super) fn decode(text: &str, out: &mut Vec<u8>) -> bool {
    let old_len = out.len();
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(old_len);
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
