//! Web pages that a server sends in place of a file.

/// Beginnings of HTML, in lower case.
const STARTS: [&[u8]; 7] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<body",
    b"<title",
    b"<script",
    b"<meta",
];

/// Whether a file begins as HTML does. Declarations of XML and comments may come first.
pub fn is_web_page(start: &[u8]) -> bool {
    let mut rest = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    loop {
        rest = rest.trim_ascii_start();
        let end: &[u8] = match rest {
            _ if rest.starts_with(b"<!--") => b"-->",
            _ if rest.starts_with(b"<?xml") => b"?>",
            _ => break,
        };
        match rest.windows(end.len()).position(|window| window == end) {
            Some(at) => rest = &rest[at + end.len()..],
            // Its end was not read.
            None => return true,
        }
    }
    let is_start = |text: &&[u8]| {
        rest.get(..text.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    STARTS.iter().any(is_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_from_files() {
        for page in [
            "<!DOCTYPE html><title>Log in</title>",
            "\u{feff}\r\n <html lang=\"en\">",
            "<!-- saved --><!-- twice -->\n<HTML>",
            "<?xml version=\"1.0\"?><!doctype HTML PUBLIC>",
            "<!-- a comment without an end",
        ] {
            assert!(is_web_page(page.as_bytes()), "{page}");
        }
        for file in ["", "GGUF", "<", "<!doctype", "{\"error\": \"<html>\"}", "<svg>", "-->"] {
            assert!(!is_web_page(file.as_bytes()), "{file}");
        }
    }
}
