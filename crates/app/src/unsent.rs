//! Methods of [`App`] for unsent texts and files: drafts and queued messages.

use crate::{
    App,
    conversations::no_conversation,
    convert::{from_json, to_json_unless_empty},
    store::unsent::{self, UnsentPart},
    wire::{Problem, Unsent, UnsentChange},
};
use rusqlite::Transaction;

impl App {
    /// Saves the draft and queued messages of a conversation; `None` means a new one. They are
    /// also saved for a deleted conversation, since it may be restored.
    pub async fn save_unsent(&self, conversation: Option<i64>, change: UnsentChange) -> Result<(), Problem> {
        change.check()?;
        self.shared
            .blocking(move |shared| {
                if shared.store.write(|t| write(t, conversation, &change))? {
                    Ok(())
                } else {
                    Err(no_conversation())
                }
            })
            .await
    }
}

/// Returns `false` if the conversation does not exist.
fn write(t: &Transaction<'_>, conversation: Option<i64>, change: &UnsentChange) -> rusqlite::Result<bool> {
    let text = change
        .text
        .as_ref()
        .map(|text| Some(text.clone()).filter(|text| !text.is_empty()));
    let files = change.files.as_deref().map(to_json_unless_empty);
    let queue = change.queue.as_deref().map(to_json_unless_empty);
    for (part, value) in [
        (UnsentPart::Text, text),
        (UnsentPart::Files, files),
        (UnsentPart::Queue, queue),
    ] {
        if let Some(value) = value
            && !unsent::set(t, conversation, part, value.as_deref())?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The draft and the queued messages of a conversation; `None` means a new one.
pub(crate) fn read(t: &Transaction<'_>, conversation: Option<i64>) -> rusqlite::Result<Unsent> {
    let part = |part| unsent::get(t, conversation, part);
    Ok(Unsent {
        text: part(UnsentPart::Text)?.unwrap_or_default(),
        files: from_json(part(UnsentPart::Files)?.as_deref()).unwrap_or_default(),
        queue: from_json(part(UnsentPart::Queue)?.as_deref()).unwrap_or_default(),
    })
}
