//! Titles a conversation with its model after the first answer. The request waits until no answer
//! or measurement of the model is in progress, and is cancelled and sent again later if one begins.

use super::{request, selection::Selection};
use crate::{
    generated_title,
    shared::Shared,
    store::{message as rows, title_source},
    title,
    wire::{Message, MessageState, Problem},
};
use hearth_protocol::{Event, FinishReason, GenerateRequest, Request, Responses, TextKind, text_of};
use rusqlite::Transaction;
use std::sync::Arc;
use tokio::sync::watch;

/// A conversation to title.
pub(super) struct TitleJob {
    /// The model that answered.
    selection: Selection,
    /// The answer, which has ended.
    answer: Box<Message>,
}

/// A conversation with an automatic title.
struct Untitled {
    /// Its automatic title.
    first_words: String,
    /// Its text up to the answer, in which a word of the title must be.
    text: String,
}

/// The end of a request for a title.
enum Outcome {
    /// The text of the model.
    Text(String),
    /// An answer or a measurement began.
    Interrupted,
    /// The text has no end, the model was unloaded, its worker died, or the KV cache has no room.
    NoText,
}

impl TitleJob {
    /// `None` if the answer failed or has no text, or the model writes no titles.
    pub fn new(selection: Selection, answer: &Message, state: &MessageState) -> Option<Self> {
        let is_complete = matches!(
            state,
            MessageState::Complete | MessageState::Stopped | MessageState::Truncated { .. }
        );
        let has_text = || !text_of(&answer.parts).trim().is_empty();
        (is_complete && selection.target.writes_titles && has_text()).then(|| Self {
            selection,
            answer: Box::new(answer.clone()),
        })
    }

    /// Titles the conversation if this was its first answer and its title is automatic. Without a
    /// title from the model, the title stays.
    pub async fn run(self, shared: Arc<Shared>) {
        if let Err(problem) = self.title(&shared).await {
            tracing::info!("a conversation keeps its title: {problem}");
        }
    }

    async fn title(&self, shared: &Arc<Shared>) -> Result<(), Problem> {
        let Some(Untitled { first_words, text }) = self.untitled(shared).await? else {
            return Ok(());
        };
        let mut answering = shared.answering();
        loop {
            wait_until_answering(&mut answering, false).await;
            let Some(request) = self.request(shared, first_words.clone()).await? else {
                return Ok(());
            };
            let titling = shared.begin_title();
            let outcome = match self.selection.model.request_if_loaded(Request::Generate(request)) {
                Some(events) => follow(events, &mut answering).await,
                None => Outcome::NoText,
            };
            drop(titling);
            match outcome {
                Outcome::Interrupted => {}
                Outcome::NoText => return Ok(()),
                Outcome::Text(output) => {
                    let title = generated_title::from_model(&output);
                    return match title.filter(|title| generated_title::is_about(title, &text)) {
                        Some(title) => self.save(shared, first_words, title).await,
                        None => Ok(()),
                    };
                }
            }
        }
    }

    /// The conversation. `None` if this was not its first answer, or was deleted.
    async fn untitled(&self, shared: &Arc<Shared>) -> Result<Option<Untitled>, Problem> {
        let (conversation, id, parent) = (self.answer.conversation, self.answer.id, self.answer.parent);
        let answer = text_of(&self.answer.parts);
        let read = move |shared: &Shared| {
            let branch = shared.store.read(|t| {
                let is_first = title_source::is_first_answer(t, conversation, id)?;
                let parent = parent.filter(|_| is_first);
                parent.map(|parent| rows::branch(t, parent)).transpose()
            })?;
            let Some((first, last)) = branch.as_deref().and_then(|branch| branch.first().zip(branch.last())) else {
                return Ok(None);
            };
            Ok(Some(Untitled {
                first_words: title::of_message(&first.parts),
                text: text_of(&last.parts) + "\n" + &answer,
            }))
        };
        shared.blocking(read).await
    }

    /// The request. `None` if titles are switched off, the title is not automatic any more, or the
    /// answer was deleted.
    async fn request(&self, shared: &Arc<Shared>, first_words: String) -> Result<Option<GenerateRequest>, Problem> {
        let (target, answer) = (Arc::clone(&self.selection.target), self.answer.clone());
        let build = move |shared: &Shared| {
            let id = answer.conversation;
            let is_replaceable = shared
                .store
                .read(|t| title_source::is_replaceable(t, id, &first_words, answer.id))?;
            if !is_replaceable || !shared.settings().generated_titles {
                return Ok(None);
            }
            request::build_title(shared, &target, &answer)
        };
        shared.blocking(build).await
    }

    /// Saves a title unless the title is not automatic any more or the answer was deleted, and
    /// announces it.
    async fn save(&self, shared: &Arc<Shared>, first_words: String, title: String) -> Result<(), Problem> {
        let (id, answer) = (self.answer.conversation, self.answer.id);
        let save = move |shared: &Shared| {
            let replace = |t: &Transaction<'_>| title_source::replace_automatic(t, id, &first_words, answer, &title);
            if shared.store.write(replace)? {
                shared.announce_conversation(id)?;
            }
            Ok(())
        };
        shared.blocking(save).await
    }
}

/// Follows the worker until the request has ended, or an answer or a measurement begins.
/// Dropping the events cancels the request.
async fn follow(mut events: Responses, answering: &mut watch::Receiver<bool>) -> Outcome {
    let mut text = String::new();
    loop {
        let event = tokio::select! {
            biased;
            () = wait_until_answering(answering, true) => return Outcome::Interrupted,
            event = events.next() => event,
        };
        match event {
            Some(Event::Text {
                kind: TextKind::Text,
                text: piece,
                ..
            }) => text += &piece,
            Some(Event::Folded) => text.clear(),
            Some(Event::Finished(summary)) if summary.finish_reason == FinishReason::Stop => {
                return Outcome::Text(text);
            }
            Some(event) if !event.is_last() => {}
            _ => return Outcome::NoText,
        }
    }
}

/// Waits until an answer or a measurement is in progress, or until none is.
async fn wait_until_answering(answering: &mut watch::Receiver<bool>, is_answering: bool) {
    // `Shared` owns the sender, so this does not fail.
    let _ = answering.wait_for(|current| *current == is_answering).await;
}
