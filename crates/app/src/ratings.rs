//! Methods of [`App`] for ratings: votes in comparisons, ratings and corrections, and the dataset
//! made from them.

use crate::{
    App, adapters,
    convert::{from_json, to_json},
    datasets, presets,
    shared::Shared,
    store::{
        StoreError, conversation, folder,
        message::{self, Message, State},
        now,
    },
    title,
    wire::{AnswerOverrides, ChatReason, Dataset, Preset, Problem, ProblemCode, Rating, Thumb, TuneReason},
};
use hearth_formats::durable;
use hearth_protocol::Role;
use rusqlite::Transaction;
use serde::Serialize;
use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    path::Path,
};

impl App {
    /// Votes for one answer of a comparison and continues the conversation from it. `better: false`
    /// withdraws the vote.
    pub async fn vote_answer(&self, id: i64, better: bool) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let vote = |t: &Transaction<'_>| {
                    let compared = message::compared(t, id)?;
                    let Some(row) = message::get(t, id)?.filter(|_| compared.len() > 1) else {
                        return Ok(None);
                    };
                    message::vote(t, &compared, id, better)?;
                    let leaf = conversation::get(t, row.conversation)?.and_then(|conversation| conversation.leaf);
                    // A conversation that was continued from another answer keeps its branch.
                    if better && leaf.is_some_and(|leaf| compared.contains(&leaf)) {
                        conversation::set_leaf(t, row.conversation, Some(id))?;
                    }
                    Ok(Some((compared, row.conversation)))
                };
                let (compared, conversation) = shared
                    .store
                    .write(vote)?
                    .ok_or_else(|| Problem::new(ProblemCode::BadRequest, ChatReason::NotCompared))?;
                for answer in compared {
                    shared.announce_message(answer)?;
                }
                Ok(shared.announce_conversation(conversation)?)
            })
            .await?;
        adapters::announce_later(&self.shared);
        Ok(())
    }

    /// Rates an answer. A correction alone counts as a thumb down. Without a thumb and a
    /// correction, the rating is removed.
    pub async fn rate_answer(&self, id: i64, thumb: Option<Thumb>, correction: Option<String>) -> Result<(), Problem> {
        let correction = correction.filter(|text| !text.trim().is_empty());
        let thumb = thumb.or(correction.is_some().then_some(Thumb::Down));
        let rating = thumb.map(|thumb| to_json(&Rating { thumb, correction }));
        self.shared
            .blocking(move |shared| {
                let rate = |t: &Transaction<'_>| match message::get(t, id)? {
                    Some(row) if row.role == Role::Assistant && row.state != State::Unfinished => {
                        message::rate(t, id, rating.as_deref())
                    }
                    _ => Ok(false),
                };
                if !shared.store.write(rate)? {
                    return Err(Problem::new(ProblemCode::BadRequest, ChatReason::NotRatable));
                }
                Ok(shared.announce_message(id)?)
            })
            .await
    }

    /// Number of examples that [`App::dataset_from_ratings`] would write.
    pub async fn rated_examples(&self) -> Result<usize, Problem> {
        self.shared.blocking(|shared| Ok(rated(shared)?.len())).await
    }

    /// Writes answers with a thumb up and corrections, each with the preceding conversation, to a
    /// file in the data folder, and adds it as a dataset.
    pub async fn dataset_from_ratings(&self, name: String) -> Result<Dataset, Problem> {
        let name = title::normalized(&name).ok_or_else(title::empty_name)?;
        self.shared
            .blocking(move |shared| {
                let examples = rated(shared)?;
                if examples.is_empty() {
                    return Err(Problem::new(ProblemCode::DataInvalid, TuneReason::NothingRated));
                }
                let folder = shared.data.join("datasets");
                let path = folder.join(format!("{}-{}.jsonl", file_name(&name), now()));
                write(&folder, &path, &examples).map_err(|error| not_written(&path, &error))?;
                datasets::add(shared, &path, Some(&name))
            })
            .await
    }
}

/// One line of the file.
#[derive(Serialize)]
struct Example {
    messages: Vec<Turn>,
}

/// A message of an example.
#[derive(Serialize)]
struct Turn {
    role: &'static str,
    content: String,
}

/// The examples of all conversations.
fn rated(shared: &Shared) -> Result<Vec<Example>, StoreError> {
    // Each preset is a file, so they are read before the store is locked.
    let presets = presets::all(shared);
    shared.store.read(|t| examples(&presets, t))
}

/// One example per answer with a thumb up or a correction: the conversation up to it, with the
/// corrections applied. Examples with a bad answer are omitted, because the loss would include it.
fn examples(presets: &[Preset], t: &Transaction<'_>) -> rusqlite::Result<Vec<Example>> {
    let mut rated: HashMap<i64, Rating> = HashMap::new();
    let rows = message::rated(t)?;
    for row in &rows {
        rated.extend(from_json(row.rating.as_deref()).map(|rating| (row.id, rating)));
    }
    let by_id = |id: &str| presets.iter().find(|preset| preset.id == id).cloned();
    let mut examples = Vec::new();
    for row in &rows {
        let overrides: Option<AnswerOverrides> = from_json(row.overrides.as_deref());
        let conversation = conversation::get(t, row.conversation)?;
        let folder_prompt = folder::of_conversation(t, row.conversation)?.and_then(|folder| folder.system_prompt);
        let answer = presets::of_answer(&by_id, conversation.as_ref(), overrides.as_ref());
        let system = answer.system_prompt.or(folder_prompt);
        let branch = message::branch(t, row.id)?;
        let turns: Option<Vec<Turn>> = branch
            .iter()
            .map(|message| turn(message, rated.get(&message.id)))
            .collect();
        if let Some(turns) = turns {
            let system = system.filter(|text| !text.trim().is_empty()).map(|content| Turn {
                role: "system",
                content,
            });
            examples.push(Example {
                messages: system.into_iter().chain(turns).collect(),
            });
        }
    }
    Ok(examples)
}

/// A message as a turn of an example. `None` means that it is empty or a bad answer.
fn turn(message: &Message, rating: Option<&Rating>) -> Option<Turn> {
    let correction = rating.and_then(|rating| rating.correction.clone());
    let is_bad = correction.is_none() && rating.is_some_and(|rating| rating.thumb == Thumb::Down);
    let content = correction.unwrap_or_else(|| message.text());
    let role = message.role.name();
    (!is_bad && !content.trim().is_empty()).then_some(Turn { role, content })
}

/// Writes the examples to a file by atomic replacement.
fn write(folder: &Path, path: &Path, examples: &[Example]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    durable::write_file(path, |file| {
        for example in examples {
            serde_json::to_writer(&mut *file, example)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// A portable file name from a display name, without an extension.
fn file_name(name: &str) -> String {
    let ascii: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    ascii.trim_matches('-').to_lowercase()
}

fn not_written(path: &Path, error: &io::Error) -> Problem {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ProblemCode::DiskFull,
        _ => ProblemCode::Store,
    };
    let reason = TuneReason::RatingsNotWritten {
        path: path.display().to_string(),
        detail: error.to_string(),
    };
    Problem::new(code, reason)
}
