//! Methods of [`App`] for the hub's token. This crate passes the token only to the hub, in
//! requests, and to the keychain.

use crate::{
    App,
    library::{
        Hub,
        hub::{self, KeychainError, Token},
    },
    shared::Shared,
    wire::{HubToken, KeychainState, Problem, ProblemCode},
};
use hearth_protocol::ModelsReason;

impl App {
    /// Whether there is a token of the hub, and where it was found. May block while the user
    /// unlocks the keychain.
    pub async fn hub_token(&self) -> Result<HubToken, Problem> {
        self.shared.blocking(|shared| Ok(state(shared))).await
    }

    /// Saves a token in the system's keychain.
    ///
    /// # Errors
    /// It is no token, or there is no keychain that can be used.
    pub async fn set_hub_token(&self, token: String) -> Result<HubToken, Problem> {
        let token = Token::parse(&token);
        let token = token.ok_or_else(|| Problem::new(ProblemCode::BadRequest, ModelsReason::NotAToken))?;
        let save = move |shared: &Shared| {
            shared.keychain.write(&token)?;
            Ok(state(shared))
        };
        self.shared.blocking(save).await
    }

    /// Removes the token from the system's keychain.
    ///
    /// # Errors
    /// There is no keychain that can be used.
    pub async fn remove_hub_token(&self) -> Result<HubToken, Problem> {
        let remove = |shared: &Shared| {
            shared.keychain.remove()?;
            Ok(state(shared))
        };
        self.shared.blocking(remove).await
    }
}

/// The state of the token, without the token itself.
fn state(shared: &Shared) -> HubToken {
    let keychain = match shared.keychain.read() {
        Ok(Some(_)) => KeychainState::Saved,
        Ok(None) => KeychainState::Empty,
        Err(KeychainError::Missing) => KeychainState::Missing,
        Err(error) => {
            tracing::info!(%error, "the keychain could not be read");
            KeychainState::Locked
        }
    };
    let source = hub::token(&*shared.keychain).map(|(_, source)| source);
    HubToken {
        source,
        is_sent: source.is_some() && Hub::sends_token(shared.settings().hub_endpoint.as_deref()),
        keychain,
    }
}
