//! The order of events. Each has a revision, which increases. State that is read after a revision
//! was requested is at least as new as the events up to it.

use crate::{
    lock::lock,
    wire::{Announced, Event},
};
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Receives every event, from any thread; must not block.
pub(crate) type Sink = Box<dyn Fn(Announced) + Send + Sync>;

/// The subject of an event. Events of one topic are sent in the order of their states.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Topic {
    Conversations,
    Messages,
    Folders,
    Prompts,
    Models,
    Adapters,
    Datasets,
    Runs,
    Downloads,
}

/// Sends events.
pub(crate) struct Announcer {
    sink: Sink,
    /// The revision of the last event.
    revision: AtomicU64,
    /// Number of reads that [`Announcer::announce_latest`] has started.
    reads: AtomicU64,
    /// By topic, the number of the last such read that was sent.
    topics: [Mutex<u64>; Topic::Downloads as usize + 1],
}

impl Announcer {
    pub(crate) fn new(sink: Sink) -> Self {
        Self {
            sink,
            revision: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            topics: Default::default(),
        }
    }

    /// The revision of the last event.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Sends an event whose order the caller ensures, by a lock or because one task sends it.
    pub(crate) fn emit(&self, event: Event) {
        // The revision is taken after the state in the event was read.
        let revision = self.revision.fetch_add(1, Ordering::SeqCst) + 1;
        (self.sink)(Announced { revision, event });
    }

    /// Reads the state of a topic and sends it, if there is any. Other events of the topic wait, so
    /// `read` may read only the store.
    ///
    /// # Errors
    /// Returns the error of `read`; nothing is sent then.
    pub(crate) fn announce<T: Into<Option<Event>>, E>(
        &self,
        topic: Topic,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<(), E> {
        let _one_at_a_time = lock(&self.topics[topic as usize]);
        if let Some(event) = read()?.into() {
            self.emit(event);
        }
        Ok(())
    }

    /// Reads the state of a topic without a lock, since disks may be slow, and sends it. Drops it
    /// if the result of a read that started later was sent first.
    ///
    /// # Errors
    /// Returns the error of `read`; nothing is sent then.
    pub(crate) fn announce_latest<E>(&self, topic: Topic, read: impl FnOnce() -> Result<Event, E>) -> Result<(), E> {
        let number = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let event = read()?;
        let mut last = lock(&self.topics[topic as usize]);
        if number > *last {
            *last = number;
            self.emit(event);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        convert::Infallible,
        sync::{Arc, mpsc},
        thread,
    };

    /// The fractions of the events, by revision.
    fn fractions(events: impl Iterator<Item = Announced>) -> Vec<u64> {
        let fraction = |announced| match announced {
            Announced {
                event: Event::ImportProgress { fraction },
                revision,
            } => (revision, fraction as u64),
            _ => unreachable!("no other event"),
        };
        let mut sent: Vec<(u64, u64)> = events.map(fraction).collect();
        assert!(
            sent.is_sorted_by(|(revision, _), (next, _)| revision < next),
            "revisions grow as events arrive"
        );
        sent.drain(..).map(|(_, fraction)| fraction).collect()
    }

    #[test]
    fn of_one_topic_no_event_is_older_than_one_before_it() {
        const THREADS: u64 = 8;
        const EACH: u64 = 200;
        let (send, events) = mpsc::channel();
        let announcer = Announcer::new(Box::new(move |announced| send.send(announced).expect("a receiver")));
        let (announcer, state) = (Arc::new(announcer), AtomicU64::new(0));
        let change = || {
            for _ in 0..EACH {
                state.fetch_add(1, Ordering::SeqCst);
                let read = || {
                    let fraction = state.load(Ordering::SeqCst) as f32;
                    thread::yield_now();
                    Ok::<_, Infallible>(Event::ImportProgress { fraction })
                };
                announcer.announce(Topic::Folders, read).expect("it is read");
            }
        };
        thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(change))));
        assert_eq!(announcer.revision(), THREADS * EACH);
        drop(announcer);
        let sent = fractions(events.into_iter());
        assert!(sent.is_sorted(), "{sent:?}");
        assert_eq!(sent.last(), Some(&(THREADS * EACH)));
    }

    #[test]
    fn a_slow_read_neither_delays_nor_replaces_a_later_one() {
        let (send, events) = mpsc::channel();
        let announcer = Announcer::new(Box::new(move |announced| send.send(announced).expect("a receiver")));
        let progress = |fraction| Ok::<_, Infallible>(Event::ImportProgress { fraction });
        let slow = || {
            announcer
                .announce_latest(Topic::Models, || progress(2.0))
                .expect("it is read");
            progress(1.0)
        };
        announcer.announce_latest(Topic::Models, slow).expect("it is read");
        announcer
            .announce_latest(Topic::Models, || progress(3.0))
            .expect("it is read");
        drop(announcer);
        assert_eq!(fractions(events.into_iter()), [2, 3]);
    }

    #[test]
    fn a_state_that_cannot_be_read_is_not_sent() {
        let announcer = Announcer::new(Box::new(|announced| panic!("{announced:?}")));
        let failed = announcer.announce(Topic::Runs, || Err::<Event, _>("unreadable"));
        assert_eq!(failed, Err("unreadable"));
        announcer
            .announce(Topic::Runs, || Ok::<_, Infallible>(None))
            .expect("it is read");
        assert_eq!(announcer.revision(), 0);
    }
}
