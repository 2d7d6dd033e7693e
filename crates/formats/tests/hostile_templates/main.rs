//! Chat templates that try to take memory, time or stack: each ends in a sentence. Every row runs in a process of its own, whose
//! allocator refuses more than [`MOST_BYTES`], on a thread with a small stack.

mod rows;

use hearth_formats::chat_template::{Chat, ChatTemplate, Message, Role, TemplateError, Turn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that a row may hold at once.
const MOST_BYTES: usize = 640 << 20;

/// A watchdog, not a measurement: a row takes some seconds at most where nothing is optimised.
const LONGEST: Duration = Duration::from_secs(240);

/// The variable that names the row a process is to run.
const ROW: &str = "HEARTH_HOSTILE_TEMPLATE";

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: memory is the system's; what is refused is null, as the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > LIMIT.load(Ordering::Relaxed) {
            HELD.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn conversation() -> Vec<Message> {
    [(Role::User, "Hello"), (Role::Assistant, "Hi."), (Role::User, "And?")]
        .map(|(role, content)| Message {
            role,
            content: content.to_owned(),
        })
        .to_vec()
}

/// Runs one row, in the process that was started for it: what came of it is the last line.
#[test]
#[ignore = "the other test starts it"]
fn one_row() {
    let name = std::env::var(ROW).expect("the row's name");
    let rows = rows::rows();
    let row = rows.iter().find(|row| row.name == name).expect("a row of this name");
    LIMIT.store(MOST_BYTES, Ordering::Relaxed);
    let small_stack = std::thread::Builder::new().stack_size(1 << 20);
    std::thread::scope(|scope| {
        let outcome = small_stack.spawn_scoped(scope, || {
            let template = ChatTemplate::parse(&row.source, "<s>", "</s>")?;
            template.render(&conversation(), Turn::Answer)
        });
        let outcome = match outcome.unwrap().join().expect("no panic") {
            Ok(text) => format!("rendered {} bytes", text.len()),
            Err(error) => error.to_string(),
        };
        println!("\noutcome: {outcome}");
    });
}

/// What came of a row.
fn run(name: &str) -> Result<String, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_row", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROW, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + LONGEST;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("it did not come to an end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    if !status.success() {
        return Err(format!("the process ended with {status}"));
    }
    let outcome = said
        .split("\noutcome: ")
        .nth(1)
        .and_then(|said| said.split("\ntest ").next());
    let outcome = outcome.and_then(|outcome| outcome.trim().lines().next());
    Ok(outcome.unwrap_or_default().to_owned())
}

#[test]
fn a_template_that_oversteps_ends_in_a_sentence() {
    let only = std::env::var("HEARTH_ONLY").unwrap_or_default();
    let mut wrong = Vec::new();
    for row in rows::rows().iter().filter(|row| row.name.contains(&only)) {
        let outcome = run(row.name);
        let expected = outcome
            .as_ref()
            .is_ok_and(|outcome| outcome.contains(row.expected) && outcome.len() < 1500);
        if !expected {
            wrong.push(format!("{}: {outcome:?}, not {:?}", row.name, row.expected));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn json_nested_too_deeply_is_no_conversation() {
    let deep = 100_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(deep), close.repeat(deep));
        let message = format!("[{{\"role\": \"user\", \"content\": {nested}}}]");
        let plain = "[{\"role\": \"user\", \"content\": \"x\"}]";
        for (messages, tools) in [(&*message, None), (plain, Some(&*format!("[{{\"a\": {nested}}}]")))] {
            let refused = Chat::from_json(messages, tools);
            assert!(matches!(refused, Err(TemplateError::Conversation(_))), "{open}");
        }
    }
}
