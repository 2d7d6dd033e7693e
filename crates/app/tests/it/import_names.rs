//! Names of imported conversations, models and files: short, on one line, in the store and in
//! lists.

use crate::data_harness::Harness;
use hearth_app::store::conversation;
use serde_json::{Value, json};

/// Most characters of a name.
const MAX_NAME: usize = 200;

/// A name that is too long and has line feeds, a direction override and an escape sequence.
fn odd_name() -> String {
    format!("a\n\u{202e}\u{200b}\u{1b}[2J{}", "b".repeat(100_000))
}

/// Asserts that a name is short and on one line, without characters that act or hide.
#[track_caller]
fn assert_name(name: &str) {
    let odd = |c: char| c.is_control() || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(
        !name.is_empty() && name.chars().count() <= MAX_NAME && !name.contains(odd),
        "{} characters: {:?}",
        name.chars().count(),
        name.chars().take(20).collect::<String>()
    );
}

#[tokio::test]
async fn imported_names_are_short_and_on_one_line() {
    let harness = Harness::new();
    let name = odd_name();
    let extra = json!([{"type": "TEXT", "name": name, "content": "a file"}]);
    let of_llama = json!({"conv": {"id": "1", "name": name}, "messages": [
        {"id": "1", "role": "user", "content": "hi", "extra": extra},
        {"id": "2", "parent": "1", "role": "assistant", "content": "hi", "model": name},
    ]});
    let call = json!({"id": name, "function": {"name": name, "arguments": "{}"}});
    let of_openai = json!({"title": name, "model": name, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hi", "tool_calls": [call]},
        {"role": "tool", "name": name, "tool_call_id": name, "content": "hi"},
    ]});
    let whole = json!({"id": 1, "role": "assistant", "model": name, "parts": [{"type": "text", "text": "hi"}]});
    let of_hearth =
        json!({"hearthConversation": 1, "id": "hearth:1", "model": name, "title": name, "messages": [whole]});
    for export in [of_llama, of_openai, of_hearth] {
        assert_eq!(harness.import_json(&export).await.imported, 1);
    }
    let empty = harness
        .import_json(&json!({"conv": {"id": "2", "name": name}, "messages": []}))
        .await;
    assert_name(empty.skipped[0].example.as_deref().expect("a title"));
    let listed = harness.app.snapshot().await.expect("a snapshot").conversations;
    for row in &listed {
        assert_name(&row.title);
        assert_name(row.model.as_deref().expect("a model"));
    }
    for conversation in harness.all().await {
        assert_short_texts(&serde_json::to_value(&conversation).expect("plain data"));
    }
    let rows = harness.app.store().read(|t| conversation::list(t)).expect("rows");
    for row in rows {
        assert_name(row.model.as_deref().expect("a model"));
    }
}

#[tokio::test]
async fn a_message_with_a_long_name_of_an_earlier_version_is_known() {
    let harness = Harness::new();
    let name = odd_name();
    let extra = json!([{"type": "TEXT", "name": name, "content": "a file"}]);
    let export = json!({"conv": {"id": "1", "name": "a chat"}, "messages": [
        {"id": "1", "role": "user", "content": "hi", "extra": extra},
    ]});
    assert_eq!(harness.import_json(&export).await.imported, 1);
    // Early versions saved names as they were.
    let lengthen = |t: &rusqlite::Transaction<'_>| {
        let parts: String = t.query_row("SELECT parts FROM message", [], |row| row.get(0))?;
        let mut parts: Value = serde_json::from_str(&parts).expect("parts");
        for part in parts.as_array_mut().expect("a list") {
            if part["type"] == "file" {
                part["name"] = json!(name);
            }
        }
        t.execute("UPDATE message SET parts = ?1 WHERE parts <> ?1", [parts.to_string()])
    };
    assert_eq!(harness.app.store().write(lengthen).expect("a row"), 1);
    let again = harness.import_json(&export).await;
    assert_eq!((again.known, again.extended), (1, 0), "{again:?}");
}

/// Asserts that no text of a value is longer than a name.
fn assert_short_texts(value: &Value) {
    match value {
        Value::String(text) => assert!(text.chars().count() <= MAX_NAME, "{} characters", text.len()),
        Value::Array(items) => items.iter().for_each(assert_short_texts),
        Value::Object(entries) => entries.values().for_each(assert_short_texts),
        _ => {}
    }
}

#[tokio::test]
async fn long_names_of_a_store_are_cut_in_lists() {
    let harness = Harness::new();
    let name = odd_name();
    let row = conversation::Imported {
        title: &name,
        created_at: 1,
        updated_at: 1,
        model: Some(&name),
        system_prompt: None,
        settings: None,
        origin: "other:1",
    };
    let id = harness
        .app
        .store()
        .write(|t| conversation::import(t, &row))
        .expect("a row");
    let sql = "INSERT INTO message (conversation, parent, role, content, state, created_at, model, parts)
               VALUES (?1, NULL, 'assistant', 'hi', 'complete', 1, ?2, '[{\"type\":\"text\",\"text\":\"hi\"}]')";
    let added = harness.app.store().write(|t| t.execute(sql, (id, &name)));
    added.expect("a message");
    let listed = harness.app.snapshot().await.expect("a snapshot").conversations;
    assert_name(&listed[0].title);
    assert_name(listed[0].model.as_deref().expect("a model"));
    let opened = harness.app.open_conversation(id).await.expect("a conversation");
    assert_short_texts(&serde_json::to_value(&opened).expect("plain data"));
    harness.app.delete_conversation(id).await.expect("deleted");
    assert_name(&harness.app.deleted_conversations().await.expect("a list")[0].title);
}
