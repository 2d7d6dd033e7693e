//! New conversations with a copy of a branch.

use crate::harness::Harness;
use hearth_app::wire::{
    ConversationSettings, ConversationSummary, Message, MessageState, NewConversation, ProblemCode, TextFile, Thumb,
};

async fn summary(harness: &Harness, id: i64) -> ConversationSummary {
    let all = harness.snapshot().await.unwrap().conversations;
    all.into_iter()
        .find(|conversation| conversation.id == id)
        .expect("listed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_is_a_copy_up_to_a_message_with_everything_but_ratings() {
    let mut harness = Harness::tiny();
    let fresh = NewConversation {
        settings: ConversationSettings {
            max_tokens: Some(64),
            ..ConversationSettings::default()
        },
        system_prompt: Some("Be brief.".into()),
        ..NewConversation::default()
    };
    let file = TextFile {
        name: "a.txt".into(),
        text: "the file".into(),
    };
    let sent = harness
        .send(None, None, "say one".into(), vec![file], fresh)
        .await
        .unwrap();
    let answer = harness.ended(sent.answer.id).await;
    let id = answer.conversation;
    let more = harness.say(Some(id), "say two").await;
    harness.ended(more.answer.id).await;
    harness.rate_answer(answer.id, Some(Thumb::Up), None).await.unwrap();
    let folder = harness.create_folder("Birds".into()).await.unwrap();
    harness.move_conversation(id, Some(folder.id)).await.unwrap();
    harness.set_tags(id, vec!["sea".into()]).await.unwrap();
    let original = harness.conversation(id).await;

    let branch = harness.branch_off(answer.id, " Two\nlines ".into()).await.unwrap();
    assert_eq!(branch, summary(&harness, branch.id).await);
    assert_eq!((branch.title.as_str(), branch.folder), ("Two lines", Some(folder.id)));
    assert_eq!(
        (branch.tags.as_slice(), &branch.model),
        (&["sea".to_owned()][..], &answer.model)
    );
    let copy = harness.conversation(branch.id).await;
    assert_eq!(copy.settings.max_tokens, Some(64));
    assert_eq!(copy.system_prompt.as_deref(), Some("Be brief."));
    assert_eq!(copy.leaf, copy.messages.last().map(|message| message.id));
    // Ids aside, the messages are equal; only the rating is not copied.
    let expected: Vec<Message> = original.messages[..2]
        .iter()
        .zip(&copy.messages)
        .map(|(message, copied)| Message {
            id: copied.id,
            conversation: branch.id,
            parent: copied.parent,
            rating: None,
            ..message.clone()
        })
        .collect();
    assert_eq!(copy.messages, expected);
    assert_eq!(copy.messages[1].parent, Some(copy.messages[0].id));
    assert_eq!(harness.conversation(id).await, original);
    assert_eq!(harness.rated_examples().await.unwrap(), 1);

    // It continues independently of the original.
    let sent = harness.say(Some(branch.id), "say three").await;
    assert_eq!(sent.user.unwrap().parent, copy.leaf);
    harness.ended(sent.answer.id).await;
    assert_eq!(harness.conversation(id).await.messages.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_branch_ends_with_an_unfinished_or_deleted_answer() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let branch = async |harness: &Harness, title: &str| harness.branch_off(sent.answer.id, title.into()).await;
    assert_eq!(branch(&harness, "a").await.unwrap_err().code, ProblemCode::Busy);
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert_eq!(branch(&harness, " \n").await.unwrap_err().code, ProblemCode::BadRequest);
    harness.delete_message(sent.answer.id).await.unwrap();
    assert_eq!(branch(&harness, "a").await.unwrap_err().code, ProblemCode::NotFound);
    assert_eq!(harness.snapshot().await.unwrap().conversations.len(), 1);
}
