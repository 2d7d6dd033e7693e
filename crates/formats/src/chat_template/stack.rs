//! A thread with a large stack for parsing and running templates.

use super::TemplateError;
use super::jinja::budget;
use crate::interrupt::{self, Installed};
use std::cell::Cell;
use std::thread;

/// Stack size in bytes. minijinja and Hearth's extensions recurse over tags, blocks, macros and
/// values, each up to a limit, and use less than 4 MiB in unoptimized builds. Unused pages take no
/// memory.
const STACK_BYTES: usize = 32 << 20;

thread_local! {
    static ON_LARGE_STACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread with a large stack. Nested calls run on the same thread.
///
/// # Errors
/// The error of `work`, or [`TemplateError::Failed`] if no thread can be started or `work` panics.
pub(super) fn on_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, TemplateError> + Send,
) -> Result<T, TemplateError> {
    if ON_LARGE_STACK.get() {
        return work();
    }
    let interrupt = interrupt::current();
    let (result, is_interrupted) = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("chat template".to_owned())
            .stack_size(STACK_BYTES);
        let handle = thread.spawn_scoped(scope, || {
            ON_LARGE_STACK.set(true);
            budget::start_thread();
            let _installed = Installed::new(interrupt);
            let result = work();
            (result, interrupt::is_set())
        });
        match handle {
            Ok(handle) => handle
                .join()
                .unwrap_or_else(|_| (Err(TemplateError::Failed("it cannot be executed".to_owned())), false)),
            Err(error) => (
                Err(TemplateError::Failed(format!("no thread could be started ({error})"))),
                false,
            ),
        }
    });
    if is_interrupted {
        interrupt::set();
    }
    result
}
