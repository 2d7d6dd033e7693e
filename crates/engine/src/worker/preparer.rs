//! Threads that prepare answers and count tokens, so that answers in progress are not delayed.

use super::guarded;
use super::job::{Job, Task};
use super::shared::Shared;
use crate::prepare::{Preparation, TokenCount};
use crate::unsent::UnsentCount;
use hearth_formats::interrupt::Interrupt;
use hearth_protocol::RequestId;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

/// Number of threads for requests without a JSON schema. A request waits only if all of them are
/// busy with slow templates or long texts.
const THREADS: usize = 4;

/// Work for a thread. Returns the job with the result for the engine thread.
type Work = Box<dyn FnOnce() -> Job + Send>;

/// Sends work to the threads, which execute it in this order.
pub(super) struct Preparer {
    shared: Arc<Shared>,
    work: mpsc::Sender<Work>,
    /// Work with a JSON schema. It has a separate thread, so that a slow schema delays only
    /// requests with schemas.
    with_schema: mpsc::Sender<Work>,
    /// Counts of unsent messages, whose changes are applied in order.
    unsent: mpsc::Sender<Work>,
    unfinished: usize,
}

impl Preparer {
    /// Starts the threads. `results` receives a [`Task::Prepared`], [`Task::Counted`] or
    /// [`Task::UnsentCounted`] for each piece of work.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new(shared: Arc<Shared>, results: &mpsc::Sender<Job>) -> io::Result<Self> {
        Ok(Self {
            shared,
            work: start(THREADS, results)?,
            with_schema: start(1, results)?,
            unsent: start(1, results)?,
            unfinished: 0,
        })
    }

    /// Whether answers are being prepared or tokens counted.
    pub fn is_busy(&self) -> bool {
        self.unfinished > 0
    }

    /// Prepares an answer, until its request is cancelled.
    pub fn prepare(&mut self, id: RequestId, preparation: Preparation) {
        let shared = Arc::clone(&self.shared);
        let interrupt = Interrupt::new(move || shared.is_cancelled(id));
        let threads = if preparation.has_schema() {
            &self.with_schema
        } else {
            &self.work
        };
        self.unfinished += 1;
        send(threads, move || {
            let prepared = guarded(|| preparation.run(&interrupt).map(Box::new));
            let task = Task::Prepared(prepared);
            Job { id, task }
        });
    }

    /// Counts the tokens of a conversation.
    pub fn count(&mut self, id: RequestId, count: TokenCount) {
        self.unfinished += 1;
        send(&self.work, move || {
            let task = Task::Counted(guarded(|| count.run()));
            Job { id, task }
        });
    }

    /// Counts the tokens of an unsent message, until its request is cancelled.
    pub fn count_unsent(&mut self, id: RequestId, count: UnsentCount) {
        let shared = Arc::clone(&self.shared);
        let interrupt = Interrupt::new(move || shared.is_cancelled(id));
        self.unfinished += 1;
        send(&self.unsent, move || {
            let task = Task::UnsentCounted(guarded(|| count.run(&interrupt)));
            Job { id, task }
        });
    }

    /// Must be called when the engine thread has received the result of a piece of work.
    pub fn finish_one(&mut self) {
        self.unfinished -= 1;
    }
}

/// Sends work to threads.
fn send(threads: &mpsc::Sender<Work>, work: impl FnOnce() -> Job + Send + 'static) {
    // The threads run as long as the channel is open, so this does not fail.
    let _ = threads.send(Box::new(work));
}

/// Starts threads that execute work in the order in which it is sent, and send its jobs to
/// `results`.
fn start(threads: usize, results: &mpsc::Sender<Job>) -> io::Result<mpsc::Sender<Work>> {
    let (sender, receiver) = mpsc::channel::<Work>();
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..threads {
        let (receiver, results) = (Arc::clone(&receiver), results.clone());
        // The thread is not joined: the process may exit while it works.
        thread::Builder::new().name("preparer".to_owned()).spawn(move || {
            let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(work) = next() {
                if results.send(work()).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(sender)
}
