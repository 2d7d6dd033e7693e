//! Lexer for tags, and decoding of string literals as in Python.

/// Maximum bracket depth and tokens of a tag: the code here and in minijinja recurses over them.
/// The largest tag of the real templates in the tests has 1,266 tokens.
const MAX_DEPTH: usize = 100;
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
    let mut at = 0;
    loop {
        let Some(&byte) = bytes.get(at) else { return Ok(None) };
        if depth == 0 {
            let signed = at + usize::from(matches!(byte, b'-' | b'+'));
            if bytes[signed..].starts_with(end.as_bytes()) {
                return Ok(Some((tokens, at)));
            }
        }
        let start = at;
        let kind = match byte {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'\'' | b'"' => {
                let Some(end) = end_of_string(bytes, at) else {
                    return Ok(None);
                };
                at = end;
                TokenKind::String
            }
            b'0'..=b'9' => {
                at = end_of_number(bytes, at);
                TokenKind::Number
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err("a tag with more than 100 brackets inside each other");
                }
                at += 1;
                TokenKind::Open
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
                TokenKind::Close
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | 128.. => {
                let part = |b: &u8| *b == b'_' || b.is_ascii_alphanumeric() || *b >= 128;
                at += bytes[at..].iter().take_while(|b| part(b)).count();
                TokenKind::Name
            }
            _ => {
                const PAIRS: [&str; 6] = ["==", "!=", "<=", ">=", "//", "**"];
                at += if PAIRS.iter().any(|pair| text[at..].starts_with(pair)) {
                    2
                } else {
                    1
                };
                TokenKind::Operator
            }
        };
        if tokens.len() == MAX_TOKENS {
            return Err("a tag of more than 4,000 tokens");
        }
        tokens.push(Token { kind, start, end: at });
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while *bytes.get(at)? != bytes[start] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let run = |at: usize| {
        let part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        at + bytes[at..].iter().take_while(part).count()
    };
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = run(start);
    if bytes.get(at) == Some(&b'.') && digit(at + 1) {
        at = run(at + 1);
    }
    // A sign in the exponent. Hexadecimal numbers may end with an e.
    let exponent = matches!(bytes[at - 1], b'e' | b'E') && !matches!(bytes.get(start + 1), Some(b'x' | b'X'));
    if exponent && matches!(bytes.get(at), Some(b'-' | b'+')) && digit(at + 1) {
        at = run(at + 1);
    }
    at
}

/// Decodes a literal's escapes as Python does, which leaves unknown ones unchanged, and returns it
/// as a literal.
pub(super) fn string(literal: &str) -> String {
    let quote = literal.chars().next().unwrap_or('"');
    let inside = &literal[1..literal.len() - 1];
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
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

/// The character of an escape and its length. `None` for an escaped line break.
fn escape(text: &str) -> (Option<char>, usize) {
    let code = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok();
    let fixed = |length: usize| {
        let digits = text
            .get(2..2 + length)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| code(digits, 16)) {
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
        Some(b'x') => fixed(2),
        Some(b'u') => fixed(4),
        Some(b'U') => fixed(8),
        Some(b'0'..=b'7') => {
            let length = text[1..]
                .bytes()
                .take(3)
                .take_while(|b| (b'0'..=b'7').contains(b))
                .count();
            let character = code(&text[1..=length], 8).and_then(char::from_u32);
            (character, 1 + length)
        }
        _ => (Some('\\'), 1),
    }
}
