//! Arbitrary bytes as a model: hyperparameters, weights, and a forward pass of a few tokens.

use crate::seeds::{self, Seed};
use hearth_formats::Architecture;
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_llm::{LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::sync::Arc;

pub fn run(bytes: &[u8]) -> bool {
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else {
        return false;
    };
    let Ok(model) = load(&gguf) else {
        return false;
    };
    generate(model);
    true
}

/// Runs a few tokens.
pub fn generate(model: Model) {
    let vocab = model.config().vocab;
    let mut session = Session::new(Arc::new(model), 8).expect("a context of 8 tokens");
    let ids = [0, 1, 2].map(|id| id % vocab as u32);
    session
        .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("tokens of the vocabulary");
    assert_eq!(session.logits().len(), vocab);
    session.push(ids[1]).expect("capacity for one more token");
}

pub fn load(gguf: &Gguf) -> Result<Model, hearth_llm::LoadError> {
    Model::load(gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()))
}

pub fn seeds() -> Vec<Seed> {
    let kinds = [TensorType::Q4_0, TensorType::Q8_0, TensorType::F16, TensorType::F32];
    Architecture::ALL
        .iter()
        .zip(kinds.into_iter().cycle())
        .map(|(architecture, kind)| Seed::new(architecture.name(), seeds::model(architecture.name(), kind)))
        .collect()
}
