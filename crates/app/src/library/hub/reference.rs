//! References to models on the network, as the user may write them.

use super::super::{LibraryError, catalog, catalog::Entry};
use super::byte_parts::PartName;
use super::client::{Hub, is_https};
use hearth_formats::adapter::{PEFT_CONFIG, PEFT_TENSORS};
use hearth_protocol::ModelsReason;

/// Most bytes of a reference.
const MAX_BYTES: usize = 2000;

/// Hosts of the Hugging Face hub.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "hf.co", "www.huggingface.co"];

/// The selected model of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The best of the preferred quantizations, or else the smallest file.
    Automatic,
    /// A quantization.
    Quantization(String),
    /// A file, by its path in the repository.
    File(String),
}

/// A model on the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// An entry of the catalog.
    Catalog(&'static Entry),
    /// A repository of the hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// Branch, tag or commit.
        revision: String,
        /// The model in it.
        selection: Selection,
    },
    /// A model of Ollama's registry.
    Ollama {
        /// `owner/name`. The owner of official models is `library`.
        name: String,
        /// The tag.
        tag: String,
    },
    /// A file at any address.
    Url(String),
}

impl Reference {
    /// Parses a name of the catalog, `hf.co/OWNER/REPO[:QUANT]`, an address of the hub,
    /// `ollama://NAME[:TAG]`, or the address of a GGUF file.
    ///
    /// # Errors
    /// [`LibraryError::BadReference`], [`LibraryError::NotFound`] or [`LibraryError::Unencrypted`].
    pub fn parse(text: &str, hub: &Hub) -> Result<Self, LibraryError> {
        let text = text.trim();
        if text.len() > MAX_BYTES || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(bad(text));
        }
        if let Some(entry) = catalog::find(text) {
            return Ok(Self::Catalog(entry));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let (first, rest) = text.split_once('/').unwrap_or((text, ""));
            return match rest {
                "" => Err(LibraryError::NotFound(ModelsReason::NotInCatalog {
                    name: text.to_owned(),
                    known: catalog::entries().iter().map(|entry| entry.id.clone()).collect(),
                })),
                rest if is_hub(first) => repository(rest).ok_or_else(|| bad(text)),
                _ => repository(text).ok_or_else(|| bad(text)),
            };
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let under_endpoint = text.strip_prefix(&hub.endpoint).and_then(|rest| rest.strip_prefix('/'));
        let path = without_query(path);
        match scheme.to_ascii_lowercase().as_str() {
            "ollama" => ollama(rest).ok_or_else(|| bad(text)),
            "https" if is_hub(host) => repository(path).ok_or_else(|| bad(text)),
            "https" if host == "ollama.com" => {
                let name = path.strip_prefix("library/").unwrap_or(path);
                ollama(name).ok_or_else(|| bad(text))
            }
            _ if under_endpoint.is_some() => {
                repository(without_query(under_endpoint.unwrap_or_default())).ok_or_else(|| bad(text))
            }
            "https" | "http" if !is_gguf(path) || host.contains('@') => Err(bad(text)),
            "http" if !is_loopback(host) => Err(LibraryError::Unencrypted(text.to_owned())),
            "https" | "http" => Ok(Self::Url(text.to_owned())),
            _ => Err(bad(text)),
        }
    }

    /// Returns the shortest text that [`Reference::parse`] parses as this reference.
    pub fn text(&self) -> String {
        match self {
            Self::Catalog(entry) => entry.id.clone(),
            Self::Hub {
                repository,
                revision,
                selection,
            } => match selection {
                Selection::File(file) => {
                    format!("https://huggingface.co/{repository}/blob/{revision}/{}", encode(file))
                }
                Selection::Quantization(name) if revision == MAIN => format!("hf.co/{repository}:{name}"),
                Selection::Automatic if revision == MAIN => format!("hf.co/{repository}"),
                _ => format!("https://huggingface.co/{repository}/tree/{revision}"),
            },
            Self::Ollama { name, tag } => {
                format!("ollama://{}:{tag}", name.strip_prefix("library/").unwrap_or(name))
            }
            Self::Url(url) => url.clone(),
        }
    }
}

/// The default branch.
pub(crate) const MAIN: &str = "main";

fn bad(text: &str) -> LibraryError {
    LibraryError::BadReference(text.chars().take(200).collect())
}

fn is_hub(host: &str) -> bool {
    HUB_HOSTS.iter().any(|hub| host.eq_ignore_ascii_case(hub))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_gguf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".gguf")
}

/// Whether a file of a repository is a model or a part of one, or belongs to an adapter.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_gguf(path) || PartName::parse(path).is_some() || [PEFT_CONFIG, PEFT_TENSORS].contains(&name)
}

/// Whether the hub could give this name to an owner or a repository.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 96 && !name.starts_with('.') && name.chars().all(allowed) && !name.contains("..")
}

/// Parses `OWNER/REPO[:QUANT]`, `OWNER/REPO/FILE.gguf`, or a page of the repository.
fn repository(path: &str) -> Option<Reference> {
    let path = path.trim_end_matches('/');
    let mut parts = path.splitn(3, '/');
    let (owner, name) = (parts.next()?, parts.next()?);
    let (name, quantization) = match name.split_once(':') {
        Some((name, quantization)) => (name, Some(quantization)),
        None => (name, None),
    };
    if !is_name(owner) || !is_name(name) || quantization.is_some_and(|quantization| !is_name(quantization)) {
        return None;
    }
    let page_path = parts.next().map(decode);
    let (revision, selection) = match (quantization, page_path.as_deref()) {
        (Some(quantization), None) => (MAIN, Selection::Quantization(quantization.to_owned())),
        (None, None) => (MAIN, Selection::Automatic),
        (None, Some(rest)) => page(rest)?,
        _ => return None,
    };
    Some(Reference::Hub {
        repository: format!("{owner}/{name}"),
        revision: revision.to_owned(),
        selection,
    })
}

/// Parses the end of the address of a page or file: `tree/REV`, `blob/REV/FILE`,
/// `resolve/REV/FILE`, or a file.
fn page(rest: &str) -> Option<(&str, Selection)> {
    let mut parts = rest.splitn(3, '/');
    match (parts.next()?, parts.next(), parts.next()) {
        ("tree", Some(revision), None) if is_name(revision) => Some((revision, Selection::Automatic)),
        ("blob" | "resolve", Some(revision), Some(file)) if is_name(revision) && is_file(file) => {
            Some((revision, Selection::File(file.to_owned())))
        }
        _ if is_file(rest) => Some((MAIN, Selection::File(rest.to_owned()))),
        _ => None,
    }
}

/// An address without its query and fragment.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Percent-encodes a path for an address, except for slashes.
pub(super) fn encode(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Decodes percent-encoding. Malformed escapes are kept.
pub(super) fn decode(text: &str) -> String {
    String::from_utf8_lossy(&decode_bytes(text)).into_owned()
}

/// Decodes percent-encoding. `None` means that an escape is malformed or the result is not UTF-8.
pub(crate) fn decode_strictly(text: &str) -> Option<String> {
    let is_hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_valid = text.split('%').skip(1).all(|after| after.get(..2).is_some_and(is_hex));
    is_valid.then(|| String::from_utf8(decode_bytes(text)).ok())?
}

fn decode_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// Parses `[OWNER/]NAME[:TAG]`.
fn ollama(path: &str) -> Option<Reference> {
    let (name, tag) = path.split_once(':').unwrap_or((path, "latest"));
    let name = match name.split_once('/') {
        Some((owner, name)) if is_name(owner) && is_name(name) => format!("{owner}/{name}"),
        None if is_name(name) => format!("library/{name}"),
        _ => return None,
    };
    is_name(tag).then(|| Reference::Ollama {
        name,
        tag: tag.to_owned(),
    })
}

/// Whether an address may be set as a mirror: it is encrypted, or on this machine.
pub fn is_endpoint(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim().split_once("://") else {
        return false;
    };
    let host = rest.split('/').next().unwrap_or_default();
    let is_plain = !rest.contains(|c: char| c.is_whitespace() || c.is_control() || "?#@".contains(c));
    is_plain && !host.is_empty() && (is_https(text.trim()) || scheme.eq_ignore_ascii_case("http") && is_loopback(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, String> {
        Reference::parse(text, &Hub::at("https://mirror.example/hub")).map_err(|error| error.to_string())
    }

    fn hub(repository: &str, revision: &str, selection: Selection) -> Reference {
        Reference::Hub {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            selection,
        }
    }

    #[test]
    fn references_are_parsed() {
        let quantization = |name: &str| Selection::Quantization(name.to_owned());
        let file = |name: &str| Selection::File(name.to_owned());
        for (text, expected) in [
            ("hf.co/o/n", hub("o/n", MAIN, Selection::Automatic)),
            (" hf.co/o/n:Q8_0\n", hub("o/n", MAIN, quantization("Q8_0"))),
            ("o/n.1:q4_k_m", hub("o/n.1", MAIN, quantization("q4_k_m"))),
            ("https://huggingface.co/o/n/", hub("o/n", MAIN, Selection::Automatic)),
            (
                "https://huggingface.co/o/n/tree/v1",
                hub("o/n", "v1", Selection::Automatic),
            ),
            (
                "https://huggingface.co/o/n/blob/main/a/b%20c.gguf?x=1",
                hub("o/n", MAIN, file("a/b c.gguf")),
            ),
            (
                "https://mirror.example/hub/o/n/resolve/main/a.gguf?download=true",
                hub("o/n", MAIN, file("a.gguf")),
            ),
            ("hf.co/o/n/a.gguf", hub("o/n", MAIN, file("a.gguf"))),
            (
                "https://huggingface.co/o/n/blob/main/a.gguf.part1of2",
                hub("o/n", MAIN, file("a.gguf.part1of2")),
            ),
            (
                "https://huggingface.co/o/n/blob/main/c-1/adapter_config.json",
                hub("o/n", MAIN, file("c-1/adapter_config.json")),
            ),
            (
                "ollama://llama3.2",
                Reference::Ollama {
                    name: "library/llama3.2".into(),
                    tag: "latest".into(),
                },
            ),
            (
                "https://ollama.com/library/qwen3:0.6b",
                Reference::Ollama {
                    name: "library/qwen3".into(),
                    tag: "0.6b".into(),
                },
            ),
            (
                "http://127.0.0.1:80/a.gguf",
                Reference::Url("http://127.0.0.1:80/a.gguf".into()),
            ),
            (
                "https://example.org/a.GGUF?k=v",
                Reference::Url("https://example.org/a.GGUF?k=v".into()),
            ),
        ] {
            let actual = parse(text);
            assert_eq!(actual.as_ref(), Ok(&expected), "{text}");
            assert_eq!(parse(&expected.text()), Ok(expected), "{text}");
        }
        assert!(matches!(parse("qwen3-0.6b"), Ok(Reference::Catalog(_))));
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("hf.co/o/{}", "n".repeat(3000));
        for text in [
            "",
            "nobody",
            "hf.co/o",
            "hf.co/../n",
            "hf.co/o/n:",
            "hf.co/o/n/tree/main/x",
            "hf.co/o/n/blob/main/config.json",
            "hf.co/o/n:Q4/a.gguf",
            "o//n",
            "ftp://a/b.gguf",
            "file:///etc/passwd",
            "https://example.org/",
            "http://example.org/a.gguf",
            "ollama://a/b/c",
            "ollama://",
            "o/n\u{0}",
            "hf.co/o/n a",
            "https://huggingface.co@evil/o/n",
            "http://127.0.0.1:80@evil.example/a.gguf",
            &long,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mirror_is_encrypted_or_on_this_machine() {
        for good in ["https://hf-mirror.com", "http://localhost:8080/hf", "http://[::1]:9"] {
            assert!(is_endpoint(good), "{good}");
        }
        for bad in [
            "",
            "hf-mirror.com",
            "http://hf-mirror.com",
            "ftp://localhost",
            "https://",
            "https://a b",
            "https://u@h",
        ] {
            assert!(!is_endpoint(bad), "{bad}");
        }
    }
}
