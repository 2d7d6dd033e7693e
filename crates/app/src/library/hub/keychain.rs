//! The system's keychain, which holds the token of the hub: Keychain on macOS, the Credential
//! Manager on Windows, the Secret Service (GNOME Keyring, KWallet) elsewhere.

use super::token::Token;
use crate::{
    lock::lock,
    wire::{Problem, ProblemCode},
};
use hearth_protocol::ModelsReason;
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

/// The error of a keychain. Its `Display` is the sentence of its [`Problem`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeychainError {
    /// The system has none.
    Missing,
    /// It is locked, or the user or the system refuses access.
    Locked,
    /// It failed, with the system's error.
    Failed(String),
    /// It has several entries for the token.
    Ambiguous,
    /// The token is too long for it.
    TooLong,
    /// Its entry for the token is damaged.
    Damaged,
    /// The call ended without a result.
    Ended,
}

impl KeychainError {
    /// Converts an error of `keyring`. Some of its errors contain the secret, so only the text of a
    /// platform failure is kept.
    fn from_error(error: Error) -> Self {
        match error {
            Error::NoDefaultStore | Error::NotSupportedByStore(_) => Self::Missing,
            Error::NoStorageAccess(_) => Self::Locked,
            Error::PlatformFailure(error) => Self::Failed(error.to_string()),
            Error::Ambiguous(_) => Self::Ambiguous,
            Error::TooLong(..) => Self::TooLong,
            _ => Self::Damaged,
        }
    }
}

impl From<KeychainError> for Problem {
    fn from(error: KeychainError) -> Self {
        let reason = match error {
            KeychainError::Missing => ModelsReason::KeychainMissing,
            KeychainError::Locked => ModelsReason::KeychainLocked,
            KeychainError::Failed(detail) => ModelsReason::KeychainFailed { detail },
            KeychainError::Ambiguous => ModelsReason::KeychainAmbiguous,
            KeychainError::TooLong => ModelsReason::KeychainTooLong,
            KeychainError::Damaged => ModelsReason::KeychainDamaged,
            KeychainError::Ended => ModelsReason::KeychainEnded,
        };
        Self::new(ProblemCode::Keychain, reason)
    }
}

impl fmt::Display for KeychainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Problem::from(self.clone()))
    }
}

impl std::error::Error for KeychainError {}

/// The keychain of the system. The result of the first read is cached, even if the keychain was
/// locked: some systems prompt the user at each read.
#[derive(Debug)]
pub struct SystemKeychain {
    /// Name of the entry.
    user: &'static str,
    cached: Mutex<Option<Result<Option<Token>, KeychainError>>>,
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
            cached: Mutex::default(),
        }
    }

    fn set_cached(&self, token: Option<Token>) {
        *lock(&self.cached) = Some(Ok(token));
    }
}

impl Keychain for SystemKeychain {
    fn read(&self) -> Result<Option<Token>, KeychainError> {
        // The lock is held during the read, so that several downloads prompt the user once.
        let mut cached = lock(&self.cached);
        cached
            .get_or_insert_with(|| match with_entry(self.user, Entry::get_password)? {
                Some(text) => Token::parse(&text).map(Some).ok_or(KeychainError::Damaged),
                None => Ok(None),
            })
            .clone()
    }

    fn write(&self, token: &Token) -> Result<(), KeychainError> {
        let copy = token.clone();
        with_entry(self.user, move |entry| entry.set_password(copy.reveal()))?;
        self.set_cached(Some(token.clone()));
        Ok(())
    }

    fn remove(&self) -> Result<(), KeychainError> {
        with_entry(self.user, Entry::delete_credential)?;
        self.set_cached(None);
        Ok(())
    }
}

/// Runs `operation` on the entry. `None` means that there is no entry. A separate thread calls the
/// library, because it blocks and must not do so in an asynchronous task.
fn with_entry<T: Send + 'static>(
    user: &'static str,
    operation: impl FnOnce(&Entry) -> keyring::Result<T> + Send + 'static,
) -> Result<Option<T>, KeychainError> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        let result = Entry::new(SERVICE, user).and_then(|entry| operation(&entry));
        // The receiver may have been dropped.
        let _ = sender.send(result);
    };
    let started = thread::Builder::new().name("keychain".to_owned()).spawn(work);
    started.map_err(|error| KeychainError::Failed(error.to_string()))?;
    match receiver.recv_timeout(TIMEOUT) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(Error::NoEntry)) => Ok(None),
        Ok(Err(error)) => Err(KeychainError::from_error(error)),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(KeychainError::Locked),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(KeychainError::Ended),
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
        let [keychain, other_program] = [SystemKeychain::named(USER), SystemKeychain::named(USER)];
        keychain.remove().expect("a keychain");
        assert_eq!(keychain.read(), Ok(None));
        for text in ["hf_one", "hf_two"] {
            keychain.write(&text.into()).expect("it is saved");
            // Another program, which has not read the token yet.
            let actual = SystemKeychain::named(USER).read();
            assert!(actual.is_ok_and(|token| token == Some(text.into())));
        }
        assert!(other_program.read().is_ok_and(|token| token.is_some()));
        keychain.remove().expect("it is removed");
        keychain.remove().expect("also if there is none");
        assert_eq!(SystemKeychain::named(USER).read(), Ok(None));
    }
}
