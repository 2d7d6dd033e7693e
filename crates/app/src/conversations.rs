//! What a person can do with conversations.

use crate::{
    App, adapters,
    chat::Command,
    convert::{from_json, to_json_unless_empty},
    kept,
    shared::Shared,
    store::{
        conversation,
        message::{self, New, Role, State},
        now, search,
    },
    title,
    wire::{
        AdapterChoice, Code, Compared, Conversation, ConversationSummary, Event, Message, Problem, SearchHit, Sent,
    },
};
use rusqlite::Transaction;
use std::{iter, sync::PoisonError};

/// Where a new answer hangs.
enum Place {
    /// Under the first message of a new conversation.
    New { text: String },
    /// Under a new message at the end of the branch that is shown.
    AtEnd { conversation: i64, text: String },
    /// Under a new message that follows a given one, or is a first one.
    After {
        conversation: i64,
        parent: Option<i64>,
        text: String,
    },
    /// Under a message of the person that is there.
    Again { conversation: i64, user: i64 },
}

impl App {
    /// A conversation with all its messages.
    pub async fn open_conversation(&self, id: i64) -> Result<Conversation, Problem> {
        self.shared.blocking(move |shared| open(shared, id)).await
    }

    /// Says something and has it answered: in a new conversation where none is named, under `parent` or else at the end
    /// of the branch that is shown. The answer comes through events.
    pub async fn send(&self, conversation: Option<i64>, parent: Option<i64>, text: String) -> Result<Sent, Problem> {
        not_empty(&text)?;
        self.answer(place(conversation, parent, text)).await
    }

    /// Like [`App::send`], but with two answers side by side: first the model's as it is, then one with adapters.
    pub async fn compare(
        &self,
        conversation: Option<i64>,
        parent: Option<i64>,
        text: String,
        adapters: Vec<AdapterChoice>,
    ) -> Result<Compared, Problem> {
        not_empty(&text)?;
        if adapters.is_empty() {
            return Err(Problem {
                code: Code::BadRequest,
                message: "Choose the adapter that the model is to be compared with.".to_owned(),
            });
        }
        let place = place(conversation, parent, text);
        let added = self
            .shared
            .blocking(move |shared| add(shared, place, Some(adapters)))
            .await?;
        let (Some(user), Some(tuned)) = (added.user, added.tuned) else {
            return Err(no_message());
        };
        for answer in [&added.answer, &tuned] {
            self.tell(Command::Answer(Box::new(answer.clone())))?;
        }
        Ok(Compared {
            conversation: added.conversation,
            user,
            base: added.answer,
            tuned,
        })
    }

    /// Another answer to the same message.
    pub async fn regenerate(&self, message: i64) -> Result<Sent, Problem> {
        let place = self
            .shared
            .blocking(move |shared| {
                let row = shared
                    .store
                    .read(|t| message::get(t, message))?
                    .ok_or_else(no_message)?;
                let user = match row.role {
                    Role::Assistant => row.parent.ok_or_else(no_message)?,
                    Role::User | Role::System => row.id,
                };
                Ok(Place::Again {
                    conversation: row.conversation,
                    user,
                })
            })
            .await?;
        self.answer(place).await
    }

    /// Says something else in place of a message: both stay, as branches.
    pub async fn edit(&self, message: i64, text: String) -> Result<Sent, Problem> {
        not_empty(&text)?;
        let row = self
            .shared
            .blocking(move |shared| shared.store.read(|t| message::get(t, message))?.ok_or_else(no_message))
            .await?;
        if row.role != Role::User {
            let message = "Only what you said can be edited. Have the answer made again instead.".to_owned();
            return Err(Problem {
                code: Code::BadRequest,
                message,
            });
        }
        self.answer(Place::After {
            conversation: row.conversation,
            parent: row.parent,
            text,
        })
        .await
    }

    /// Stops the answer that is being made in a conversation; what was said stays.
    pub async fn stop(&self, conversation: i64) -> Result<(), Problem> {
        self.ask(|done| Command::Stop { conversation, done }).await
    }

    /// Shows the branch through a message, down to its newest end.
    pub async fn select_leaf(&self, conversation: i64, message: i64) -> Result<Conversation, Problem> {
        self.shared
            .blocking(move |shared| {
                let found = shared.store.write(|t| {
                    let in_it = message::get(t, message)?.is_some_and(|row| row.conversation == conversation);
                    if in_it {
                        let leaf = message::newest_leaf(t, message)?;
                        conversation::set_leaf(t, conversation, Some(leaf))?;
                    }
                    Ok(in_it)
                })?;
                if found {
                    open(shared, conversation)
                } else {
                    Err(no_message())
                }
            })
            .await
    }

    /// Gives a conversation another title.
    pub async fn rename_conversation(&self, id: i64, title: String) -> Result<(), Problem> {
        let title = title::typed(&title).ok_or_else(title::no_name)?;
        self.change(id, move |t| conversation::rename(t, id, &title)).await
    }

    /// Deletes a conversation, so that it can still be restored. An answer that is being made in it is stopped; what a worker keeps of
    /// it goes at once, and is made anew should it come back.
    pub async fn delete_conversation(&self, id: i64) -> Result<(), Problem> {
        self.stop(id).await?;
        self.shared
            .blocking(move |shared| {
                if !shared
                    .store
                    .write(|t| conversation::delete(t, id, shared.store.time()))?
                {
                    return Err(no_conversation());
                }
                kept::remove(shared, id);
                shared.emit(Event::ConversationRemoved { id });
                Ok(())
            })
            .await?;
        // It may be keeping the answer that was just stopped.
        self.tell(Command::Forget { conversation: id })
    }

    /// Takes a deletion back.
    pub async fn restore_conversation(&self, id: i64) -> Result<(), Problem> {
        self.change(id, move |t| conversation::restore(t, id)).await
    }

    /// Gives a conversation a system prompt of its own; none: the model's.
    pub async fn set_system_prompt(&self, conversation: i64, text: Option<String>) -> Result<(), Problem> {
        self.change(conversation, move |t| {
            conversation::set_system_prompt(t, conversation, text.as_deref())
        })
        .await
    }

    /// Finds words in titles and messages.
    pub async fn search(&self, query: String) -> Result<Vec<SearchHit>, Problem> {
        self.shared
            .blocking(move |shared| {
                let hits = shared.store.read(|t| search::search(t, &query))?;
                Ok(hits.into_iter().map(Into::into).collect())
            })
            .await
    }

    /// Changes one conversation and tells everybody.
    pub(crate) async fn change(
        &self,
        id: i64,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool> + Send + 'static,
    ) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                let row = shared
                    .store
                    .write(|t| if write(t)? { conversation::get(t, id) } else { Ok(None) })?;
                shared.emit_conversation(&row.ok_or_else(no_conversation)?);
                Ok(())
            })
            .await
    }

    /// Adds what was said and an empty answer, and has that filled.
    async fn answer(&self, place: Place) -> Result<Sent, Problem> {
        let added = self.shared.blocking(move |shared| add(shared, place, None)).await?;
        self.tell(Command::Answer(Box::new(added.answer.clone())))?;
        Ok(Sent {
            conversation: added.conversation,
            user: added.user,
            answer: added.answer,
        })
    }
}

fn place(conversation: Option<i64>, parent: Option<i64>, text: String) -> Place {
    match (conversation, parent) {
        (None, _) => Place::New { text },
        (Some(conversation), None) => Place::AtEnd { conversation, text },
        (Some(conversation), parent) => Place::After {
            conversation,
            parent,
            text,
        },
    }
}

/// What became of sending something.
struct Added {
    conversation: ConversationSummary,
    user: Option<Message>,
    answer: Message,
    /// The other answer, where two are compared.
    tuned: Option<Message>,
}

/// One transaction: the conversation if it is new, what was said if it is new, the answer, and the branch that is shown.
/// With adapters to compare there are two answers, the first without them; else the conversation's own are used.
fn add(shared: &Shared, place: Place, compared: Option<Vec<AdapterChoice>>) -> Result<Added, Problem> {
    shared.save_refused();
    let _one_at_a_time = shared.adding.lock().unwrap_or_else(PoisonError::into_inner);
    let answered = match &place {
        Place::New { .. } => None,
        Place::AtEnd { conversation, .. } | Place::After { conversation, .. } | Place::Again { conversation, .. } => {
            Some(*conversation)
        }
    };
    if let Some(conversation) = answered.filter(|conversation| shared.is_answering(*conversation)) {
        // An answer may still be ending in a conversation that was deleted.
        let there = shared.store.read(|t| conversation::get(t, conversation))?.is_some();
        return Err(if there { busy() } else { no_conversation() });
    }
    let added = shared.store.write(|t| write(t, place, compared.as_deref()))?;
    let (row, user, answer, tuned) = added.ok_or_else(no_message)?;
    let (user, answer, tuned) = (user.map(Message::from), Message::from(answer), tuned.map(Message::from));
    for answer in iter::once(&answer).chain(&tuned) {
        shared.keep_live(answer.clone());
    }
    // Whoever only listens to events has everything in order: the conversation, then what is in it.
    shared.emit_conversation(&row);
    for message in user.iter().chain([&answer]).chain(&tuned) {
        shared.emit(Event::MessageChanged {
            message: message.clone(),
        });
    }
    Ok(Added {
        conversation: (&row).into(),
        user,
        answer,
        tuned,
    })
}

/// The conversation, what was said, the answer, and the other one where two are compared.
type Written = (
    conversation::Conversation,
    Option<message::Message>,
    message::Message,
    Option<message::Message>,
);

/// None where the conversation or the message is not there.
fn write(t: &Transaction<'_>, place: Place, compared: Option<&[AdapterChoice]>) -> rusqlite::Result<Option<Written>> {
    let now = now();
    let (conversation, parent, text) = match place {
        Place::New { text } => (
            conversation::create(t, &title::from_text(&text), now)?,
            None,
            Some(text),
        ),
        Place::AtEnd { conversation, text } => (
            conversation,
            conversation::get(t, conversation)?.and_then(|row| row.leaf),
            Some(text),
        ),
        Place::After {
            conversation,
            parent,
            text,
        } => (conversation, parent, Some(text)),
        Place::Again { conversation, user } => (conversation, Some(user), None),
    };
    if let Some(parent) = parent
        && message::get(t, parent)?.is_none_or(|row| row.conversation != conversation)
    {
        return Ok(None);
    }
    let Some(row) = conversation::get(t, conversation)? else {
        return Ok(None);
    };
    let own: Vec<AdapterChoice> = from_json(row.adapters.as_deref()).unwrap_or_default();
    let new = |parent, role, content, state, adapters: &[AdapterChoice]| {
        let adapters = to_json_unless_empty(&adapters::named(t, adapters)?);
        message::create(
            t,
            New {
                conversation,
                parent,
                role,
                content,
                state,
                adapters: adapters.as_deref(),
                created_at: now,
            },
        )
    };
    let user = text
        .as_deref()
        .map(|text| new(parent, Role::User, text, State::Complete, &[]))
        .transpose()?;
    let under = user.as_ref().map_or(parent, |user| Some(user.id));
    let answer = |adapters| new(under, Role::Assistant, "", State::Unfinished, adapters);
    let mut first = answer(if compared.is_some() { &[] } else { &own })?;
    let mut second = compared.map(answer).transpose()?;
    if let Some(second) = &mut second {
        message::set_compared(t, first.id, second.id)?;
        (first.comparison, second.comparison) = (Some(second.id), Some(first.id));
    }
    let leaf = second.as_ref().unwrap_or(&first).id;
    conversation::set_leaf(t, conversation, Some(leaf))?;
    conversation::touch(t, conversation, None, now)?;
    Ok(conversation::get(t, conversation)?.map(|row| (row, user, first, second)))
}

fn open(shared: &Shared, id: i64) -> Result<Conversation, Problem> {
    shared.save_refused();
    let read = |t: &Transaction<'_>| match conversation::get(t, id)? {
        Some(row) => Ok(Some((row, message::of_conversation(t, id)?))),
        None => Ok(None),
    };
    let (row, rows) = shared.store.read(read)?.ok_or_else(no_conversation)?;
    let mut live = shared.live();
    Ok(Conversation {
        id: row.id,
        title: row.title,
        created_at: row.created_at,
        updated_at: row.updated_at,
        model: row.model,
        system_prompt: row.system_prompt,
        adapters: from_json(row.adapters.as_deref()).unwrap_or_default(),
        leaf: row.leaf,
        messages: rows
            .into_iter()
            .map(|row| live.remove(&row.id).unwrap_or_else(|| row.into()))
            .collect(),
    })
}

fn not_empty(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem {
            code: Code::BadRequest,
            message: "There is nothing to send yet. Write something.".to_owned(),
        });
    }
    Ok(())
}

fn busy() -> Problem {
    Problem {
        code: Code::Busy,
        message: "An answer is still being made here. Stop it first, or wait for its end.".to_owned(),
    }
}

fn no_conversation() -> Problem {
    Problem {
        code: Code::NotFound,
        message: "This conversation is no longer there.".to_owned(),
    }
}

fn no_message() -> Problem {
    Problem {
        code: Code::NotFound,
        message: "This message is no longer there.".to_owned(),
    }
}
