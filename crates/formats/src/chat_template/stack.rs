//! A stack of its own for what reads and runs templates.

use super::TemplateError;
use super::jinja::budget;
use std::cell::Cell;
use std::thread;

/// Bytes of the stack. minijinja and the code here recurse over tags, blocks, macros and values, each to a limit; all of that
/// takes less than 4 MiB where nothing is optimised. Only what is used is ever backed by memory.
const STACK: usize = 32 << 20;

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Does some work on a thread whose stack is large enough, whatever the caller's is. Work inside of this goes on there.
///
/// # Errors
/// Where the system has no thread to give.
pub(super) fn with_stack<T: Send>(work: impl FnOnce() -> Result<T, TemplateError> + Send) -> Result<T, TemplateError> {
    if HERE.get() {
        return work();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("chat template".to_owned())
            .stack_size(STACK);
        let running = thread.spawn_scoped(scope, || {
            HERE.set(true);
            budget::start();
            work()
        });
        let running =
            running.map_err(|error| TemplateError::Failed(format!("no thread could be started for it ({error})")))?;
        let panicked = |_| Err(TemplateError::Failed("it cannot be carried out".to_owned()));
        running.join().unwrap_or_else(panicked)
    })
}
