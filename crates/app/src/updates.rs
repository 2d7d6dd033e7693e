//! Newer versions of downloaded models. No server is asked without the user's request.

use crate::{
    App,
    library::{
        Hub, LibraryError, Model, Update,
        hub::{Reference, is_offline, without_query},
    },
    shared::Shared,
    store::download::{self, State},
    wire::{ModelUpdate, Problem, ProblemCode, UpdateState},
};
use hearth_protocol::ModelsReason;
use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Time limit for a check of all servers. A request in progress at its end is completed.
const LIMIT: Duration = Duration::from_secs(120);

impl App {
    /// Asks the servers of all downloaded models for newer versions.
    ///
    /// # Errors
    /// The network is switched off. A server that cannot be reached is not an error: the state of
    /// its models is [`UpdateState::Unknown`].
    pub async fn check_updates(&self) -> Result<Vec<ModelUpdate>, Problem> {
        self.shared
            .asking(|shared| {
                let hub = shared.hub()?;
                let sources = sources(shared)?;
                let mut servers = Servers::new(Instant::now() + LIMIT);
                let models = shared.models()?.into_iter();
                let check = |model: Model| {
                    let recorded = &model.origin.as_ref()?.source;
                    // The list of downloads has the query of a URL, which the model's record lacks.
                    // Sources of other kinds are more exact in the record.
                    let with_query = sources
                        .get(&model.path)
                        .filter(|source| without_query(source) == recorded);
                    let source = with_query.unwrap_or(recorded);
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
    deadline: Instant,
    /// The problems of servers that have failed, by server.
    failed: HashMap<String, Problem>,
}

impl Servers {
    fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            failed: HashMap::new(),
        }
    }

    /// Asks the server of a model. A server that has failed is not asked again, because each
    /// attempt could take until its timeout.
    fn ask(&mut self, shared: &Shared, hub: &Hub, model: &Model, source: &str) -> UpdateState {
        let server = server(hub, source);
        // The user may switch the network off meanwhile.
        let is_offline = shared.settings().offline || is_offline();
        if let Some(problem) = self.refusal(is_offline, Instant::now(), server.as_deref()) {
            return UpdateState::Unknown { problem };
        }
        match shared.library.update(hub, model, source) {
            Ok(Update::Current) => UpdateState::Current,
            Ok(Update::Available) => UpdateState::Available,
            Ok(Update::Unknown(reason)) => UpdateState::Unknown { problem: reason.into() },
            Err(error) => {
                let server = server.filter(|_| error.is_temporary());
                let problem = Problem::from(error);
                if let Some(server) = server {
                    self.failed.insert(server, problem.clone());
                }
                UpdateState::Unknown { problem }
            }
        }
    }

    /// The reason not to ask a server. `None` means that it is asked.
    fn refusal(&self, is_offline: bool, now: Instant, server: Option<&str>) -> Option<Problem> {
        if is_offline {
            return Some(LibraryError::OfflineBySetting.into());
        }
        if now >= self.deadline {
            return Some(Problem::new(ProblemCode::Download, ModelsReason::UpdateTooLate));
        }
        self.failed.get(server?).cloned()
    }
}

/// The server that a source is checked on. `None` means that no request is needed.
fn server(hub: &Hub, source: &str) -> Option<String> {
    match Reference::parse(source, hub).ok()? {
        Reference::Catalog(entry) if entry.sha256.is_some() => None,
        Reference::Catalog(_) | Reference::Hub { .. } => Some(hub.endpoint.clone()),
        Reference::Ollama { .. } => Some(hub.ollama.clone()),
        // The scheme, an empty part and the host.
        Reference::Url(url) => Some(url.split('/').take(3).collect::<Vec<_>>().join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_asked_offline_late_or_after_it_failed() {
        struct Case {
            is_offline: bool,
            now: Instant,
            server: Option<&'static str>,
            /// A part of the reason not to ask the server.
            expected: Option<&'static str>,
        }

        let now = Instant::now();
        let mut servers = Servers::new(now + LIMIT);
        let problem = Problem::detail(ProblemCode::Download, "It is asleep.");
        servers.failed.insert("https://a".to_owned(), problem);
        let asked = Case {
            is_offline: false,
            now,
            server: Some("https://b"),
            expected: None,
        };
        let cases = [
            Case { server: None, ..asked },
            Case {
                server: Some("https://a"),
                expected: Some("asleep"),
                ..asked
            },
            Case {
                is_offline: true,
                server: None,
                expected: Some("switched off"),
                ..asked
            },
            Case {
                now: now + LIMIT,
                server: None,
                expected: Some("too long"),
                ..asked
            },
            asked,
        ];
        for case in cases {
            let refusal = servers.refusal(case.is_offline, case.now, case.server);
            let is_expected = match (&refusal, case.expected) {
                (Some(problem), Some(text)) => problem.to_string().contains(text),
                (problem, text) => problem.is_none() && text.is_none(),
            };
            assert!(is_expected, "{}, {:?}: {refusal:?}", case.is_offline, case.server);
        }
    }

    #[test]
    fn models_of_one_host_have_one_server() {
        let hub = Hub::at("https://hub.test");
        let server_of = |source| server(&hub, source);
        for (source, expected) in [
            ("hf.co/o/n:Q8_0", Some("https://hub.test")),
            ("https://example.org/a/b.gguf?key=1", Some("https://example.org")),
            ("https://example.org:8080/c.gguf", Some("https://example.org:8080")),
            ("no model", None),
        ] {
            assert_eq!(server_of(source).as_deref(), expected, "{source}");
        }
        assert_eq!(server_of("ollama://a:b"), Some(hub.ollama.clone()));
    }
}
