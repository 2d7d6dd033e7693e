//! The app end to end: a real store, real files, and the fake worker.

use crate::harness::{Harness, OTHER_BUILD, failure, options, under_way};
use crate::support;
use hearth_app::{
    App, Options,
    library::catalog,
    wire::{
        Cache, CacheUsage, Contrast, Conversation, DraftKind, DraftProblem, DraftSetting, DroppedTurns, Event,
        GpuLayers, KvType, LoadSettings, Message, MessageState, ModelState, Motion, NewConversation, Problem,
        ProblemCode, Role, SearchFilter, Settings, Stage, Theme, Thumb, TruncationReason, Verdict,
    },
};
use hearth_protocol::{GenerateRequest, Part, Prompt, TextKind, WorkerCommand};
use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};
use tokio::sync::mpsc;

/// A file of the prompt cache in its conversation's folder.
const SAVED_CELLS: &str = "0123456789abcdef0123456789abcdef.kv";

fn contents(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(Message::text).collect()
}

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

/// [`Harness::tiny`], which soon gives up a request that its worker does not cancel.
fn impatient() -> Harness {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let mut options = options(&folder);
    options.worker.cancelled_within = Duration::from_millis(300);
    Harness::with(folder, options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_its_worker_does_not_cancel_is_stopped() {
    let mut harness = impatient();
    let sent = harness.say(None, "deaf").await;
    harness.streaming(sent.answer.id).await;
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(answer.state, MessageState::Stopped);
    assert!(answer.text().starts_with("word "));
    assert_eq!(harness.answer("say again").await.text(), "again");
}

fn death(event: &Event) -> Option<Problem> {
    match event {
        Event::WorkerDied { problem } => Some(problem.clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_a_worker_fails_one_answer() {
    let mut harness = Harness::tiny();
    let (answer, said) = harness.answer_and("die", death).await;
    assert_eq!(said.code, ProblemCode::WorkerDied);
    assert_eq!((answer.text().as_str(), failure(&answer)), ("Half an answer", &said));
    let kept = harness.conversation(answer.conversation).await;
    assert_eq!(kept.messages[1], answer);
    let again = harness.regenerate(answer.id).await.unwrap();
    harness.ended(again.answer.id).await;
    assert_eq!(
        harness.answer("say again").await.text(),
        "again",
        "a new worker reloads the model"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_is_distinguished_from_a_crash() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("starve").await;
    let problem = failure(&answer);
    assert_eq!(
        (answer.text().as_str(), problem.code),
        ("Half an ", ProblemCode::OutOfMemory)
    );
    assert!(problem.to_string().contains("shorter context"), "{problem}");
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_output_of_a_worker_fails_one_answer() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("babble").await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::WorkerDied)
    );
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_generation_is_reported() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("fail").await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::Template)
    );
    assert_eq!(harness.conversation(answer.conversation).await.messages[1], answer);
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
async fn a_model_that_does_not_fit_is_reported() {
    let mut harness = Harness::new(&["refuse.gguf"]);
    let answer = harness.answer("say one").await;
    assert_eq!(failure(&answer).code, ProblemCode::OutOfMemory);
    assert!(
        matches!(harness.snapshot().await.unwrap().model_state, ModelState::Failed { model, .. } if model == "refuse")
    );
    assert_eq!(
        failure(&harness.answer("say two").await).code,
        ProblemCode::OutOfMemory,
        "retried, and reported again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_loading_is_reported() {
    let mut harness = Harness::new(&["fatal.gguf", "tiny.gguf"]);
    let answer = harness.answer("say one").await;
    assert!(failure(&answer).to_string().contains("exit code 4"), "{answer:?}");
    harness.load_model("tiny".into()).await.unwrap();
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_start_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let (send, events) = mpsc::unbounded_channel();
    let options = Options {
        worker: WorkerCommand::new("no-such-folder/hearth"),
        ..options(&folder)
    };
    let app = App::open(options, move |announced| drop(send.send(announced.event))).unwrap();
    let mut harness = Harness { app, events, folder };
    let answer = harness.answer("say one").await;
    assert!(failure(&answer).to_string().contains("no-such-folder"));
    assert_eq!(harness.devices().await.unwrap_err().code, ProblemCode::WorkerDied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_model_the_message_is_saved() {
    let mut harness = Harness::new(&[]);
    assert_eq!(harness.snapshot().await.unwrap().default_model, None);
    let answer = harness.answer("say one").await;
    assert_eq!(failure(&answer).code, ProblemCode::NoModel);
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path).await.unwrap();
    harness.load_model(model.id).await.unwrap();
    let again = harness.regenerate(answer.id).await.unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_deleted_while_loaded() {
    let mut harness = Harness::tiny();
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path.clone()).await.unwrap();
    harness.load_model(model.id.clone()).await.unwrap();
    assert_eq!(harness.answer("say one").await.text(), "one");
    fs::remove_file(&path).unwrap();
    assert_eq!(
        harness.answer("say two").await.text(),
        "two",
        "the loaded model stays loaded"
    );
    let listed = harness
        .snapshot()
        .await
        .unwrap()
        .models
        .into_iter()
        .find(|listed| listed.id == model.id)
        .unwrap();
    let problem = listed.problem.expect("the file is gone");
    assert!(problem.to_string().contains("mine.gguf"), "{problem}");
    harness.unload_model().await.unwrap();
    let answer = harness.answer("say three").await;
    assert_eq!(failure(&answer).code, ProblemCode::FileUnreadable);
    assert_eq!(
        harness.load_model(model.id).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    harness.load_model("tiny".into()).await.unwrap();
    let again = harness.regenerate(answer.id).await.unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regenerate_edit_and_branches() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "say one").await;
    let first = harness.ended(sent.answer.id).await;
    let again = harness.regenerate(first.id).await.unwrap();
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
    let again = harness.regenerate(edited.answer.id).await.unwrap();
    let (turns, _) = shown(&harness.ended(again.answer.id).await);
    assert_eq!(
        turns,
        ["say one", "one", "show it"],
        "an empty system prompt counts as none"
    );
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
        harness.regenerate(sent.answer.id).await.unwrap_err().code,
        ProblemCode::Busy
    );
    harness.stop(sent.conversation.id).await.unwrap();
    harness.ended(sent.answer.id).await;
    harness.regenerate(sent.answer.id).await.expect("free again");
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
async fn a_crash_fails_all_answers_in_progress_and_the_next_is_given() {
    let mut harness = Harness::tiny();
    let slow = harness.say(None, "slow").await;
    harness.streaming(slow.answer.id).await;
    let died = harness.say(None, "die").await;
    let failed = harness.all_ended([slow.answer.id, died.answer.id]).await;
    assert!(failed[0].text().starts_with("word "));
    assert_eq!(failure(&failed[0]), failure(&failed[1]));
    assert_eq!(harness.answer("say again").await.text(), "again");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_gpu_failed_is_loaded_on_the_cpu() {
    let mut harness = Harness::tiny();
    let on_the_cpu = |event: &Event| match event {
        Event::ModelState {
            state: ModelState::Ready { info, .. },
        } if info.gpu_layers == 0 => Some(info.clone()),
        _ => None,
    };
    let (answer, info) = harness.answer_and("fault", on_the_cpu).await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::GpuFailed)
    );
    assert!(
        info.notices
            .iter()
            .any(|notice| notice.to_string().contains("on the CPU")),
        "{info:?}"
    );
    assert_eq!(
        harness.answer("say again").await.text(),
        "again",
        "without another load"
    );
    assert_eq!(
        harness.snapshot().await.unwrap().model_state,
        ModelState::Ready {
            model: "tiny".into(),
            info,
            draft_problem: None,
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_were_not_asked_for_cost_no_more_than_one_answer() {
    let mut harness = Harness::tiny();
    for order in ["stray", "huge"] {
        let answer = harness.answer(order).await;
        let problem = failure(&answer);
        assert_eq!(
            (answer.text().as_str(), problem.code),
            ("Half an ", ProblemCode::WorkerDied),
            "{order}"
        );
        assert_eq!(harness.answer("say again").await.text(), "again", "{order}");
    }
    let (answer, _) = harness.answer_and("twice", death).await;
    assert_eq!(answer.state, MessageState::Complete);
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_answers_is_replaced() {
    let mut harness = impatient();
    let sent = harness.say(None, "mute").await;
    harness
        .next(|event| match event {
            Event::MessageChanged { message } => matches!(message.state, MessageState::Prefill { .. }).then_some(()),
            _ => None,
        })
        .await;
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_loads_and_stops_at_once_leave_nothing_stuck() {
    let mut harness = Harness::new(&["tiny.gguf", "other.gguf"]);
    let mut sent = Vec::new();
    for number in 0..20 {
        let model = ["tiny", "other"][number % 2];
        harness.load_model(model.to_owned()).await.unwrap();
        let message = harness.say(None, "slow").await;
        if number % 3 == 0 {
            harness.stop(message.conversation.id).await.unwrap();
        }
        sent.push(message);
    }
    harness.load_model("tiny".to_owned()).await.unwrap();
    for message in &sent {
        harness.stop(message.conversation.id).await.unwrap();
    }
    for message in &sent {
        let stored = loop {
            let conversation = harness.conversation(message.conversation.id).await;
            if !under_way(&conversation.messages[1]) {
                break conversation.messages[1].clone();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(stored.state, MessageState::Stopped);
    }
    assert_eq!(harness.answer("say again").await.text(), "again");
    let state = harness.snapshot().await.unwrap().model_state;
    assert!(matches!(state, ModelState::Ready { model, .. } if model == "tiny"));
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
async fn clearing_a_cache_deletes_its_files_only() {
    let mut harness = Harness::tiny();
    let talk = harness.answer("say one").await.conversation;
    let [data, packed] = ["data", "cache/packed"].map(|folder| harness.folder.path().join(folder));
    let cells = data.join("prompt-cache").join(talk.to_string());
    for folder in [&cells, &packed] {
        fs::create_dir_all(folder).unwrap();
    }
    let saved = cells.join(SAVED_CELLS);
    fs::write(&saved, [0; 1000]).unwrap();
    fs::write(packed.join("model.packed"), [0; 300]).unwrap();
    fs::write(packed.join("model.1-0.part"), [0; 20]).unwrap();
    let mine = [
        packed.join("mine.gguf"),
        data.join("prompt-cache/photos/mine.kv"),
        cells.join("mine.part"),
        cells.join("mine.kv"),
    ];
    for file in &mine {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "not Hearth's").unwrap();
    }
    let sizes = |caches: Vec<CacheUsage>| {
        let about = |usage: &CacheUsage| (usage.cache, PathBuf::from(&usage.path), usage.bytes);
        caches.iter().map(about).collect::<Vec<_>>()
    };
    let [prompts, weights] = [
        (Cache::Prompts, data.join("prompt-cache")),
        (Cache::Weights, packed.clone()),
    ]
    .map(|(cache, path)| move |bytes: u64| (cache, path.clone(), bytes));
    assert_eq!(sizes(harness.caches().await.unwrap()), [prompts(1000), weights(320)]);
    let cleared = harness.clear_cache(Cache::Weights).await.unwrap();
    assert_eq!(sizes(cleared), [prompts(1000), weights(0)]);
    let cleared = harness.clear_cache(Cache::Prompts).await.unwrap();
    assert_eq!(sizes(cleared), [prompts(0), weights(0)]);
    assert!(!saved.exists() && mine.iter().all(|file| file.exists()));
    assert_eq!(harness.conversation(talk).await.messages.len(), 2);
    assert_eq!(
        sizes(harness.clear_cache(Cache::Prompts).await.unwrap()).len(),
        2,
        "an empty cache is listed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_limit_trims_the_prompt_cache() {
    let harness = Harness::tiny();
    let file = |name: &str| {
        harness
            .folder
            .path()
            .join("data/prompt-cache")
            .join(name)
            .join(SAVED_CELLS)
    };
    for (name, seconds) in [("1", 20), ("2", 30), ("3", 10)] {
        fs::create_dir_all(file(name).parent().unwrap()).unwrap();
        fs::write(file(name), [0; 1000]).unwrap();
        let opened = fs::File::options().append(true).open(file(name)).unwrap();
        let used = SystemTime::now() - Duration::from_secs(seconds);
        opened.set_modified(used).unwrap();
    }
    let limit = |prompt_cache_limit| {
        harness.set_settings(Settings {
            prompt_cache_limit,
            ..Settings::default()
        })
    };
    let exist = || ["1", "2", "3"].map(|name| file(name).exists());
    limit(3000).await.unwrap();
    assert_eq!(exist(), [true; 3]);
    limit(2999).await.unwrap();
    assert_eq!(exist(), [true, false, true]);
    limit(0).await.unwrap();
    assert_eq!(exist(), [false; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_cache_is_deleted_with_its_conversation() {
    let mut harness = Harness::tiny();
    let stays = harness.answer("say one").await.conversation;
    let goes = harness.answer("say two").await.conversation;
    let folder = harness.folder.path().join("data/prompt-cache");
    let cells = |conversation: i64| folder.join(conversation.to_string());
    // As a worker does; the last conversation does not exist.
    for conversation in [stays, goes, 999, 1000] {
        fs::create_dir_all(cells(conversation)).unwrap();
        fs::write(cells(conversation).join(SAVED_CELLS), "cells").unwrap();
    }
    // Files of the user.
    let photos = folder.join("photos");
    fs::create_dir_all(&photos).unwrap();
    let mine = [
        cells(1000).join("letter.txt"),
        cells(1000).join("download.part"),
        cells(1000).join("more.kv/letter.txt"),
        photos.join("model.kv"),
        folder.join("photo.jpg"),
    ];
    for file in &mine {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "mine").unwrap();
    }
    // A link to a folder, and one to a file.
    #[cfg(unix)]
    for (target, link) in [(&photos, cells(1001)), (&mine[3], cells(1000).join("link.kv"))] {
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    harness.delete_conversation(goes).await.unwrap();
    assert!(!cells(goes).exists());
    // A worker that was saving writes once more.
    fs::create_dir_all(cells(goes)).unwrap();
    let _bench = harness.again().await;
    assert!(cells(stays).join(SAVED_CELLS).exists());
    assert!(!cells(goes).exists() && !cells(999).exists());
    assert!(!cells(1000).join(SAVED_CELLS).exists());
    for file in &mine {
        assert!(file.exists(), "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_cache_of_early_versions_is_removed() {
    let harness = Harness::new(&[]);
    let old = harness.folder.path().join("data/kept");
    fs::create_dir_all(old.join("1")).unwrap();
    fs::write(old.join("1/model.kv"), "cells").unwrap();
    let harness = harness.again().await;
    assert!(!old.exists());
    // Files of the user stay.
    fs::create_dir_all(old.join("2")).unwrap();
    for name in ["2/model.kv", "2/letter.txt", "photo.jpg"] {
        fs::write(old.join(name), "mine").unwrap();
    }
    let _bench = harness.again().await;
    assert!(!old.join("2/model.kv").exists());
    assert!(old.join("2/letter.txt").exists() && old.join("photo.jpg").exists());
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
async fn models_are_added_and_removed() {
    let harness = Harness::tiny();
    let path = support::model(harness.folder.path(), "mine.gguf");
    let model = harness.add_model(path.clone()).await.unwrap();
    assert_eq!(
        (model.name.as_str(), model.architecture.as_str(), model.context_trained),
        ("A tiny model", "llama", 2048)
    );
    assert_eq!(harness.add_model(path.clone()).await.unwrap().id, model.id);
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 2);
    let garbage = harness.folder.path().join("garbage.gguf");
    fs::write(&garbage, "not a model").unwrap();
    assert_eq!(
        harness.add_model(garbage).await.unwrap_err().code,
        ProblemCode::FileInvalid
    );
    assert_eq!(
        harness.add_model(PathBuf::from("nowhere.gguf")).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );

    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 2);
    harness.remove_model(model.id.clone()).await.unwrap();
    assert!(path.exists(), "an added file is not deleted");
    assert_eq!(harness.snapshot().await.unwrap().models.len(), 1);
    assert_eq!(
        harness.remove_model(model.id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    assert_eq!(
        harness.remove_model("tiny".into()).await.unwrap_err().code,
        ProblemCode::BadRequest,
        "a bundled model"
    );
    let downloads = harness.folder.path().join("data/models");
    let downloaded = support::model(&downloads, "qwen2.5-0.5b-instruct-q4_k_m.gguf");
    let by_hand = support::model(&downloads, "other.gguf");
    harness.remove_model("qwen2.5-0.5b-instruct".into()).await.unwrap();
    assert!(!downloaded.exists());
    assert_eq!(
        harness.remove_model("other".into()).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    assert!(by_hand.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_another_model_and_unload() {
    let mut harness = Harness::new(&["a-slow.gguf", "b.gguf", "c.gguf"]);
    let ready =
        |id: &'static str| move |state: &ModelState| matches!(state, ModelState::Ready { model, .. } if model == id);
    harness.load_model("a-slow".into()).await.unwrap();
    harness
        .model_state(|state| matches!(state, ModelState::Loading { fraction, .. } if *fraction > 0.0))
        .await;
    harness.load_model("b".into()).await.unwrap();
    harness.model_state(ready("b")).await;
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    harness.load_model("c".into()).await.unwrap();
    harness.model_state(ready("c")).await;
    harness.streaming(sent.answer.id).await;
    let other = harness.answer("say two").await;
    assert_eq!(
        (other.text().as_str(), other.model.as_deref()),
        ("two", Some("A tiny model"))
    );
    harness.streaming(sent.answer.id).await;
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    harness.unload_model().await.unwrap();
    harness.model_state(|state| *state == ModelState::None).await;
    assert_eq!(
        harness.snapshot().await.unwrap().settings.last_model.as_deref(),
        Some("c")
    );
    harness.say(None, "say one").await;
    harness.model_state(ready("c")).await;
    assert_eq!(
        harness.load_model("nothing".into()).await.unwrap_err().code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_settings_keep_the_last_loaded_model() {
    let harness = Harness::tiny();
    harness.load_model("tiny".into()).await.unwrap();
    // As a page that was opened before the load sends them.
    let settings = Settings {
        theme: Theme::Dark,
        ..Settings::default()
    };
    harness.set_settings(settings.clone()).await.unwrap();
    let saved = harness.snapshot().await.unwrap().settings;
    assert_eq!(saved.last_model.as_deref(), Some("tiny"));
    assert_eq!(saved.theme, settings.theme);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_last_and_reload() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let settings = Settings {
        theme: Theme::Dark,
        contrast: Contrast::More,
        motion: Motion::Reduce,
        text_size: 150,
        enter_sends: false,
        notifications: false,
        shortcuts: [
            ("search".into(), "Mod+J".into()),
            ("of-another-version".into(), String::new()),
        ]
        .into(),
        threads: Some(3),
        context: Some(1024),
        device: Some("gpu0".into()),
        training_device: Some("cpu".into()),
        gpu_layers: GpuLayers::Count(7),
        kv: KvType::Q8_0,
        drafts: [
            ("tiny".into(), DraftSetting::FirstLayers),
            ("other".into(), DraftSetting::None),
            ("third".into(), DraftSetting::Model { model: "tiny".into() }),
        ]
        .into(),
        prompt_cache_limit: 7_000_000_000,
        ..Settings::default()
    };
    harness.set_settings(settings.clone()).await.unwrap();
    let state = harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    assert!(matches!(state, ModelState::Ready { info, .. }
            if (info.threads, info.context, info.gpu_layers, info.kv, info.draft)
                == (3, 1024, 7, KvType::Q8_0, Some(DraftKind::FirstLayers))));
    let foolish: [fn(&mut Settings); 4] = [
        |settings| settings.threads = Some(0),
        |settings| settings.text_size = 0,
        |settings| drop(settings.shortcuts.insert("search".into(), "x".repeat(101))),
        |settings| {
            settings
                .shortcuts
                .extend((0..500).map(|n| (n.to_string(), String::new())));
        },
    ];
    for change in foolish {
        let mut settings = settings.clone();
        change(&mut settings);
        assert_eq!(
            harness.set_settings(settings).await.unwrap_err().code,
            ProblemCode::BadRequest
        );
    }
    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().settings, settings);
}

/// A library of `large`, `small` with the same vocabulary, and `other` with another one.
fn models_with_drafts() -> Harness {
    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("bundled");
    for (file, parameters, token) in [("large", 96, "a"), ("small", 32, "a"), ("other", 8, "b")] {
        support::model_with_vocabulary(&models, &format!("{file}.gguf"), parameters, &[token]);
    }
    Harness::open(folder)
}

impl Harness {
    /// Sets the draft of `large`. Returns the kind of draft that it is then loaded with, and why
    /// the chosen draft model is not used.
    async fn draft(&mut self, draft: DraftSetting) -> (Option<DraftKind>, Option<DraftProblem>) {
        let drafts = [("large".to_owned(), draft)].into();
        let settings = Settings {
            drafts,
            ..self.snapshot().await.unwrap().settings
        };
        self.set_settings(settings).await.unwrap();
        self.load_model("large".into()).await.unwrap();
        let answer = self.answer("say one").await;
        assert_eq!(
            (answer.state, answer.model.as_deref()),
            (MessageState::Complete, Some("A tiny model"))
        );
        match self.app.model_state().await.unwrap() {
            ModelState::Ready {
                info, draft_problem, ..
            } => (info.draft, draft_problem),
            state => panic!("not loaded: {state:?}"),
        }
    }
}

fn draft_model(id: &str) -> DraftSetting {
    DraftSetting::Model { model: id.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_loaded_with_its_draft_or_with_a_notice() {
    let mut harness = models_with_drafts();
    let models = harness.snapshot().await.unwrap().models;
    let drafts: Vec<_> = models
        .iter()
        .map(|model| (model.id.as_str(), model.drafts.join(" ")))
        .collect();
    assert_eq!(
        drafts,
        [
            ("large", "small".to_owned()),
            ("other", String::new()),
            ("small", String::new())
        ]
    );
    assert_eq!(harness.draft(DraftSetting::Auto).await, (Some(DraftKind::Ngram), None));
    assert_eq!(harness.draft(DraftSetting::None).await, (None, None));
    assert_eq!(
        harness.draft(DraftSetting::FirstLayers).await,
        (Some(DraftKind::FirstLayers), None)
    );
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Model), None)
    );
    let name = || "A tiny model".to_owned();
    let unfit = DraftProblem::CannotDraft { name: name() };
    assert_eq!(
        harness.draft(draft_model("other")).await,
        (Some(DraftKind::Ngram), Some(unfit.clone()))
    );
    // The same draft, for another reason: nothing is reloaded, but the reason is shown.
    assert_eq!(
        harness.draft(draft_model("never")).await,
        (Some(DraftKind::Ngram), Some(DraftProblem::Missing))
    );
    assert_eq!(
        harness.draft(draft_model("large")).await,
        (Some(DraftKind::Ngram), Some(unfit))
    );
    let small = harness.folder.path().join("bundled/small.gguf");
    fs::write(&small, "no model").unwrap();
    let unreadable = DraftProblem::Unreadable {
        name: "small".to_owned(),
    };
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Ngram), Some(unreadable))
    );
    fs::remove_file(&small).unwrap();
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Ngram), Some(DraftProblem::Missing))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_belongs_to_one_model_and_is_planned() {
    let harness = models_with_drafts();
    let plan = async |model: &str, draft: DraftSetting| {
        let load_settings = LoadSettings {
            draft,
            ..LoadSettings::default()
        };
        let plan = harness.plan(model.into(), load_settings).await.unwrap();
        plan.devices.iter().map(|device| device.draft).max()
    };
    assert_eq!(plan("large", DraftSetting::Auto).await, Some(0));
    assert_eq!(plan("large", draft_model("small")).await, Some(500));
    assert_eq!(plan("large", draft_model("other")).await, Some(0), "it cannot draft");
    assert_eq!(plan("small", draft_model("large")).await, Some(0), "it is larger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_draft_is_no_longer_in_use() {
    let mut harness = models_with_drafts();
    let path = support::model_with_vocabulary(harness.folder.path(), "mine.gguf", 8, &["a"]);
    let mine = harness.add_model(path).await.unwrap();
    assert_eq!(
        harness.draft(draft_model(&mine.id)).await,
        (Some(DraftKind::Model), None)
    );
    harness.remove_model(mine.id).await.unwrap();
    assert_eq!(harness.app.model_state().await.unwrap(), ModelState::None);
    assert_eq!(harness.answer("say two").await.text(), "two");
    let state = harness.app.model_state().await.unwrap();
    assert!(
        matches!(&state, ModelState::Ready { info, draft_problem: Some(DraftProblem::Missing), .. }
            if info.draft == Some(DraftKind::Ngram)),
        "{state:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_has_the_figures_of_its_draft() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("draft this").await;
    let draft = answer.stats.as_ref().and_then(|stats| stats.draft).expect("a draft");
    assert_eq!(
        (
            draft.kind,
            draft.drafted,
            draft.accepted,
            draft.gain,
            draft.used,
            draft.stopped
        ),
        (DraftKind::Model, 40, 25, 1.75, 0.5, false)
    );
    let kept = harness.conversation(answer.conversation).await;
    assert_eq!(kept.messages.last(), Some(&answer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_under_their_old_keys() {
    let harness = Harness::new(&[]);
    let old = |t: &rusqlite::Transaction<'_>| {
        t.execute("DELETE FROM setting WHERE key = 'promptCacheLimit'", [])?;
        hearth_app::store::setting::set(t, "drafts", r#"{"tiny":{"type":"own"}}"#)?;
        hearth_app::store::setting::set(t, "keptBytes", "7000000000")
    };
    harness.store().write(old).unwrap();
    let harness = harness.again().await;
    let settings = harness.snapshot().await.unwrap().settings;
    assert_eq!(settings.prompt_cache_limit, 7_000_000_000);
    assert_eq!(settings.drafts["tiny"], DraftSetting::FirstLayers);
    let new = Settings {
        prompt_cache_limit: 5_000_000_000,
        ..settings
    };
    harness.set_settings(new.clone()).await.unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.snapshot().await.unwrap().settings, new, "the new key wins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_are_listed() {
    let harness = Harness::new(&[]);
    let (first, second) = tokio::join!(harness.devices(), harness.devices());
    assert_eq!(
        (first.unwrap()[0].id.as_str(), second.unwrap()[0].id.as_str()),
        ("cpu", "cpu")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_are_checked() {
    let harness = Harness::new(&[]);
    let (first, second) = tokio::join!(harness.check_device("gpu0".into()), harness.check_device("gpu0".into()));
    assert_eq!(
        (first.unwrap()[0].id.as_str(), second.unwrap()[0].id.as_str()),
        ("cpu", "cpu")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_loaded_in_the_requested_build() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let mut settings = harness.snapshot().await.unwrap().settings;
    for (build, switched) in [(Some("cuda"), true), (None, false)] {
        settings.build = build.map(str::to_owned);
        harness.set_settings(settings.clone()).await.unwrap();
        let state = harness
            .model_state(|state| matches!(state, ModelState::Ready { .. }))
            .await;
        let ModelState::Ready { info, .. } = state else {
            unreachable!()
        };
        let notices: Vec<String> = info.notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices.iter().any(|notice| notice == OTHER_BUILD), switched);
        assert_eq!(harness.answer("say two").await.state, MessageState::Complete);
    }
}

fn layers(count: u32) -> LoadSettings {
    LoadSettings {
        gpu_layers: GpuLayers::Count(count),
        ..LoadSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_gpu_layers_reload_the_model_and_the_conversation_continues() {
    let mut harness = Harness::tiny();
    let before = harness.answer("say one").await;
    harness
        .set_settings(Settings {
            gpu_layers: GpuLayers::All,
            ..harness.snapshot().await.unwrap().settings
        })
        .await
        .unwrap();
    let state = harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    let ModelState::Ready { info, .. } = state else {
        unreachable!()
    };
    assert_eq!((info.gpu_layers, info.layers_total), (31, 31));
    let placed = harness
        .plan(
            "tiny".into(),
            LoadSettings {
                gpu_layers: GpuLayers::All,
                ..LoadSettings::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(info.placement, placed.devices, "the placement is the plan's");
    let again = harness
        .send(
            Some(before.conversation),
            Some(before.id),
            "say two".into(),
            Vec::new(),
            NewConversation::default(),
        )
        .await
        .unwrap();
    assert_eq!(harness.ended(again.answer.id).await.text(), "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_plan_of_a_model_is_made() {
    let harness = Harness::new(&["tiny.gguf", "invalid.gguf"]);
    let (_, newest, refused) = tokio::join!(
        harness.plan("tiny".into(), layers(4)),
        harness.plan("tiny".into(), layers(5)),
        harness.plan("invalid".into(), layers(1))
    );
    let newest = newest.unwrap();
    assert_eq!((newest.gpu_layers, newest.devices.len(), newest.fits), (5, 2, true));
    assert_eq!(
        refused.unwrap_err().code,
        ProblemCode::FileInvalid,
        "another model's plan does not replace it"
    );
    let too_many = harness.plan("tiny".into(), layers(11)).await.unwrap();
    assert_eq!(
        (too_many.fits, too_many.verdict, too_many.layers_fit),
        (false, Verdict::WontFit, 10)
    );
    assert_eq!(
        harness.snapshot().await.unwrap().model_state,
        ModelState::None,
        "a plan loads nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_made_while_an_answer_is_generated() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    assert_eq!(harness.plan("tiny".into(), layers(3)).await.unwrap().gpu_layers, 3);
    assert_eq!(harness.devices().await.unwrap()[0].id, "cpu");
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::Busy);
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measurement_is_saved() {
    let mut harness = Harness::tiny();
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::NoModel);
    harness.answer("say one").await;
    let measured = harness.measure().await.unwrap();
    assert_eq!(
        (
            measured.model_name.as_str(),
            measured.gpu_layers,
            measured.tokens_per_second
        ),
        ("A tiny model", 10, 50.0)
    );
    harness
        .next(|event| matches!(event, Event::MeasureProgress { fraction: 0.5 }).then_some(()))
        .await;
    let newer = harness.measure().await.unwrap();
    let harness = harness.again().await;
    assert_eq!(
        harness.measurements().await.unwrap(),
        [newer],
        "it replaces the older one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_cancels_a_measurement() {
    let mut harness = Harness::tiny();
    // The fake worker measures this model until cancelled.
    let endless = Settings {
        kv: KvType::Q8_0,
        ..Settings::default()
    };
    harness.set_settings(endless).await.unwrap();
    harness.answer("say one").await;
    let app = harness.app.clone();
    let measuring = tokio::spawn(async move { app.measure().await });
    harness
        .next(|event| matches!(event, Event::MeasureProgress { .. }).then_some(()))
        .await;
    assert_eq!(harness.measure().await.unwrap_err().code, ProblemCode::Busy);
    assert_eq!(harness.answer("say two").await.text(), "two");
    assert_eq!(measuring.await.unwrap().unwrap_err().code, ProblemCode::Cancelled);
    assert_eq!(harness.measurements().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_no_path() {
    let mut harness = Harness::tiny();
    harness.answer("say a secret").await;
    harness.measure().await.unwrap();
    let report = harness.report().await.unwrap();
    for part in [
        "A CPU",
        "10 of 31 layers",
        "decode 50.0 tokens/s",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(report.contains(part), "no {part} in: {report}");
    }
    let folder = harness.folder.path().display().to_string();
    for secret in ["secret", folder.as_str()] {
        assert!(!report.contains(secret), "{secret} in: {report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_the_answer_but_not_the_text() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let sent = harness.say(None, "flood").await;
    let id = sent.conversation.id;
    harness.streaming(sent.answer.id).await;
    harness.store().limit_size(Some(0)).unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(failure(&answer).code, ProblemCode::DiskFull);
    assert!(answer.text().starts_with("word "));
    let shown = harness.conversation(id).await.messages[1].clone();
    assert!(
        shown.text().starts_with(&answer.text()),
        "the text in memory is complete"
    );
    let refused = harness
        .send(None, None, "x".repeat(1 << 16), Vec::new(), NewConversation::default())
        .await;
    assert_eq!(refused.unwrap_err().code, ProblemCode::DiskFull);

    harness.store().limit_size(None).unwrap();
    assert_eq!(harness.answer("say again").await.text(), "again");
    let harness = harness.again().await;
    let kept = harness.conversation(id).await.messages[1].clone();
    assert_eq!(failure(&kept).code, ProblemCode::DiskFull);
    assert!(kept.text().starts_with(&answer.text()), "saved once there is space");
}

/// Another connection that locks the store.
fn lock_store(harness: &Harness) -> rusqlite::Connection {
    // A shorter timeout, for a quicker test.
    harness.store().set_busy_timeout(Duration::from_millis(200)).unwrap();
    let other = rusqlite::Connection::open(harness.store().path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

/// The message's row.
fn stored(harness: &Harness, id: i64) -> hearth_app::store::message::Message {
    let get = |t: &rusqlite::Transaction<'_>| hearth_app::store::message::get(t, id);
    harness.store().read(get).unwrap().expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_store_does_not_end_an_answer() {
    let mut harness = Harness::tiny();
    harness.answer("say one").await;
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let other = lock_store(&harness);
    let locked =
        |expected| move |event| matches!(event, Event::StoreLocked { locked } if locked == expected).then_some(());
    harness.next(locked(true)).await;
    for _ in 0..20 {
        harness.streaming(sent.answer.id).await;
    }
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(answer.state, MessageState::Stopped, "the lock does not change its end");
    let shown = harness.conversation(sent.conversation.id).await.messages[1].clone();
    assert_eq!(shown, answer);
    assert!(
        stored(&harness, answer.id).text().len() < answer.text().len(),
        "the text waits in memory"
    );
    other.execute_batch("COMMIT").unwrap();
    harness.next(locked(false)).await;
    assert_eq!(stored(&harness, answer.id).text(), answer.text());
    let harness = harness.again().await;
    assert_eq!(harness.conversation(sent.conversation.id).await.messages[1], answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transaction_of_hearth_is_not_reported_as_another_program() {
    let mut harness = Harness::tiny();
    harness.store().set_busy_timeout(Duration::from_millis(200)).unwrap();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let app = harness.app.clone();
    let (begun, begins) = std::sync::mpsc::channel();
    // As long as an import of many conversations, or a check of a backup.
    let importing = std::thread::spawn(move || {
        let wait = |_: &rusqlite::Transaction<'_>| {
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        };
        app.store().write(wait).unwrap();
    });
    begins.recv().unwrap();
    let before = tokio::time::Instant::now();
    while before.elapsed() < Duration::from_secs(4) {
        let streams = |event: &Event| matches!(event, Event::MessageDelta { .. });
        let event = harness.next(|event| {
            assert!(!matches!(event, Event::StoreLocked { .. }), "no other program has it");
            streams(&event).then_some(event)
        });
        event.await;
    }
    importing.join().unwrap();
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(stored(&harness, answer.id).text(), answer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_a_lock_on_the_store() {
    let mut harness = Harness::tiny();
    let sent = harness.say(None, "slow").await;
    harness.streaming(sent.answer.id).await;
    let other = lock_store(&harness);
    for _ in 0..20 {
        harness.streaming(sent.answer.id).await;
    }
    let streamed = harness.conversation(sent.conversation.id).await.messages[1]
        .text()
        .clone();
    let app = harness.app.clone();
    let closing = tokio::spawn(async move { app.shut_down().await });
    let ended = harness.ended(sent.answer.id).await;
    assert!(!closing.is_finished() && ended.text().starts_with(&streamed));
    other.execute_batch("COMMIT").unwrap();
    closing.await.unwrap().unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.conversation(sent.conversation.id).await.messages[1], ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_app_is_refused() {
    let harness = Harness::tiny();
    let second = App::open(options(&harness.folder), |_| {});
    assert_eq!(
        second.err().map(|problem| problem.code),
        Some(ProblemCode::AlreadyRunning)
    );
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
    assert_eq!(harness.regenerate(99).await.map_err(code), Err(ProblemCode::NotFound));
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
