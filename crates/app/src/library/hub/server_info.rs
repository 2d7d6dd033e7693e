//! The version and range support of a file, from the headers of a response.

use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use serde::{Deserialize, Serialize};
use ureq::{
    Body,
    http::{HeaderMap, HeaderName, Response, StatusCode, header},
};

/// Most bytes of a version. Known servers use up to 100.
const MAX_VERSION_BYTES: usize = 256;

/// Minimum time between a file's last change and the response, by the clock of the server (RFC
/// 9110, 8.8.2.2): no second change can then have the same time.
const SETTLED: SignedDuration = SignedDuration::from_secs(1);

/// Minimum time since the last change by the clock of this machine, which may differ.
const SETTLED_HERE: SignedDuration = SignedDuration::from_secs(60);

/// The version and range support of a file, as its server reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Its version: a strong ETag, or else the time of its last change. Files with equal versions
    /// have equal bytes. `None` means that the server names no version.
    pub version: Option<String>,
    /// Whether the server supports range requests. `None` means unknown.
    pub ranges: Option<bool>,
}

impl ServerInfo {
    /// Reads the headers of a response. `is_range_request` means that a range was requested.
    pub(in super::super) fn from_response(response: &Response<Body>, is_range_request: bool) -> Self {
        let headers = response.headers();
        let accepts = text(headers, header::ACCEPT_RANGES);
        Self {
            version: version(headers),
            ranges: match response.status() {
                StatusCode::PARTIAL_CONTENT => Some(true),
                // A server may send the whole file because its version differs from `If-Range`.
                _ if is_range_request && accepts != Some("bytes") => Some(false),
                _ => accepts.map(|unit| unit == "bytes"),
            },
        }
    }
}

impl ServerInfo {
    /// Drops a version, read from a file, that is not valid in a header.
    pub(in super::super) fn check(&mut self) {
        let is_version = |text: &String| {
            let is_time = || DateTimeParser::new().parse_timestamp(text).is_ok();
            let is_text = text.len() <= MAX_VERSION_BYTES && !text.chars().any(char::is_control);
            is_text && (is_strong(text) || is_time())
        };
        self.version = self.version.take().filter(is_version);
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn version(headers: &HeaderMap) -> Option<String> {
    let short = |name| text(headers, name).filter(|text| text.len() <= MAX_VERSION_BYTES);
    let etag = short(header::ETAG).filter(|etag| is_strong(etag));
    let modified = || short(header::LAST_MODIFIED).filter(|time| is_settled(time, text(headers, header::DATE)));
    etag.or_else(modified).map(str::to_owned)
}

/// Whether equal tags mean equal bytes.
fn is_strong(etag: &str) -> bool {
    etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"')
}

/// Whether a file that was changed at this time cannot be changed once more with the same time.
fn is_settled(modified: &str, date: Option<&str>) -> bool {
    let parse = |text| DateTimeParser::new().parse_timestamp(text).ok();
    let Some(modified) = parse(modified) else {
        return false;
    };
    match date.and_then(parse) {
        Some(date) => date.duration_since(modified) >= SETTLED,
        None => Timestamp::now().duration_since(modified) >= SETTLED_HERE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

    #[test]
    fn a_version_of_a_file_is_one_that_a_server_may_have_named() {
        let long = format!("\"{}\"", "a".repeat(300));
        for (text, is_kept) in [
            ("\"a\"", true),
            (OLD, true),
            ("W/\"a\"", false),
            ("\"a\r\nX: b\"", false),
            ("\"a\u{1}\"", false),
            ("a", false),
            ("", false),
            (&long, false),
        ] {
            let mut server_info = ServerInfo {
                version: Some(text.to_owned()),
                ranges: None,
            };
            server_info.check();
            assert_eq!(server_info.version.is_some(), is_kept, "{text:?}");
        }
    }

    #[test]
    fn a_version_is_a_strong_tag_or_a_settled_time() {
        let etag = |text| (header::ETAG, text);
        let modified = |text| (header::LAST_MODIFIED, text);
        let date = |text| (header::DATE, text);
        type Case<'a> = (&'a [(HeaderName, &'a str)], Option<&'a str>);
        let cases: [Case; 9] = [
            (&[], None),
            (&[etag("\"a\"")], Some("\"a\"")),
            (&[etag("\"a\""), modified(OLD)], Some("\"a\"")),
            (&[etag("W/\"a\"")], None),
            (&[etag("W/\"a\""), modified(OLD)], Some(OLD)),
            (&[etag("\"\"")], None),
            (&[modified(OLD), date("Wed, 21 Oct 2015 07:28:01 GMT")], Some(OLD)),
            // It may change again within the second.
            (&[modified(OLD), date(OLD)], None),
            (&[modified("yesterday")], None),
        ];
        for (pairs, expected) in cases {
            let headers = pairs
                .iter()
                .map(|(name, text)| (name.clone(), text.parse().expect("a value")));
            let actual = version(&headers.collect());
            assert_eq!(actual.as_deref(), expected, "{pairs:?}");
        }
        let long = format!("\"{}\"", "a".repeat(300));
        let headers = HeaderMap::from_iter([(header::ETAG, long.parse().expect("a value"))]);
        assert_eq!(version(&headers), None);
    }
}
