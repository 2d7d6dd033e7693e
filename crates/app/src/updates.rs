//! Newer versions of downloaded models. No server is asked without the user's request.

use crate::{
    App,
    library::{
        Hub, LibraryError, Model, Update,
        hub::{Reference, is_offline, without_query},
    },
    shared::Shared,
    store::download::{self, State},
    wire::{ModelUpdate, Problem, UpdateState},
};
use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Longest time for all servers together; one that is being asked then may still answer.
const LIMIT: Duration = Duration::from_secs(120);

impl App {
    /// Asks the servers of all downloaded models whether these have changed there since.
    ///
    /// # Errors
    /// The network is switched off. A server that cannot be reached is an answer.
    pub async fn check_updates(&self) -> Result<Vec<ModelUpdate>, Problem> {
        self.shared
            .asking(|shared| {
                let hub = shared.hub()?;
                let sources = sources(shared)?;
                let mut servers = Servers::new(Instant::now() + LIMIT);
                let models = shared.models()?.into_iter();
                let check = |model: Model| {
                    let recorded = &model.origin.as_ref()?.source;
                    // A list has the query of an address, and a record does not. Other sources are
                    // more exact in a record.
                    let whole = sources
                        .get(&model.path)
                        .filter(|source| without_query(source) == recorded);
                    let source = whole.unwrap_or(recorded);
                    Some(ModelUpdate {
                        model: model.id.clone(),
                        source: source.to_owned(),
                        state: servers.ask(shared, &hub, &model, source),
                    })
                };
                Ok(models.filter_map(check).collect())
            })
            .await
    }
}

/// The sources of the downloads in the list, by the file of their model.
fn sources(shared: &Shared) -> Result<HashMap<PathBuf, String>, Problem> {
    let rows = shared.store.read(|t| download::list(t))?;
    let done = rows.into_iter().filter_map(|row| match row.state {
        State::Done(path) => Some((path.into(), row.source)),
        _ => None,
    });
    Ok(done.collect())
}

/// The failed servers and the time limit of one check.
struct Servers {
    until: Instant,
    /// Why those cannot be asked now that failed.
    failed: HashMap<String, String>,
}

impl Servers {
    fn new(until: Instant) -> Self {
        Self {
            until,
            failed: HashMap::new(),
        }
    }

    /// Asks the server of a model. One that has failed is not asked again: it would take its time
    /// for each model.
    fn ask(&mut self, shared: &Shared, hub: &Hub, model: &Model, source: &str) -> UpdateState {
        let server = server(hub, source);
        // The user may switch the network off meanwhile.
        let is_offline = shared.settings().offline || is_offline();
        if let Some(why) = self.refusal(is_offline, Instant::now(), server.as_deref()) {
            return UpdateState::Unknown { why };
        }
        match shared.library.update(hub, model, source) {
            Ok(Update::Current) => UpdateState::Current,
            Ok(Update::Available) => UpdateState::Available,
            Ok(Update::Unknown(why)) => UpdateState::Unknown { why: why.to_string() },
            Err(error) => {
                let why = error.to_string();
                if let Some(server) = server.filter(|_| error.is_temporary()) {
                    self.failed.insert(server, why.clone());
                }
                UpdateState::Unknown { why }
            }
        }
    }

    /// Why a server is not asked.
    fn refusal(&self, is_offline: bool, now: Instant, server: Option<&str>) -> Option<String> {
        if is_offline {
            return Some(LibraryError::Offline("the setting Offline").to_string());
        }
        if now >= self.until {
            return Some("The servers of other models took too long. Look for updates again later.".to_owned());
        }
        self.failed.get(server?).cloned()
    }
}

/// The server that is asked for a source; `None` if none is.
fn server(hub: &Hub, source: &str) -> Option<String> {
    match Reference::parse(source, hub).ok()? {
        Reference::Catalog(entry) if entry.sha256.is_some() => None,
        Reference::Catalog(_) | Reference::Hub { .. } => Some(hub.endpoint.clone()),
        Reference::Ollama { .. } => Some(hub.ollama.clone()),
        // Scheme, nothing, and host.
        Reference::Url(url) => Some(url.split('/').take(3).collect::<Vec<_>>().join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_asked_offline_late_or_after_it_failed() {
        let now = Instant::now();
        let mut servers = Servers::new(now + LIMIT);
        servers.failed.insert("https://a".to_owned(), "it is asleep".to_owned());
        let cases = [
            (false, now, Some("https://b"), None),
            (false, now, None, None),
            (false, now, Some("https://a"), Some("asleep")),
            (true, now, None, Some("switched off")),
            (false, now + LIMIT, None, Some("too long")),
        ];
        for (is_offline, now, server, expected) in cases {
            let why = servers.refusal(is_offline, now, server);
            let is_expected = match (&why, expected) {
                (Some(why), Some(text)) => why.contains(text),
                (why, text) => why.is_none() && text.is_none(),
            };
            assert!(is_expected, "{is_offline}, {server:?}: {why:?}");
        }
    }

    #[test]
    fn models_of_one_host_have_one_server() {
        let hub = Hub::at("https://hub.test");
        let of = |source| server(&hub, source);
        for (source, expected) in [
            ("hf.co/o/n:Q8_0", Some("https://hub.test")),
            ("https://example.org/a/b.gguf?key=1", Some("https://example.org")),
            ("https://example.org:8080/c.gguf", Some("https://example.org:8080")),
            ("no model", None),
        ] {
            assert_eq!(of(source).as_deref(), expected, "{source}");
        }
        assert_eq!(of("ollama://a:b"), Some(hub.ollama.clone()));
    }
}
