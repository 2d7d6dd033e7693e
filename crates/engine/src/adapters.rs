//! Adapters of answers: they may change between answers, over one copy of the weights.

use crate::Engine;
use crate::problem::{from_gguf, from_session, problem};
use crate::training::{adapter_path, open_adapter};
use hearth_formats::gguf::Gguf;
use hearth_llm::{LoraPart, Session};
use hearth_protocol::{AdapterChoice, Problem, ProblemCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Adapters with the modification times of their files, so that a retrained one counts as another.
pub(crate) type ActiveAdapters = Vec<(AdapterChoice, Option<SystemTime>)>;

impl Engine {
    /// Set the adapters of all following answers, in this order; an empty list means the base
    /// model. The previous adapters' KV cache is retained, so that switching between two sets needs
    /// no prefill. Returns notices for the user in whole sentences.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model; the active adapters are unchanged.
    pub fn set_adapters(&mut self, adapters: &[AdapterChoice]) -> Result<Vec<String>, Problem> {
        let requested: ActiveAdapters = adapters
            .iter()
            .map(|choice| (choice.clone(), written(&choice.path)))
            .collect();
        if requested == self.active_adapters {
            return Ok(Vec::new());
        }
        if let Some((active_adapters, session)) = self.previous.take() {
            if active_adapters == requested {
                self.activate(active_adapters, session);
                return Ok(Vec::new());
            }
            self.previous = Some((active_adapters, session));
        }
        let mut notices = Vec::new();
        let model = match adapters.is_empty() {
            true => Arc::clone(&self.base),
            false => {
                let gguf = Gguf::open(&self.info().path).map_err(from_gguf)?;
                let mut all = Vec::new();
                for choice in adapters {
                    if !choice.scale.is_finite() {
                        let message = format!("Adapter scale must be finite, got {}.", choice.scale);
                        return Err(problem(ProblemCode::BadRequest, message));
                    }
                    let (adapter, notice) = open_adapter(&choice.path, &gguf)?;
                    notices.extend(notice);
                    all.extend(LoraPart::of(&adapter, choice.scale));
                }
                let adapted = self.base.adapted(&all);
                Arc::new(adapted.map_err(|error| problem(ProblemCode::AdapterInvalid, error.to_string()))?)
            }
        };
        let session = self.session.sharing_cache(model).map_err(from_session)?;
        self.activate(requested, session);
        Ok(notices)
    }

    /// Gives up the previous adapters' part of the KV cache if this many tokens of the conversation
    /// need it.
    pub(crate) fn make_room(&mut self, tokens: usize) {
        if !self.session.has_room(tokens) {
            self.previous = None;
        }
    }

    fn activate(&mut self, active_adapters: ActiveAdapters, session: Session) {
        let before = std::mem::replace(&mut self.session, session);
        self.previous = Some((std::mem::replace(&mut self.active_adapters, active_adapters), before));
    }
}

/// Modification time of an adapter's weights.
pub(crate) fn written(path: &Path) -> Option<SystemTime> {
    let files = files(path);
    files.last()?.metadata().and_then(|about| about.modified()).ok()
}

/// The files of an adapter; the last has its weights.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let path = adapter_path(path);
    match path.is_dir() {
        true => ["adapter_config.json", "adapter_model.safetensors"]
            .map(|name| path.join(name))
            .into(),
        false => vec![path],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::LoadRequest;
    use std::ops::ControlFlow;

    #[test]
    fn the_previous_adapters_give_up_their_cache_when_it_is_needed() {
        let request = LoadRequest {
            path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf"),
            context: Some(256),
            device: Some("cpu".to_owned()),
            ..LoadRequest::default()
        };
        let mut engine = Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).expect("it loads");
        let cache_bytes = engine.session.cache_bytes();
        let read = |engine: &mut Engine, ids: &[u32]| {
            engine.make_room(ids.len());
            let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
            engine.session.prefill(ids, go).expect("room").cached
        };
        assert_eq!(read(&mut engine, &[7; 100]), 0);
        let beside = engine
            .session
            .sharing_cache(Arc::clone(&engine.base))
            .expect("the same weights");
        engine.activate(ActiveAdapters::new(), beside);
        // Two pages for both.
        assert_eq!(read(&mut engine, &[8; 100]), 0);
        let (active, previous) = engine.previous.take().expect("it has its page");
        engine.activate(active, previous);
        assert_eq!(read(&mut engine, &[7; 101]), 100, "switching back needs no prefill");
        // The whole context.
        assert_eq!(read(&mut engine, &[7; 256]), 101);
        assert!(engine.previous.is_none());
        assert!(
            cache_bytes == 0 || engine.session.cache_bytes() == cache_bytes,
            "one cache for both"
        );
    }
}
