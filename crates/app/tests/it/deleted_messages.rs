//! Tests the deletion of messages with everything below them, and its undoing.

use crate::{
    data_harness::export_labels,
    harness::{Harness, ids, request_of, runs::train_adapter},
};
use hearth_app::wire::{
    AdapterChoice, ChatFormat, ChatReason, ComparedAnswer, Conversation, Message, MessageState, NewConversation,
    Problem, ProblemCode, Reason, SearchFilter, Sent, Thumb,
};
use hearth_protocol::Prompt;
use std::{fs, path::PathBuf};

/// Name of a file of the prompt cache.
const SAVED_CELLS: &str = "00112233445566778899aabbccddeeff.kv";

/// Sends a message and waits for the answer. Returns the user message and the answer.
async fn ask(harness: &mut Harness, conversation: Option<i64>, text: &str) -> (Message, Message) {
    let sent = harness.say(conversation, text).await;
    let answer = harness.ended(sent.answer.id).await;
    (sent.user.expect("a user message"), answer)
}

/// Another answer to the same message.
async fn again(harness: &mut Harness, answer: &Message) -> Message {
    let sent = harness.regenerate(answer.id, None).await.expect("another answer");
    harness.ended(sent.answer.id).await
}

fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(Message::text).collect()
}

/// The reason of a problem of a conversation.
fn reason<T: std::fmt::Debug>(result: Result<T, Problem>) -> ChatReason {
    match *result.expect_err("a refusal").reason {
        Reason::Chat(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// Ids of the messages that a search finds.
async fn hits(harness: &Harness, query: &str) -> Vec<i64> {
    let hits = harness.search(query.into(), SearchFilter::default()).await.unwrap();
    hits.iter().filter_map(|hit| hit.message).collect()
}

/// Saves cells of a conversation. Returns their folder.
fn save_cells(harness: &Harness, conversation: i64) -> PathBuf {
    let folder = harness.folder.path().join(format!("data/prompt-cache/{conversation}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(SAVED_CELLS), "cells").unwrap();
    folder
}

async fn send_after(harness: &Harness, conversation: i64, parent: i64) -> Result<Sent, Problem> {
    let fresh = NewConversation::default();
    harness
        .send(Some(conversation), Some(parent), "say more".into(), Vec::new(), fresh)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_goes_with_everything_below_it_and_undo_restores_all() {
    let mut harness = Harness::tiny();
    let (question, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (_, second) = ask(&mut harness, Some(id), "say two").await;
    let third = again(&mut harness, &second).await;
    harness.select_leaf(id, second.id).await.unwrap();
    let before = harness.conversation(id).await;
    assert_eq!((before.messages.len(), before.leaf), (5, Some(second.id)));

    let deleted = harness.delete_message(first.id).await.unwrap();
    assert_eq!(deleted.count, 4);
    assert_eq!(texts(&deleted.conversation), ["say one"]);
    assert_eq!(deleted.conversation.leaf, Some(question.id));
    assert_eq!(harness.conversation(id).await, deleted.conversation);
    assert_eq!(
        reason(harness.delete_message(first.id).await),
        ChatReason::MessageDeleted
    );

    let restored = harness.restore_messages(first.id).await.unwrap();
    assert_eq!(restored.messages, before.messages);
    assert_eq!((restored.leaf, &restored.model), (before.leaf, &before.model));
    assert_eq!(reason(harness.restore_messages(first.id).await), ChatReason::NoMessage);
    assert_eq!(hits(&harness, "two").await.len(), 3, "each once");
    assert_eq!(restored.messages[4], third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_restores_one_deletion_and_only_below_what_exists() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (question, second) = ask(&mut harness, Some(id), "say two").await;
    assert_eq!(harness.delete_message(second.id).await.unwrap().count, 1);
    assert_eq!(harness.delete_message(first.id).await.unwrap().count, 2);
    assert_eq!(
        reason(harness.restore_messages(second.id).await),
        ChatReason::ParentDeleted
    );
    let restored = harness.restore_messages(first.id).await.unwrap();
    assert_eq!(texts(&restored), ["say one", "one", "say two"]);
    assert_eq!(restored.leaf, Some(question.id));
    let restored = harness.restore_messages(second.id).await.unwrap();
    assert_eq!(texts(&restored), ["say one", "one", "say two", "two"]);
    assert_eq!(restored.leaf, Some(second.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_are_listed_until_they_are_restored() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let long = format!("say {}", "word ".repeat(40));
    let (question, second) = ask(&mut harness, Some(id), &long).await;
    harness.delete_message(second.id).await.unwrap();
    harness.delete_message(question.id).await.unwrap();
    let listed = harness.message_deletions().await.unwrap();
    assert_eq!(
        listed.iter().map(|row| row.id).collect::<Vec<_>>(),
        [question.id, second.id]
    );
    let newest = &listed[0];
    assert!(!newest.title.is_empty());
    assert_eq!((newest.conversation, newest.count, newest.days_left), (id, 1, 30));
    assert!(newest.first_words.starts_with("say word") && newest.first_words.chars().count() <= 80);

    harness.delete_conversation(id).await.unwrap();
    assert_eq!(harness.message_deletions().await.unwrap(), []);
    harness.restore_conversation(id).await.unwrap();
    harness.restore_messages(question.id).await.unwrap();
    let listed = harness.message_deletions().await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [second.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nearest_version_with_its_newest_leaf_is_selected() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (_, below) = ask(&mut harness, Some(id), "say two").await;
    let second = again(&mut harness, &first).await;
    let third = again(&mut harness, &first).await;
    harness.select_leaf(id, second.id).await.unwrap();
    let leaf_without = async |message: i64| harness.delete_message(message).await.unwrap().conversation.leaf;
    assert_eq!(leaf_without(second.id).await, Some(below.id), "the older version");
    assert_eq!(leaf_without(first.id).await, Some(third.id), "the newer version");
    harness.restore_messages(first.id).await.unwrap();
    // A branch that is not shown.
    assert_eq!(
        leaf_without(third.id).await,
        Some(below.id),
        "the selected branch stays"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_first_message_a_conversation_is_empty_and_goes_on() {
    let mut harness = Harness::tiny();
    let (question, answer) = ask(&mut harness, None, "say one").await;
    let id = answer.conversation;
    let deleted = harness.delete_message(question.id).await.unwrap();
    assert_eq!((deleted.count, deleted.conversation.leaf), (2, None));
    assert!(deleted.conversation.messages.is_empty());
    let (user, answer) = ask(&mut harness, Some(id), "show").await;
    assert_eq!(user.parent, None);
    let Prompt::Chat(turns) = request_of(&answer).prompt else {
        panic!("no chat")
    };
    assert_eq!(turns.iter().map(|turn| turn.text()).collect::<Vec<_>>(), ["show"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_messages_are_in_no_search_rating_or_export() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say puffin").await;
    let id = first.conversation;
    let (question, second) = ask(&mut harness, Some(id), "say albatross").await;
    harness.rate_answer(second.id, Some(Thumb::Up), None).await.unwrap();
    harness
        .rate_answer(first.id, None, Some("a puffin".into()))
        .await
        .unwrap();
    assert_eq!(harness.rated_examples().await.unwrap(), 2);
    harness.delete_message(question.id).await.unwrap();

    assert!(hits(&harness, "albatross").await.is_empty());
    // Without words, for languages without spaces.
    assert!(hits(&harness, "batros").await.is_empty());
    assert_eq!(harness.rated_examples().await.unwrap(), 1);
    for format in [ChatFormat::Json, ChatFormat::Markdown, ChatFormat::Html] {
        let path = harness.folder.path().join("export");
        let export = harness.export_conversations(Some(id), format, export_labels(), path.clone());
        export.await.unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains("puffin") && !text.contains("albatross"), "{format:?}");
    }
    harness.restore_messages(question.id).await.unwrap();
    assert_eq!(hits(&harness, "albatross").await.len(), 2);
    assert_eq!(harness.rated_examples().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_progress_is_stopped_before_it_is_deleted() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let question = sent.user.unwrap();
    let deleted = harness.delete_message(question.id).await.unwrap();
    assert_eq!(deleted.count, 2);
    assert!(harness.snapshot().await.unwrap().answering.is_empty());
    // Nothing writes it again.
    let harness = harness.again().await;
    let id = sent.conversation.id;
    assert!(harness.conversation(id).await.messages.is_empty());
    let restored = harness.restore_messages(question.id).await.unwrap();
    let answer = &restored.messages[1];
    assert_eq!(answer.state, MessageState::Stopped);
    assert!(answer.text().starts_with("word "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_elsewhere_in_the_tree_goes_on() {
    let mut harness = Harness::tiny();
    let (question, first) = ask(&mut harness, None, "say one").await;
    let edited = harness.edit(question.id, "slow".into()).await.unwrap();
    harness.streaming(edited.answer.id).await;
    harness.delete_message(first.id).await.unwrap();
    assert_eq!(harness.snapshot().await.unwrap().answering.len(), 1);
    harness.stop(first.conversation).await.unwrap();
    assert_eq!(harness.ended(edited.answer.id).await.state, MessageState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_follows_a_deleted_message() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (question, second) = ask(&mut harness, Some(id), "say two").await;
    harness.delete_message(first.id).await.unwrap();
    let deleted = ChatReason::MessageDeleted;
    assert_eq!(reason(send_after(&harness, id, second.id).await), deleted);
    assert_eq!(reason(harness.regenerate(second.id, None).await), deleted);
    assert_eq!(reason(harness.edit(question.id, "say three".into()).await), deleted);
    assert_eq!(reason(harness.edit_answer(second.id, "x".into(), false).await), deleted);
    assert_eq!(reason(harness.continue_answer(second.id).await), deleted);
    assert_eq!(
        harness
            .rate_answer(second.id, Some(Thumb::Up), None)
            .await
            .unwrap_err()
            .code,
        ProblemCode::BadRequest
    );
    assert_eq!(harness.conversation(id).await.messages.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_has_the_time_and_model_of_the_messages_that_are_left() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (question, second) = ask(&mut harness, Some(id), "say two").await;
    let deleted = harness.delete_message(question.id).await.unwrap().conversation;
    assert_eq!(deleted.updated_at, first.created_at);
    let restored = harness.restore_messages(question.id).await.unwrap();
    assert_eq!(restored.updated_at, second.created_at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_messages_are_purged_with_the_prompt_cache() {
    let mut harness = Harness::tiny();
    let (question, answer) = ask(&mut harness, None, "say one").await;
    let id = answer.conversation;
    harness.delete_message(answer.id).await.unwrap();
    let cells = save_cells(&harness, id);
    let harness = harness.again().await;
    assert!(cells.exists());
    let days = |days: i64| {
        format!(
            "UPDATE deleted_message SET deleted_at = deleted_at - {}",
            days * 86_400_000
        )
    };
    harness.store().write(|t| t.execute(&days(29), [])).unwrap();
    let harness = harness.again().await;
    assert!(cells.exists());
    harness.store().write(|t| t.execute(&days(1), [])).unwrap();
    let harness = harness.again().await;
    assert!(!cells.exists());
    assert_eq!(reason(harness.restore_messages(answer.id).await), ChatReason::NoMessage);
    assert_eq!(harness.conversation(id).await.leaf, Some(question.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_messages_are_gone_with_the_saved_cells_and_no_others() {
    let mut harness = Harness::tiny();
    let (question, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (_, second) = ask(&mut harness, Some(id), "say two").await;
    harness.delete_message(second.id).await.unwrap();
    harness.delete_message(first.id).await.unwrap();
    let cells = save_cells(&harness, id);
    harness
        .purge_messages(vec![first.id, question.id, 12345])
        .await
        .unwrap();
    assert!(!cells.exists());
    let listed = harness.message_deletions().await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [second.id]);
    assert_eq!(reason(harness.restore_messages(first.id).await), ChatReason::NoMessage);
    assert_eq!(texts(&harness.conversation(id).await), ["say one"], "it is not deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_brings_no_deleted_message_back() {
    let mut harness = Harness::tiny();
    let (_, first) = ask(&mut harness, None, "say one").await;
    let id = first.conversation;
    let (question, second) = ask(&mut harness, Some(id), "say two").await;
    let export = async |harness: &Harness, name: &str| {
        let path = harness.folder.path().join(name);
        let export = harness.export_conversations(Some(id), ChatFormat::Json, export_labels(), path.clone());
        export.await.unwrap();
        path
    };
    let whole = export(&harness, "whole.json").await;
    // Deleted with its answer; the answer is then in the export only.
    harness.delete_message(second.id).await.unwrap();
    harness.delete_message(question.id).await.unwrap();
    let report = harness.import_conversations(whole).await.unwrap();
    assert_eq!((report.imported, report.extended, report.known), (0, 0, 1));
    assert_eq!(texts(&harness.conversation(id).await), ["say one", "one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_answer_leaves_its_comparison_and_joins_it_again() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let adapters = vec![AdapterChoice {
        adapter: adapter.id,
        scale: 1.0,
    }];
    let tuned = ComparedAnswer {
        adapters,
        ..ComparedAnswer::default()
    };
    let answers = vec![ComparedAnswer::default(), tuned];
    let fresh = NewConversation::default();
    let compared = harness
        .compare(None, None, "say one".into(), Vec::new(), answers, fresh)
        .await
        .unwrap();
    let [base, tuned] = harness.all_ended(ids(&compared)).await;
    harness.vote_answer(tuned.id, true).await.unwrap();
    let votes = async |harness: &Harness| {
        let adapter = harness.adapters().await.unwrap().remove(0);
        (adapter.votes.base, adapter.votes.tuned)
    };
    let ring = |conversation: &Conversation| -> Vec<Option<i64>> {
        conversation.messages[1..]
            .iter()
            .map(|answer| answer.comparison)
            .collect()
    };
    let linked = [Some(tuned.id), Some(base.id)];
    assert_eq!(votes(&harness).await, (0, 1));

    // The loser, then the winner; they come back in any order.
    let alone = harness.delete_message(base.id).await.unwrap().conversation;
    assert_eq!((ring(&alone), votes(&harness).await), (vec![None], (0, 0)));
    harness.delete_message(tuned.id).await.unwrap();
    for order in [[base.id, tuned.id], [tuned.id, base.id]] {
        harness.restore_messages(order[0]).await.unwrap();
        assert_eq!(votes(&harness).await, (0, 0));
        let restored = harness.restore_messages(order[1]).await.unwrap();
        assert_eq!((ring(&restored), votes(&harness).await), (linked.to_vec(), (0, 1)));
        harness.delete_message(base.id).await.unwrap();
        harness.delete_message(tuned.id).await.unwrap();
    }
    // With their question they stay linked.
    harness.restore_messages(tuned.id).await.unwrap();
    harness.restore_messages(base.id).await.unwrap();
    harness.delete_message(compared.user.id).await.unwrap();
    assert_eq!(votes(&harness).await, (0, 0));
    let restored = harness.restore_messages(compared.user.id).await.unwrap();
    assert_eq!((ring(&restored), votes(&harness).await), (linked.to_vec(), (0, 1)));
}
