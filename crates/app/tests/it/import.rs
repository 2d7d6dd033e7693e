//! Imports of conversations: every program's form, repeated and hostile ones, and exports of
//! Hearth.

use crate::data_harness::{Harness, export_labels};
use hearth_app::wire::{
    ChatFormat, Conversation, ConversationSettings, DroppedTurns, Event, ExportLabels, ImportFormat, Message,
    MessageState, Part, ProblemCode, Role, SkipReason, Thumb, TruncationReason,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};
use zip::{ZipWriter, write::SimpleFileOptions};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/import")
        .join(name)
}

/// A line for each message: its parent's number, its role and its parts.
fn outline(conversation: &Conversation) -> Vec<String> {
    let place = |id: i64| conversation.messages.iter().position(|message| message.id == id);
    let line = |message: &Message| {
        let parent = message
            .parent
            .and_then(place)
            .map_or_else(|| "-".to_owned(), |at| at.to_string());
        let selected = if conversation.leaf == Some(message.id) { "*" } else { "" };
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{parent} {}{selected}: {}", message.role.name(), parts.join(" | "))
    };
    conversation.messages.iter().map(line).collect()
}

fn part(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Thinking { text } => format!("({text})"),
        Part::ToolCall { name, arguments, .. } => format!("{name}!{arguments}"),
        Part::ToolResult { name, text, .. } => format!("{name}={text}"),
        Part::File { name, text, .. } => format!("{name}<{}", text.trim_end()),
        Part::Image { name, .. } => format!("image {name}"),
    }
}

struct Case {
    path: &'static str,
    format: ImportFormat,
    titles: &'static [&'static str],
    system: Option<&'static str>,
    /// Of the conversation with the first title.
    outline: &'static [&'static str],
    empty: u32,
}

const CASES: &[Case] = &[
    Case {
        path: "chatgpt/conversations.json",
        format: ImportFormat::ChatGpt,
        titles: &["Rye bread"],
        system: Some("I bake on Sundays.\n\nAnswer in grams."),
        outline: &[
            "- user: [Image: file-service://file-AbC123] | How much water for 500 g of rye at 80 %? \
             <script>alert(1)</script> | [File: recipe.pdf]",
            "0 assistant: (Baker's percentage\n\n80 % of 500 is 400.) | python!{\"text\":\"print(0.8 * 500)\"}",
            "1 user: python=400.0",
            "2 assistant*: **400 g** of water.",
            "0 assistant: 400 grams.",
        ],
        empty: 1,
    },
    Case {
        path: "claude/conversations.json",
        format: ImportFormat::Claude,
        titles: &["Gaps and islands", "Three names for a small grey cat?"],
        system: None,
        outline: &[
            "- user: pasted.txt<day,orders\n1,3\n2,5 | [File: plan.png] | What is a gaps-and-islands query?",
            "0 assistant: (Consecutive rows.) | Let me look. | run_sql!{\"query\":\"select 1\"}",
            "1 user: run_sql=1",
            "2 assistant: It groups consecutive rows.",
            "3 user: And in one line?",
            "3 user: Thanks!",
            "5 assistant*: You are welcome.",
        ],
        empty: 1,
    },
    Case {
        path: "lmstudio/1735732800123.conversation.json",
        format: ImportFormat::LmStudio,
        titles: &["Kettle haiku"],
        system: Some("Write haiku only."),
        outline: &[
            "- user: [Image: 1735732790 - kettle.png] | A haiku about a kettle.",
            "0 assistant: Steam.",
            "0 assistant: (5, 7, 5.) | Small song in the steam",
            "2 user*: Another.",
        ],
        empty: 0,
    },
    Case {
        path: "jan/threads",
        format: ImportFormat::Jan,
        titles: &["Landlord"],
        system: Some("Be polite."),
        outline: &[
            "- user: Draft a letter: no heating since Monday.",
            "0 assistant*: (Short and polite.) | Dear Ms Abel,",
        ],
        empty: 0,
    },
    Case {
        path: "jan/threads/jan_1735732800/messages.jsonl",
        format: ImportFormat::Jan,
        titles: &["Landlord"],
        system: Some("Be polite."),
        outline: &[
            "- user: Draft a letter: no heating since Monday.",
            "0 assistant*: (Short and polite.) | Dear Ms Abel,",
        ],
        empty: 0,
    },
    Case {
        path: "openwebui/chat-export-1735733000000.json",
        format: ImportFormat::OpenWebUi,
        titles: &["Borrow checker"],
        system: Some("You teach Rust."),
        outline: &[
            "- user: main.rs<fn main() {} | Why can't I push while iterating?",
            "0 assistant: It is not allowed.",
            "0 assistant*: (The iterator borrows.) | The iterator holds a shared borrow.",
        ],
        empty: 0,
    },
    Case {
        path: "llamacpp/conversation_7d1f.json",
        format: ImportFormat::LlamaCpp,
        titles: &["What is RoPE?"],
        system: Some("Answer briefly."),
        outline: &[
            "- user: notes.txt<rotary | [Image: rope.png] | What is RoPE?",
            "0 assistant: A rope.",
            "0 assistant*: (Positions are rotations.) | Rotary position embedding.",
        ],
        empty: 0,
    },
    Case {
        path: "sharegpt/dataset.jsonl",
        format: ImportFormat::ShareGpt,
        titles: &["What time is it?", "Name a prime."],
        system: None,
        outline: &[
            "- user: What time is it?",
            "0 assistant: clock!{}",
            "1 user: tool=12:00",
            "2 assistant*: Noon.",
        ],
        empty: 1,
    },
    Case {
        path: "openai/messages.jsonl",
        format: ImportFormat::OpenAi,
        titles: &["What is this?"],
        system: Some("Be brief."),
        outline: &[
            "- user: What is this? | [Image: https://example.com/cat.png]",
            "0 assistant: look!{\"at\":1}",
            "1 user: tool=a cat",
            "2 assistant*: (Whiskers.) | A cat.",
        ],
        empty: 0,
    },
    Case {
        path: "openai/list.json",
        format: ImportFormat::OpenAi,
        titles: &["One?"],
        system: None,
        outline: &["- user: One?", "0 assistant*: Two."],
        empty: 0,
    },
];

#[tokio::test]
async fn conversations_of_every_program_are_imported_once() {
    for case in CASES {
        let harness = Harness::new();
        let report = harness.import(fixture(case.path)).await.expect(case.path);
        let imported = case.titles.len() as u32;
        assert_eq!(
            (&report.formats[..], report.imported),
            (&[case.format][..], imported),
            "{}",
            case.path
        );
        assert_eq!(report.found, imported + case.empty, "{}", case.path);
        let skipped: Vec<_> = report
            .skipped
            .iter()
            .map(|skipped| (skipped.reason, skipped.count))
            .collect();
        assert_eq!(
            skipped,
            (case.empty > 0)
                .then_some((SkipReason::Empty, case.empty))
                .into_iter()
                .collect::<Vec<_>>()
        );
        let all = harness.all().await;
        let titles: Vec<_> = all.iter().map(|conversation| conversation.title.as_str()).collect();
        assert_eq!(titles, case.titles, "{}", case.path);
        let first = &all[0];
        assert_eq!(outline(first), case.outline, "{}", case.path);
        assert_eq!(first.system_prompt.as_deref(), case.system, "{}", case.path);
        assert_eq!(
            report.messages as usize,
            all.iter().map(|all| all.messages.len()).sum::<usize>()
        );
        // Dates of the fixtures, or of the import.
        let dates = all
            .iter()
            .flat_map(|all| all.messages.iter().map(|message| message.created_at));
        assert!(dates.into_iter().all(|at| at > 1_700_000_000_000), "{}", case.path);
        let events = std::mem::take(&mut *harness.events.lock().expect("events"));
        let lists = events
            .iter()
            .filter(|event| matches!(event, Event::ConversationsChanged { .. }));
        assert_eq!(lists.count(), 1, "{}", case.path);

        let again = harness.import(fixture(case.path)).await.expect(case.path);
        assert_eq!(
            (again.imported, again.extended, again.known, again.messages),
            (0, 0, imported, 0)
        );
        assert_eq!(harness.all().await, all, "{}", case.path);
    }
}

#[tokio::test]
async fn times_models_and_ratings_are_imported() {
    let harness = Harness::new();
    harness
        .import(fixture("openwebui/chat-export-1735733000000.json"))
        .await
        .unwrap();
    let chat = harness.only().await;
    assert_eq!(
        (chat.created_at, chat.updated_at),
        (1_735_732_800_000, 1_735_732_830_000)
    );
    assert_eq!(chat.messages[2].created_at, 1_735_732_820_000);
    assert_eq!(chat.messages[2].model.as_deref(), Some("llama3.2:3b"));
    let thumbs: Vec<_> = chat
        .messages
        .iter()
        .map(|message| message.rating.as_ref().map(|rating| rating.thumb))
        .collect();
    assert_eq!(thumbs, [None, Some(Thumb::Down), Some(Thumb::Up)]);
}

/// A conversation of llama.cpp's UI with these messages: id, parent, role, text.
fn chat(id: &str, messages: &[(&str, Option<&str>, &str, &str)]) -> Value {
    let messages: Vec<Value> = messages
        .iter()
        .map(|(id, parent, role, content)| json!({"id": id, "parent": parent, "role": role, "content": content}))
        .collect();
    json!({"conv": {"id": id, "name": "A chat"}, "messages": messages})
}

#[tokio::test]
async fn a_later_export_adds_its_new_messages() {
    let harness = Harness::new();
    let first = [("a", None, "user", "one"), ("b", Some("a"), "assistant", "two")];
    harness.import_json(&chat("1", &first)).await;
    let later = [
        &first[..],
        &[("c", Some("b"), "user", "three"), ("d", Some("a"), "assistant", "two")],
    ]
    .concat();
    let report = harness
        .import_json(&json!([chat("1", &later), chat("2", &first)]))
        .await;
    assert_eq!((report.imported, report.extended, report.messages), (1, 1, 4));
    let extended = harness
        .all()
        .await
        .into_iter()
        .find(|all| all.messages.len() == 4)
        .expect("an extended one");
    assert_eq!(
        outline(&extended),
        ["- user: one", "0 assistant: two", "1 user*: three", "0 assistant: two"]
    );

    // The older export again, and one of a conversation in the bin.
    assert_eq!(harness.import_json(&chat("1", &first)).await.known, 1);
    harness.app.delete_conversation(extended.id).await.unwrap();
    assert_eq!(harness.import_json(&chat("1", &later)).await.known, 1);
    harness.app.restore_conversation(extended.id).await.unwrap();
    assert_eq!(harness.app.open_conversation(extended.id).await.unwrap(), extended);
}

#[tokio::test]
async fn broken_trees_are_repaired_without_losing_messages() {
    let harness = Harness::new();
    let messages = [
        ("a", Some("c"), "user", "in a cycle"),
        ("b", Some("a"), "assistant", "too"),
        ("c", Some("b"), "user", "and I"),
        ("d", Some("nowhere"), "user", "an orphan"),
        ("e", Some("e"), "user", "its own parent"),
        ("d", None, "user", "a repeated id"),
    ];
    let report = harness.import_json(&chat("1", &messages)).await;
    assert_eq!((report.imported, report.messages), (1, 6));
    let actual = harness.only().await;
    assert!(
        actual
            .messages
            .iter()
            .all(|message| message.parent.is_none_or(|parent| parent < message.id))
    );
    assert_eq!(
        actual
            .messages
            .iter()
            .filter(|message| message.parent.is_none())
            .count(),
        4
    );
}

#[tokio::test]
async fn one_broken_conversation_costs_no_other() {
    let harness = Harness::new();
    let good = chat("1", &[("a", None, "user", "one")]).to_string();
    let deep = format!(
        "{{\"conv\":{{}},\"messages\":{}{}}}",
        "[".repeat(9000),
        "]".repeat(9000)
    );
    let surrogate = r#"{"conv":{"id":"2"},"messages":[{"id":1,"role":"user","content":"\ud83d x \u0000"}]}"#;
    let empty = chat("3", &[]).to_string();
    let text = format!("[{good},{deep},{surrogate},{empty},{{\"x\":1}},7,{{\"conv\":nonsense}}, {good}");
    let report = harness.import_text("a.json", text).await.expect("an import");
    assert_eq!((report.imported, report.known, report.found), (2, 1, 9));
    let reasons: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| (skipped.reason, skipped.count))
        .collect();
    let expected = [
        (SkipReason::Malformed, 3),
        (SkipReason::Empty, 1),
        (SkipReason::UnknownFormat, 2),
    ];
    assert_eq!(reasons, expected);
    let texts: Vec<_> = harness.all().await.iter().map(|all| all.messages[0].text()).collect();
    assert!(texts.contains(&"\u{fffd} x \u{0}".to_owned()), "{texts:?}");
}

#[tokio::test]
async fn a_hundred_thousand_messages_are_imported() {
    let harness = Harness::new();
    const MESSAGES: usize = 100_000;
    let messages = (0..MESSAGES).map(|at| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        json!({"id": at, "parent": at.checked_sub(1), "role": role, "content": format!("message {at}")})
    });
    let value = json!({"conv": {"id": "long", "currNode": MESSAGES - 1}, "messages": messages.collect::<Vec<_>>()});
    assert_eq!(harness.import_json(&value).await.messages as usize, MESSAGES);
    assert_eq!(harness.import_json(&value).await.known, 1);
    let long = harness.only().await;
    assert_eq!(
        (long.messages.len(), long.leaf),
        (MESSAGES, long.messages.last().map(|message| message.id))
    );
}

fn archive(path: &Path, entries: &[(&str, &[u8])]) {
    let mut archive = ZipWriter::new(File::create(path).expect("a file"));
    for (name, bytes) in entries {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .expect("an entry");
        archive.write_all(bytes).expect("written");
    }
    archive.finish().expect("an archive");
}

#[tokio::test]
async fn archives_are_read_without_extracting_them() {
    let harness = Harness::new();
    let read = |name: &str| fs::read(fixture(name)).expect("a fixture");
    let chatgpt = harness.path("chatgpt.zip");
    let feedback = br#"[{"id":"x","conversation_id":"y","rating":"thumbs_up"}]"#;
    archive(
        &chatgpt,
        &[
            ("chat.html", b"<html>"),
            ("message_feedback.json", feedback),
            ("user.json", br#"{"id":"user-1","email":"a@example.com"}"#),
            ("../../outside/conversations.json", &read("chatgpt/conversations.json")),
            ("file-AbC123-bread.jpg", &[0xff; 100]),
        ],
    );
    let report = harness.import(&chatgpt).await.expect("an import");
    assert_eq!((report.imported, report.found), (1, 2));
    assert!(!harness.path("outside").exists() && !harness.folder.path().parent().unwrap().join("outside").exists());

    let jan = harness.path("jan.zip");
    archive(
        &jan,
        &[
            (
                "threads/jan_1735732800/messages.jsonl",
                &read("jan/threads/jan_1735732800/messages.jsonl"),
            ),
            (
                "threads/jan_1735732800/thread.json",
                &read("jan/threads/jan_1735732800/thread.json"),
            ),
        ],
    );
    harness.import(&jan).await.expect("an import");
    assert!(
        harness
            .all()
            .await
            .iter()
            .any(|all| all.title == "Landlord" && all.messages.len() == 2)
    );

    let whole = fs::read(&chatgpt).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"PK\x03\x04"] {
        let problem = harness.import_text("cut.zip", bytes).await.expect_err("a cut archive");
        assert!(problem.to_string().contains("is damaged"), "{problem}");
    }
}

#[tokio::test]
async fn what_is_no_export_is_refused_with_a_sentence() {
    let harness = Harness::new();
    for (name, bytes) in [
        ("a.txt", &b"hello"[..]),
        ("a.json", b""),
        ("a.json", b"[]"),
        ("a.json", b"{\"prompt\":\"x\",\"answer\":\"y\"}"),
        ("a.json", b"\xff\xfe[\0"),
        ("a.jsonl", b"{\"a\":1}\n{\"a\":2}\n"),
    ] {
        let problem = harness.import_text(name, bytes).await.expect_err(name);
        assert!(
            problem.code == ProblemCode::DataInvalid && problem.to_string().contains("found no conversations"),
            "{problem}"
        );
    }
    let missing = harness
        .import(harness.path("missing"))
        .await
        .expect_err("a missing file");
    assert!(missing.to_string().contains("cannot be read"), "{missing}");
    assert!(harness.all().await.is_empty());
}

/// Everything but what belongs to a store: ids.
fn portable(conversation: &Conversation) -> Value {
    let place = |id: i64| conversation.messages.iter().position(|message| message.id == id);
    let mut value = serde_json::to_value(conversation).unwrap();
    value["id"] = Value::Null;
    value["leaf"] = json!(conversation.leaf.and_then(place));
    for (at, message) in conversation.messages.iter().enumerate() {
        let message_value = &mut value["messages"][at];
        for (key, id) in [("parent", message.parent), ("comparison", message.comparison)] {
            message_value[key] = json!(id.and_then(place));
        }
        message_value["id"] = Value::Null;
        message_value["conversation"] = Value::Null;
    }
    value
}

#[tokio::test]
async fn an_export_as_json_is_imported_without_loss() {
    let harness = Harness::new();
    for case in CASES {
        harness.import(fixture(case.path)).await.expect(case.path);
    }
    let rated = &harness.all().await[0];
    let answer = rated
        .messages
        .iter()
        .find(|message| message.role == Role::Assistant)
        .expect("an answer")
        .id;
    harness
        .app
        .rate_answer(answer, None, Some("Better.".to_owned()))
        .await
        .unwrap();
    let settings = ConversationSettings {
        stop: Some(vec!["END".to_owned()]),
        max_tokens: Some(70),
        ..ConversationSettings::default()
    };
    harness
        .app
        .set_conversation_settings(rated.id, settings.clone())
        .await
        .unwrap();
    let (path, one) = (harness.path("all.json"), harness.path("one.json"));
    let all = harness.all().await;
    assert_eq!(all[0].settings, settings);
    let exported = harness
        .app
        .export_conversations(None, ChatFormat::Json, export_labels(), path.clone())
        .await
        .unwrap();
    assert_eq!(exported.conversations as usize, all.len());
    harness
        .app
        .export_conversations(Some(all[0].id), ChatFormat::Json, export_labels(), one.clone())
        .await
        .unwrap();

    let other = Harness::new();
    assert_eq!(other.import(&path).await.unwrap().imported as usize, all.len());
    let portable_all = |all: &[Conversation]| all.iter().map(portable).collect::<Vec<_>>();
    let mut expected = portable_all(&all);
    let mut actual = portable_all(&other.all().await);
    // The adapters and ties in the order of times are of each store.
    for list in [&mut expected, &mut actual] {
        list.sort_by_key(|conversation| conversation["title"].to_string());
    }
    assert_eq!(actual, expected);
    assert_eq!(other.import(&one).await.unwrap().known, 1);
    // An export does not come back into the store that it is of.
    assert_eq!(harness.import(&path).await.unwrap().known as usize, all.len());

    // The names of an earlier Hearth.
    let old = json!({
        "id": 1, "role": "assistant", "parts": [{"type": "text", "text": "Hi."}],
        "state": {"type": "cut", "reason": "contextFull"}, "leftOut": {"messages": 2, "tokens": 9},
        "own": {"model": "other", "preset": null},
    });
    let other = Harness::new();
    other
        .import_json(&json!({"hearthConversation": 1, "id": "hearth:1", "messages": [old]}))
        .await;
    let answer = other.only().await.messages.remove(0);
    let reason = TruncationReason::ContextFull;
    assert_eq!(answer.state, MessageState::Truncated { reason });
    assert_eq!(answer.dropped, Some(DroppedTurns { messages: 2, tokens: 9 }));
    assert_eq!(answer.overrides.expect("overrides").model.as_deref(), Some("other"));
}

#[tokio::test]
async fn an_export_of_another_store_names_no_files_to_read() {
    let harness = Harness::new();
    let message = json!({"id": 1, "parts": [
        {"type": "image", "name": "x.png", "mediaType": "image/png", "path": "/etc/passwd", "bytes": 1},
        {"type": "text", "text": "What is this?"},
    ], "role": "user", "future": true});
    harness
        .import_json(&json!({"hearthConversation": 1, "id": "hearth:1", "messages": [message]}))
        .await;
    assert_eq!(
        outline(&harness.only().await),
        ["- user*: [Image: x.png] | What is this?"]
    );
    let newer = harness
        .import_json(&json!({"hearthConversation": 99, "id": "hearth:2", "messages": []}))
        .await;
    assert_eq!(newer.skipped[0].reason, SkipReason::Malformed);
}

#[tokio::test]
async fn markdown_and_html_hold_the_selected_branch() {
    let harness = Harness::new();
    harness.import(fixture("chatgpt/conversations.json")).await.unwrap();
    let chat = harness.only().await;
    let (markdown, html) = (harness.path("a.md"), harness.path("a.html"));
    let labels = ExportLabels {
        language: "de".to_owned(),
        user: "Du".to_owned(),
        thought: "Nachgedacht".to_owned(),
        ..export_labels()
    };
    for (format, path) in [(ChatFormat::Markdown, &markdown), (ChatFormat::Html, &html)] {
        harness
            .app
            .export_conversations(Some(chat.id), format, labels.clone(), path.clone())
            .await
            .unwrap();
    }
    let markdown = fs::read_to_string(markdown).unwrap();
    for part in [
        "# Rye bread\n",
        "> Answer in grams.\n",
        "## Du\n",
        "## o3\n",
        "**400 g** of water.",
        "> Nachgedacht:",
    ] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    assert!(!markdown.contains("400 grams."));
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("<html lang=\"de\">") && html.contains("<h2>Du</h2>"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !html.contains("<script"));
    assert!(html.contains("default-src 'none'") && html.contains("**400 g** of water."));
    let folder = harness.path("missing/a.md");
    fs::write(harness.path("missing"), "a file").unwrap();
    let problem = harness
        .app
        .export_conversations(None, ChatFormat::Markdown, export_labels(), folder)
        .await
        .expect_err("no folder");
    assert!(problem.to_string().contains("could not be written"), "{problem}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_mutated_export_causes_a_bug(
        case in 0..CASES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..12),
    ) {
        let path = fixture(CASES[case].path);
        prop_assume!(path.is_file());
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte, cuts) in edits {
            let at = at.index(bytes.len().max(1));
            if cuts {
                // A piece is repeated elsewhere.
                let piece = bytes[at..bytes.len().min(at + usize::from(byte))].to_vec();
                let to = usize::from(byte) * 31 % (bytes.len() + 1);
                bytes.splice(to..to, piece);
            } else if let Some(old) = bytes.get_mut(at) {
                *old = b"{}[]\",:0x\\u"[usize::from(byte) % 11];
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let harness = Harness::new();
            if let Err(problem) = harness.import_text("a.json", &bytes).await {
                prop_assert!(problem.code != ProblemCode::Internal && problem.code != ProblemCode::Store, "{problem}");
            }
            for conversation in harness.all().await {
                prop_assert!(!conversation.messages.is_empty());
            }
            Ok(())
        })?;
    }
}
