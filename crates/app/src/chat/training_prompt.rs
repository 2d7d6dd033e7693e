//! The system prompt that an adapter was trained under. A chat with the adapter uses the same,
//! unless the conversation has its own.

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
    /// The chat template decided.
    Template,
    /// This text; it may be empty.
    Text(String),
}

/// The training prompt of the first adapter that has a known one.
pub(super) fn find(connection: &Connection, adapters: &[UsedAdapter]) -> rusqlite::Result<TrainingPrompt> {
    for used in adapters {
        let id = adapter::get(connection, used.adapter)?.and_then(|adapter| adapter.run);
        let Some(run) = id.map(|id| run::get(connection, id)).transpose()?.flatten() else {
            continue;
        };
        let settings: TrainSettings = from_json(Some(&run.settings)).unwrap_or_default();
        return Ok(settings
            .system_prompt
            .map_or(TrainingPrompt::Template, TrainingPrompt::Text));
    }
    Ok(TrainingPrompt::Unknown)
}
