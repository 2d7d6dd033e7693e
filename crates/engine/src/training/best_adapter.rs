//! The best adapter of a run so far, and its score.

use super::data::{Reader, TrainingData};
use super::folder::{RunFolder, open_adapter};
use hearth_llm::LoraPart;
use hearth_protocol::Notice;
use hearth_train::Run;
use serde::{Deserialize, Serialize};

/// The step of an adapter, and its validation loss if it is measured. They are part of the metrics
/// in the adapter's manifest, since the last checkpoint may be from another step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Score {
    pub best_step: usize,
    pub eval_loss: Option<f64>,
}

/// The best adapter of a run so far.
pub(super) struct BestAdapter {
    pub parts: Vec<LoraPart>,
    pub score: Score,
}

impl BestAdapter {
    /// Reads the best adapter of the steps before a resume. `None` if there is none, or if it is
    /// lost; then a notice is added.
    pub fn read(
        folder: &RunFolder,
        run: &Run,
        training_data: &TrainingData,
        reader: &Reader,
        notices: &mut Vec<Notice>,
    ) -> Option<Self> {
        let has_best = if training_data.held_out.is_empty() {
            !run.losses().is_empty()
        } else {
            run.best().is_some()
        };
        if !has_best {
            return None;
        }
        match open_adapter(&folder.adapter(), &reader.gguf) {
            Ok((adapter, _)) => {
                let manifest = adapter.manifest.as_ref();
                let recorded_score = manifest.and_then(|manifest| Score::deserialize(&manifest.metrics).ok());
                // Early versions recorded the score only at the end of a run.
                let score = recorded_score.unwrap_or_else(|| Score {
                    best_step: run.best().map_or(run.losses().len(), |(step, _)| step),
                    eval_loss: run.best().map(|(_, loss)| loss),
                });
                let parts = LoraPart::from_file(&adapter, 1.0);
                Some(Self { parts, score })
            }
            Err(problem) => {
                let cause = Box::new(problem);
                notices.push(Notice::BestAdapterLost { cause });
                None
            }
        }
    }
}
