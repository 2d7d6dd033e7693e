//! The events of one request.

use super::{Inner, open_requests::Unexpected};
use crate::{Event, Problem, RequestId};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::Notify;

/// Number of unread events from which on pieces of text are joined.
const JOIN_THRESHOLD: usize = 64;
/// Maximum unread events of a request: a run of a day reports fewer steps.
const MAX_EVENTS: usize = 1 << 17;
/// Maximum bytes of text in an unread event: an answer is shorter.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// The unread events of a request. It has one reader.
#[derive(Debug, Default)]
pub(super) struct Stream {
    events: Mutex<Events>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Events {
    unread: VecDeque<Event>,
    has_ended: bool,
    /// Whether the stream has no reader any more, so that events are dropped.
    is_abandoned: bool,
}

impl Stream {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event that is not the last. Only the newest progress event remains, and text is
    /// joined once many events are unread.
    ///
    /// # Errors
    /// Too many are unread.
    pub fn push(&self, event: Event) -> Result<(), Unexpected> {
        let mut events = self.events();
        if events.is_abandoned || events.has_ended {
            return Ok(());
        }
        let is_crowded = events.unread.len() >= JOIN_THRESHOLD;
        match (events.unread.back_mut(), event) {
            (Some(last @ Event::Progress { .. }), event @ Event::Progress { .. })
            | (Some(last @ Event::Prefill { .. }), event @ Event::Prefill { .. }) => *last = event,
            (
                Some(Event::Text { kind, text, tokens }),
                Event::Text {
                    kind: new_kind,
                    text: new_text,
                    tokens: new_tokens,
                },
            ) if is_crowded && *kind == new_kind => {
                if text.len() + new_text.len() > MAX_TEXT_BYTES {
                    return Err(Unexpected);
                }
                text.push_str(&new_text);
                *tokens = new_tokens;
            }
            (_, event) => events.unread.push_back(event),
        }
        let is_full = events.unread.len() > MAX_EVENTS;
        drop(events);
        self.arrived.notify_one();
        if is_full { Err(Unexpected) } else { Ok(()) }
    }

    /// Adds the last event.
    pub fn end(&self, event: Event) {
        let mut events = self.events();
        if !events.has_ended && !events.is_abandoned {
            events.unread.push_back(event);
        }
        events.has_ended = true;
        drop(events);
        self.arrived.notify_one();
    }

    /// The next event; `None` after the last. Cancellation safe.
    pub async fn next(&self) -> Option<Event> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            // A notification before this wait is not lost.
            self.arrived.notified().await;
        }
    }

    /// The next event, or `Some(None)` after the last; `None` if none has arrived.
    fn try_next(&self) -> Option<Option<Event>> {
        let mut events = self.events();
        match events.unread.pop_front() {
            Some(event) => Some(Some(event)),
            None => events.has_ended.then_some(None),
        }
    }
}

/// The events of one request. Dropping it before the last one cancels the request, if that is
/// possible.
#[derive(Debug)]
pub struct Responses {
    id: RequestId,
    stream: Arc<Stream>,
    worker: Weak<Inner>,
    is_cancellable: bool,
    is_cancelled: bool,
}

impl Responses {
    pub(super) fn new(id: RequestId, stream: Arc<Stream>, worker: Weak<Inner>, is_cancellable: bool) -> Self {
        Self {
            id,
            stream,
            worker,
            is_cancellable,
            is_cancelled: false,
        }
    }

    /// The request's id.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The next event; `None` after the last. Cancellation safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.stream.next().await
    }

    /// The last event. The others are dropped.
    ///
    /// # Errors
    /// The request failed, or the worker died.
    pub async fn last(mut self) -> Result<Event, Problem> {
        loop {
            match self.next().await {
                Some(Event::Failed(problem)) => return Err(problem),
                Some(event) if event.is_last() => return Ok(event),
                Some(_) => {}
                None => return Err(super::worker_ended()),
            }
        }
    }

    /// Cancels the request, if that is possible. Its last event still arrives; if the worker does
    /// not send it soon, it is [`Event::Failed`] with [`ProblemCode::Cancelled`].
    ///
    /// [`ProblemCode::Cancelled`]: crate::ProblemCode::Cancelled
    pub fn cancel(&mut self) {
        if self.is_cancellable
            && !std::mem::replace(&mut self.is_cancelled, true)
            && !self.stream.events().has_ended
            && let Some(worker) = self.worker.upgrade()
        {
            worker.cancel(self.id);
        }
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        self.cancel();
        let mut events = self.stream.events();
        events.is_abandoned = true;
        events.unread = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TextKind;

    fn text(text: &str, tokens: u32) -> Event {
        Event::Text {
            kind: TextKind::Text,
            text: text.to_owned(),
            tokens,
        }
    }

    #[tokio::test]
    async fn unread_text_is_joined_and_nothing_is_lost() {
        let stream = Stream::default();
        let pieces = 1000;
        for number in 1..=pieces {
            stream.push(text("ab", number)).expect("it is accepted");
        }
        stream.end(Event::Done);
        stream.end(Event::Done);
        assert!(stream.events().unread.len() <= JOIN_THRESHOLD + 1);
        let (mut whole_text, mut last_tokens) = (String::new(), 0);
        while let Some(event) = stream.next().await {
            match event {
                Event::Text { text, tokens, .. } => (whole_text, last_tokens) = (whole_text + &text, tokens),
                event => assert_eq!(event, Event::Done),
            }
        }
        assert_eq!((whole_text.len(), last_tokens), (2 * pieces as usize, pieces));
    }

    #[tokio::test]
    async fn only_the_newest_progress_is_read() {
        let stream = Stream::default();
        for done in 1..4 {
            stream.push(Event::Prefill { done, total: 4 }).expect("it is accepted");
        }
        stream.push(text("a", 1)).expect("it is accepted");
        assert_eq!(stream.next().await, Some(Event::Prefill { done: 3, total: 4 }));
        assert_eq!(stream.next().await, Some(text("a", 1)));
    }

    #[test]
    fn endless_unread_text_is_refused() {
        let stream = Stream::default();
        let long_text = "x".repeat(1 << 20);
        let mut results = (0..100).map(|number| stream.push(text(&long_text, number)));
        assert_eq!(
            results.position(|result| result.is_err()),
            Some(JOIN_THRESHOLD - 1 + 16)
        );
    }
}
