//! Links to the window, which any page or document may contain: `hearth://model?from=SOURCE` and
//! `hearth://conversation/ID`.

use crate::library::{
    Hub,
    hub::{HUB, MAIN, Reference, Selection, decode_strictly, is_private_host},
};
use crate::wire::{Link, LinkPlace, LinkRefusal};
use hearth_formats::characters::is_hidden;

/// The URL scheme. Installers register it as `src-tauri/tauri.conf.json` says.
pub const SCHEME: &str = "hearth";

/// Most bytes of a link: the bytes of the longest source, each encoded as `%XX`, and more.
const MAX_BYTES: usize = 8 * 1024;

/// Most bytes of a file's path in a repository, or of its name: the limit of common file systems
/// for a name.
const MAX_PATH: usize = 255;

/// Most bytes of a host's name (RFC 1035) and port.
const MAX_HOST: usize = 260;

/// Most combining marks on a character. More of them cover the lines above and below.
const MAX_MARKS: usize = 2;

/// The prefixes of a source. The id of a catalog's model, or `OWNER/REPO` alone, could be confused
/// with a file.
const SOURCE_PREFIXES: [&str; 5] = [
    "hf.co/",
    "huggingface.co/",
    "www.huggingface.co/",
    "ollama://",
    "https://",
];

/// Whether an argument of the command line is a link.
pub fn is_link(argument: &str) -> bool {
    after_scheme(argument).is_some()
}

/// Parses a link, which may be hostile. The result has a known form and is safe to show.
pub fn parse(text: &str) -> Link {
    try_parse(text).unwrap_or_else(|reason| Link::Refused { reason })
}

fn try_parse(text: &str) -> Result<Link, LinkRefusal> {
    if text.len() > MAX_BYTES {
        return Err(LinkRefusal::TooLong);
    }
    let text = check_visible(text)?;
    let rest = after_scheme(text)
        .and_then(|rest| rest.strip_prefix("//"))
        .filter(|rest| !rest.contains('#'))
        .ok_or(LinkRefusal::UnknownForm)?;
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    // Browsers may append a slash.
    let path = path.strip_suffix('/').unwrap_or(path);
    let (kind, id) = path.split_once('/').unwrap_or((path, ""));
    match (kind.to_ascii_lowercase().as_str(), id, query) {
        ("model", "", Some(query)) => parse_model(query),
        ("conversation", id, None) => parse_conversation(id),
        _ => Err(LinkRefusal::UnknownForm),
    }
}

/// The part of a link after `hearth:`.
fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(rest)
}

/// Parses the id of a conversation.
fn parse_conversation(id: &str) -> Result<Link, LinkRefusal> {
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    match id.parse() {
        Ok(id) if is_number => Ok(Link::Conversation { id }),
        _ => Err(LinkRefusal::UnknownForm),
    }
}

/// Parses `from=SOURCE`.
fn parse_model(query: &str) -> Result<Link, LinkRefusal> {
    let from = query
        .strip_prefix("from=")
        .filter(|from| !from.contains('&'))
        .ok_or(LinkRefusal::UnknownForm)?;
    let decoded = decode_strictly(from).ok_or(LinkRefusal::UnknownForm)?;
    let source = check_visible(&decoded)?;
    let is_known = SOURCE_PREFIXES.iter().any(|prefix| {
        let start = source.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    });
    if !is_known {
        return Err(LinkRefusal::UnknownSource);
    }
    let hub = Hub::at(HUB);
    let reference = Reference::parse(source, &hub).map_err(|_| LinkRefusal::UnknownSource)?;
    let source = reference.text();
    // The normalized text may exceed the limit on the length of a source.
    if Reference::parse(&source, &hub).ok().as_ref() != Some(&reference) {
        return Err(LinkRefusal::UnknownSource);
    }
    Ok(Link::Model {
        source,
        place: place_of(&reference, &hub)?,
    })
}

/// The parts of a source for the dialog.
fn place_of(reference: &Reference, hub: &Hub) -> Result<LinkPlace, LinkRefusal> {
    match reference {
        Reference::Catalog(_) => Err(LinkRefusal::UnknownSource),
        Reference::Hub {
            repository,
            revision,
            selection,
        } => {
            let (owner, name) = repository.split_once('/').ok_or(LinkRefusal::UnknownSource)?;
            let (quantization, file) = match selection {
                Selection::Automatic => (None, None),
                Selection::Quantization(quantization) => (Some(quantization.clone()), None),
                // Parsing the reference decoded it again.
                Selection::File(file) => (None, Some(check_length(check_visible(file)?, MAX_PATH)?.to_owned())),
            };
            Ok(LinkPlace::Hub {
                owner: owner.to_owned(),
                name: name.to_owned(),
                revision: (revision != MAIN).then(|| revision.clone()),
                quantization,
                file,
            })
        }
        Reference::Ollama { name, tag } => {
            let (owner, name) = name.split_once('/').ok_or(LinkRefusal::UnknownSource)?;
            Ok(LinkPlace::Ollama {
                host: hub.ollama.trim_start_matches("https://").to_owned(),
                owner: (owner != "library").then(|| owner.to_owned()),
                name: name.to_owned(),
                tag: tag.clone(),
            })
        }
        Reference::Url(url) => web_place(url),
    }
}

/// The host and file of an HTTPS address.
fn web_place(url: &str) -> Result<LinkPlace, LinkRefusal> {
    let (scheme, rest) = url.split_once("://").ok_or(LinkRefusal::UnknownSource)?;
    let (host, path) = rest.split_once('/').ok_or(LinkRefusal::UnknownSource)?;
    // A user name, a query or letters of other scripts can disguise a host.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    let is_secure = scheme.eq_ignore_ascii_case("https");
    if !is_secure || !host.chars().all(is_plain) || is_private_host(host) {
        return Err(LinkRefusal::UnknownSource);
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = decode_strictly(path).ok_or(LinkRefusal::UnknownSource)?;
    let file = check_visible(path.rsplit('/').next().unwrap_or_default())?;
    Ok(LinkPlace::Web {
        host: check_length(host, MAX_HOST)?.to_ascii_lowercase(),
        file: check_length(file, MAX_PATH)?.to_owned(),
    })
}

/// Returns a text, or an error if it has more than `max` bytes and would not fit a dialog.
fn check_length(text: &str, max: usize) -> Result<&str, LinkRefusal> {
    if text.len() > max {
        Err(LinkRefusal::TooLong)
    } else {
        Ok(text)
    }
}

/// Returns a text, or an error if it has characters that are invisible, reorder other characters
/// or cover them.
fn check_visible(text: &str) -> Result<&str, LinkRefusal> {
    let mut marks = 0;
    for c in text.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        if is_hidden(c) || marks > MAX_MARKS {
            return Err(LinkRefusal::HiddenCharacters);
        }
    }
    Ok(text)
}

/// Whether a character is a combining mark of Unicode's blocks of diacritical marks, or of
/// Cyrillic.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(reason: LinkRefusal) -> Link {
        Link::Refused { reason }
    }

    fn hub(quantization: Option<&str>, file: Option<&str>, revision: Option<&str>) -> LinkPlace {
        LinkPlace::Hub {
            owner: "o".into(),
            name: "n.1".into(),
            revision: revision.map(str::to_owned),
            quantization: quantization.map(str::to_owned),
            file: file.map(str::to_owned),
        }
    }

    fn ollama(owner: Option<&str>, name: &str, tag: &str) -> LinkPlace {
        LinkPlace::Ollama {
            host: "registry.ollama.ai".into(),
            owner: owner.map(str::to_owned),
            name: name.into(),
            tag: tag.into(),
        }
    }

    fn web(host: &str, file: &str) -> LinkPlace {
        LinkPlace::Web {
            host: host.into(),
            file: file.into(),
        }
    }

    #[test]
    fn links_to_models_are_parsed() {
        for (link, source, place) in [
            ("hearth://model?from=hf.co/o/n.1", "hf.co/o/n.1", hub(None, None, None)),
            (
                "HEARTH://Model/?from=hf.co%2Fo%2Fn.1%3AQ8_0",
                "hf.co/o/n.1:Q8_0",
                hub(Some("Q8_0"), None, None),
            ),
            (
                "hearth://model?from=https://huggingface.co/o/n.1/tree/v2",
                "https://huggingface.co/o/n.1/tree/v2",
                hub(None, None, Some("v2")),
            ),
            (
                "hearth://model?from=HF.co/o/n.1/a/b%2520c.gguf",
                "https://huggingface.co/o/n.1/blob/main/a/b%20c.gguf",
                hub(None, Some("a/b c.gguf"), None),
            ),
            (
                "hearth://model?from=ollama://qwen3:0.6b",
                "ollama://qwen3:0.6b",
                ollama(None, "qwen3", "0.6b"),
            ),
            (
                "hearth://model?from=https://ollama.com/o/n",
                "ollama://o/n:latest",
                ollama(Some("o"), "n", "latest"),
            ),
            (
                "hearth://model?from=https%3A%2F%2FExample.org%3A8443%2Fm%2Fa%2520b.gguf%3Fk%3Dv",
                "https://Example.org:8443/m/a%20b.gguf?k=v",
                web("example.org:8443", "a b.gguf"),
            ),
        ] {
            let source = source.to_owned();
            assert_eq!(parse(link), Link::Model { source, place }, "{link}");
        }
    }

    #[test]
    fn ids_of_conversations_are_decimal_numbers() {
        for link in ["hearth://conversation/12", "Hearth://CONVERSATION/12/"] {
            assert_eq!(parse(link), Link::Conversation { id: 12 }, "{link}");
        }
        for id in [
            "",
            "a",
            "-1",
            "+1",
            "1/2",
            "1?x=1",
            "1%32",
            "99999999999999999999",
            "\u{661}",
        ] {
            let link = format!("hearth://conversation/{id}");
            assert_eq!(parse(&link), refused(LinkRefusal::UnknownForm), "{link}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for link in [
            "",
            "hearth:",
            "hearth://",
            "hearth:model?from=hf.co/o/n",
            "https://model?from=hf.co/o/n",
            "hearth://model",
            "hearth://model?",
            "hearth://model?from",
            "hearth://model?from=hf.co/o/n&go=1",
            "hearth://model?go=1&from=hf.co/o/n",
            "hearth://model?from=hf.co/o/n#x",
            "hearth://model/x?from=hf.co/o/n",
            "hearth://user@model?from=hf.co/o/n",
            "hearth://model?from=%",
            "hearth://model?from=%zz",
            "hearth://model?from=%+1",
            "hearth://model?from=hf.co/o/%ff",
            "hearth://run?from=hf.co/o/n",
        ] {
            assert_eq!(parse(link), refused(LinkRefusal::UnknownForm), "{link}");
        }
        let long = format!("hearth://model?from=hf.co/o/{}", "n".repeat(MAX_BYTES));
        assert_eq!(parse(&long), refused(LinkRefusal::TooLong));
    }

    #[test]
    fn texts_that_do_not_fit_a_dialog_are_refused() {
        let file = |file: &str| parse(&format!("hearth://model?from=https://example.org/{file}.gguf"));
        assert!(matches!(file(&"a".repeat(250)), Link::Model { .. }));
        assert_eq!(file(&"a".repeat(251)), refused(LinkRefusal::TooLong));
        assert_eq!(
            parse(&format!("hearth://model?from=https://{}.org/a.gguf", "a".repeat(300))),
            refused(LinkRefusal::TooLong)
        );
        // Normalized, it exceeds the limit on the length of a source.
        let long = format!("hearth://model?from=hf.co/o/n/{}.gguf", "%C3%A9".repeat(700));
        assert!(matches!(parse(&long), Link::Refused { .. }));
        for hidden in [
            "%25E2%25A0%2580",
            "%25C2%25A0",
            "%25E3%2580%2580",
            "e%25CC%2581%25CC%2581%25CC%2581",
        ] {
            assert_eq!(file(hidden), refused(LinkRefusal::HiddenCharacters), "{hidden}");
        }
        assert!(matches!(file("e%25CC%2581"), Link::Model { .. }));
    }

    #[test]
    fn other_sources_are_refused() {
        let long = format!("hf.co/o/{}", "n".repeat(3000));
        for source in [
            "",
            "qwen3-0.6b",
            "o/n",
            "/home/you/a.gguf",
            "~/a.gguf",
            "C:%5Ca.gguf",
            "%5C%5Chost%5Ca.gguf",
            "../o/n",
            "file:///etc/a.gguf",
            "http://example.org/a.gguf",
            "http://127.0.0.1:80/a.gguf",
            "https://127.0.0.1/a.gguf",
            "https://[::1]/a.gguf",
            "https://localhost/a.gguf",
            "https://10.0.0.1:8443/a.gguf",
            "https://router/a.gguf",
            "https://example.org/",
            "https://example.org/a.bin",
            "https://user@example.org/a.gguf",
            "https://huggingface.co@example.org/a.gguf",
            "https://example.org%3Fhuggingface.co/a.gguf",
            "https://example.org%23huggingface.co/a.gguf",
            "https://example.org%5Chuggingface.co/a.gguf",
            "https://huggingface.\u{441}o/a.gguf",
            "https:///a.gguf",
            "hf.co/o/n a",
            "hf.co/o",
            "hf.co/../n",
            "ollama://",
            &long,
        ] {
            let link = format!("hearth://model?from={source}");
            assert_eq!(parse(&link), refused(LinkRefusal::UnknownSource), "{link}");
        }
    }

    #[test]
    fn hidden_characters_are_refused_however_they_are_encoded() {
        for hidden in [
            "\0",
            "\n",
            "\u{7f}",
            "\u{85}",
            "\u{200b}",
            "\u{202e}",
            "\u{2066}",
            "\u{feff}",
            "\u{e0041}",
        ] {
            let encoded: String = hidden.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let twice = encoded.replace('%', "%25");
            for link in [
                format!("hearth://model?from=hf.co/o/{hidden}n"),
                format!("hearth://model?from=hf.co/o/{encoded}n"),
                format!("hearth://model?from=hf.co/o/n/{twice}a.gguf"),
                format!("hearth://model?from=https://example.org/{twice}a.gguf"),
                format!("hearth://conversation/1{hidden}"),
            ] {
                assert_eq!(parse(&link), refused(LinkRefusal::HiddenCharacters), "{link:?}");
            }
        }
    }

    #[test]
    fn arguments_that_are_links_are_recognized() {
        for link in ["hearth://model?from=x", "HEARTH:x"] {
            assert!(is_link(link), "{link}");
        }
        for other in ["", "hearth", "--flag", "/a/hearth:x", "https://hearth:80/"] {
            assert!(!is_link(other), "{other}");
        }
    }

    /// Installers read both files; the bundler's own desktop entry does not pass the link on.
    #[test]
    fn installers_register_the_scheme() {
        let configuration: serde_json::Value =
            serde_json::from_str(include_str!("../../../src-tauri/tauri.conf.json")).unwrap();
        let schemes = &configuration["plugins"]["deep-link"]["desktop"]["schemes"];
        assert_eq!(schemes, &serde_json::json!([SCHEME]));
        let entry = include_str!("../../../src-tauri/linux.desktop");
        assert!(entry.lines().any(|line| line == "Exec={{exec}} %u"), "{entry}");
        for format in ["deb", "rpm"] {
            assert_eq!(
                configuration["bundle"]["linux"][format]["desktopTemplate"],
                "linux.desktop"
            );
        }
    }

    fn texts(value: &serde_json::Value) -> Vec<&str> {
        match value {
            serde_json::Value::String(text) => vec![text],
            serde_json::Value::Object(fields) => fields.values().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }

    /// Texts of pieces of links and of arbitrary characters, each percent-encoded up to twice.
    fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            prop::sample::select(vec![
                "hearth:",
                "//",
                "/",
                "model",
                "?from=",
                "conversation",
                "hf.co/",
                "HuggingFace.co/o/n",
                "ollama://",
                "https://",
                "e.org",
                ":",
                "@",
                "&",
                "#",
                "?",
                "%",
                "%2",
                "%25",
                ".gguf",
                "/tree/",
                "/blob/main/",
                "..",
                "\u{e9}",
                "e\u{301}",
                "\u{1f600}",
                "\u{202e}",
                "9223372036854775808",
            ])
            .prop_map(str::to_owned),
            any::<String>(),
            (prop_oneof![any::<char>(), Just('a'), Just('\u{e9}')], 0..3000_usize)
                .prop_map(|(c, count)| c.to_string().repeat(count)),
        ];
        let encoded = (pieces, 0..3).prop_map(|(piece, times)| {
            let encode = |text: String| text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            (0..times).fold(piece, |text, _| encode(text))
        });
        prop::collection::vec(encoded, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn accepted_links_have_no_hidden_characters_and_round_trip(
            start in prop::sample::select(vec!["", "hearth:", "hearth://", "hearth://conversation/", "hearth://model?from="]),
            source in prop::sample::select(vec!["", "hf.co/o/n", "hf.co/o/n/", "ollama://", "https://e.org/", "https://"]),
            text in "\\PC*|(%[0-9a-f]{2}|[-a-z0-9/:?&=@._\u{202e}\u{0}])*",
            end in prop::sample::select(vec!["", ".gguf", "/"]),
        ) {
            let link = parse(&format!("{start}{source}{text}{end}"));
            for shown in texts(&serde_json::to_value(&link).unwrap()) {
                prop_assert!(!shown.contains(is_hidden), "{shown:?}");
            }
            if let Link::Model { source, place } = link {
                let encoded: String = source.bytes().map(|byte| format!("%{byte:02X}")).collect();
                prop_assert_eq!(parse(&format!("hearth://model?from={encoded}")), Link::Model { source, place });
            }
        }

        #[test]
        fn a_hostile_link_is_refused_or_short(
            start in prop::sample::select(vec!["", "hearth://", "hearth://model?from=", "hearth://model?from=hf.co/o/n", "hearth://model?from=https://", "hearth://model?from=https://e.org/", "hearth://model?from=hf.co/o/n/"]),
            text in hostile(),
            end in prop::sample::select(vec!["", ".gguf"]),
        ) {
            let text = format!("{start}{text}{end}");
            is_link(&text);
            let link = parse(&text);
            match &link {
                Link::Model { source, place } => {
                    prop_assert!(source.len() <= 2000, "{} bytes", source.len());
                    let place = serde_json::to_value(place).unwrap();
                    let longest = texts(&place).into_iter().map(str::len).max();
                    prop_assert!(longest.is_some_and(|bytes| bytes <= MAX_HOST), "{place}");
                }
                Link::Conversation { id } => prop_assert!(*id >= 0),
                Link::Refused { .. } => {}
            }
        }
    }
}
