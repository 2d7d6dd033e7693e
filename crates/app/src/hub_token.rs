//! Methods of [`App`] for the hub's token. The token leaves this crate only in requests and to the
//! keychain.

use crate::{
    App,
    library::{
        Hub,
        hub::{self, KeychainError, Token},
    },
    shared::Shared,
    wire::{HubToken, KeychainState, Problem, ProblemCode},
};

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
        let token = Token::parse(&token).ok_or_else(|| Problem {
            code: ProblemCode::BadRequest,
            message:
                "This is no token. A token is one word, like those at huggingface.co/settings/tokens, which begin \
                      with hf_."
                    .to_owned(),
        })?;
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

impl From<KeychainError> for Problem {
    fn from(error: KeychainError) -> Self {
        Self {
            code: ProblemCode::Keychain,
            message: error.to_string(),
        }
    }
}
