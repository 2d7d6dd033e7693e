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
    wire::{Event, NewConversation, OwnSettings, Preset, PresetValues, Presets, Problem, ProblemCode},
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

    /// Adds the preset in a file. One whose name is taken gets a number.
    pub async fn import_preset(&self, path: PathBuf) -> Result<Preset, Problem> {
        self.change_preset(move |shared| {
            let mut preset = file::read(&path).map_err(|why| unreadable(&path, &why))?;
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
                    None => Ok(applied(&|id| by_id(shared, id), &preset, fresh)),
                    Some(conversation) => apply(shared, &preset, conversation),
                }
            })
            .await
    }

    /// Changes presets, one change at a time, and emits them. Returns what `change` returns, and
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
        found(presets, &id)
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
    let mut found = folder::list(&folder_of(shared));
    found.presets.splice(0..0, built_in::all());
    found
}

/// All presets that can be read.
pub(crate) fn all(shared: &Shared) -> Vec<Preset> {
    list(shared).presets
}

/// A preset, which is read from its folder.
pub(crate) fn by_id(shared: &Shared, id: &str) -> Option<Preset> {
    find(shared, id).ok()
}

fn find(shared: &Shared, id: &str) -> Result<Preset, Problem> {
    found(list(shared), id)
}

fn found(presets: Presets, id: &str) -> Result<Preset, Problem> {
    let found = presets.presets.into_iter().find(|preset| preset.id == id);
    found.ok_or_else(no_preset)
}

/// A preset of the user, and its file.
fn own(shared: &Shared, id: &str) -> Result<(PathBuf, PresetFile), Problem> {
    if built_in::all().any(|preset| preset.id == id) {
        return Err(Problem {
            code: ProblemCode::BadRequest,
            message: "This preset is Hearth's own and cannot be changed. Save the settings as another preset."
                .to_owned(),
        });
    }
    // Only a file of the listed ones is ever opened: an id is no path.
    let path = folder::path_of(&folder_of(shared), id).ok_or_else(no_preset)?;
    let preset = file::read(&path).map_err(|why| unreadable(&path, &why))?;
    Ok((path, preset))
}

/// Returns the id of the new preset.
fn add(shared: &Shared, preset: PresetFile) -> Result<String, Problem> {
    let folder = folder_of(shared);
    if folder::files(&folder).len() >= MAX_PRESETS {
        return Err(Problem {
            code: ProblemCode::BadRequest,
            message: format!("There can be {MAX_PRESETS} presets. Delete one, then try again."),
        });
    }
    let stem = folder::free_stem(&folder, &preset.name);
    let path = folder.join(format!("{stem}.json"));
    crate::permissions::create_private_folder(&folder).map_err(|error| unwritable(&folder, &error))?;
    file::write(&path, &preset)?;
    Ok(stem)
}

/// A conversation's settings with a preset, in place of the one that it has, which `by_id` finds.
fn applied(by_id: &dyn Fn(&str) -> Option<Preset>, preset: &Preset, to: NewConversation) -> NewConversation {
    let before = to.settings.preset.as_deref().and_then(by_id);
    let replaced = before.as_ref().map(|before| &before.values);
    preset.values.apply(preset.id.clone(), to, replaced)
}

/// The settings and the system prompt of an answer: its conversation's present ones, as if the
/// answer's own preset had been applied to them. `by_id` finds the preset that it replaces.
pub(crate) fn of_answer(
    by_id: &dyn Fn(&str) -> Option<Preset>,
    row: Option<&conversation::Conversation>,
    own: Option<&OwnSettings>,
) -> NewConversation {
    let now = row.map(of_conversation).unwrap_or_default();
    match own.and_then(|own| own.preset.as_ref()) {
        Some(preset) => applied(by_id, preset, now),
        None => now,
    }
}

fn of_conversation(row: &conversation::Conversation) -> NewConversation {
    NewConversation {
        settings: from_json(row.settings.as_deref()).unwrap_or_default(),
        system_prompt: row.system_prompt.clone(),
        folder: row.folder,
        adapters: from_json(row.adapters.as_deref()).unwrap_or_default(),
    }
}

fn apply(shared: &Shared, preset: &Preset, id: i64) -> Result<NewConversation, Problem> {
    // One transaction: what is set meanwhile would be undone.
    let applied = shared.store.write(|t| {
        let Some(row) = conversation::get(t, id)? else {
            return Ok(None);
        };
        let new = applied(&|id| by_id(shared, id), preset, of_conversation(&row));
        conversation::set_settings(t, id, Some(&to_json(&new.settings)))?;
        conversation::set_system_prompt(t, id, new.system_prompt.as_deref())?;
        Ok(Some(new))
    })?;
    let new = applied.ok_or_else(conversations::no_conversation)?;
    shared.announce_conversation(id)?;
    Ok(new)
}

fn no_preset() -> Problem {
    Problem {
        code: ProblemCode::NotFound,
        message: "This preset no longer exists. Choose another one.".to_owned(),
    }
}

/// The problem of a file that is no preset; `why` is a sentence.
fn unreadable(path: &Path, why: &str) -> Problem {
    Problem {
        code: ProblemCode::DataInvalid,
        message: format!("{} could not be read as a preset. {why}", path.display()),
    }
}

/// Renames a file, durably.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    for folder in [from.parent(), to.parent()].into_iter().flatten() {
        durable::sync_folder(folder)?;
    }
    Ok(())
}
