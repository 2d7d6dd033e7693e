//! Answers of the chat: their states, parts and ends, alone and beside other answers.

use crate::harness::{Harness, under_way};
use hearth_app::wire::{
    DroppedTurns, Event, MessageState, ModelState, NewConversation, ProblemCode, Role, SearchFilter, Stage, Thumb,
    TruncationReason,
};
use hearth_protocol::{GenerateRequest, Part, Prompt, TextKind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_message_loads_the_model_and_is_answered() {
    let mut harness = Harness::tiny();
    assert_eq!(harness.snapshot().await.unwrap().model_state, ModelState::None);
    let sent = harness.say(None, "say one two three").await;
    assert_eq!(sent.conversation.title, "say one two three");
    assert_eq!(sent.user.as_ref().map(|user| user.role), Some(Role::User));
    assert_eq!(
        (sent.answer.state.clone(), sent.answer.text().as_str()),
        (MessageState::Waiting, "")
    );

    let loading = std::mem::discriminant(&MessageState::Loading {
        fraction: 0.0,
        stage: Stage::default(),
    });
    let prefill = std::mem::discriminant(&MessageState::Prefill { done: 0, total: 0 });
    let (mut states, mut grown, mut last) = (Vec::new(), String::new(), None);
    while last.is_none() {
        harness
            .next(|event| {
                match event {
                    Event::MessageDelta { text, .. } => grown += &text,
                    Event::MessageChanged { message } if message.id == sent.answer.id => {
                        states.push(std::mem::discriminant(&message.state));
                        assert!(grown.starts_with(&message.text()) && message.text().starts_with(&grown));
                        last = (!under_way(&message)).then_some(*message);
                    }
                    _ => return None,
                }
                Some(())
            })
            .await;
    }
    let answer = last.unwrap();
    assert_eq!(
        (answer.state.clone(), answer.text().as_str()),
        (MessageState::Complete, "one two three")
    );
    assert_eq!(answer.model.as_deref(), Some("A tiny model"));
    let stats = answer.stats.clone().expect("stats");
    assert_eq!((stats.tokens, stats.cached_tokens, stats.context_used), (3, 4, 13));
    assert_eq!(stats.draft, None);
    // A load may end before an answer shows it: `an_answer_shows_how_far_its_own_model_is_loaded`.
    let prefill_start = states.iter().take_while(|state| **state != prefill).count();
    assert!(!states[prefill_start..].contains(&loading));
    states.retain(|state| *state != loading);
    states.dedup();
    let order = [
        MessageState::Waiting,
        MessageState::Prefill { done: 0, total: 0 },
        MessageState::Streaming,
        MessageState::Complete,
    ];
    assert_eq!(states, order.map(|state| std::mem::discriminant(&state)));

    let kept = harness.conversation(sent.conversation.id).await;
    assert_eq!((kept.leaf, kept.messages.last()), (Some(answer.id), Some(&answer)));
    let snapshot = harness.snapshot().await.unwrap();
    assert!(matches!(snapshot.model_state, ModelState::Ready { model, .. } if model == "tiny"));
    assert_eq!(snapshot.default_model.as_deref(), Some("tiny"));
    assert_eq!(snapshot.conversations[0].model.as_deref(), Some("A tiny model"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_saves_the_text_so_far() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(answer.state, MessageState::Stopped);
    assert!(answer.text().starts_with("word "));
    assert_eq!(harness.answer("say again").await.text(), "again");
    harness
        .stop(sent.conversation.id)
        .await
        .expect("stopping what has stopped is nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_while_the_model_loads() {
    let mut harness = Harness::new(&["slow.gguf"]);
    let sent = harness.say(None, "say one").await;
    harness
        .model_state(|state| matches!(state, ModelState::Loading { fraction, .. } if *fraction > 0.0))
        .await;
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    harness.unload_model().await.unwrap();
    harness.model_state(|state| *state == ModelState::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_at_a_time_in_a_conversation() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    let busy = harness
        .send(
            Some(sent.conversation.id),
            None,
            "say two".into(),
            Vec::new(),
            NewConversation::default(),
        )
        .await;
    assert_eq!(busy.unwrap_err().code, ProblemCode::Busy);
    assert_eq!(
        harness.regenerate(sent.answer.id, None).await.unwrap_err().code,
        ProblemCode::Busy
    );
    harness.stop(sent.conversation.id).await.unwrap();
    harness.ended(sent.answer.id).await;
    harness.regenerate(sent.answer.id, None).await.expect("free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_are_answered_at_once() {
    let mut harness = Harness::tiny();
    let first = harness.say(None, "slow").await;
    harness.streaming(first.answer.id).await;
    assert_eq!(harness.answer("say two").await.text(), "two");
    let second = harness.say(None, "slow").await;
    harness.streaming(second.answer.id).await;
    harness.stop(first.conversation.id).await.unwrap();
    assert_eq!(harness.ended(first.answer.id).await.state, MessageState::Stopped);
    harness.streaming(second.answer.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_answer_is_reported() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("cut").await;
    assert_eq!(
        answer.state,
        MessageState::Truncated {
            reason: TruncationReason::Length
        }
    );
    assert_eq!(harness.conversation(answer.conversation).await.messages[1], answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_turns_are_reported() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("long story").await;
    assert_eq!(
        answer.dropped,
        Some(DroppedTurns {
            messages: 2,
            tokens: 300
        })
    );
    assert_eq!(harness.conversation(answer.conversation).await.messages[1], answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thought_is_a_part_of_its_own_which_is_found_and_sent_but_not_said() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "think Paris.").await;
    let mut kinds = Vec::new();
    let answer = loop {
        let seen = harness
            .next(|event| match event {
                Event::MessageDelta { kind, text, .. } => Some(Err((kind, text))),
                Event::MessageChanged { message } if message.id == sent.answer.id && !under_way(&message) => {
                    Some(Ok(*message))
                }
                _ => None,
            })
            .await;
        match seen {
            Ok(message) => break message,
            Err(delta) => kinds.push(delta),
        }
    };
    let delta = |kind, text: &str| (kind, text.to_owned());
    assert_eq!(
        kinds,
        [
            delta(TextKind::Thinking, "Let me "),
            delta(TextKind::Thinking, "see."),
            delta(TextKind::Text, "Paris.")
        ]
    );
    let parts = [
        Part::Thinking {
            text: "Let me see.".into(),
        },
        Part::Text { text: "Paris.".into() },
    ];
    assert_eq!((&*answer.parts, &*answer.text()), (&parts[..], "Paris."));
    let id = sent.conversation.id;
    let stored = harness.open_conversation(id).await.unwrap();
    assert_eq!(stored.messages[1].parts, parts);
    let hits = harness.search("let see".into(), SearchFilter::default()).await.unwrap();
    assert_eq!(
        hits.iter().map(|hit| hit.message).collect::<Vec<_>>(),
        [Some(answer.id)]
    );
    let next = harness.say(Some(id), "show").await;
    let request: GenerateRequest =
        serde_json::from_str(&harness.ended(next.answer.id).await.text()).expect("a request");
    let Prompt::Chat(turns) = &request.prompt else {
        panic!("no chat")
    };
    assert!(turns.iter().any(|turn| turn.parts == parts), "{turns:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_answer_said_becomes_a_thought_that_is_not_rated() {
    let mut harness = Harness::tiny();
    let parts = [
        Part::Thinking {
            text: "Let me see.".into(),
        },
        Part::Text { text: "Paris.".into() },
    ];
    let folded = |event: &Event| match event {
        Event::MessageFolded { message } => Some(message.parts.clone()),
        _ => None,
    };
    let (answer, shown) = harness.answer_and("fold Paris.", folded).await;
    assert_eq!(shown, parts[..1]);
    assert_eq!((&*answer.parts, &*answer.text()), (&parts[..], "Paris."));
    assert!(answer.stats.as_ref().and_then(|stats| stats.thinking_seconds) > Some(0.0));
    let stored = harness.open_conversation(answer.conversation).await.unwrap();
    assert_eq!(stored.messages[1].parts, parts);
    harness.rate_answer(answer.id, Some(Thumb::Up), None).await.unwrap();
    let dataset = harness.dataset_from_ratings("Cities".into()).await.unwrap();
    let text = std::fs::read_to_string(dataset.path).expect("a dataset");
    assert!(text.contains("Paris.") && !text.contains("Let me"), "{text}");
}
