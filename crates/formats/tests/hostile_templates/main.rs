//! Chat templates that try to exhaust memory, time or stack: each fails with an error message.
//! Every row runs in a separate process, whose allocator refuses more than [`MAX_BYTES`], on a
//! thread with a small stack.

mod rows;

use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, TemplateError};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Maximum bytes that a row may allocate at once.
const MAX_BYTES: usize = 640 << 20;

/// Timeout of a row, which takes at most a few seconds in unoptimized builds.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Environment variable with the name of the row to run.
const ROW: &str = "HEARTH_HOSTILE_TEMPLATE";

/// An allocator with a limit.
struct LimitedAllocator;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: all memory comes from the system allocator. A refused allocation returns null, as the
// trait allows.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > LIMIT.load(Ordering::Relaxed) {
            ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: LimitedAllocator = LimitedAllocator;

fn conversation() -> Vec<Message> {
    [(Role::User, "Hello"), (Role::Assistant, "Hi."), (Role::User, "And?")]
        .map(|(role, content)| Message {
            role,
            content: content.to_owned(),
        })
        .to_vec()
}

/// Runs one row in a process started by the other test. Prints the outcome.
#[test]
#[ignore = "started by the other test"]
fn one_row() {
    let name = std::env::var(ROW).expect("the row's name");
    let row = rows::rows().find(|row| row.name == name).expect("a row of this name");
    LIMIT.store(MAX_BYTES, Ordering::Relaxed);
    let small_stack = std::thread::Builder::new().stack_size(1 << 20);
    std::thread::scope(|scope| {
        let outcome = small_stack.spawn_scoped(scope, || {
            let template = ChatTemplate::parse(&row.source(), "<s>", "</s>")?;
            template.render(&conversation(), GenerationPrompt::Add)
        });
        let outcome = match outcome.unwrap().join().expect("no panic") {
            Ok(text) => format!("rendered {} bytes", text.len()),
            Err(error) => error.to_string(),
        };
        println!("\noutcome: {outcome}");
    });
}

/// Runs a row in a process. Returns its outcome, or the failure of the process.
fn run(name: &str) -> Result<String, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_row", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROW, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(std::io::read_to_string(stdout)));
    // The output ends with the process.
    let Ok(output) = receiver.recv_timeout(TIMEOUT) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return Err("timed out".to_owned());
    };
    let status = child.wait().unwrap();
    if !status.success() {
        return Err(format!("the process ended with {status}"));
    }
    let output = output.unwrap();
    let outcome = output
        .split("\noutcome: ")
        .nth(1)
        .and_then(|rest| rest.split("\ntest ").next());
    let outcome = outcome.and_then(|outcome| outcome.trim().lines().next());
    Ok(outcome.unwrap_or_default().to_owned())
}

#[test]
fn a_template_that_exceeds_a_limit_fails_with_an_error_message() {
    let filter = std::env::var("HEARTH_ONLY").unwrap_or_default();
    let mut mismatches = Vec::new();
    for row in rows::rows().filter(|row| row.name.contains(&filter)) {
        let outcome = run(row.name);
        let is_expected = outcome
            .as_ref()
            .is_ok_and(|outcome| outcome.contains(row.expected) && outcome.len() < 1500);
        if !is_expected {
            mismatches.push(format!("{}: {outcome:?}, not {:?}", row.name, row.expected));
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} mismatches:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
}

#[test]
fn deeply_nested_json_is_refused() {
    let depth = 100_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let message = format!("[{{\"role\": \"user\", \"content\": {nested}}}]");
        let plain = "[{\"role\": \"user\", \"content\": \"x\"}]";
        for (messages, tools) in [(&*message, None), (plain, Some(&*format!("[{{\"a\": {nested}}}]")))] {
            let refused = Chat::from_json(messages, tools);
            assert!(matches!(refused, Err(TemplateError::Conversation(_))), "{open}");
        }
    }
}
