//! Presets: named settings of conversations. Each is a JSON file in the data folder, which can be
//! shared unchanged. A preset's id is the name of its file. The file name stays when the preset is
//! renamed, so that conversations find it.

mod built_in;
mod deleted;
mod file;
mod folder;
mod name;

pub use name::file_stem;

use crate::{
    App, conversations,
    convert::{from_json, to_json},
    export::unwritable,
    lock::lock,
    shared::Shared,
    store::conversation,
    wire::{AnswerOverrides, ChatReason, Event, NewConversation, Preset, PresetValues, Presets, Problem, ProblemCode},
};
use file::PresetFile;
use hearth_formats::durable;
use std::path::{Path, PathBuf};

/// The folder of presets in the data folder.
pub(crate) const FOLDER: &str = "presets";

/// Most presets of the user.
const MAX_PRESETS: usize = 500;

impl App {
    /// The built-in presets, then the user's by name.
    pub async fn presets(&self) -> Result<Presets, Problem> {
        self.shared
            .blocking(|shared| {
                let _one_at_a_time = lock(&shared.changing_presets);
                deleted::purge(&folder_of(shared));
                Ok(list(shared))
            })
            .await
    }

    /// Saves a new preset.
    pub async fn save_preset(&self, name: String, values: PresetValues) -> Result<Preset, Problem> {
        self.change_preset(move |shared| {
            let name = name::checked(&name)?;
            name::refuse_taken(&list(shared), &name, None)?;
            add(shared, PresetFile::new(name, values))
        })
        .await
    }

    /// Replaces the settings of a preset.
    pub async fn update_preset(&self, id: String, values: PresetValues) -> Result<Preset, Problem> {
        self.change_preset(move |shared| {
            let (path, old) = own(shared, &id)?;
            file::write(&path, &PresetFile::new(old.name, values))?;
            Ok(id)
        })
        .await
    }

    /// Renames a preset; its id stays.
    pub async fn rename_preset(&self, id: String, name: String) -> Result<Preset, Problem> {
        self.change_preset(move |shared| {
            let name = name::checked(&name)?;
            name::refuse_taken(&list(shared), &name, Some(&id))?;
            let (path, old) = own(shared, &id)?;
            file::write(&path, &PresetFile::new(name, old.values))?;
            Ok(id)
        })
        .await
    }

    /// Deletes a preset, which can be restored for a while. Conversations keep their settings.
    pub async fn delete_preset(&self, id: String) -> Result<(), Problem> {
        self.change_presets(move |shared| {
            let (path, _) = own(shared, &id)?;
            deleted::delete(&folder_of(shared), &path)
        })
        .await
        .map(drop)
    }

    /// Undoes a deletion.
    pub async fn restore_preset(&self, id: String) -> Result<Preset, Problem> {
        self.change_preset(move |shared| deleted::restore(&folder_of(shared), &id))
            .await
    }

    /// Adds the preset in a file. A number is appended to its name if that is taken.
    pub async fn import_preset(&self, path: PathBuf) -> Result<Preset, Problem> {
        self.change_preset(move |shared| {
            let mut preset = file::read(&path).map_err(|cause| unreadable(&path, cause))?;
            preset.name = name::free(&list(shared), &preset.name);
            add(shared, preset)
        })
        .await
    }

    /// Writes a preset to a file, which is replaced atomically.
    pub async fn export_preset(&self, id: String, path: PathBuf) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let Preset { name, values, .. } = find(shared, &id)?;
                file::write(&path, &PresetFile::new(name, values))
            })
            .await
    }

    /// Applies a preset to a conversation, or, if that is `None`, to `fresh`. Returns the settings
    /// and the system prompt with it.
    pub async fn apply_preset(
        &self,
        id: String,
        conversation: Option<i64>,
        fresh: NewConversation,
    ) -> Result<NewConversation, Problem> {
        self.shared
            .blocking(move |shared| {
                let preset = find(shared, &id)?;
                match conversation {
                    None => Ok(with_preset(&|id| by_id(shared, id), &preset, fresh)),
                    Some(conversation) => apply(shared, &preset, conversation),
                }
            })
            .await
    }

    /// Changes presets, one change at a time, and emits them. Returns the result of `change` and
    /// the presets after it.
    async fn change_presets<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Presets), Problem> {
        self.shared
            .blocking(move |shared| {
                let _one_at_a_time = lock(&shared.changing_presets);
                let changed = change(shared)?;
                let presets = list(shared);
                shared.emit(Event::PresetsChanged {
                    presets: presets.clone(),
                });
                Ok((changed, presets))
            })
            .await
    }

    /// Changes a preset, whose id `change` returns.
    async fn change_preset(
        &self,
        change: impl FnOnce(&Shared) -> Result<String, Problem> + Send + 'static,
    ) -> Result<Preset, Problem> {
        let (id, presets) = self.change_presets(change).await?;
        find_in(presets, &id)
    }
}

/// Whether this is the path of a preset's file in [`FOLDER`], or of a deleted one's.
pub(crate) fn is_file(path: &[&str]) -> bool {
    matches!(path, [file] | [deleted::FOLDER, file] if folder::stem_of(file).is_some())
}

fn folder_of(shared: &Shared) -> PathBuf {
    shared.data.join(FOLDER)
}

fn list(shared: &Shared) -> Presets {
    let mut presets = folder::list(&folder_of(shared));
    presets.presets.splice(0..0, built_in::all());
    presets
}

/// All presets that can be read.
pub(crate) fn all(shared: &Shared) -> Vec<Preset> {
    list(shared).presets
}

/// The preset with an id. `None` if there is none that can be read.
pub(crate) fn by_id(shared: &Shared, id: &str) -> Option<Preset> {
    find(shared, id).ok()
}

fn find(shared: &Shared, id: &str) -> Result<Preset, Problem> {
    find_in(list(shared), id)
}

fn find_in(presets: Presets, id: &str) -> Result<Preset, Problem> {
    let preset = presets.presets.into_iter().find(|preset| preset.id == id);
    preset.ok_or_else(no_preset)
}

/// A preset of the user, and its file.
fn own(shared: &Shared, id: &str) -> Result<(PathBuf, PresetFile), Problem> {
    if built_in::all().any(|preset| preset.id == id) {
        return Err(Problem::new(ProblemCode::BadRequest, ChatReason::BuiltInPreset));
    }
    // The path comes from the listed files and not from the id, which may be hostile.
    let path = folder::path_of(&folder_of(shared), id).ok_or_else(no_preset)?;
    let preset = file::read(&path).map_err(|cause| unreadable(&path, cause))?;
    Ok((path, preset))
}

/// Writes a new preset to a file. Returns its id.
fn add(shared: &Shared, preset: PresetFile) -> Result<String, Problem> {
    let folder = folder_of(shared);
    if folder::files(&folder).len() >= MAX_PRESETS {
        let reason = ChatReason::TooManyPresets { limit: MAX_PRESETS };
        return Err(Problem::new(ProblemCode::BadRequest, reason));
    }
    let stem = folder::free_stem(&folder, &preset.name);
    let path = folder.join(format!("{stem}.json"));
    crate::permissions::create_private_folder(&folder).map_err(|error| unwritable(&folder, &error))?;
    file::write(&path, &preset)?;
    Ok(stem)
}

/// A conversation's settings with a preset in place of its previous one, which `by_id` looks up.
fn with_preset(by_id: &dyn Fn(&str) -> Option<Preset>, preset: &Preset, to: NewConversation) -> NewConversation {
    let previous = to.settings.preset.as_deref().and_then(by_id);
    let replaced = previous.as_ref().map(|previous| &previous.values);
    preset.values.apply(preset.id.clone(), to, replaced)
}

/// The settings and the system prompt of an answer: its conversation's current ones, with the
/// answer's own preset applied if it has one. `by_id` looks up the preset that it replaces.
pub(crate) fn of_answer(
    by_id: &dyn Fn(&str) -> Option<Preset>,
    row: Option<&conversation::Conversation>,
    overrides: Option<&AnswerOverrides>,
) -> NewConversation {
    let current = row.map(of_conversation).unwrap_or_default();
    match overrides.and_then(|overrides| overrides.preset.as_ref()) {
        Some(preset) => with_preset(by_id, preset, current),
        None => current,
    }
}

/// The settings of a conversation's row.
pub(crate) fn of_conversation(row: &conversation::Conversation) -> NewConversation {
    NewConversation {
        settings: from_json(row.settings.as_deref()).unwrap_or_default(),
        system_prompt: row.system_prompt.clone(),
        folder: row.folder,
        adapters: from_json(row.adapters.as_deref()).unwrap_or_default(),
    }
}

/// Applies a preset to a conversation in the store.
fn apply(shared: &Shared, preset: &Preset, id: i64) -> Result<NewConversation, Problem> {
    // One transaction, so that a concurrent change of the settings is not overwritten.
    let applied = shared.store.write(|t| {
        let Some(row) = conversation::get(t, id)? else {
            return Ok(None);
        };
        let new = with_preset(&|id| by_id(shared, id), preset, of_conversation(&row));
        conversation::set_settings(t, id, Some(&to_json(&new.settings)))?;
        conversation::set_system_prompt(t, id, new.system_prompt.as_deref())?;
        Ok(Some(new))
    })?;
    let new = applied.ok_or_else(conversations::no_conversation)?;
    shared.announce_conversation(id)?;
    Ok(new)
}

fn no_preset() -> Problem {
    Problem::new(ProblemCode::NotFound, ChatReason::NoPreset)
}

/// The problem of a file that is no preset.
fn unreadable(path: &Path, cause: Problem) -> Problem {
    file::invalid(ChatReason::PresetUnreadable {
        path: path.display().to_string(),
        cause: Box::new(cause),
    })
}

/// Renames a file, durably.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    for folder in [from.parent(), to.parent()].into_iter().flatten() {
        durable::sync_folder(folder)?;
    }
    Ok(())
}
