//! A keychain in memory: tests never touch the system's.

use hearth_app::library::hub::{Keychain, KeychainError, Token};
use std::sync::Mutex;

#[derive(Debug)]
pub struct FakeKeychain {
    token: Mutex<Option<Token>>,
    problem: Option<KeychainError>,
}

impl FakeKeychain {
    pub fn empty() -> Self {
        Self {
            token: Mutex::default(),
            problem: None,
        }
    }

    /// None, as on a system without a desktop.
    pub fn missing() -> Self {
        Self::failing(KeychainError::Missing)
    }

    pub fn failing(problem: KeychainError) -> Self {
        Self {
            problem: Some(problem),
            ..Self::empty()
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<Token>) -> T) -> Result<T, KeychainError> {
        match &self.problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(change(&mut self.token.lock().expect("no panic"))),
        }
    }
}

impl Keychain for FakeKeychain {
    fn read(&self) -> Result<Option<Token>, KeychainError> {
        self.change(|token| token.clone())
    }

    fn write(&self, token: &Token) -> Result<(), KeychainError> {
        self.change(|saved| *saved = Some(token.clone()))
    }

    fn remove(&self) -> Result<(), KeychainError> {
        self.change(|saved| *saved = None)
    }
}
