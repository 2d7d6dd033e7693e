//! Methods of [`App`] for folders and tags.

use crate::{
    App,
    announce::Topic,
    conversations::settings_column,
    convert::from_json,
    shared::Shared,
    store::{conversation, folder, now},
    title,
    wire::{ChatReason, Event, Folder, Problem, ProblemCode},
};
use rusqlite::Transaction;

/// Most tags of a conversation.
const MAX_TAGS: usize = 32;
/// Most characters of a tag.
const MAX_TAG: usize = 40;

impl App {
    /// Creates an empty folder.
    pub async fn create_folder(&self, name: String) -> Result<Folder, Problem> {
        let name = title::normalized(&name).ok_or_else(title::empty_name)?;
        let id = self
            .change_folders(move |t| folder::create(t, &name, now()).map(Some))
            .await?;
        let folder = self
            .shared
            .blocking(move |shared| Ok(shared.store.read(|t| folder::get(t, id))?))
            .await?;
        folder.map(Into::into).ok_or_else(no_folder)
    }

    /// Changes a folder's name, instructions and default settings.
    pub async fn update_folder(&self, folder: Folder) -> Result<(), Problem> {
        folder.check()?;
        let name = title::normalized(&folder.name).ok_or_else(title::empty_name)?;
        let row = folder::Folder {
            id: folder.id,
            name,
            system_prompt: folder.system_prompt,
            settings: settings_column(&folder.settings),
        };
        self.change_folders(move |t| Ok(folder::update(t, &row)?.then_some(())))
            .await
    }

    /// Deletes a folder, which can be restored for a while. Its conversations stay.
    pub async fn delete_folder(&self, id: i64) -> Result<(), Problem> {
        let time = self.shared.store.time();
        self.change_folders(move |t| Ok(folder::delete(t, id, time)?.then_some(())))
            .await?;
        // Its conversations have changed, too.
        self.announce_conversations().await
    }

    /// Undoes a deletion. The conversations that were in the folder return to it.
    pub async fn restore_folder(&self, id: i64) -> Result<(), Problem> {
        self.change_folders(move |t| Ok(folder::restore(t, id)?.then_some(())))
            .await?;
        // Its conversations have changed, too.
        self.announce_conversations().await
    }

    /// Moves a conversation into a folder, or out of its folder.
    pub async fn move_conversation(&self, id: i64, folder: Option<i64>) -> Result<(), Problem> {
        self.change(id, move |t| folder::put(t, id, folder)).await
    }

    /// Sets a conversation's tags.
    pub async fn set_tags(&self, conversation: i64, tags: Vec<String>) -> Result<(), Problem> {
        let tags = checked_tags(&tags)?;
        self.change(conversation, move |t| {
            let exists = conversation::get(t, conversation)?.is_some();
            if exists {
                folder::set_tags(t, conversation, &tags)?;
            }
            Ok(exists)
        })
        .await
    }

    async fn announce_conversations(&self) -> Result<(), Problem> {
        self.shared
            .blocking(|shared| Ok(shared.announce_conversations()?))
            .await
    }

    /// Changes folders and announces them.
    async fn change_folders<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Option<T>> + Send + 'static,
    ) -> Result<T, Problem> {
        self.shared
            .blocking(move |shared| {
                let changed = shared.store.write(write)?.ok_or_else(no_folder)?;
                let event = || Ok::<_, Problem>(Event::FoldersChanged { folders: list(shared)? });
                shared.announcer.announce(Topic::Folders, event)?;
                Ok(changed)
            })
            .await
    }
}

/// All folders.
pub(crate) fn list(shared: &Shared) -> Result<Vec<Folder>, Problem> {
    let rows = shared.store.read(|t| folder::list(t))?;
    Ok(rows.into_iter().map(Into::into).collect())
}

impl From<folder::Folder> for Folder {
    fn from(row: folder::Folder) -> Self {
        Self {
            id: row.id,
            name: row.name,
            system_prompt: row.system_prompt,
            settings: from_json(row.settings.as_deref()).unwrap_or_default(),
        }
    }
}

/// Normalizes tags: on one line, without a leading `#`, without duplicates.
fn checked_tags(tags: &[String]) -> Result<Vec<String>, Problem> {
    let mut checked: Vec<String> = Vec::new();
    for tag in tags {
        let Some(tag) = title::normalized(tag.trim_start_matches('#')) else {
            continue;
        };
        if tag.chars().count() > MAX_TAG {
            return refuse(ChatReason::TagTooLong { limit: MAX_TAG });
        }
        if !checked.iter().any(|other| other.to_lowercase() == tag.to_lowercase()) {
            checked.push(tag);
        }
    }
    if checked.len() > MAX_TAGS {
        refuse(ChatReason::TooManyTags {
            limit: MAX_TAGS,
            count: checked.len(),
        })
    } else {
        Ok(checked)
    }
}

fn refuse<T>(reason: ChatReason) -> Result<T, Problem> {
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

fn no_folder() -> Problem {
    Problem::new(ProblemCode::NotFound, ChatReason::NoFolder)
}
