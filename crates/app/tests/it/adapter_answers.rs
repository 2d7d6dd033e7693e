//! Answers with the adapter of a run, alone and beside the base model.

use crate::harness::{
    Harness, failure, ids, request_of,
    runs::{new_run, train_adapter, wait_until_finished},
};
use hearth_app::wire::{
    Adapter, AdapterChoice, Compared, ComparedAnswer, Conversation, ConversationSettings, Message, MessageState,
    NewConversation, ProblemCode, Role, SamplingOverrides,
};
use hearth_protocol::Prompt;
use std::path::Path;

/// The adapter at half scale.
fn choice(adapter: &Adapter) -> AdapterChoice {
    AdapterChoice {
        adapter: adapter.id,
        scale: 0.5,
    }
}

/// A comparison of the base model with an adapter.
fn with_base(adapter: &Adapter) -> Vec<ComparedAnswer> {
    let adapters = vec![choice(adapter)];
    vec![
        ComparedAnswer::default(),
        ComparedAnswer {
            adapters,
            ..ComparedAnswer::default()
        },
    ]
}

/// Asks the base model and the adapter, in a new conversation.
async fn compare_with_base(harness: &Harness, text: &str, adapter: &Adapter) -> Compared {
    let answers = with_base(adapter);
    let compared = harness.compare(None, None, text.into(), Vec::new(), answers, NewConversation::default());
    compared.await.unwrap()
}

/// The system prompt of an answer in a conversation with its `own` one and an adapter that was
/// trained with `trained`.
async fn prompt_of_a_chat(trained: Option<&str>, own: Option<&str>) -> Option<String> {
    let mut harness = Harness::tiny();
    let mut new = new_run(&harness, "learn 2").await;
    new.settings.system_prompt = trained.map(str::to_owned);
    let run = harness.start_run(new).await.expect("a run").id;
    wait_until_finished(&mut harness, run).await;
    let adapter = harness.adapters().await.unwrap().remove(0);
    let id = harness.answer("show").await.conversation;
    harness
        .set_conversation_adapters(id, vec![choice(&adapter)])
        .await
        .unwrap();
    harness.set_system_prompt(id, own.map(str::to_owned)).await.unwrap();
    let sent = harness.say(Some(id), "show").await;
    let Prompt::Chat(turns) = request_of(&harness.ended(sent.answer.id).await).prompt else {
        panic!("no chat")
    };
    let first = turns.first().expect("a turn");
    (first.role == Role::System).then(|| first.text())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_of_a_conversation_are_sent_to_the_worker() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let plain = harness.answer("show").await;
    assert!(request_of(&plain).adapters.is_empty() && plain.adapters.is_empty());
    let id = plain.conversation;
    harness
        .set_conversation_adapters(id, vec![choice(&adapter)])
        .await
        .unwrap();
    let sent = harness.say(Some(id), "show").await;
    let answer = harness.ended(sent.answer.id).await;
    let used = request_of(&answer).adapters;
    assert!(
        matches!(&used[..], [one] if one.path == Path::new(&adapter.path) && one.scale == 0.5),
        "{used:?}"
    );
    assert_eq!(answer.adapters[0].name, adapter.name);

    let mut harness = harness.again().await;
    let kept = harness.conversation(id).await;
    assert_eq!((kept.adapters, &kept.messages[3]), (vec![choice(&adapter)], &answer));
    harness.delete_adapter(adapter.id).await.unwrap();
    let sent = harness.say(Some(id), "show").await;
    let refused = harness.ended(sent.answer.id).await;
    assert_eq!(
        failure(&refused).code,
        ProblemCode::NotFound,
        "it does not ignore the chosen adapter"
    );
    harness.set_conversation_adapters(id, Vec::new()).await.unwrap();
    let again = harness.regenerate(refused.id, None).await.unwrap();
    assert!(request_of(&harness.ended(again.answer.id).await).adapters.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_with_an_adapter_has_the_system_prompt_of_its_training() {
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(prompt_of_a_chat(Some("Be brief."), None).await, text("Be brief."));
    assert_eq!(prompt_of_a_chat(Some("Be brief."), Some("Sing.")).await, text("Sing."));
    assert_eq!(prompt_of_a_chat(Some(""), None).await, text(""));
    assert_eq!(prompt_of_a_chat(None, None).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_of_another_model_is_refused() {
    let mut harness = Harness::new(&["tiny.gguf", "other.gguf"]);
    let adapter = train_adapter(&mut harness).await;
    harness.load_model("other".into()).await.unwrap();
    let compared = compare_with_base(&harness, "say one", &adapter).await;
    let [base, tuned] = harness.all_ended(ids(&compared)).await;
    assert_eq!(failure(&tuned).code, ProblemCode::AdapterInvalid);
    assert!(failure(&tuned).to_string().contains(&adapter.name));
    assert_eq!(base.text(), "one", "the other answer is generated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_answers_side_by_side_and_a_vote() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let compared = compare_with_base(&harness, "show", &adapter).await;
    let id = compared.conversation.id;
    let [base, tuned] = harness.all_ended(ids(&compared)).await;
    assert_eq!((base.comparison, tuned.comparison), (Some(tuned.id), Some(base.id)));
    assert_eq!(base.parent, tuned.parent);
    assert_eq!(
        (request_of(&base).adapters.len(), request_of(&tuned).adapters.len()),
        (0, 1)
    );
    let votes = |adapters: Vec<Adapter>| (adapters[0].votes.base, adapters[0].votes.tuned);
    let better = |conversation: &Conversation| -> Vec<bool> {
        conversation.messages[1..]
            .iter()
            .map(|message| message.better)
            .collect()
    };

    harness.vote_answer(base.id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!((shown.leaf, better(&shown)), (Some(base.id), vec![true, false]));
    assert_eq!(votes(harness.adapters().await.unwrap()), (1, 0));
    harness.vote_answer(tuned.id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!((shown.leaf, better(&shown)), (Some(tuned.id), vec![false, true]));
    assert_eq!(votes(harness.adapters().await.unwrap()), (0, 1));
    harness.vote_answer(tuned.id, false).await.unwrap();
    assert_eq!(votes(harness.adapters().await.unwrap()), (0, 0));
    let follow = harness.say(Some(id), "say on").await;
    assert_eq!(follow.user.unwrap().parent, Some(tuned.id));
    harness.ended(follow.answer.id).await;
    harness.vote_answer(base.id, true).await.unwrap();
    assert_eq!(
        harness.conversation(id).await.leaf,
        Some(follow.answer.id),
        "a conversation that has continued keeps its branch"
    );
    assert_eq!(
        harness.vote_answer(follow.answer.id, true).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    let nothing = harness
        .compare(
            Some(id),
            None,
            "say one".into(),
            Vec::new(),
            vec![ComparedAnswer::default()],
            NewConversation::default(),
        )
        .await;
    assert_eq!(nothing.unwrap_err().code, ProblemCode::BadRequest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_begins_a_conversation_with_its_settings() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let fresh = |temperature| NewConversation {
        settings: ConversationSettings {
            sampling: SamplingOverrides {
                temperature: Some(temperature),
                ..SamplingOverrides::default()
            },
            max_tokens: Some(99),
            ..ConversationSettings::default()
        },
        system_prompt: Some("Be brief.".into()),
        ..NewConversation::default()
    };
    let hot = harness
        .compare(None, None, "show".into(), Vec::new(), with_base(&adapter), fresh(101.0))
        .await;
    assert_eq!(hot.unwrap_err().code, ProblemCode::BadRequest);
    let compared = harness
        .compare(None, None, "show".into(), Vec::new(), with_base(&adapter), fresh(0.25))
        .await
        .unwrap();
    for answer in harness.all_ended::<2>(ids(&compared)).await {
        let request = request_of(&answer);
        assert_eq!((request.sampling.temperature, request.max_tokens), (0.25, Some(99)));
        let Prompt::Chat(turns) = request.prompt else {
            panic!("no chat")
        };
        assert_eq!(turns[0].text(), "Be brief.");
    }
    let kept = harness.conversation(compared.conversation.id).await;
    assert_eq!(
        (kept.settings, kept.system_prompt),
        (fresh(0.25).settings, fresh(0.25).system_prompt)
    );
    // A conversation that exists keeps its own.
    let id = compared.conversation.id;
    let again = harness
        .compare(
            Some(id),
            None,
            "show".into(),
            Vec::new(),
            with_base(&adapter),
            fresh(0.75),
        )
        .await
        .unwrap();
    let [base, _] = harness.all_ended(ids(&again)).await;
    assert_eq!(request_of(&base).sampling.temperature, 0.25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_both_answers() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let compared = compare_with_base(&harness, "slow", &adapter).await;
    harness.streaming(compared.answers[0].id).await;
    harness.stop(compared.conversation.id).await.unwrap();
    let ends: [Message; 2] = harness.all_ended(ids(&compared)).await;
    assert!(
        ends.iter().all(|answer| answer.state == MessageState::Stopped),
        "{ends:?}"
    );
}
