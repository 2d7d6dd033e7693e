//! The system prompt that an adapter was trained with. A chat with the adapter uses it, too, unless
//! the conversation has its own.

use crate::{
    convert::from_json,
    store::{adapter, run},
    wire::{TrainSettings, UsedAdapter},
};
use rusqlite::Connection;

/// The system prompt of a run's training data.
pub(super) enum TrainingPrompt {
    /// No adapter, or one that was trained elsewhere.
    Unknown,
    /// The default of the chat template.
    Template,
    /// This text, perhaps an empty one.
    Text(String),
}

/// The training prompt of the first adapter that has a known one.
pub(super) fn find(connection: &Connection, adapters: &[UsedAdapter]) -> rusqlite::Result<TrainingPrompt> {
    for used in adapters {
        let run_id = adapter::get(connection, used.adapter)?.and_then(|adapter| adapter.run);
        let Some(run) = run_id.map(|id| run::get(connection, id)).transpose()?.flatten() else {
            continue;
        };
        let settings: TrainSettings = from_json(Some(&run.settings)).unwrap_or_default();
        return Ok(settings
            .system_prompt
            .map_or(TrainingPrompt::Template, TrainingPrompt::Text));
    }
    Ok(TrainingPrompt::Unknown)
}
