//! Which imported conversations count as one.

use crate::data_harness::Harness;
use hearth_app::wire::Conversation;
use serde_json::{Value, json};

/// A conversation of an API with this id.
fn numbered(id: Value, texts: &[&str]) -> Value {
    let roles = ["user", "assistant"].iter().cycle();
    let messages = texts
        .iter()
        .zip(roles)
        .map(|(text, role)| json!({"role": role, "content": text}));
    json!({"id": id, "messages": messages.collect::<Vec<_>>()})
}

fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(|message| message.text()).collect()
}

#[tokio::test]
async fn conversations_with_equal_ids_are_not_merged() {
    let harness = Harness::new();
    let one = numbered(json!("1"), &["one", "two"]);
    let other = numbered(json!("1"), &["three", "four"]);
    let longer = numbered(json!("1"), &["one", "two", "five"]);
    assert_eq!(harness.import_json(&one).await.imported, 1);
    assert_eq!(
        harness.import_json(&other).await.imported,
        1,
        "another one of the same id"
    );
    assert_eq!(harness.import_json(&one).await.known, 1);
    assert_eq!(harness.import_json(&other).await.known, 1);
    // A later export of the first.
    let report = harness.import_json(&longer).await;
    assert_eq!((report.imported, report.extended, report.messages), (0, 1, 1));
    let mut all: Vec<_> = harness.all().await.iter().map(texts).collect();
    all.sort();
    assert_eq!(all, [vec!["one", "two", "five"], vec!["three", "four"]]);
    // In one file.
    let both = json!([numbered(json!(2), &["a"]), numbered(json!(2), &["b"])]);
    assert_eq!(harness.import_json(&both).await.imported, 2);
    assert_eq!(harness.import_json(&both).await.known, 2);
}

#[tokio::test]
async fn a_uuid_identifies_a_conversation_whatever_its_first_message() {
    let harness = Harness::new();
    let id = json!("6f9b1a3c-0d5e-4c6f-8a7b-112233445566");
    assert_eq!(
        harness
            .import_json(&numbered(id.clone(), &["one", "two"]))
            .await
            .imported,
        1
    );
    let report = harness.import_json(&numbered(id, &["edited", "two"])).await;
    assert_eq!((report.imported, report.extended), (0, 1));
}
