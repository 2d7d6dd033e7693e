//! Events and replies in one order: what is told last is what the store has.

use crate::harness::Harness;
use hearth_app::wire::{Event, Folder, NewConversation};
use std::time::Duration;
use tokio::time::timeout;

/// Every event that arrives until there is none for a moment.
async fn all_events(harness: &mut Harness) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_millis(300), harness.events.recv()).await {
        events.push(event);
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_event_is_what_the_store_has() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let folder = harness.create_folder("0".into()).await.expect("a folder");
    let app = harness.app.clone();
    let changes = (0..200).map(|number| {
        let (app, folder) = (app.clone(), folder.clone());
        tokio::spawn(async move {
            let name = number.to_string();
            match number % 4 {
                0 => app.rename_conversation(id, name).await,
                1 => app.update_folder(Folder { name, ..folder }).await,
                2 => app.pin_conversation(id, number % 8 == 2).await,
                _ => app.save_prompt(None, format!("p{number}"), name).await.map(drop),
            }
        })
    });
    for change in changes.collect::<Vec<_>>() {
        change.await.expect("a task").expect("it is changed");
    }
    let events = all_events(&mut harness).await;
    let (mut conversation, mut folders, mut prompts) = (None, None, None);
    for event in events {
        match event {
            Event::ConversationChanged { conversation: one, .. } => conversation = Some(one),
            Event::FoldersChanged { folders: all } => folders = Some(all),
            Event::PromptsChanged { prompts: all } => prompts = Some(all),
            _ => {}
        }
    }
    let snapshot = harness.snapshot().await.expect("a snapshot");
    assert_eq!(conversation, snapshot.conversations.into_iter().next());
    assert_eq!(folders, Some(snapshot.folders));
    assert_eq!(prompts, Some(harness.saved_prompts().await.expect("prompts")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switching_a_branch_and_deleting_are_announced() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("say one").await;
    let id = answer.conversation;
    let other = harness.regenerate(answer.id, None).await.expect("an answer").answer.id;
    harness.ended(other).await;
    harness.select_leaf(id, answer.id).await.expect("selected");
    let leaf = harness
        .next(|event| match event {
            Event::ConversationChanged { leaf, .. } if leaf == Some(answer.id) => Some(leaf),
            _ => None,
        })
        .await;
    assert_eq!(leaf, Some(answer.id));
    harness.delete_conversation(id).await.expect("deleted");
    let removed = harness
        .next(|event| match event {
            Event::ConversationRemoved { id } => Some(id),
            _ => None,
        })
        .await;
    assert_eq!(removed, id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_revision_grows_with_events() {
    let mut harness = Harness::tiny();
    let before = harness.revision().await.expect("a revision");
    let sent = harness.send(None, None, "say one".into(), Vec::new(), NewConversation::default());
    harness.ended(sent.await.expect("a message").answer.id).await;
    let after = harness.revision().await.expect("a revision");
    assert!(after > before, "{before}, {after}");
}
