//! Drafts and queued messages in the store, and what a reloaded window is told of answers.

use crate::harness::Harness;
use hearth_app::wire::{
    AdapterChoice, Answering, Event, MAX_FILES, NewConversation, ProblemCode, QueuedMessage, TextFile, Unsent,
    UnsentChange, UnsentCount, UnsentDraft,
};
use hearth_protocol::{MAX_UNSENT_BYTES, TextChange, UnsentTokens};

fn file(name: &str) -> TextFile {
    TextFile {
        name: name.to_owned(),
        text: format!("# {name}"),
    }
}

fn queued(text: &str) -> QueuedMessage {
    QueuedMessage {
        text: text.to_owned(),
        files: vec![file("queued.txt")],
    }
}

fn draft(text: &str) -> UnsentChange {
    UnsentChange {
        text: Some(text.to_owned()),
        ..UnsentChange::default()
    }
}

async fn unsent(harness: &Harness, conversation: Option<i64>) -> Unsent {
    match conversation {
        Some(id) => harness.conversation(id).await.unsent,
        None => harness.snapshot().await.expect("a snapshot").unsent,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_files_and_queued_messages_outlive_a_restart_each_in_its_conversation() {
    let mut harness = Harness::tiny();
    let one = harness.answer("say one").await.conversation;
    let other = harness.answer("say two").await.conversation;
    let all = UnsentChange {
        text: Some("Half a thought".into()),
        files: Some(vec![file("a.txt")]),
        queue: Some(vec![queued("Later"), queued("")]),
    };
    harness.save_unsent(Some(one), all).await.expect("it is saved");
    harness
        .save_unsent(None, draft("Not begun"))
        .await
        .expect("it is saved");
    // A change leaves the other parts as they are.
    harness
        .save_unsent(Some(one), draft("Typed on"))
        .await
        .expect("it is saved");
    harness.save_unsent(None, draft("Begun")).await.expect("it is saved");
    let harness = harness.again().await;
    let kept = Unsent {
        text: "Typed on".into(),
        files: vec![file("a.txt")],
        queue: vec![queued("Later"), queued("")],
    };
    assert_eq!(unsent(&harness, Some(one)).await, kept);
    assert_eq!(unsent(&harness, Some(other)).await, Unsent::default());
    assert_eq!(unsent(&harness, None).await.text, "Begun");
    let sent = UnsentChange {
        text: Some(String::new()),
        files: Some(Vec::new()),
        queue: Some(Vec::new()),
    };
    harness.save_unsent(Some(one), sent).await.expect("it is saved");
    assert_eq!(unsent(&harness, Some(one)).await, Unsent::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_sent_is_deleted_and_restored_with_its_conversation() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    harness.delete_conversation(id).await.expect("it is deleted");
    // What was typed last may be saved after the deletion.
    harness
        .save_unsent(Some(id), draft("Typed"))
        .await
        .expect("it is saved");
    harness.restore_conversation(id).await.expect("it is restored");
    assert_eq!(unsent(&harness, Some(id)).await.text, "Typed");
    harness.delete_conversation(id).await.expect("it is deleted");
    harness.purge_conversations(vec![id]).await.expect("it is purged");
    let gone = harness
        .save_unsent(Some(id), draft("Typed"))
        .await
        .expect_err("refused");
    assert_eq!(gone.code, ProblemCode::NotFound);
    let left: i64 = harness
        .store()
        .read(|t| t.query_row("SELECT count(*) FROM unsent", [], |row| row.get(0)))
        .expect("a count");
    assert_eq!(left, 0, "rows of purged conversations");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_much_unsent_is_refused_and_changes_nothing() {
    let harness = Harness::tiny();
    harness.save_unsent(None, draft("Kept")).await.expect("it is saved");
    let files = UnsentChange {
        files: Some(vec![file("a"); MAX_FILES + 1]),
        ..draft("Lost")
    };
    let queue = UnsentChange {
        queue: Some(vec![queued("x"); 101]),
        ..draft("Lost")
    };
    let in_queue = UnsentChange {
        queue: Some(vec![QueuedMessage {
            text: String::new(),
            files: vec![file("a"); MAX_FILES + 1],
        }]),
        ..draft("Lost")
    };
    for change in [files, queue, in_queue] {
        let problem = harness.save_unsent(None, change).await.expect_err("refused");
        assert_eq!(problem.code, ProblemCode::BadRequest, "{problem:?}");
    }
    assert_eq!(unsent(&harness, None).await.text, "Kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reloaded_window_is_told_which_answers_are_being_generated() {
    let mut harness = Harness::tiny();
    assert_eq!(harness.snapshot().await.expect("a snapshot").answering, []);
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let answering = Answering {
        conversation: sent.conversation.id,
        message: sent.answer.id,
    };
    assert_eq!(harness.snapshot().await.expect("a snapshot").answering, [answering]);
    harness.stop(sent.conversation.id).await.expect("it stops");
    harness.ended(sent.answer.id).await;
    assert_eq!(harness.snapshot().await.expect("a snapshot").answering, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_conversation_has_its_adapters_from_the_first_message_on() {
    let mut harness = Harness::tiny();
    let adapters = vec![AdapterChoice { adapter: 7, scale: 0.5 }];
    let fresh = NewConversation {
        adapters: adapters.clone(),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "say one".into(), Vec::new(), fresh).await;
    let sent = sent.expect("a message");
    let used: Vec<i64> = sent.answer.adapters.iter().map(|used| used.adapter).collect();
    harness.ended(sent.answer.id).await;
    assert_eq!(used, [7]);
    assert_eq!(harness.conversation(sent.conversation.id).await.adapters, adapters);
}

/// A draft in a conversation, as an appended text.
fn appended(conversation: Option<i64>, leaf: Option<i64>, base: Option<u32>, start: u32, text: &str) -> UnsentDraft {
    UnsentDraft {
        conversation,
        leaf,
        text: TextChange {
            base,
            revision: base.unwrap_or(0) + 1,
            start,
            removed: 0,
            inserted: text.to_owned(),
        },
        files: None,
        fresh: NewConversation::default(),
    }
}

fn counted(conversation: u32, total: u32) -> UnsentCount {
    let tokens = UnsentTokens { conversation, total };
    UnsentCount::Counted { tokens }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_counted_by_changes_if_the_model_is_loaded() {
    let mut harness = Harness::tiny();
    let count = |draft| harness.app.count_unsent(draft);
    let first = count(appended(None, None, None, 0, "Hi")).await;
    assert_eq!(
        first.expect("an outcome"),
        UnsentCount::Unavailable,
        "no model is loaded"
    );
    // After an answer the model is loaded.
    harness.answer("say one").await;
    let with_prompt = UnsentDraft {
        fresh: NewConversation {
            system_prompt: Some("Be brief.".into()),
            ..NewConversation::default()
        },
        files: Some(vec![TextFile {
            name: "a.txt".into(),
            text: "abc".into(),
        }]),
        ..appended(None, None, None, 0, "Hi")
    };
    let count = |draft| harness.app.count_unsent(draft);
    assert_eq!(count(with_prompt).await.expect("an outcome"), counted(9, 14));
    // Another conversation before the same text and file.
    let next = appended(None, None, Some(1), 2, "!!");
    assert_eq!(count(next.clone()).await.expect("an outcome"), counted(0, 7));
    assert_eq!(
        count(next).await.expect("an outcome"),
        UnsentCount::Unknown,
        "an older text"
    );

    let said = harness.answer("say one two").await;
    let draft = appended(Some(said.conversation), Some(said.id), None, 0, "Hi");
    let count = harness.count_unsent(draft).await.expect("an outcome");
    assert_eq!(count, counted(18, 20), "the message and its answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_beyond_the_limit_is_not_counted() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let count = |draft| harness.app.count_unsent(draft);
    assert_eq!(
        count(appended(None, None, None, 0, "Hi")).await.expect("an outcome"),
        counted(0, 2)
    );
    let long = "x".repeat(MAX_UNSENT_BYTES);
    let long = appended(None, None, Some(1), 2, &(long + "x"));
    assert_eq!(count(long).await.expect("an outcome"), UnsentCount::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_context_in_use_is_known_while_an_answer_grows() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "say one two").await;
    let mut used = Vec::new();
    let end = harness.next(|event| match event {
        Event::MessageDelta { context_used, .. } => {
            used.push(context_used);
            None
        }
        Event::ContextUsed { used, .. } => Some(used),
        _ => None,
    });
    let end = end.await;
    used.push(end);
    assert_eq!(used, [11, 12, 12], "{sent:?}");
}
