//! The worker: requests in, events out.
//!
//! One thread reads requests and computes nothing, so that a cancellation is heard at once.
//! The second owns the engine: it advances all answers together, step by step, and executes other
//! jobs in order. Others prepare answers for it, from rendering to tokens. The last answers queries
//! that need no engine: devices and plans.

mod engine_thread;
mod job;
mod load;
mod output;
mod preparer;
mod queries;
mod requests;
mod shared;
mod training;

use crate::problem::{internal, panic_text, problem};
use engine_thread::EngineThread;
use hearth_protocol::{Event, PROTOCOL_VERSION, Problem, ProblemCode};
use job::{Job, Task};
use preparer::Preparer;
use shared::Shared;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Time limit for the engine thread at shutdown; after it, the process exits anyway.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// Serves requests, one JSON object per line, until `input` ends or
/// [`Request::Shutdown`](hearth_protocol::Request::Shutdown) arrives.
///
/// Returns promptly even during a generation; the caller must exit the process.
///
/// # Errors
/// Reading `input` failed.
pub fn serve(input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let shared = Arc::new(Shared::new(Box::new(output)));
    let (jobs, pending_jobs) = mpsc::channel();
    let (working, ended) = mpsc::channel::<()>();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let protocol = PROTOCOL_VERSION;
    shared.emit(0, Event::Ready { protocol, version });
    let engine = Arc::clone(&shared);
    let preparer = Preparer::new(Arc::clone(&shared), &jobs)?;
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        EngineThread::new(&engine, preparer).run(&pending_jobs);
        drop(working);
    })?;
    let (queries, pending) = mpsc::channel();
    let querying = Arc::clone(&shared);
    // Not joined: it may block on a disk that does not respond.
    std::thread::Builder::new()
        .name("queries".to_owned())
        .spawn(move || queries::run(&pending, &querying))?;
    let read = requests::read(input, &jobs, &queries, &shared);
    shared.close();
    // Wakes the engine thread, which may have ended.
    let _ = jobs.send(Job {
        id: 0,
        task: Task::Close,
    });
    // Nothing is ever sent: this waits until the engine thread drops its end of the channel.
    let _ = ended.recv_timeout(SHUTDOWN_LIMIT);
    read
}

/// Runs a job. A panic becomes a [`Problem`], and the worker continues.
fn guarded<T>(job: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|payload| Err(internal(panic_text(&*payload))))
}

fn no_model() -> Problem {
    problem(
        ProblemCode::NoModel,
        "No model is loaded. Choose a model, then send the message again.",
    )
}
