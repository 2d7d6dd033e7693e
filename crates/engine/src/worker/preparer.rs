//! Threads that prepare answers and count tokens, so that neither delays the answers in progress.

use super::guarded;
use super::job::{Job, Task};
use super::shared::Shared;
use crate::prepare::{Counting, Preparation};
use hearth_formats::interrupt::Interrupt;
use hearth_protocol::RequestId;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

/// Number of threads for requests without a JSON schema. The next request waits only if all of them
/// are busy with slow templates or long texts.
const THREADS: usize = 4;

/// Work for a thread. The job tells the engine thread that it is done.
type Work = Box<dyn FnOnce() -> Job + Send>;

/// Hands work to the threads, in the order in which it arrives.
pub(super) struct Preparer {
    shared: Arc<Shared>,
    work: mpsc::Sender<Work>,
    /// Work with a JSON schema, on one thread: only the next schema waits for one that takes long.
    with_schema: mpsc::Sender<Work>,
    unfinished: usize,
}

impl Preparer {
    /// `done` receives [`Task::Prepared`] or [`Task::Counted`] for each work.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new(shared: Arc<Shared>, done: &mpsc::Sender<Job>) -> io::Result<Self> {
        Ok(Self {
            shared,
            work: start(THREADS, done)?,
            with_schema: start(1, done)?,
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
        self.add(preparation.has_schema(), move || {
            let prepared = guarded(|| preparation.run(&interrupt).map(Box::new));
            let task = Task::Prepared(prepared);
            Job { id, task }
        });
    }

    /// Counts the tokens of a conversation.
    pub fn count(&mut self, id: RequestId, counting: Counting) {
        self.add(false, move || {
            let task = Task::Counted(guarded(|| counting.run()));
            Job { id, task }
        });
    }

    /// A [`Task::Prepared`] or [`Task::Counted`] has arrived.
    pub fn finished_one(&mut self) {
        self.unfinished -= 1;
    }

    fn add(&mut self, has_schema: bool, work: impl FnOnce() -> Job + Send + 'static) {
        self.unfinished += 1;
        let threads = if has_schema { &self.with_schema } else { &self.work };
        // The threads end only with this.
        let _ = threads.send(Box::new(work));
    }
}

/// Starts threads that take work in the order in which it arrives, and send its jobs to `done`.
fn start(threads: usize, done: &mpsc::Sender<Job>) -> io::Result<mpsc::Sender<Work>> {
    let (work, waiting) = mpsc::channel::<Work>();
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..threads {
        let (waiting, done) = (Arc::clone(&waiting), done.clone());
        // Not joined: the process exits while a thread is at work.
        thread::Builder::new().name("preparer".to_owned()).spawn(move || {
            let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(work) = next() {
                if done.send(work()).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(work)
}
