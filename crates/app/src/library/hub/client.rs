//! HTTP requests to a hub, bounded in size and time. The token is sent only to the hub's endpoint,
//! and over HTTPS only.

use super::super::LibraryError;
use super::address::{Lookup, PrivateAddress, Server, redirected};
use super::deadline::Deadline;
use super::keychain::Keychain;
use super::token::{Token, set, token};
use hearth_protocol::FetchFailure;
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use serde::de::DeserializeOwned;
use std::{env, io, thread, time::Duration};
use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, StatusCode, header},
    unversioned::transport::DefaultConnector,
};

/// The default hub; `HF_ENDPOINT` or a setting overrides it.
pub(crate) const HUB: &str = "https://huggingface.co";

/// Ollama's registry.
const OLLAMA: &str = "https://registry.ollama.ai";

/// See [`Hub::patience`].
const PATIENCE: Duration = Duration::from_secs(60);

/// See [`Hub::silence`].
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most redirects of a request.
const MAX_REDIRECTS: u32 = 5;

/// Most bytes of a JSON response: a repository of 20,000 files has about 8 MB.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// The environment variable that switches the network off.
const OFFLINE: &str = "HF_HUB_OFFLINE";

/// Most attempts of a request for JSON.
const MAX_JSON_REQUESTS: u32 = 3;

/// The hub to ask.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Base URL, without a trailing slash.
    pub endpoint: String,
    /// Base URL of Ollama's registry, without a trailing slash.
    pub ollama: String,
    /// Bearer token, sent to the endpoint only, and over HTTPS only.
    pub token: Option<Token>,
    /// Delay before the first retry; doubles with each.
    pub retry_delay: Duration,
    /// Longest time for which a connection may send no data.
    pub silence: Duration,
    /// Time limit of JSON, a header or a configuration. The body of a file is limited by `silence`
    /// only.
    pub patience: Duration,
    /// The ranges in which large files are requested.
    pub ranges: Ranges,
}

/// The options of a request.
#[derive(Debug, Clone, Copy, Default)]
struct RequestOptions<'a> {
    /// The first and the last byte, inclusive. Without a last byte, the range ends with the file.
    range: Option<(u64, Option<u64>)>,
    /// The version of the file to which the range applies (`If-Range`). The server sends the whole
    /// file if it has another version.
    version: Option<&'a str>,
    /// The media type.
    accept: Option<&'a str>,
    /// The time limit of the whole response.
    deadline: Option<Deadline>,
}

/// The ranges in which large files are requested: in parallel, if the server supports ranges.
#[derive(Debug, Clone, Copy)]
pub struct Ranges {
    /// Size in bytes from which a file is requested as ranges.
    pub min_file_size: u64,
    /// Bytes of a range. After a crash, up to as many bytes are requested again.
    pub size: u64,
    /// Ranges requested at a time.
    pub parallel: usize,
}

impl Default for Ranges {
    fn default() -> Self {
        Self {
            min_file_size: 64 << 20,
            size: 32 << 20,
            parallel: 4,
        }
    }
}

impl Hub {
    /// A hub at an address, without a token.
    pub fn at(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            ollama: OLLAMA.to_owned(),
            token: None,
            retry_delay: Duration::from_secs(1),
            silence: SILENCE_TIMEOUT,
            patience: PATIENCE,
            ranges: Ranges::default(),
        }
    }

    /// The hub of a setting, or else of the environment: `HF_ENDPOINT`, and the [`token`], which
    /// the mirror of a setting does not get. `HF_HUB_OFFLINE` disables it.
    ///
    /// # Errors
    /// [`LibraryError::OfflineByVariable`]
    pub fn from_environment(endpoint: Option<&str>, keychain: &dyn Keychain) -> Result<Self, LibraryError> {
        if is_offline() {
            return Err(LibraryError::OfflineByVariable(OFFLINE));
        }
        let mut hub = Self::without_token(endpoint);
        // The keychain may prompt the user, so it is read only if this endpoint may get the token.
        if hub.may_get_token(endpoint) {
            hub.token = token(keychain).map(|(token, _)| token);
        }
        Ok(hub)
    }

    /// The hub of a setting or the environment, without its token.
    fn without_token(endpoint: Option<&str>) -> Self {
        match endpoint {
            Some(mirror) => Self::at(mirror),
            None => Self::at(set("HF_ENDPOINT").as_deref().unwrap_or(HUB)),
        }
    }

    /// Whether the token may be sent to this hub. A mirror that a setting names does not get it.
    fn may_get_token(&self, setting: Option<&str>) -> bool {
        setting.is_none() || self.endpoint == HUB
    }

    /// The address of the hub of a setting or the environment.
    pub(crate) fn address(setting: Option<&str>) -> String {
        Self::without_token(setting).endpoint
    }

    /// Whether requests to the hub of a setting or the environment carry a token, if there is one.
    pub(crate) fn sends_token(setting: Option<&str>) -> bool {
        let hub = Self::without_token(setting);
        hub.may_get_token(setting) && is_https(&hub.endpoint)
    }

    /// The token, if a request to this address may carry it.
    fn token_for(&self, url: &str) -> Option<&str> {
        let rest = url.strip_prefix(&self.endpoint)?;
        let is_endpoint = rest.starts_with('/') && is_https(&self.endpoint);
        self.token.as_ref().filter(|_| is_endpoint).map(Token::reveal)
    }

    /// Sends a GET request for a file, or for the bytes from `range.0` to `range.1` (inclusive;
    /// `None` means the end). If the server has another version than `version`, it sends the whole
    /// file.
    pub(in super::super) fn get(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        version: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        self.send(
            url,
            &RequestOptions {
                range,
                version,
                ..RequestOptions::default()
            },
        )
    }

    /// Sends a GET request for some kilobytes. The response and its body must arrive before the
    /// deadline.
    pub(super) fn get_until(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        deadline: Deadline,
    ) -> Result<Response<Body>, Failure> {
        let options = RequestOptions {
            range,
            deadline: Some(deadline),
            ..RequestOptions::default()
        };
        self.send(url, &options)
    }

    /// Sends a request and follows its redirects: never from an encrypted address to one without
    /// encryption, never from the internet into a private network, and with the token only to the
    /// same server.
    fn send(&self, url: &str, options: &RequestOptions) -> Result<Response<Body>, Failure> {
        let (token, lookup) = (self.token_for(url), Lookup::default());
        let server = Server::parse(url);
        let (mut at, mut redirects) = (url.to_owned(), 0);
        loop {
            let token = token.filter(|_| Server::parse(&at) == server);
            let response = self.send_once(&at, options, token, &lookup)?;
            let status = response.status();
            let location = response.headers().get(header::LOCATION);
            let next = match (status.as_u16(), location) {
                (200 | 206, _) => return Ok(response),
                (301 | 302 | 303 | 307 | 308, Some(location)) => location.to_str().ok(),
                _ => return Err(self.status_failure(&at, status, retry_after(response.headers()))),
            };
            let next = next.and_then(|location| redirected(&at, location));
            let next = next.ok_or(Failure::Final(FetchFailure::InvalidRedirect))?;
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                return Err(Failure::Final(FetchFailure::RedirectLoop));
            }
            if is_https(&at) && !is_https(&next) {
                return Err(Failure::Final(FetchFailure::InsecureRedirect));
            }
            at = next;
        }
    }

    fn send_once(
        &self,
        url: &str,
        options: &RequestOptions,
        token: Option<&str>,
        lookup: &Lookup,
    ) -> Result<Response<Body>, Failure> {
        let timeout = options.deadline.map(|deadline| deadline.remaining()).transpose()?;
        let config = Agent::config_builder()
            .https_only(is_https(url))
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(self.silence))
            .timeout_recv_response(Some(self.silence))
            .timeout_per_read(Some(self.silence))
            .timeout_global(timeout)
            .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), lookup.clone());
        let mut request = agent.get(url);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some((from, to)) = options.range {
            let to = to.map_or_else(String::new, |to| to.to_string());
            request = request.header(header::RANGE, format!("bytes={from}-{to}"));
            if let Some(version) = options.version {
                request = request.header(header::IF_RANGE, version);
            }
        }
        if let Some(accept) = options.accept {
            request = request.header(header::ACCEPT, accept);
        }
        request.call().map_err(Failure::from_error)
    }

    /// Returns the failure of a response whose status is not success.
    fn status_failure(&self, url: &str, status: StatusCode, retry_after: Option<Duration>) -> Failure {
        let is_hub = url.starts_with(&self.endpoint);
        let is_token_withheld = self.token.is_some() && !is_https(&self.endpoint);
        let (code, status) = (status.as_u16(), status.to_string());
        match code {
            401 | 403 if !is_hub => Failure::Final(FetchFailure::AccessRefused { status }),
            401 | 403 if is_token_withheld => Failure::Final(FetchFailure::LoginUnencrypted),
            401 | 403 if self.token_for(url).is_some() => Failure::Final(FetchFailure::LoginRefused),
            // The hub hides private and missing repositories behind one status.
            401 | 403 => Failure::Final(FetchFailure::LoginRequired),
            404 | 410 => Failure::Final(FetchFailure::NotFound),
            416 => Failure::Range,
            408 | 429 | 500.. => {
                let cause = FetchFailure::BadStatus { status };
                match retry_after {
                    Some(delay) => Failure::Busy(cause, delay),
                    None => Failure::Temporary(cause),
                }
            }
            _ => Failure::Final(FetchFailure::BadStatus { status }),
        }
    }

    /// Requests JSON, with up to [`MAX_JSON_REQUESTS`] attempts. The address of a server is looked
    /// up once: without a network the user should read so at once.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str, accept: Option<&str>) -> Result<T, Failure> {
        let mut count = 0;
        loop {
            count += 1;
            match self.json_once(url, accept) {
                Ok(value) => return Ok(value),
                Err(Failure::Temporary(cause) | Failure::Busy(cause, _))
                    if count < MAX_JSON_REQUESTS && cause != FetchFailure::HostNotFound =>
                {
                    tracing::info!(?cause, url, "the request is retried");
                    thread::sleep(self.retry_delay * (1 << (count - 1)));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn json_once<T: DeserializeOwned>(&self, url: &str, accept: Option<&str>) -> Result<T, Failure> {
        let options = RequestOptions {
            accept,
            deadline: Some(Deadline::new(self)),
            ..RequestOptions::default()
        };
        let response = self.send(url, &options)?;
        let body = response.into_body().into_with_config().limit(MAX_JSON_BYTES);
        let text = body.lossy_utf8(true).read_to_string().map_err(Failure::from_error)?;
        serde_json::from_str(&text).map_err(|error| {
            if text.trim_start().starts_with('<') {
                return Failure::web_page();
            }
            tracing::info!(%error, url, "a response of the hub could not be read");
            Failure::Final(FetchFailure::UnexpectedResponse)
        })
    }
}

/// The failure of a request.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// A retry may succeed.
    Temporary(FetchFailure),
    /// A retry may succeed after this delay.
    Busy(FetchFailure, Duration),
    /// A retry would fail, too.
    Final(FetchFailure),
    /// The requested range does not exist.
    Range,
}

impl Failure {
    /// The error of a request for `item`.
    pub fn error(self, item: &str) -> LibraryError {
        self.error_of(Some(item.to_owned()))
    }

    /// The error of a search.
    pub fn search_error(self) -> LibraryError {
        self.error_of(None)
    }

    fn error_of(self, item: Option<String>) -> LibraryError {
        LibraryError::Hub {
            item,
            is_temporary: matches!(self, Self::Temporary(_) | Self::Busy(..)),
            failure: self.cause(),
        }
    }

    /// The cause for the user.
    pub fn cause(self) -> FetchFailure {
        match self {
            Self::Temporary(cause) | Self::Busy(cause, _) | Self::Final(cause) => cause,
            Self::Range => FetchFailure::BeyondEnd,
        }
    }

    /// The failure of a response that is a web page instead of data.
    pub fn web_page() -> Self {
        Self::Final(FetchFailure::WebPage)
    }

    /// The failure of a connection that broke while a body was read.
    pub fn broken(error: &io::Error) -> Self {
        let detail = error.to_string();
        Self::Temporary(FetchFailure::Broken { detail })
    }

    fn from_error(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Other(error) if error.is::<PrivateAddress>() => Self::Final(FetchFailure::PrivateRedirect),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Self::Final(FetchFailure::InvalidAddress {
                detail: error.to_string(),
            }),
            ureq::Error::HostNotFound => Self::Temporary(FetchFailure::HostNotFound),
            ureq::Error::Io(error) => Self::Temporary(FetchFailure::Unreachable {
                detail: error.to_string(),
            }),
            ureq::Error::Timeout(_) => Self::Temporary(FetchFailure::TimedOut),
            ureq::Error::BodyExceedsLimit(_) => Self::Final(FetchFailure::TooLarge),
            error => Self::Temporary(FetchFailure::Other {
                detail: error.to_string(),
            }),
        }
    }
}

/// The range of a file that a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct ResponseRange {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset of its last byte. `None` means that the whole file was sent.
    pub last: Option<u64>,
    /// Size of the whole file, if the server reports it.
    pub total: Option<u64>,
}

impl ResponseRange {
    /// Reads the headers of a response. A whole file starts at 0.
    ///
    /// # Errors
    /// The response is a web page, or its range is malformed.
    pub fn from_response(response: &Response<Body>) -> Result<Self, Failure> {
        if response.body().mime_type() == Some("text/html") {
            return Err(Failure::web_page());
        }
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Ok(Self {
                start: 0,
                last: None,
                total: content_length(response),
            });
        }
        let range = response.headers().get(header::CONTENT_RANGE);
        let parsed = range.and_then(|value| parse_range(value.to_str().ok()?));
        parsed.ok_or(Failure::Final(FetchFailure::MalformedRange))
    }
}

/// Length of a whole file.
fn content_length(response: &Response<Body>) -> Option<u64> {
    let is_empty = response
        .headers()
        .get(header::CONTENT_LENGTH)
        .is_some_and(|text| text == "0");
    // `ureq` reports no length for a response without a body.
    response.body().content_length().or(is_empty.then_some(0))
}

/// Parses `bytes 100-199/1000`; the total may be `*`.
fn parse_range(text: &str) -> Option<ResponseRange> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let (start, last) = (start.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    (start <= last && total.is_none_or(|total| last < total)).then_some(ResponseRange {
        start,
        last: Some(last),
        total,
    })
}

/// The time that the server asks to wait: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    // A date in the past gives a negative duration, which becomes zero.
    Some(Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or_default())
}

/// Whether the environment switches the network off.
pub(crate) fn is_offline() -> bool {
    let is_on = |value: String| ["1", "on", "yes", "true"].contains(&value.trim().to_lowercase().as_str());
    set(OFFLINE).is_some_and(is_on)
}

pub(super) fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_over_https_and_to_the_endpoint_only() {
        let is_sent = |endpoint: &str, url: &str| {
            let hub = Hub {
                token: Some("secret".into()),
                ..Hub::at(endpoint)
            };
            hub.token_for(url).is_some()
        };
        assert!(is_sent(HUB, "https://huggingface.co/api/models"));
        assert!(is_sent("HTTPS://mirror.example", "HTTPS://mirror.example/a"));
        for (endpoint, url) in [
            ("http://huggingface.co", "http://huggingface.co/a"),
            ("http://localhost:8080", "http://localhost:8080/a"),
            (HUB, "https://huggingface.co.evil.example/a"),
            (HUB, "https://evil.example/huggingface.co/"),
            (HUB, "http://huggingface.co/a"),
            ("", ""),
            ("ü", "ü/"),
        ] {
            assert!(!is_sent(endpoint, url), "{endpoint} {url}");
        }
    }

    #[test]
    fn a_range_is_parsed() {
        let parse = |text| parse_range(text).map(|range| (range.start, range.last, range.total));
        assert_eq!(parse("bytes 100-199/1000"), Some((100, Some(199), Some(1000))));
        assert_eq!(parse("bytes 0-1/*"), Some((0, Some(1), None)));
        for malformed in [
            "",
            "bytes",
            "bytes 1/2",
            "bytes a-b/3",
            "bytes 1-2/x",
            "items 1-2/3",
            "bytes -5/9",
            "bytes 5-4/9",
            "bytes 5-9/9",
        ] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn a_server_may_ask_to_wait() {
        let delay_of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().expect("a value"));
            retry_after(&headers)
        };
        assert_eq!(delay_of("120"), Some(Duration::from_secs(120)));
        assert_eq!(delay_of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(delay_of("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|delay| delay > Duration::from_secs(1 << 30)));
        for malformed in ["", "-1", "soon", "99999999999999999999999"] {
            assert_eq!(delay_of(malformed), None, "{malformed}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
