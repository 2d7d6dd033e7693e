//! Conversations: branches, system prompts, restarts, names, searches and deletion.

use crate::harness::Harness;
use hearth_app::{
    library::catalog,
    wire::{
        Conversation, Event, Message, MessageState, ModelState, NewConversation, Problem, ProblemCode, SearchFilter,
    },
};
use hearth_protocol::{GenerateRequest, Prompt};

/// The texts of the messages.
fn contents(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(Message::text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_outlives_the_app() {
    let mut harness = Harness::tiny();
    let done = harness.answer("say one").await;
    let cut_off = harness.say(None, "slow").await;
    harness.streaming(cut_off.answer.id).await;
    let harness = harness.again().await;
    let snapshot = harness.snapshot().await.unwrap();
    assert_eq!(snapshot.conversations.len(), 2);
    assert_eq!(snapshot.model_state, ModelState::None, "models are loaded on demand");
    assert_eq!(harness.conversation(done.conversation).await.messages[1], done);
    let stopped = &harness.conversation(cut_off.conversation.id).await.messages[1];
    assert_eq!(stopped.state, MessageState::Stopped);
    assert!(stopped.text().starts_with("word "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regenerate_edit_and_branches() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "say one").await;
    let first = harness.ended(sent.answer.id).await;
    let again = harness.regenerate(first.id, None).await.unwrap();
    assert!(again.user.is_none() && again.answer.parent == first.parent);
    let second = harness.ended(again.answer.id).await;
    let user = sent.user.unwrap();
    let edited = harness.edit(user.id, "say other".into()).await.unwrap();
    let third = harness.ended(edited.answer.id).await;
    assert_eq!(
        (third.text().as_str(), edited.user.unwrap().parent),
        ("other", user.parent)
    );

    let id = sent.conversation.id;
    assert_eq!(harness.conversation(id).await.leaf, Some(third.id));
    assert_eq!(harness.select_leaf(id, first.id).await.unwrap().leaf, Some(first.id));
    assert_eq!(
        harness.select_leaf(id, user.id).await.unwrap().leaf,
        Some(second.id),
        "the newest leaf"
    );
    let switched = harness.next(|event| match event {
        Event::ConversationChanged { leaf, .. } if leaf == Some(first.id) => Some(()),
        _ => None,
    });
    switched.await;
    let follow = harness.say(Some(id), "say more").await;
    assert_eq!(
        follow.user.unwrap().parent,
        Some(second.id),
        "at the end of the selected branch"
    );
    harness.ended(follow.answer.id).await;
    assert_eq!(
        harness.edit(first.id, "x".into()).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_sees_the_branch_and_its_system_prompt() {
    let shown = |answer: &Message| -> (Vec<String>, GenerateRequest) {
        let request: GenerateRequest = serde_json::from_str(&answer.text()).expect("the request, shown");
        let Prompt::Chat(turns) = &request.prompt else {
            panic!("no chat")
        };
        (turns.iter().map(|turn| turn.text()).collect(), request)
    };
    // A file name of the catalog has the catalog's defaults.
    let mut harness = Harness::new(&["SmolLM2-135M-Instruct.Q4_1.gguf"]);
    let sent = harness.say(None, "say one").await;
    harness.ended(sent.answer.id).await;
    let id = sent.conversation.id;
    let next = harness.say(Some(id), "show").await;
    let (turns, request) = shown(&harness.ended(next.answer.id).await);
    let default = catalog::entries()[0]
        .system_prompt
        .as_deref()
        .expect("the default model has a prompt");
    assert_eq!(turns, [default, "say one", "one", "show"]);
    assert_eq!(request.sampling.top_p, 0.9);
    assert_eq!(request.max_tokens, None, "an answer ends where the model ends it");
    assert_eq!(request.conversation, Some(id));

    harness
        .set_system_prompt(id, Some("Be a pirate.".into()))
        .await
        .unwrap();
    assert_eq!(
        harness.conversation(id).await.system_prompt.as_deref(),
        Some("Be a pirate.")
    );
    let edited = harness.edit(next.user.unwrap().id, "show it".into()).await.unwrap();
    let (turns, _) = shown(&harness.ended(edited.answer.id).await);
    assert_eq!(turns, ["Be a pirate.", "say one", "one", "show it"]);
    harness.set_system_prompt(id, Some(String::new())).await.unwrap();
    let again = harness.regenerate(edited.answer.id, None).await.unwrap();
    let (turns, _) = shown(&harness.ended(again.answer.id).await);
    assert_eq!(
        turns,
        ["say one", "one", "show it"],
        "an empty system prompt counts as none"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rename_and_search() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("say the albatross sleeps").await;
    let id = answer.conversation;
    harness
        .rename_conversation(id, "  Birds\n of the sea ".into())
        .await
        .unwrap();
    assert_eq!(harness.conversation(id).await.title, "Birds of the sea");
    assert_eq!(
        harness.rename_conversation(id, " \n".into()).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    let hits = harness.search("albatr".into(), SearchFilter::default()).await.unwrap();
    assert_eq!(
        hits.iter().filter_map(|hit| hit.message).count(),
        2,
        "question and answer"
    );
    assert!(hits[0].snippet.iter().any(|part| part.hit && part.text == "albatross"));
    assert_eq!(
        harness.search("birds".into(), SearchFilter::default()).await.unwrap()[0].message,
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_and_restore() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    let id = sent.conversation.id;
    harness.streaming(sent.answer.id).await;
    harness.delete_conversation(id).await.unwrap();
    harness
        .next(|event| matches!(event, Event::ConversationRemoved { id: gone } if gone == id).then_some(()))
        .await;
    assert!(harness.snapshot().await.unwrap().conversations.is_empty());
    assert_eq!(
        harness.open_conversation(id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    assert_eq!(
        harness.delete_conversation(id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    assert_eq!(
        harness
            .send(Some(id), None, "say".into(), Vec::new(), NewConversation::default())
            .await
            .unwrap_err()
            .code,
        ProblemCode::NotFound
    );
    harness.restore_conversation(id).await.unwrap();
    let restored = |event| matches!(event, Event::ConversationChanged { conversation, .. } if conversation.id == id);
    harness.next(|event| restored(event).then_some(())).await;
    assert_eq!(contents(&harness.conversation(id).await)[0], "slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_rows_are_reported() {
    let harness = Harness::tiny();
    let code = |problem: Problem| problem.code;
    assert_eq!(
        harness.open_conversation(99).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness
            .send(Some(99), None, "x".into(), Vec::new(), NewConversation::default())
            .await
            .map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness.regenerate(99, None).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness.edit(99, "x".into()).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness.select_leaf(99, 99).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness.rename_conversation(99, "x".into()).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(
        harness
            .send(None, None, " \n".into(), Vec::new(), NewConversation::default())
            .await
            .map_err(code),
        Err(ProblemCode::BadRequest)
    );
    assert_eq!(
        harness.restore_conversation(99).await.map_err(code),
        Err(ProblemCode::NotFound)
    );
    assert_eq!(harness.stop(99).await, Ok(()));
}
