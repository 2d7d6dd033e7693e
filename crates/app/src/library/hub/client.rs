//! HTTP requests to a hub: bounded, over HTTPS, with the token only where it belongs.

use super::super::LibraryError;
use serde::de::DeserializeOwned;
use std::{env, fs, path::PathBuf, thread, time::Duration};
use ureq::{
    Agent, Body,
    config::RedirectAuthHeaders,
    http::{Response, StatusCode, header},
};

/// The default hub; `HF_ENDPOINT` or a setting overrides it.
const HUB: &str = "https://huggingface.co";

/// Ollama's registry.
const OLLAMA: &str = "https://registry.ollama.ai";

/// Time limit of a response in JSON. The body of a file has none, but must not be silent.
const JSON_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most redirects of a request.
const MAX_REDIRECTS: u32 = 5;

/// Most bytes of a JSON response: a repository of 20,000 files has about 8 MB.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Requests for JSON until one succeeds.
const MAX_JSON_REQUESTS: u32 = 3;

/// Most bytes of a token file.
const MAX_TOKEN_BYTES: u64 = 4 << 10;

/// The hub to ask.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Base URL, without a trailing slash.
    pub endpoint: String,
    /// Base URL of Ollama's registry, without a trailing slash.
    pub ollama: String,
    /// Bearer token, sent to the endpoint only, and over HTTPS only.
    pub token: Option<String>,
    /// Delay before the first retry; doubles with each.
    pub retry_delay: Duration,
}

impl Hub {
    /// A hub at an address, without a token.
    pub fn at(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            ollama: OLLAMA.to_owned(),
            token: None,
            retry_delay: Duration::from_secs(1),
        }
    }

    /// The hub of a setting, or else of the environment: `HF_ENDPOINT`, and a token as the hub's
    /// own tools find it, which the mirror of a setting does not get. `HF_HUB_OFFLINE` disables it.
    ///
    /// # Errors
    /// [`LibraryError::Offline`]
    pub fn from_environment(endpoint: Option<&str>) -> Result<Self, LibraryError> {
        let is_on = |value: String| ["1", "on", "yes", "true"].contains(&value.trim().to_lowercase().as_str());
        if set("HF_HUB_OFFLINE").is_some_and(is_on) {
            return Err(LibraryError::Offline("HF_HUB_OFFLINE"));
        }
        Ok(match endpoint {
            // A mirror is not given the login of the hub.
            Some(mirror) => Self {
                token: token().filter(|_| Self::at(mirror).endpoint == HUB),
                ..Self::at(mirror)
            },
            None => Self {
                token: token(),
                ..Self::at(set("HF_ENDPOINT").as_deref().unwrap_or(HUB))
            },
        })
    }

    /// Whether requests to the endpoint carry a token.
    pub fn has_token(&self) -> bool {
        self.token_for(&format!("{}/", self.endpoint)).is_some()
    }

    /// The token, if a request to this address may carry it.
    fn token_for(&self, url: &str) -> Option<&str> {
        let rest = url.strip_prefix(&self.endpoint)?;
        let is_here = rest.starts_with('/') && is_https(&self.endpoint);
        self.token.as_deref().filter(|_| is_here)
    }

    /// Sends a GET request, of the bytes from `range.0` to `range.1` (inclusive; `None` means the
    /// end) if there is one.
    pub(in super::super) fn get(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
    ) -> Result<Response<Body>, Failure> {
        self.send(url, range, None, None)
    }

    fn send(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        accept: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<Response<Body>, Failure> {
        // An HTTPS address never redirects to one without.
        let agent: Agent = Agent::config_builder()
            .https_only(is_https(url))
            .max_redirects(MAX_REDIRECTS)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .http_status_as_error(false)
            .timeout_connect(Some(SILENCE_TIMEOUT))
            .timeout_recv_response(Some(SILENCE_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .timeout_recv_body(timeout)
            .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let mut request = agent.get(url);
        if let Some(token) = self.token_for(url) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some((from, to)) = range {
            let to = to.map_or_else(String::new, |to| to.to_string());
            request = request.header(header::RANGE, format!("bytes={from}-{to}"));
        }
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let response = request.call().map_err(Failure::of)?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            status => Err(self.refusal(url, status)),
        }
    }

    /// Why a response with another status than success is of no use.
    fn refusal(&self, url: &str, status: StatusCode) -> Failure {
        let is_hub = url.starts_with(&self.endpoint);
        let unsent = self.token.is_some() && !is_https(&self.endpoint);
        match status.as_u16() {
            401 | 403 if !is_hub => Failure::Final(format!("the server refuses access (it responded with {status})")),
            401 | 403 if unsent => Failure::Final(
                "the hub requires a login, and the token is sent only to an address with https://".to_owned(),
            ),
            401 | 403 if self.token_for(url).is_some() => Failure::Final(
                "the hub refuses this login: check the name, accept the model's terms on its page there, or renew the \
                 token"
                    .to_owned(),
            ),
            // The hub hides private and missing repositories behind one status.
            401 | 403 => Failure::Final(
                "the hub does not have it, or requires a login: check the name, accept the model's terms on its page \
                 there, and log in with `hf auth login` or set HF_TOKEN"
                    .to_owned(),
            ),
            404 | 410 => Failure::Final("the server does not have it (any more); check the name".to_owned()),
            416 => Failure::Range,
            408 | 429 | 500.. => Failure::Temporary(format!("the server responded with {status}")),
            _ => Failure::Final(format!("the server responded with {status}")),
        }
    }

    /// Requests JSON, up to three times.
    pub(super) fn json<T: DeserializeOwned>(
        &self,
        url: &str,
        what: &str,
        accept: Option<&str>,
    ) -> Result<T, LibraryError> {
        let mut count = 0;
        loop {
            count += 1;
            match self.json_once(url, accept) {
                Ok(value) => return Ok(value),
                Err(Failure::Temporary(why)) if count < MAX_JSON_REQUESTS => {
                    tracing::info!(why, url, "the request is retried");
                    thread::sleep(self.retry_delay * (1 << (count - 1)));
                }
                Err(failure) => return Err(failure.error(what)),
            }
        }
    }

    fn json_once<T: DeserializeOwned>(&self, url: &str, accept: Option<&str>) -> Result<T, Failure> {
        let response = self.send(url, None, accept, Some(JSON_TIMEOUT))?;
        let body = response.into_body().into_with_config().limit(MAX_JSON_BYTES);
        let text = body.lossy_utf8(true).read_to_string().map_err(Failure::of)?;
        serde_json::from_str(&text).map_err(|error| {
            if text.trim_start().starts_with('<') {
                return Failure::web_page();
            }
            tracing::info!(%error, url, "a response of the hub could not be read");
            Failure::Final("the hub's response is not in the expected form".to_owned())
        })
    }
}

/// Why a request brought nothing.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// A retry may succeed.
    Temporary(String),
    /// A retry would fail, too.
    Final(String),
    /// The requested range does not exist.
    Range,
}

impl Failure {
    /// The error of a request for this.
    pub fn error(self, what: &str) -> LibraryError {
        LibraryError::Hub {
            what: what.to_owned(),
            is_temporary: matches!(self, Self::Temporary(_)),
            why: self.why(),
        }
    }

    pub fn why(self) -> String {
        match self {
            Self::Temporary(why) | Self::Final(why) => why,
            Self::Range => "the server says that the file is shorter than expected".to_owned(),
        }
    }

    /// A page for a person came instead of data.
    pub fn web_page() -> Self {
        Self::Final(
            "a web page came instead; perhaps this network asks you to log in first: open any page in a browser"
                .to_owned(),
        )
    }

    fn of(error: ureq::Error) -> Self {
        match error {
            ureq::Error::TooManyRedirects => Self::Final("the address redirects in circles".to_owned()),
            ureq::Error::RequireHttpsOnly(_) => {
                Self::Final("the address redirects to one without encryption, which Hearth does not follow".to_owned())
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Self::Final(format!("the address is invalid: {error}")),
            ureq::Error::HostNotFound => {
                Self::Temporary("the server was not found; check the connection to the internet".to_owned())
            }
            ureq::Error::Io(error) => Self::Temporary(format!(
                "the server cannot be reached ({error}); check the connection to the internet"
            )),
            ureq::Error::Timeout(_) => Self::Temporary("the server did not respond in time".to_owned()),
            ureq::Error::BodyExceedsLimit(_) => Self::Final("the response is too large".to_owned()),
            error => Self::Temporary(error.to_string()),
        }
    }
}

/// A part of a file in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Requested {
    /// Offset of its first byte.
    pub start: u64,
    /// Size of the whole file, if the server says so.
    pub total: Option<u64>,
}

impl Requested {
    /// Reads the headers of a response. A whole file starts at 0.
    ///
    /// # Errors
    /// The response is a web page, or its range is malformed.
    pub fn of(response: &Response<Body>) -> Result<Self, Failure> {
        if response.body().mime_type() == Some("text/html") {
            return Err(Failure::web_page());
        }
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Ok(Self {
                start: 0,
                total: response.body().content_length(),
            });
        }
        let range = response.headers().get(header::CONTENT_RANGE);
        let parsed = range.and_then(|value| parse_range(value.to_str().ok()?));
        parsed.ok_or_else(|| Failure::Final("the server's range is malformed".to_owned()))
    }
}

/// Parses `bytes 100-199/1000`; the total may be `*`.
fn parse_range(text: &str) -> Option<Requested> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some(Requested {
        start: start.trim().parse().ok()?,
        total: match total.trim() {
            "*" => None,
            total => Some(total.parse().ok()?),
        },
    })
}

pub(super) fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

fn set(key: &str) -> Option<String> {
    env::var(key).ok().filter(|value| !value.trim().is_empty())
}

/// The token of `HF_TOKEN`, or of a login with the hub's own command line.
fn token() -> Option<String> {
    if let Some(token) = set("HF_TOKEN") {
        return Some(token.trim().to_owned());
    }
    let file = set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| {
        let home = super::super::folders::hugging_face_home()?;
        Some(home.join("token"))
    })?;
    let is_small = fs::metadata(&file).is_ok_and(|about| about.is_file() && about.len() <= MAX_TOKEN_BYTES);
    let text = fs::read_to_string(file).ok().filter(|_| is_small)?;
    let token = text.trim();
    (!token.is_empty() && !token.contains(char::is_whitespace)).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_over_https_and_to_the_endpoint_only() {
        let sent = |endpoint: &str, url: &str| {
            let hub = Hub {
                token: Some("secret".to_owned()),
                ..Hub::at(endpoint)
            };
            hub.token_for(url).is_some()
        };
        assert!(sent(HUB, "https://huggingface.co/api/models"));
        assert!(sent("HTTPS://mirror.example", "HTTPS://mirror.example/a"));
        for (endpoint, url) in [
            ("http://huggingface.co", "http://huggingface.co/a"),
            ("http://localhost:8080", "http://localhost:8080/a"),
            (HUB, "https://huggingface.co.evil.example/a"),
            (HUB, "https://evil.example/huggingface.co/"),
            (HUB, "http://huggingface.co/a"),
            ("", ""),
            ("ü", "ü/"),
        ] {
            assert!(!sent(endpoint, url), "{endpoint} {url}");
        }
    }

    #[test]
    fn a_range_is_parsed() {
        let of = |text| parse_range(text).map(|range| (range.start, range.total));
        assert_eq!(of("bytes 100-199/1000"), Some((100, Some(1000))));
        assert_eq!(of("bytes 0-1/*"), Some((0, None)));
        for malformed in [
            "",
            "bytes",
            "bytes 1/2",
            "bytes a-b/3",
            "bytes 1-2/x",
            "items 1-2/3",
            "bytes -5/9",
        ] {
            assert_eq!(of(malformed), None, "{malformed}");
        }
    }
}
