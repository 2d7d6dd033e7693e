//! Web pages that a server sends in place of a file.

/// Tags at the beginning of HTML, in lower case.
const START_TAGS: [&[u8]; 7] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<body",
    b"<title",
    b"<script",
    b"<meta",
];

/// Whether the first bytes of a file are HTML, possibly after XML declarations and comments.
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
            Some(index) => rest = &rest[index + end.len()..],
            // The comment or declaration ends after the bytes that were read.
            None => return true,
        }
    }
    let starts_with_tag = |tag: &&[u8]| {
        rest.get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    START_TAGS.iter().any(starts_with_tag)
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
