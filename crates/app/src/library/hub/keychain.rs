//! The system's keychain, which holds the token of the hub: Keychain on macOS, the Credential
//! Manager on Windows, the Secret Service (GNOME Keyring, KWallet) elsewhere.

use super::token::Token;
use crate::lock::lock;
use keyring::{Entry, Error};
use std::{
    fmt,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

/// The program name of the entry, shown to the user.
const SERVICE: &str = "Hearth";

/// Name of the entry.
const USER: &str = "Hugging Face token";

/// Time limit for the keychain: the user may have to unlock it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Stores a token. May block while the user unlocks it.
pub trait Keychain: fmt::Debug + Send + Sync {
    /// The token, if there is one.
    fn read(&self) -> Result<Option<Token>, KeychainError>;
    /// Replaces the token.
    fn write(&self, token: &Token) -> Result<(), KeychainError>;
    /// Removes the token, if there is one.
    fn remove(&self) -> Result<(), KeychainError>;
}

/// Why the keychain cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeychainError {
    /// The system has none.
    #[error(
        "This system has no keychain, so Hearth cannot save the token; it is never written to a file. Set the \
        environment variable HF_TOKEN to the token, and start Hearth again."
    )]
    Missing,
    /// It is locked, or the user or the system refuses access.
    #[error(
        "The system's keychain is locked or refuses access. Unlock it and try again, or set the environment variable \
        HF_TOKEN to the token and start Hearth again."
    )]
    Locked,
    /// It failed.
    #[error(
        "The system's keychain failed: {0}. Try again, or set the environment variable HF_TOKEN to the token and start \
        Hearth again."
    )]
    Failed(String),
}

impl KeychainError {
    /// The errors of the library may hold the secret: only some of their texts are shown.
    fn from_error(error: Error) -> Self {
        match error {
            Error::NoDefaultStore | Error::NotSupportedByStore(_) => Self::Missing,
            Error::NoStorageAccess(_) => Self::Locked,
            Error::PlatformFailure(error) => Self::Failed(error.to_string()),
            Error::Ambiguous(_) => Self::Failed("it has several entries for Hearth's token; delete them".to_owned()),
            Error::TooLong(..) => Self::Failed("the token is too long for it".to_owned()),
            _ => Self::damaged(),
        }
    }

    fn damaged() -> Self {
        Self::Failed("its entry for Hearth's token is damaged; delete it".to_owned())
    }
}

/// The keychain of the system. The result of the first read is cached, even if the keychain was
/// locked: some systems prompt the user at each read.
#[derive(Debug)]
pub struct SystemKeychain {
    /// Name of the entry.
    user: &'static str,
    known: Mutex<Option<Result<Option<Token>, KeychainError>>>,
}

impl Default for SystemKeychain {
    fn default() -> Self {
        Self::named(USER)
    }
}

impl SystemKeychain {
    fn named(user: &'static str) -> Self {
        Self {
            user,
            known: Mutex::default(),
        }
    }

    fn know(&self, token: Option<Token>) {
        *lock(&self.known) = Some(Ok(token));
    }
}

impl Keychain for SystemKeychain {
    fn read(&self) -> Result<Option<Token>, KeychainError> {
        // The lock is held during the read, so that several downloads prompt the user once.
        let mut known = lock(&self.known);
        known
            .get_or_insert_with(|| match with_entry(self.user, Entry::get_password)? {
                Some(text) => Token::parse(&text).map(Some).ok_or_else(KeychainError::damaged),
                None => Ok(None),
            })
            .clone()
    }

    fn write(&self, token: &Token) -> Result<(), KeychainError> {
        let saved = token.clone();
        with_entry(self.user, move |entry| entry.set_password(saved.reveal()))?;
        self.know(Some(token.clone()));
        Ok(())
    }

    fn remove(&self) -> Result<(), KeychainError> {
        with_entry(self.user, Entry::delete_credential)?;
        self.know(None);
        Ok(())
    }
}

/// Runs `act` on the entry; `None` if there is none. A separate thread calls the library, because
/// it blocks and must not do so in an asynchronous task.
fn with_entry<T: Send + 'static>(
    user: &'static str,
    act: impl FnOnce(&Entry) -> keyring::Result<T> + Send + 'static,
) -> Result<Option<T>, KeychainError> {
    let (sender, done) = mpsc::channel();
    let work = move || {
        let acted = Entry::new(SERVICE, user).and_then(|entry| act(&entry));
        // The receiver may have been dropped.
        let _ = sender.send(acted);
    };
    let started = thread::Builder::new().name("keychain".to_owned()).spawn(work);
    started.map_err(|error| KeychainError::Failed(error.to_string()))?;
    match done.recv_timeout(TIMEOUT) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(Error::NoEntry)) => Ok(None),
        Ok(Err(error)) => Err(KeychainError::from_error(error)),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(KeychainError::Locked),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(KeychainError::Failed("it ended unexpectedly".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_without_the_secret() {
        let secret = || b"hf_secret".to_vec();
        for error in [
            Error::NoDefaultStore,
            Error::NoStorageAccess("locked".into()),
            Error::PlatformFailure("no reply".into()),
            Error::BadEncoding(secret()),
            Error::BadDataFormat(secret(), "bad".into()),
            Error::TooLong("password".into(), 9),
            Error::Ambiguous(Vec::new()),
        ] {
            let text = KeychainError::from_error(error).to_string();
            assert!(
                text.ends_with('.') && !text.contains("secret") && !text.contains("115"),
                "{text}"
            );
        }
    }

    #[test]
    #[ignore = "asks the keychain of this machine"]
    fn the_keychain_of_this_machine_holds_a_token() {
        const USER: &str = "Token of a test";
        let [keychain, other] = [SystemKeychain::named(USER), SystemKeychain::named(USER)];
        keychain.remove().expect("a keychain");
        assert_eq!(keychain.read(), Ok(None));
        for text in ["hf_one", "hf_two"] {
            keychain.write(&text.into()).expect("it is saved");
            // Of another program, which has not read it yet.
            let read = SystemKeychain::named(USER).read();
            assert!(read.is_ok_and(|token| token == Some(text.into())));
        }
        assert!(other.read().is_ok_and(|token| token.is_some()));
        keychain.remove().expect("it is removed");
        keychain.remove().expect("also if there is none");
        assert_eq!(SystemKeychain::named(USER).read(), Ok(None));
    }
}
