//! Bounds of imports: their time and memory, and cancelling them.

use crate::{
    data_harness::{Harness, export_labels},
    support,
};
use hearth_app::{
    App,
    wire::{Announced, ChatFormat, Event, ProblemCode, SkipReason, Skipped},
};
use serde_json::json;
use std::{
    fs,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// 150,000 texts of 120 bytes, all different.
fn system_texts() -> impl Iterator<Item = String> {
    (0..150_000).map(|at| format!("{at:0>120}"))
}

#[tokio::test]
async fn an_import_is_linear_in_system_texts() {
    let list = system_texts().map(|text| json!({"role": "system", "content": text}));
    let last = json!({"role": "user", "content": "Hello"});
    let openai = json!({"messages": list.chain([last]).collect::<Vec<_>>()});
    let nodes = system_texts().take(100_000).enumerate().map(|(at, text)| {
        let content = json!({"content_type": "user_editable_context", "user_profile": text});
        (at.to_string(), json!({"message": {"content": content}}))
    });
    let author = json!({"role": "user"});
    let node = json!({"message": {"author": author, "content": {"content_type": "text", "parts": ["Hello"]}}});
    let chatgpt = json!({"mapping": nodes.chain([("last".to_owned(), node)]).collect::<serde_json::Map<_, _>>()});
    for export in [openai, chatgpt] {
        let harness = Harness::new();
        let text = export.to_string();
        // Quadratic work takes minutes.
        let begin = Instant::now();
        let report = harness.import_text("export.json", text).await.expect("an import");
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        assert_eq!((report.imported, report.messages), (1, 1));
        let prompt = harness.only().await.system_prompt.expect("a prompt");
        assert!(prompt.len() <= 256 << 10, "{}", prompt.len());
    }
}

#[tokio::test]
async fn an_import_is_linear_in_elements_of_one_conversation() {
    const ELEMENTS: usize = 6_000;
    let id = "6f9b1a3c-0d5e-4c6f-8a7b-112233445566";
    let line =
        |at: usize| json!({"id": id, "messages": [{"role": "user", "content": format!("Question {at}")}]}).to_string();
    let export = (0..ELEMENTS).map(line).collect::<Vec<_>>().join("\n");
    let harness = Harness::new();
    // Reading the conversation for each element takes minutes.
    let begin = Instant::now();
    let report = harness.import_text("export.jsonl", &export).await.expect("an import");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let actual = (report.imported, report.extended as usize, report.messages as usize);
    assert_eq!(actual, (1, ELEMENTS - 1, ELEMENTS));
    let again = harness.import_text("export.jsonl", &export).await.expect("an import");
    assert_eq!(again.known as usize, ELEMENTS);
    // Equal messages count by their number: a list of two adds one to a conversation that has one.
    let line = |text: &str| json!({"id": id, "messages": [{"role": "user", "content": text}]}).to_string();
    let equal = json!({"id": id, "messages": [{"role": "user", "content": "A"}, {"role": "user", "content": "A"}]});
    let export = [line("A"), line("A"), equal.to_string(), equal.to_string()].join("\n");
    let report = harness.import_text("export.jsonl", &export).await.expect("an import");
    assert_eq!((report.messages, report.extended, report.known), (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_import_ends_soon_and_can_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (export, app) = (folder.path().join("export.jsonl"), Arc::<OnceLock<App>>::default());
    let (options, itself) = (support::options(&folder.path().join("data")), app.clone());
    let cancels = Arc::new(AtomicBool::new(true));
    let cancelling = cancels.clone();
    let opened = App::open(options, move |Announced { event, .. }| {
        // Called by the thread that imports.
        if let (Event::ImportProgress { .. }, Some(app), true) = (event, itself.get(), cancelling.load(SeqCst)) {
            Handle::current().block_on(app.cancel_import()).expect("cancelled");
        }
    });
    app.set(opened.expect("an app")).ok().expect("set once");
    let app = app.get().expect("set");
    let all = 5_000;
    let line = |at: usize| json!({"messages": [{"role": "user", "content": format!("Question {at}")}]}).to_string();
    fs::write(&export, (0..all).map(line).collect::<Vec<_>>().join("\n")).expect("a file");
    let problem = app.import_conversations(export.clone()).await.expect_err("cancelled");
    assert_eq!(problem.code, ProblemCode::Cancelled, "{problem}");
    let kept = app.snapshot().await.expect("a snapshot").conversations.len();
    assert!(
        kept > 0 && kept < all && problem.to_string().contains(&kept.to_string()),
        "{kept}: {problem}"
    );
    cancels.store(false, SeqCst);
    let report = app.import_conversations(export).await.expect("an import");
    assert_eq!((report.known as usize, report.imported as usize), (kept, all - kept));
}

#[tokio::test]
async fn a_conversation_of_more_than_32_mib_is_skipped() {
    let harness = Harness::new();
    let large = "x".repeat(33 << 20);
    let message = |text: &str| json!({"role": "user", "content": text});
    let whole = json!([{"messages": [message(&large)]}, {"messages": [message("hi")]}]);
    let report = harness.import_json(&whole).await;
    let why = |skipped: &Skipped| (skipped.reason, skipped.limit);
    let too_large = (SkipReason::TooLarge, Some(32 << 20));
    assert_eq!((report.imported, why(&report.skipped[0])), (1, too_large));
    // Each message is a separate element.
    let piece = "y".repeat(11 << 20);
    let lines: Vec<String> = (0..3).map(|_| message(&piece).to_string()).collect();
    let report = harness
        .import_text("lines.jsonl", lines.join("\n"))
        .await
        .expect("an import");
    assert_eq!((report.imported, why(&report.skipped[0])), (0, too_large));
}

#[tokio::test]
async fn an_object_of_more_than_32_mib_is_read_by_its_conversations() {
    let harness = Harness::new();
    let text = "x".repeat(9 << 20);
    let message = |text: &str| json!({"role": "user", "content": text});
    let conversation = |at: usize| json!({"title": format!("{at}"), "messages": [message(&format!("{at} {text}"))]});
    let list: Vec<_> = (0..5).map(conversation).collect();
    let report = harness
        .import_json(&json!({"version": [1], "conversations": list, "z": [2]}))
        .await;
    assert_eq!((report.imported, report.skipped.len()), (5, 0), "{report:?}");
    // One conversation, whose only list has its messages.
    let messages: Vec<_> = (0..5).map(|at| message(&format!("{at} {text}"))).collect();
    let large = json!({"messages": messages}).to_string();
    let report = harness
        .import_text("large.jsonl", large + "\n" + &conversation(7).to_string())
        .await;
    let report = report.expect("an import");
    let skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| (skipped.reason, skipped.count))
        .collect();
    assert_eq!((report.imported, skipped), (1, vec![(SkipReason::TooLarge, 1)]));
}

#[tokio::test]
async fn a_large_conversation_of_hearth_is_imported_from_its_export() {
    let harness = Harness::new();
    // Its messages come one by one.
    for at in 0..4 {
        let text = format!("{at} {}", "word ".repeat(2 << 20));
        let id = "6f9b1a3c-0d5e-4c6f-8a7b-112233445566";
        let report = harness
            .import_json(&json!({"id": id, "messages": [{"role": "user", "content": text}]}))
            .await;
        assert_eq!(report.messages, 1);
    }
    let export = harness.path("out.json");
    let written = harness
        .app
        .export_conversations(None, ChatFormat::Json, export_labels(), export.clone());
    assert!(written.await.expect("an export").bytes > 33 << 20);
    let other = Harness::new();
    let report = other.import(export).await.expect("an import");
    assert_eq!((report.imported, report.messages), (1, 4), "{report:?}");
}

/// Names the export to import in a separate process, whose memory is measured.
#[cfg(target_os = "linux")]
const CHILD: &str = "HEARTH_TEST_IMPORT";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_largest_conversation_takes_bounded_memory() {
    if let Some(path) = std::env::var_os(CHILD) {
        assert_eq!(Harness::new().import(path).await.expect("an import").imported, 1);
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        println!(
            "{}",
            status
                .lines()
                .find(|line| line.starts_with("VmHWM:"))
                .expect("the peak")
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("export.json");
    let part = json!({"type": "text", "text": "word ".repeat(6 << 20)});
    let message = json!({"id": 1, "role": "user", "parts": [part]});
    let export = json!([{"hearthConversation": 1, "id": "hearth:1", "messages": [message]}]).to_string();
    assert!(export.len() > 30 << 20);
    fs::write(&path, export).expect("a file");
    let child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args([
            "import_bounds::the_largest_conversation_takes_bounded_memory",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, &path)
        .output()
        .expect("a process");
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    let peak = output
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let mib = peak.and_then(|peak| peak.parse::<usize>().ok()).expect(&output) >> 10;
    println!("{mib} MiB");
    assert!(mib < 400, "{mib} MiB");
}
