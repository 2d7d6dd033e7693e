//! The worker: reads requests and writes events.
//!
//! One thread reads requests and computes nothing, so that a cancellation takes effect at once. The
//! engine thread advances all answers together, step by step, and executes other jobs in order.
//! Preparer threads render and tokenize prompts. The query thread answers requests that need no
//! engine: device lists and plans.

mod engine_thread;
mod job;
mod load;
mod output;
mod preparer;
mod queries;
mod requests;
mod shared;
mod training;

use crate::problem::{internal, panic_text};
use engine_thread::EngineThread;
use hearth_protocol::{Event, PROTOCOL_VERSION, Problem, ProblemCode, RequestReason};
use job::{Job, Task};
use preparer::Preparer;
use shared::Shared;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Time to wait for the engine thread at shutdown. After it, the process exits anyway.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves requests, one JSON object per line, until `input` ends or
/// [`Request::Shutdown`](hearth_protocol::Request::Shutdown) arrives.
///
/// Returns within about a second, even during a generation. The caller must exit the process.
///
/// # Errors
/// Reading `input` failed.
pub fn serve(input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let shared = Arc::new(Shared::new(Box::new(output)));
    let (jobs, job_receiver) = mpsc::channel();
    let (engine_alive, engine_ended) = mpsc::channel::<()>();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let protocol = PROTOCOL_VERSION;
    shared.emit(0, Event::Ready { protocol, version });
    let engine_shared = Arc::clone(&shared);
    let preparer = Preparer::new(Arc::clone(&shared), &jobs)?;
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        EngineThread::new(&engine_shared, preparer).run(&job_receiver);
        drop(engine_alive);
    })?;
    let (queries, query_receiver) = mpsc::channel();
    let query_shared = Arc::clone(&shared);
    // The thread is not joined, since it may block on a disk that does not respond.
    std::thread::Builder::new()
        .name("queries".to_owned())
        .spawn(move || queries::run(&query_receiver, &query_shared))?;
    let result = requests::read(input, &jobs, &queries, &shared);
    shared.close();
    // Wakes the engine thread, which may have ended.
    let _ = jobs.send(Job {
        id: 0,
        task: Task::Close,
    });
    // Nothing is sent: this returns when the engine thread drops its end of the channel.
    let _ = engine_ended.recv_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Runs a job. A panic becomes a [`Problem`], and the worker continues.
fn guarded<T>(job: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|payload| Err(internal(panic_text(&*payload))))
}

fn no_model() -> Problem {
    Problem::new(ProblemCode::NoModel, RequestReason::NoModel)
}
