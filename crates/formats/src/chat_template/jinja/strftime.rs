//! Dates as Python's `datetime.strftime` writes them on Linux, in English.

use super::budget;
use jiff::Zoned;
use jiff::fmt::strtime;

/// A date in a format. A time without its zone is meant, so `%z` and `%Z` are empty; what is no directive stays as it is.
pub(super) fn strftime(format: &str, now: &Zoned) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let field = &rest[start..];
        // Each is written in some tens of bytes at most.
        if !budget::take(64) {
            break;
        }
        let flags = field[1..]
            .bytes()
            .take_while(|b| matches!(b, b'-' | b'_' | b'^' | b'#' | b'0'..=b'9'))
            .count();
        let directive = field[1 + flags..].chars().next();
        let length = 1 + flags + directive.map_or(0, char::len_utf8);
        out.push_str(&one(&field[..length], &field[1..=flags], directive, now));
        rest = &field[length..];
    }
    out.push_str(rest);
    out
}

/// One directive, from its percent sign on.
fn one(field: &str, flags: &str, directive: Option<char>, now: &Zoned) -> String {
    let whole = match directive {
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
    strtime::format(&whole, now).unwrap_or_else(|_| field.to_owned())
}
