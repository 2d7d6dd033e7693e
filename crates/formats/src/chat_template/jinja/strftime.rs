//! Python's `datetime.strftime` as on Linux, in English.

use super::budget;
use jiff::Zoned;
use jiff::fmt::strtime;

/// Formats a time as a naive `datetime`: `%z` and `%Z` are empty. Unknown directives are copied.
pub(super) fn strftime(format: &str, now: &Zoned) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let field = &rest[start..];
        // A directive produces at most a few tens of bytes.
        if !budget::charge_bytes(64) {
            break;
        }
        let flags = field[1..]
            .bytes()
            .take_while(|b| matches!(b, b'-' | b'_' | b'^' | b'#' | b'0'..=b'9'))
            .count();
        let directive = field[1 + flags..].chars().next();
        let length = 1 + flags + directive.map_or(0, char::len_utf8);
        out.push_str(&directive_text(&field[..length], &field[1..=flags], directive, now));
        rest = &field[length..];
    }
    out.push_str(rest);
    out
}

/// Formats a field: a percent sign, `flags` and a directive.
fn directive_text(field: &str, flags: &str, directive: Option<char>, now: &Zoned) -> String {
    let format = match directive {
        Some('f') => return format!("{:06}", now.subsec_nanosecond() / 1000),
        Some('z' | 'Z') => return String::new(),
        Some('c') => "%a %b %e %H:%M:%S %Y".to_owned(),
        Some('x') => "%m/%d/%y".to_owned(),
        Some('X') => "%H:%M:%S".to_owned(),
        Some('r') => "%I:%M:%S %p".to_owned(),
        Some('h') => format!("%{flags}b"),
        Some(
            'a' | 'A' | 'b' | 'B' | 'C' | 'd' | 'D' | 'e' | 'F' | 'g' | 'G' | 'H' | 'I' | 'j' | 'k' | 'l' | 'm' | 'M'
            | 'n' | 'p' | 'P' | 'R' | 's' | 'S' | 't' | 'T' | 'u' | 'U' | 'V' | 'w' | 'W' | 'y' | 'Y' | '%',
        ) => field.to_owned(),
        _ => return field.to_owned(),
    };
    strtime::format(&format, now).unwrap_or_else(|_| field.to_owned())
}
