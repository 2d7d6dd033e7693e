//! Methods of [`App`] for conversations.

use crate::{
    App, adapters,
    chat::Command,
    convert::{from_json, to_json, to_json_unless_empty},
    lock::lock,
    prompt_cache,
    shared::{Shared, is_unfinished},
    store::{
        RESTORABLE_FOR, conversation, deleted_message, folder,
        message::{self, New, State},
        now, search,
        title_source::TitleSource,
    },
    title, unsent,
    wire::{
        AdapterChoice, AnswerOverrides, ChatReason, Compared, ComparedAnswer, Conversation, ConversationSettings,
        ConversationSummary, DeletedConversation, Event, Message, MessageState, NewConversation, Problem, ProblemCode,
        SearchFilter, SearchHit, Sent, TextFile,
    },
};
use hearth_protocol::{Part, Role};
use rusqlite::Transaction;

/// The position of a new answer in the tree.
enum Position {
    /// The first message of a new conversation.
    New {
        parts: Vec<Part>,
        fresh: Box<NewConversation>,
    },
    /// A new message at the end of a branch.
    AtEnd {
        conversation: i64,
        /// The branch's last message. `None` means the last message of the selected branch.
        leaf: Option<i64>,
        parts: Vec<Part>,
    },
    /// A new message with this parent. `None` means a first message.
    After {
        conversation: i64,
        parent: Option<i64>,
        parts: Vec<Part>,
    },
    /// An existing user message.
    Existing {
        conversation: i64,
        user: i64,
        /// The model and settings of the answer that are not the conversation's.
        overrides: Box<AnswerOverrides>,
    },
    /// A version of an answer that the user wrote.
    Edited {
        /// The answer.
        answer: Box<message::Message>,
        text: String,
        /// Whether the model continues the text.
        go_on: bool,
    },
}

impl App {
    /// A conversation and its messages.
    pub async fn open_conversation(&self, id: i64) -> Result<Conversation, Problem> {
        self.shared.blocking(move |shared| open(shared, id)).await
    }

    /// Sends a message and generates an answer, whose text arrives as events. `conversation`:
    /// `None` means a new one with the settings in `fresh`; `parent`: `None` means the end of the
    /// selected branch. The text may be empty if there are files.
    pub async fn send(
        &self,
        conversation: Option<i64>,
        parent: Option<i64>,
        text: String,
        files: Vec<TextFile>,
        fresh: NewConversation,
    ) -> Result<Sent, Problem> {
        check_message(&text, &files)?;
        fresh.settings.check()?;
        self.answer(position(conversation, parent, parts(text, files), fresh))
            .await
    }

    /// Like [`App::send`], with several answers side by side.
    pub async fn compare(
        &self,
        conversation: Option<i64>,
        parent: Option<i64>,
        text: String,
        files: Vec<TextFile>,
        answers: Vec<ComparedAnswer>,
        fresh: NewConversation,
    ) -> Result<Compared, Problem> {
        check_message(&text, &files)?;
        fresh.settings.check()?;
        ComparedAnswer::check(&answers)?;
        let position = position(conversation, parent, parts(text, files), fresh);
        let added = self
            .shared
            .blocking(move |shared| add(shared, position, answers))
            .await?;
        let user = added.user.ok_or_else(no_message)?;
        for answer in &added.answers {
            self.send_chat(Command::Answer(Box::new(answer.clone())))?;
        }
        Ok(Compared {
            conversation: added.conversation,
            user,
            answers: added.answers,
        })
    }

    /// Generates another answer to the same message. `overrides` are the model and settings that
    /// are not the conversation's; `None` means none.
    pub async fn regenerate(&self, message: i64, overrides: Option<AnswerOverrides>) -> Result<Sent, Problem> {
        let overrides = Box::new(overrides.unwrap_or_default());
        overrides.check()?;
        let position = self
            .shared
            .blocking(move |shared| {
                let row = shared.store.read(|t| existing_message(t, message))??;
                let user = match row.role {
                    Role::Assistant => row.parent.ok_or_else(no_message)?,
                    Role::User | Role::System => row.id,
                };
                Ok(Position::Existing {
                    conversation: row.conversation,
                    user,
                    overrides,
                })
            })
            .await?;
        self.answer(position).await
    }

    /// Sends an edited message; the original stays as another branch.
    pub async fn edit(&self, message: i64, text: String) -> Result<Sent, Problem> {
        check_not_blank(&text)?;
        let row = self
            .shared
            .blocking(move |shared| shared.store.read(|t| existing_message(t, message))?)
            .await?;
        if row.role != Role::User {
            return refuse(ChatReason::NotUserMessage);
        }
        self.answer(Position::After {
            conversation: row.conversation,
            parent: row.parent,
            parts: with_text(row.parts, text),
        })
        .await
    }

    /// Continues the last answer of a branch in the same message, from its exact tokens.
    pub async fn continue_answer(&self, message: i64) -> Result<Sent, Problem> {
        let (sent, previous_state) = self.shared.blocking(move |shared| reopen(shared, message)).await?;
        self.send_chat(Command::Continue {
            message: Box::new(sent.answer.clone()),
            previous_state,
        })?;
        Ok(sent)
    }

    /// Adds another version of an answer, with this text. With `go_on`, the model continues it: the
    /// user can write the beginning of an answer.
    pub async fn edit_answer(&self, message: i64, text: String, go_on: bool) -> Result<Sent, Problem> {
        if text.trim().is_empty() {
            return refuse(ChatReason::EmptyAnswer);
        }
        let read = move |shared: &Shared| {
            let row = shared.store.read(|t| existing_message(t, message))??;
            let mut rows = [row];
            shared.complete(&mut rows);
            let [row] = rows;
            Ok(row)
        };
        let row = self.shared.blocking(read).await?;
        if row.role != Role::Assistant {
            return refuse(ChatReason::NotAnAnswer);
        }
        let position = Position::Edited {
            answer: Box::new(row),
            text,
            go_on,
        };
        if go_on {
            return self.answer(position).await;
        }
        self.shared.blocking(move |shared| add_one(shared, position)).await
    }

    /// Stops a conversation's answer; its text up to now is saved.
    pub async fn stop(&self, conversation: i64) -> Result<(), Problem> {
        self.request_chat(|done| Command::Stop { conversation, done }).await
    }

    /// Selects the branch through a message, down to its newest leaf.
    pub async fn select_leaf(&self, conversation: i64, message: i64) -> Result<Conversation, Problem> {
        self.shared
            .blocking(move |shared| {
                let selected = shared.store.write(|t| {
                    if message::get(t, message)?.is_none_or(|row| row.conversation != conversation) {
                        return Ok(None);
                    }
                    let leaf = message::newest_leaf(t, message)?;
                    Ok(conversation::set_leaf(t, conversation, Some(leaf))?.then_some(()))
                })?;
                selected.ok_or_else(no_message)?;
                shared.announce_conversation(conversation)?;
                open(shared, conversation)
            })
            .await
    }

    /// Renames a conversation.
    pub async fn rename_conversation(&self, id: i64, title: String) -> Result<(), Problem> {
        let title = title::normalized(&title).ok_or_else(title::empty_name)?;
        self.change(id, move |t| conversation::rename(t, id, &title)).await
    }

    /// Deletes a conversation, which can be restored for a while. Stops its answer and removes its
    /// prompt cache at once.
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
                prompt_cache::remove(shared, id);
                Ok(shared.announce_conversation(id)?)
            })
            .await?;
        // The worker may be caching the answer that was just stopped.
        self.send_chat(Command::RemovePromptCache { conversation: id })
    }

    /// Undoes a deletion.
    pub async fn restore_conversation(&self, id: i64) -> Result<(), Problem> {
        self.change(id, move |t| conversation::restore(t, id)).await
    }

    /// The deleted conversations, last deleted first.
    pub async fn deleted_conversations(&self) -> Result<Vec<DeletedConversation>, Problem> {
        self.shared
            .blocking(|shared| {
                let now = shared.store.time();
                let rows = shared.store.read(|t| conversation::deleted(t))?;
                let conversations = rows.into_iter().map(|row| DeletedConversation {
                    id: row.id,
                    title: title::shown(&row.title),
                    days_left: days_left(row.deleted_at, now),
                });
                Ok(conversations.collect())
            })
            .await
    }

    /// Removes deleted conversations for good; others stay.
    pub async fn purge_conversations(&self, ids: Vec<i64>) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                // One transaction per conversation: thousands of them do not lock the store for
                // long.
                for id in ids {
                    shared.store.write(|t| conversation::remove(t, id))?;
                }
                Ok(())
            })
            .await
    }

    /// Pins a conversation to the top of the list, or unpins it.
    pub async fn pin_conversation(&self, id: i64, pinned: bool) -> Result<(), Problem> {
        self.change(id, move |t| conversation::set_pinned(t, id, pinned)).await
    }

    /// Sets a conversation's system prompt. `None` means the model's default.
    pub async fn set_system_prompt(&self, conversation: i64, text: Option<String>) -> Result<(), Problem> {
        self.change(conversation, move |t| {
            conversation::set_system_prompt(t, conversation, text.as_deref())
        })
        .await
    }

    /// Sets the settings of a conversation's new answers.
    pub async fn set_conversation_settings(
        &self,
        conversation: i64,
        settings: ConversationSettings,
    ) -> Result<(), Problem> {
        settings.check()?;
        let settings = settings_column(&settings);
        self.change(conversation, move |t| {
            conversation::set_settings(t, conversation, settings.as_deref())
        })
        .await
    }

    /// Searches titles and messages.
    pub async fn search(&self, query: String, filter: SearchFilter) -> Result<Vec<SearchHit>, Problem> {
        self.shared
            .blocking(move |shared| {
                let hits = shared.store.read(|t| search::search(t, &query, &filter))?;
                Ok(hits.into_iter().map(Into::into).collect())
            })
            .await
    }

    /// Changes a conversation and emits it.
    pub(crate) async fn change(
        &self,
        id: i64,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool> + Send + 'static,
    ) -> Result<(), Problem> {
        self.shared
            .blocking(move |shared| {
                if shared.store.write(write)? {
                    Ok(shared.announce_conversation(id)?)
                } else {
                    Err(no_conversation())
                }
            })
            .await
    }

    /// Adds the message and an empty answer, and starts to generate it.
    async fn answer(&self, position: Position) -> Result<Sent, Problem> {
        let sent = self.shared.blocking(move |shared| add_one(shared, position)).await?;
        self.send_chat(Command::Answer(Box::new(sent.answer.clone())))?;
        Ok(sent)
    }
}

/// The position of a sent message.
fn position(conversation: Option<i64>, parent: Option<i64>, parts: Vec<Part>, fresh: NewConversation) -> Position {
    match (conversation, parent) {
        (None, _) => Position::New {
            parts,
            fresh: Box::new(fresh),
        },
        (Some(conversation), leaf) => Position::AtEnd {
            conversation,
            leaf,
            parts,
        },
    }
}

/// The rows added by sending.
struct Added {
    conversation: ConversationSummary,
    user: Option<Message>,
    /// One answer, or all answers of a comparison.
    answers: Vec<Message>,
}

/// Adds one answer with the conversation's model, settings and adapters.
fn add_one(shared: &Shared, position: Position) -> Result<Sent, Problem> {
    let mut added = add(shared, position, Vec::new())?;
    Ok(Sent {
        conversation: added.conversation,
        user: added.user,
        answer: added.answers.pop().ok_or_else(no_message)?,
    })
}

/// Adds the answers, the message if it is new and the conversation if it is new, in one
/// transaction. Selects the branch of the last answer. An empty `compared` means one answer.
fn add(shared: &Shared, position: Position, compared: Vec<ComparedAnswer>) -> Result<Added, Problem> {
    shared.save_deferred();
    let _one_at_a_time = lock(&shared.adding);
    let existing = match &position {
        Position::New { .. } => None,
        Position::AtEnd { conversation, .. }
        | Position::After { conversation, .. }
        | Position::Existing { conversation, .. } => Some(*conversation),
        Position::Edited { answer, .. } => Some(answer.conversation),
    };
    if let Some(conversation) = existing.filter(|conversation| shared.is_answering(*conversation)) {
        // A deleted conversation may still have an unfinished answer.
        let exists = shared.store.read(|t| conversation::get(t, conversation))?.is_some();
        return Err(if exists { busy() } else { no_conversation() });
    }
    let WrittenRows {
        conversation: row,
        user,
        answers,
    } = shared.store.write(|t| write(t, position, &compared))??;
    let user = user.map(Message::from);
    let answers: Vec<Message> = answers.into_iter().map(Message::from).collect();
    for answer in answers.iter().filter(|answer| is_unfinished(answer)) {
        shared.set_live(answer.clone());
    }
    // The conversation first: its messages refer to it. The answers are live, so nothing from here
    // on may fail.
    shared.announce_touched(row.id);
    for message in user.iter().chain(&answers) {
        shared.emit(Event::MessageChanged {
            message: Box::new(message.clone()),
        });
    }
    Ok(Added {
        conversation: (&row).into(),
        user,
        answers,
    })
}

/// The rows that [`write`] wrote.
struct WrittenRows {
    conversation: conversation::Conversation,
    /// The new user message.
    user: Option<message::Message>,
    answers: Vec<message::Message>,
}

/// Writes the rows of [`add`]. Returns a problem if the conversation or the parent does not exist.
fn write(
    t: &Transaction<'_>,
    position: Position,
    compared: &[ComparedAnswer],
) -> rusqlite::Result<Result<WrittenRows, Problem>> {
    let now = now();
    let mut overrides = AnswerOverrides::default();
    let (conversation, parent, parts) = match position {
        Position::New { parts, fresh } => {
            let id = conversation::create(t, &title::of_message(&parts), TitleSource::FirstWords, now)?;
            conversation::set_settings(t, id, settings_column(&fresh.settings).as_deref())?;
            conversation::set_system_prompt(t, id, fresh.system_prompt.as_deref())?;
            conversation::set_adapters(t, id, to_json_unless_empty(&fresh.adapters).as_deref())?;
            folder::put(t, id, fresh.folder)?;
            (id, None, Some(parts))
        }
        Position::Edited { answer, text, go_on } => return write_edited(t, &answer, text, go_on, now),
        Position::AtEnd {
            conversation,
            leaf,
            parts,
        } => {
            let leaf = match leaf {
                Some(leaf) => Some(leaf),
                None => conversation::get(t, conversation)?.and_then(|row| row.leaf),
            };
            let end = leaf.map(|leaf| message::end_of_branch(t, leaf)).transpose()?;
            (conversation, end, Some(parts))
        }
        Position::After {
            conversation,
            parent,
            parts,
        } => (conversation, parent, Some(parts)),
        Position::Existing {
            conversation,
            user,
            overrides: own,
        } => {
            overrides = *own;
            (conversation, Some(user), None)
        }
    };
    if let Some(parent) = parent
        && message::get(t, parent)?.is_none_or(|row| row.conversation != conversation)
    {
        return missing_message(t, parent).map(Err);
    }
    let Some(row) = conversation::get(t, conversation)? else {
        return Ok(Err(no_message()));
    };
    let new = New {
        conversation,
        parent,
        role: Role::User,
        parts: Vec::new(),
        state: State::Complete,
        adapters: None,
        model: None,
        edited: false,
        overrides: None,
        created_at: now,
    };
    let user = parts
        .map(|parts| message::create(t, New { parts, ..new.clone() }))
        .transpose()?;
    let answer = New {
        parent: user.as_ref().map_or(parent, |user| Some(user.id)),
        role: Role::Assistant,
        state: State::Unfinished,
        ..new
    };
    let answers = match compared {
        [] => {
            let adapters: Vec<AdapterChoice> = from_json(row.adapters.as_deref()).unwrap_or_default();
            vec![write_answer(t, answer, &adapters, &overrides)?]
        }
        compared => write_compared(t, &answer, compared)?,
    };
    conversation::set_leaf(t, conversation, answers.last().map(|answer| answer.id))?;
    conversation::touch(t, conversation, None, now)?;
    Ok(written_rows(conversation::get(t, conversation)?, user, answers))
}

/// The written rows, if their conversation exists.
fn written_rows(
    conversation: Option<conversation::Conversation>,
    user: Option<message::Message>,
    answers: Vec<message::Message>,
) -> Result<WrittenRows, Problem> {
    let conversation = conversation.ok_or_else(no_message)?;
    Ok(WrittenRows {
        conversation,
        user,
        answers,
    })
}

/// Writes the answers of a comparison, and links them.
fn write_compared(
    t: &Transaction<'_>,
    answer: &New<'_>,
    compared: &[ComparedAnswer],
) -> rusqlite::Result<Vec<message::Message>> {
    let write =
        |ComparedAnswer { overrides, adapters }: &ComparedAnswer| write_answer(t, answer.clone(), adapters, overrides);
    let mut answers: Vec<message::Message> = compared.iter().map(write).collect::<rusqlite::Result<_>>()?;
    let ids: Vec<i64> = answers.iter().map(|answer| answer.id).collect();
    message::set_compared(t, &ids)?;
    for (answer, next) in answers.iter_mut().zip(ids.iter().cycle().skip(1)) {
        answer.comparison = Some(*next);
    }
    Ok(answers)
}

/// Writes an answer with its overrides and the names of its adapters.
fn write_answer(
    t: &Transaction<'_>,
    answer: New<'_>,
    adapters: &[AdapterChoice],
    overrides: &AnswerOverrides,
) -> rusqlite::Result<message::Message> {
    let adapters = to_json_unless_empty(&adapters::with_names(t, adapters)?);
    let overrides = (*overrides != AnswerOverrides::default()).then(|| to_json(overrides));
    message::create(
        t,
        New {
            adapters: adapters.as_deref(),
            overrides: overrides.as_deref(),
            ..answer
        },
    )
}

/// Writes another version of an answer. Returns a problem if the answer or its conversation no
/// longer exists.
fn write_edited(
    t: &Transaction<'_>,
    answer: &message::Message,
    text: String,
    go_on: bool,
    now: i64,
) -> rusqlite::Result<Result<WrittenRows, Problem>> {
    let conversation = answer.conversation;
    if message::get(t, answer.id)?.is_none() {
        return missing_message(t, answer.id).map(Err);
    }
    if conversation::get(t, conversation)?.is_none() {
        return Ok(Err(no_message()));
    }
    let edited = message::create(
        t,
        New {
            conversation,
            parent: answer.parent,
            role: Role::Assistant,
            parts: with_text(answer.parts.clone(), text),
            state: if go_on { State::Unfinished } else { State::Complete },
            adapters: answer.adapters.as_deref(),
            model: answer.model.as_deref(),
            edited: true,
            overrides: answer.overrides.as_deref(),
            created_at: now,
        },
    )?;
    conversation::set_leaf(t, conversation, Some(edited.id))?;
    conversation::touch(t, conversation, None, now)?;
    Ok(written_rows(conversation::get(t, conversation)?, None, vec![edited]))
}

/// Marks the last answer of a branch as unfinished again, and selects its branch. Returns the
/// previous state too.
fn reopen(shared: &Shared, id: i64) -> Result<(Sent, MessageState), Problem> {
    shared.save_deferred();
    let _one_at_a_time = lock(&shared.adding);
    let row = shared.store.read(|t| existing_message(t, id))??;
    if row.role != Role::Assistant {
        return refuse(ChatReason::NotContinuable);
    }
    if shared.is_answering(row.conversation) {
        return Err(busy());
    }
    // The live message is newer than the row if the disk was full.
    let mut answer = shared.live().remove(&id).unwrap_or_else(|| row.into());
    let previous_state = std::mem::replace(&mut answer.state, MessageState::Waiting);
    let row = message::Message::from(&answer);
    let written = shared.store.write(|t| {
        let Some(_) = conversation::get(t, row.conversation)? else {
            return Ok(Err(no_conversation()));
        };
        if message::has_replies(t, id)? {
            return Ok(refuse(ChatReason::HasReplies));
        }
        message::save(t, &row)?;
        conversation::set_leaf(t, row.conversation, Some(id))?;
        conversation::touch(t, row.conversation, None, now())?;
        Ok(conversation::get(t, row.conversation)?.ok_or_else(no_conversation))
    })?;
    let conversation = written?;
    shared.announce_touched(conversation.id);
    shared.show(answer.clone());
    let sent = Sent {
        conversation: (&conversation).into(),
        user: None,
        answer,
    };
    Ok((sent, previous_state))
}

/// The settings as JSON for their column. `None` if all are defaults.
pub(crate) fn settings_column(settings: &ConversationSettings) -> Option<String> {
    (*settings != ConversationSettings::default()).then(|| to_json(settings))
}

/// Replaces the text of a message; files and images stay.
fn with_text(mut parts: Vec<Part>, text: String) -> Vec<Part> {
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    let index = parts.iter().position(is_text).unwrap_or(parts.len());
    parts.retain(|part| !is_text(part));
    parts.insert(index, Part::Text { text });
    parts
}

/// A conversation with its live messages.
pub(crate) fn open(shared: &Shared, id: i64) -> Result<Conversation, Problem> {
    shared.save_deferred();
    let read = |t: &Transaction<'_>| match conversation::get(t, id)? {
        Some(row) => Ok(Some((
            row,
            message::of_conversation(t, id)?,
            unsent::read(t, Some(id))?,
        ))),
        None => Ok(None),
    };
    // Before the store is read: a message that ends in between is announced in its final state.
    let mut live = shared.live();
    let (row, rows, unsent) = shared.store.read(read)?.ok_or_else(no_conversation)?;
    Ok(Conversation {
        id: row.id,
        title: title::shown(&row.title),
        created_at: row.created_at,
        updated_at: row.updated_at,
        model: row.model.as_deref().map(title::shown),
        system_prompt: row.system_prompt,
        adapters: from_json(row.adapters.as_deref()).unwrap_or_default(),
        settings: from_json(row.settings.as_deref()).unwrap_or_default(),
        leaf: row.leaf,
        messages: rows
            .into_iter()
            .map(|row| live.remove(&row.id).unwrap_or_else(|| row.into()))
            .collect(),
        unsent,
    })
}

fn refuse<T>(reason: ChatReason) -> Result<T, Problem> {
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

/// The parts of a message: files first, as in a prompt, then the text unless it is blank.
fn parts(text: String, files: Vec<TextFile>) -> Vec<Part> {
    let mut parts: Vec<Part> = files.into_iter().map(Into::into).collect();
    if !text.trim().is_empty() {
        parts.push(Part::Text { text });
    }
    parts
}

fn check_message(text: &str, files: &[TextFile]) -> Result<(), Problem> {
    TextFile::check(files)?;
    match files {
        [] => check_not_blank(text),
        _ => Ok(()),
    }
}

fn check_not_blank(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return refuse(ChatReason::EmptyMessage);
    }
    Ok(())
}

/// A message, or the problem that it does not exist or is deleted.
pub(crate) fn existing_message(t: &Transaction<'_>, id: i64) -> rusqlite::Result<Result<message::Message, Problem>> {
    match message::get(t, id)? {
        Some(row) => Ok(Ok(row)),
        None => missing_message(t, id).map(Err),
    }
}

/// The problem of a message that does not exist or is deleted.
fn missing_message(t: &Transaction<'_>, id: i64) -> rusqlite::Result<Problem> {
    Ok(if deleted_message::exists(t, id)? {
        Problem::new(ProblemCode::NotFound, ChatReason::MessageDeleted)
    } else {
        no_message()
    })
}

/// Days until something deleted at a time is purged, rounded up.
pub(crate) fn days_left(deleted_at: i64, now: i64) -> u32 {
    const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;
    let remaining = deleted_at + RESTORABLE_FOR.as_millis() as i64 - now;
    let days = u64::try_from(remaining).unwrap_or(0).div_ceil(DAY_MILLIS);
    days.try_into().unwrap_or(u32::MAX)
}

pub(crate) fn busy() -> Problem {
    Problem::new(ProblemCode::Busy, ChatReason::Answering)
}

pub(crate) fn no_conversation() -> Problem {
    Problem::new(ProblemCode::NotFound, ChatReason::NoConversation)
}

pub(crate) fn no_message() -> Problem {
    Problem::new(ProblemCode::NotFound, ChatReason::NoMessage)
}
