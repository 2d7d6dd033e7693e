//! Lexer for tags, and decoding of string literals as in Python.

/// Maximum bracket depth of a tag. The parsers of Hearth and minijinja recurse over brackets.
const MAX_DEPTH: usize = 100;
/// Maximum tokens of a tag. The parsers of Hearth and minijinja recurse over them. The largest tag
/// of the real templates in the tests has 1,266 tokens.
const MAX_TOKENS: usize = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    Number,
    String,
    Open,
    Close,
    Operator,
}

/// A token inside a tag. Offsets are in bytes of the tag's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start..self.end]
    }
}

/// Splits a tag into tokens, up to its delimiter `end`. Returns them with the offset of the
/// delimiter, or `None` if the tag or a string is not terminated.
///
/// # Errors
/// If the tag exceeds [`MAX_TOKENS`] or [`MAX_DEPTH`].
pub(super) fn lex(text: &str, end: &str) -> Result<Option<(Vec<Token>, usize)>, &'static str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    let mut offset = 0;
    loop {
        let Some(&byte) = bytes.get(offset) else {
            return Ok(None);
        };
        if depth == 0 {
            let delimiter = offset + usize::from(matches!(byte, b'-' | b'+'));
            if bytes[delimiter..].starts_with(end.as_bytes()) {
                return Ok(Some((tokens, offset)));
            }
        }
        let start = offset;
        let kind = match byte {
            b if b.is_ascii_whitespace() => {
                offset += 1;
                continue;
            }
            b'\'' | b'"' => {
                let Some(end) = end_of_string(bytes, offset) else {
                    return Ok(None);
                };
                offset = end;
                TokenKind::String
            }
            b'0'..=b'9' => {
                offset = end_of_number(bytes, offset);
                TokenKind::Number
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err("a tag with more than 100 brackets inside each other");
                }
                offset += 1;
                TokenKind::Open
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                offset += 1;
                TokenKind::Close
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | 128.. => {
                let is_in_name = |b: &u8| *b == b'_' || b.is_ascii_alphanumeric() || *b >= 128;
                offset += bytes[offset..].iter().take_while(|b| is_in_name(b)).count();
                TokenKind::Name
            }
            _ => {
                const LONG_OPERATORS: [&str; 6] = ["==", "!=", "<=", ">=", "//", "**"];
                let is_long = |operator: &&str| text[offset..].starts_with(operator);
                offset += if LONG_OPERATORS.iter().any(is_long) { 2 } else { 1 };
                TokenKind::Operator
            }
        };
        if tokens.len() == MAX_TOKENS {
            return Err("a tag of more than 4,000 tokens");
        }
        tokens.push(Token {
            kind,
            start,
            end: offset,
        });
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut offset = start + 1;
    while *bytes.get(offset)? != bytes[start] {
        offset += if bytes[offset] == b'\\' { 2 } else { 1 };
    }
    Some(offset + 1)
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let end_of_digits = |start: usize| {
        let is_digit = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        start + bytes[start..].iter().take_while(is_digit).count()
    };
    let is_decimal_digit = |offset: usize| bytes.get(offset).is_some_and(u8::is_ascii_digit);
    let mut end = end_of_digits(start);
    if bytes.get(end) == Some(&b'.') && is_decimal_digit(end + 1) {
        end = end_of_digits(end + 1);
    }
    // The exponent may have a sign. A hexadecimal number may end with an e.
    let has_exponent = matches!(bytes[end - 1], b'e' | b'E') && !matches!(bytes.get(start + 1), Some(b'x' | b'X'));
    if has_exponent && matches!(bytes.get(end), Some(b'-' | b'+')) && is_decimal_digit(end + 1) {
        end = end_of_digits(end + 1);
    }
    end
}

/// A string literal with its escapes decoded, except for quotes and backslashes. As in Python,
/// unknown escapes are unchanged.
pub(super) fn decode_escapes(literal: &str) -> String {
    let quote = literal.chars().next().unwrap_or('"');
    let mut rest = &literal[1..literal.len() - 1];
    let mut text = String::with_capacity(rest.len());
    while let Some(start) = rest.find('\\') {
        text.push_str(&rest[..start]);
        let (character, length) = escape(&rest[start..]);
        text.extend(character);
        rest = &rest[start + length..];
    }
    text.push_str(rest);
    let text = text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
    format!("{quote}{text}{quote}")
}

/// The character of the escape at the start of a text, and the length of the escape. `None` for an
/// escaped line break.
fn escape(text: &str) -> (Option<char>, usize) {
    let parse = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok();
    let hexadecimal = |length: usize| {
        let digits = text
            .get(2..2 + length)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| parse(digits, 16)) {
            // A lone surrogate is not a character.
            Some(code) => (
                Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
                2 + length,
            ),
            None => (Some('\\'), 1),
        }
    };
    let simple = |character| (Some(character), 2);
    match text.as_bytes().get(1) {
        Some(b'\n') => (None, 2),
        Some(b'\\') => simple('\\'),
        Some(b'\'') => simple('\''),
        Some(b'"') => simple('"'),
        Some(b'a') => simple('\u{7}'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'v') => simple('\u{b}'),
        Some(b'x') => hexadecimal(2),
        Some(b'u') => hexadecimal(4),
        Some(b'U') => hexadecimal(8),
        Some(b'0'..=b'7') => {
            let length = text[1..]
                .bytes()
                .take(3)
                .take_while(|b| (b'0'..=b'7').contains(b))
                .count();
            let character = parse(&text[1..=length], 8).and_then(char::from_u32);
            (character, 1 + length)
        }
        _ => (Some('\\'), 1),
    }
}
