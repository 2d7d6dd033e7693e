//! What the use cases and the chat share: the store, the library, what a person chose, and who listens.

use crate::{
    library::{Library, Model},
    store::{Store, StoreError, conversation, message, model, setting},
    wire::{Code, ConversationSummary, Event, Message, Problem, Settings},
};
use rusqlite::Transaction;
use serde_json::Value;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Hears every event, in order, from any thread; it must not block.
pub(crate) type Sink = Box<dyn Fn(Event) + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) library: Library,
    sink: Sink,
    settings: Mutex<Settings>,
    /// Messages of which memory knows more than the store: answers that grow, and those a full disk refused.
    live: Mutex<HashMap<i64, Message>>,
    /// Held while an answer is added: one at a time in a conversation.
    pub(crate) adding: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(store: Store, library: Library, sink: Sink) -> Result<Self, StoreError> {
        let settings = store.read(load_settings)?;
        Ok(Self {
            store,
            library,
            sink,
            settings: Mutex::new(settings),
            live: Mutex::default(),
            adding: Mutex::default(),
        })
    }

    pub(crate) fn emit(&self, event: Event) {
        (self.sink)(event);
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the settings, on disk first.
    pub(crate) fn set_settings(&self, settings: Settings) -> Result<(), StoreError> {
        self.store.write(|t| save_settings(t, &settings))?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// The models on this machine; reads files.
    pub(crate) fn models(&self) -> Result<Vec<Model>, StoreError> {
        let added: Vec<PathBuf> = self.store.read(|t| model::list(t))?;
        Ok(self.library.list(&added))
    }

    /// Runs work that may wait for the disk where waiting does no harm.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let shared = self.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) => Err(Problem {
                code: Code::Internal,
                message: format!("Hearth made a mistake ({error}). What was saved is safe; try again."),
            }),
        }
    }

    /// Shows a message as memory has it, until [`Shared::settle`].
    pub(crate) fn keep_live(&self, message: Message) {
        self.lock_live().insert(message.id, message);
    }

    /// The store knows all of a message now.
    pub(crate) fn settle(&self, message: i64) {
        self.lock_live().remove(&message);
    }

    /// Messages that memory knows better, by id.
    pub(crate) fn live(&self) -> HashMap<i64, Message> {
        self.lock_live().clone()
    }

    /// Whether an answer of a conversation is still being made.
    pub(crate) fn is_answering(&self, conversation: i64) -> bool {
        self.lock_live()
            .values()
            .any(|message| message.conversation == conversation && is_unfinished(message))
    }

    /// Tries again to save what a full disk refused.
    pub(crate) fn save_refused(&self) {
        let refused: Vec<_> = self
            .lock_live()
            .values()
            .filter(|message| !is_unfinished(message))
            .cloned()
            .collect();
        for refused in refused {
            if self.store.write(|t| message::save(t, &(&refused).into())).is_ok() {
                self.settle(refused.id);
            }
        }
    }

    /// Tells everybody how a conversation is now.
    pub(crate) fn emit_conversation(&self, row: &conversation::Conversation) {
        self.emit(Event::ConversationChanged {
            conversation: ConversationSummary::from(row),
            leaf: row.leaf,
        });
    }

    fn lock_live(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Message>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_unfinished(message: &Message) -> bool {
    message::State::from(&message.state) == message::State::Unfinished
}

/// One row a field, so that an older Hearth leaves alone what it does not know. What cannot be read is as if never set.
fn load_settings(transaction: &Transaction<'_>) -> rusqlite::Result<Settings> {
    let mut settings = Settings::default();
    let Ok(Value::Object(fields)) = serde_json::to_value(&settings) else {
        return Ok(settings);
    };
    for key in fields.keys() {
        let Some(text) = setting::get(transaction, key)? else {
            continue;
        };
        let with = serde_json::from_str::<Value>(&text).and_then(|value| {
            let mut whole = serde_json::to_value(&settings)?;
            whole[key] = value;
            serde_json::from_value(whole)
        });
        match with {
            Ok(with) => settings = with,
            Err(error) => tracing::warn!(key, %error, "a setting cannot be read"),
        }
    }
    Ok(settings)
}

fn save_settings(transaction: &Transaction<'_>, settings: &Settings) -> rusqlite::Result<()> {
    let fields =
        serde_json::to_value(settings).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let Value::Object(fields) = fields else { return Ok(()) };
    for (key, value) in fields {
        setting::set(transaction, &key, &value.to_string())?;
    }
    Ok(())
}
