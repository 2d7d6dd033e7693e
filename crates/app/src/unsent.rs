//! Methods of [`App`] for unsent texts and files: drafts and queued messages.

use crate::{
    App,
    chat::{Command, unsent_count},
    conversations::no_conversation,
    convert::{from_json, to_json_unless_empty},
    store::unsent::{self, UnsentPart},
    wire::{Problem, Unsent, UnsentChange, UnsentCount, UnsentDraft},
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

    /// Counts the tokens of a message that is being written, and of the conversation before it, if
    /// the model that would answer is loaded. A newer count cancels it.
    ///
    /// # Errors
    /// The model's chat template refuses the conversation, or the worker died.
    pub async fn count_unsent(&self, draft: UnsentDraft) -> Result<UnsentCount, Problem> {
        draft.check()?;
        if draft.is_too_long() {
            return Ok(UnsentCount::Unavailable);
        }
        let count = self.shared.blocking(move |shared| {
            let model = unsent_count::model_of(shared, &draft)?;
            Ok(Box::new(unsent_count::Count { draft, model }))
        });
        let count = count.await?;
        self.request_chat(|reply| Command::CountUnsent { count, reply }).await?
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
