//! Adapters that answers are made with: changed from answer to answer, over one copy of the weights.

use crate::Engine;
use crate::problem::{from_gguf, from_session, problem};
use crate::training::{adapter_path, open_adapter};
use hearth_formats::gguf::Gguf;
use hearth_llm::{LoraPart, Session};
use hearth_protocol::{AdapterChoice, Problem, ProblemCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Which adapters, and when their files were last written: one that was trained anew is another.
pub(crate) type Worn = Vec<(AdapterChoice, Option<SystemTime>)>;

impl Engine {
    /// Makes what follows with these adapters, in the order given; with none, as the model is. The cache of the adapters before is
    /// kept, so that going back and forth between two sets reads nothing twice. What a person should know about the adapters comes
    /// back in whole sentences.
    ///
    /// # Errors
    /// An adapter cannot be read or belongs to another model; then those before stay.
    pub fn wear(&mut self, adapters: &[AdapterChoice]) -> Result<Vec<String>, Problem> {
        let wanted: Worn = adapters
            .iter()
            .map(|choice| (choice.clone(), written(&choice.path)))
            .collect();
        if wanted == self.worn {
            return Ok(Vec::new());
        }
        if let Some((worn, session)) = self.laid_aside.take() {
            if worn == wanted {
                self.put_on(worn, session);
                return Ok(Vec::new());
            }
            self.laid_aside = Some((worn, session));
        }
        let mut notices = Vec::new();
        let model = match adapters.is_empty() {
            true => Arc::clone(&self.base),
            false => {
                let gguf = Gguf::open(&self.info().path).map_err(from_gguf)?;
                let mut all = Vec::new();
                for choice in adapters {
                    if !choice.scale.is_finite() {
                        let message = format!("An adapter cannot count {} times. Choose a number.", choice.scale);
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
        let (context, format) = (self.session.context(), self.session.cache_format());
        let session = Session::with_cache(model, context, format).map_err(from_session)?;
        self.put_on(wanted, session);
        Ok(notices)
    }

    fn put_on(&mut self, worn: Worn, session: Session) {
        let before = std::mem::replace(&mut self.session, session);
        self.laid_aside = Some((std::mem::replace(&mut self.worn, worn), before));
    }
}

/// When an adapter's numbers were last written.
fn written(path: &Path) -> Option<SystemTime> {
    let files = files(path);
    files.last()?.metadata().and_then(|about| about.modified()).ok()
}

/// The files that make an adapter what it is; the last has its numbers.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let path = adapter_path(path);
    match path.is_dir() {
        true => ["adapter_config.json", "adapter_model.safetensors"]
            .map(|name| path.join(name))
            .into(),
        false => vec![path],
    }
}
