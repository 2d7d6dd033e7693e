//! The token of the hub: from the environment, the system's keychain, or a login with the hub's own
//! command line, in this order.

use super::keychain::Keychain;
use crate::wire::TokenSource;
use std::{env, fmt, fs, path::PathBuf};

/// Most bytes of a token.
const MAX_TOKEN_BYTES: usize = 1 << 10;

/// Most bytes of a token file.
const MAX_FILE_BYTES: u64 = 4 << 10;

/// A token. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Parses a token. `None` means that it is not valid in an HTTP header.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_token = (1..=MAX_TOKEN_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self(text.to_owned()))
    }

    /// The token's text, for a request or the keychain.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(\u{2026})")
    }
}

/// The value of an environment variable. `None` means that it is not set, or blank.
pub(super) fn set(key: &str) -> Option<String> {
    env::var(key).ok().filter(|value| !value.trim().is_empty())
}

/// The token and its source. A keychain that cannot be read counts as empty.
pub fn token(keychain: &dyn Keychain) -> Option<(Token, TokenSource)> {
    first(
        || set("HF_TOKEN").and_then(|text| Token::parse(&text)),
        || {
            keychain.read().unwrap_or_else(|error| {
                tracing::info!(%error, "the keychain could not be read");
                None
            })
        },
        read_file,
    )
}

fn first(
    environment: impl FnOnce() -> Option<Token>,
    keychain: impl FnOnce() -> Option<Token>,
    file: impl FnOnce() -> Option<Token>,
) -> Option<(Token, TokenSource)> {
    let with_source = |source| move |token| (token, source);
    environment()
        .map(with_source(TokenSource::Environment))
        .or_else(|| keychain().map(with_source(TokenSource::Keychain)))
        .or_else(|| file().map(with_source(TokenSource::File)))
}

/// Reads the token of a login with the hub's own command line.
fn read_file() -> Option<Token> {
    let file = set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| {
        let home = super::super::folders::hugging_face_home()?;
        Some(home.join("token"))
    })?;
    let is_small = fs::metadata(&file).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE_BYTES);
    let text = fs::read_to_string(file).ok().filter(|_| is_small)?;
    Token::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_asked_first_and_the_file_last() {
        let choose = |environment: bool, keychain: bool, file: bool| {
            let token = |is_set: bool, text: &str| is_set.then(|| text.into());
            let actual = first(|| token(environment, "e"), || token(keychain, "k"), || token(file, "f"));
            actual.map(|(token, source)| (token.0, source))
        };
        assert_eq!(
            choose(true, true, true),
            Some(("e".to_owned(), TokenSource::Environment))
        );
        assert_eq!(choose(false, true, true), Some(("k".to_owned(), TokenSource::Keychain)));
        assert_eq!(choose(false, false, true), Some(("f".to_owned(), TokenSource::File)));
        assert_eq!(choose(false, false, false), None);
        // Later sources are not read: a keychain may prompt the user.
        first(|| Some("e".into()), || panic!("the keychain"), || panic!("the file"));
    }

    #[test]
    fn a_token_is_one_word_and_never_printed() {
        assert_eq!(
            Token::parse(" hf_abc\n").map(|token| token.0).as_deref(),
            Some("hf_abc")
        );
        for bad in [
            "",
            " ",
            "two words",
            "a\nb",
            "\u{fc}",
            "a\0",
            &"a".repeat(MAX_TOKEN_BYTES + 1),
        ] {
            assert_eq!(Token::parse(bad), None, "{bad:?}");
        }
        assert!(!format!("{:?}", Token::from("hf_abc")).contains("abc"));
    }
}
