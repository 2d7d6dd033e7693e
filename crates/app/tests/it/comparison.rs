//! Several answers side by side, each with its own model and settings: a real store and fake
//! workers. The fake worker obeys the prompt: `show` answers the request as JSON, `say X` answers
//! X, `slow` streams until it is stopped, `cut` ends at the limit.

use crate::{
    data_harness::export_labels,
    harness::{Harness, failure, ids, request_of, under_way},
};
use hearth_app::wire::{
    AnswerOverrides, ChatFormat, Compared, ComparedAnswer, Conversation, Event, Folder, Message, MessageState,
    ModelState, NewConversation, Preset, PresetValues, Problem, ProblemCode, SamplingOverrides, Thumb,
};
use hearth_protocol::Prompt;

fn with_model(model: &str) -> ComparedAnswer {
    ComparedAnswer {
        overrides: AnswerOverrides {
            model: Some(model.to_owned()),
            ..AnswerOverrides::default()
        },
        adapters: Vec::new(),
    }
}

fn with_preset(temperature: f32, system_prompt: &str) -> ComparedAnswer {
    let values = PresetValues {
        system_prompt: Some(system_prompt.to_owned()),
        sampling: SamplingOverrides {
            temperature: Some(temperature),
            ..SamplingOverrides::default()
        },
        ..PresetValues::default()
    };
    let preset = Preset {
        id: "mine".to_owned(),
        name: "Mine".to_owned(),
        is_built_in: false,
        values,
    };
    ComparedAnswer {
        overrides: AnswerOverrides {
            preset: Some(preset),
            ..AnswerOverrides::default()
        },
        adapters: Vec::new(),
    }
}

async fn compare(harness: &Harness, text: &str, answers: Vec<ComparedAnswer>) -> Result<Compared, Problem> {
    harness
        .compare(None, None, text.into(), Vec::new(), answers, NewConversation::default())
        .await
}

fn first_message(answer: &Message) -> String {
    let Prompt::Chat(turns) = request_of(answer).prompt else {
        panic!("no chat")
    };
    turns[0].text()
}

fn votes(conversation: &Conversation) -> Vec<bool> {
    let answers = &conversation.messages[1..];
    answers.iter().map(|message| message.better).collect()
}

/// Index of the message that each answer's `comparison` points to: a ring.
fn next_answers(conversation: &Conversation) -> Vec<Option<usize>> {
    let place = |id: i64| conversation.messages.iter().position(|message| message.id == id);
    let answers = &conversation.messages[1..];
    answers
        .iter()
        .map(|message| message.comparison.and_then(place))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_is_given_by_its_own_model_and_settings() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.unwrap();
    let answers = vec![
        ComparedAnswer::default(),
        with_model("other"),
        with_preset(0.125, "Sing."),
    ];
    let compared = compare(&harness, "show", answers).await.unwrap();
    let [plain, other, preset_answer] = harness.all_ended(ids(&compared)).await;
    let models = [&plain, &other, &preset_answer].map(|answer| answer.model.clone().expect("a model"));
    assert_eq!(models, ["A tiny model", "Another model", "A tiny model"]);
    assert_eq!(first_message(&preset_answer), "Sing.");
    assert_eq!([&plain, &other].map(first_message), ["show", "show"]);
    assert_eq!(request_of(&preset_answer).sampling.temperature, 0.125);
    assert_ne!(request_of(&plain).sampling.temperature, 0.125);
    let selected = harness.snapshot().await.unwrap().model_state;
    assert!(
        matches!(&selected, ModelState::Ready { model, .. } if model == "tiny"),
        "a model to compare with is not selected: {selected:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loading_progress_is_shown_on_the_answer_that_waits_for_it() {
    let mut harness = Harness::new(&["tiny.gguf", "slow.gguf"]);
    harness.load_model("tiny".into()).await.unwrap();
    harness
        .model_state(|state| matches!(state, ModelState::Ready { .. }))
        .await;
    let answers = vec![ComparedAnswer::default(), with_model("slow")];
    let compared = compare(&harness, "say one", answers).await.unwrap();
    let [plain, slow] = ids(&compared);
    let (mut loading, mut has_ended) = (Vec::new(), false);
    harness
        .next(|event| {
            match event {
                Event::MessageChanged { message } if message.id == plain && !under_way(&message) => has_ended = true,
                Event::MessageChanged { message } => {
                    if let MessageState::Loading { fraction, .. } = message.state {
                        loading.push((message.id, fraction));
                    }
                }
                Event::ModelState { state } => panic!("a model to compare with is not selected: {state:?}"),
                _ => {}
            }
            // The slow model is never loaded further.
            (has_ended && loading.last().is_some_and(|(_, fraction)| *fraction > 0.0)).then_some(())
        })
        .await;
    assert!(loading.iter().all(|(id, _)| *id == slow), "{loading:?}");
    assert!(loading.is_sorted_by(|(_, one), (_, next)| one <= next), "{loading:?}");
    harness.stop(compared.conversation.id).await.unwrap();
    assert_eq!(harness.ended(slow).await.state, MessageState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_at_most_has_the_vote() {
    let mut harness = Harness::tiny();
    let answers = vec![ComparedAnswer::default(); 4];
    let compared = compare(&harness, "say one", answers).await.unwrap();
    let id = compared.conversation.id;
    let answers: [Message; 4] = harness.all_ended(ids(&compared)).await;
    let shown = harness.conversation(id).await;
    assert_eq!(next_answers(&shown), [Some(2), Some(3), Some(4), Some(1)]);
    assert_eq!(shown.leaf, Some(answers[3].id));

    harness.vote_answer(answers[1].id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!(
        (shown.leaf, votes(&shown)),
        (Some(answers[1].id), vec![false, true, false, false])
    );
    harness.vote_answer(answers[2].id, true).await.unwrap();
    let shown = harness.conversation(id).await;
    assert_eq!(
        (shown.leaf, votes(&shown)),
        (Some(answers[2].id), vec![false, false, true, false])
    );
    harness.vote_answer(answers[2].id, false).await.unwrap();
    assert_eq!(votes(&harness.conversation(id).await), [false; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_model_fails_only_its_answer() {
    let mut harness = Harness::tiny();
    let answers = vec![with_model("gone"), ComparedAnswer::default()];
    let compared = compare(&harness, "say one", answers).await.unwrap();
    let [gone, given] = harness.all_ended(ids(&compared)).await;
    assert_eq!(failure(&gone).code, ProblemCode::NotFound);
    assert_eq!((given.text(), given.state), ("one".to_owned(), MessageState::Complete));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_message_follows_the_answer_that_has_text() {
    let mut harness = Harness::tiny();
    // The window names the end of the branch, a queue does not.
    for is_named in [false, true] {
        let answers = vec![ComparedAnswer::default(), with_model("gone")];
        let compared = compare(&harness, "say one", answers).await.unwrap();
        let [given, gone] = harness.all_ended(ids(&compared)).await;
        let id = compared.conversation.id;
        assert_eq!(harness.conversation(id).await.leaf, Some(gone.id));
        let parent = is_named.then_some(gone.id);
        let next = harness.send(Some(id), parent, "show".into(), Vec::new(), NewConversation::default());
        let user = next.await.unwrap().user.expect("a message");
        assert_eq!(user.parent, Some(given.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unloading_stops_the_answers_of_all_compared_models() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.unwrap();
    let compared = compare(&harness, "slow", vec![ComparedAnswer::default(), with_model("other")])
        .await
        .unwrap();
    let [plain, other] = ids(&compared);
    harness.streaming(other).await;
    harness.unload_model().await.unwrap();
    for answer in harness.all_ended([plain, other]).await {
        assert_eq!(answer.state, MessageState::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rated_compared_answer_is_an_example_with_its_own_system_prompt() {
    let mut harness = Harness::tiny();
    let answers = vec![ComparedAnswer::default(), with_preset(0.125, "Sing.")];
    let compared = compare(&harness, "say one", answers).await.unwrap();
    let [_, preset_answer] = harness.all_ended(ids(&compared)).await;
    harness
        .rate_answer(preset_answer.id, Some(Thumb::Up), None)
        .await
        .unwrap();
    let dataset = harness.dataset_from_ratings("Songs".into()).await.unwrap();
    let text = std::fs::read_to_string(dataset.path).expect("a dataset");
    assert!(text.contains("Sing."), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rated_answer_is_an_example_with_its_folders_system_prompt() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("say one").await;
    let folder = Folder {
        system_prompt: Some("Rhyme.".to_owned()),
        ..harness.create_folder("Poems".into()).await.unwrap()
    };
    harness.update_folder(folder.clone()).await.unwrap();
    harness
        .move_conversation(answer.conversation, Some(folder.id))
        .await
        .unwrap();
    harness.rate_answer(answer.id, Some(Thumb::Up), None).await.unwrap();
    let dataset = harness.dataset_from_ratings("Poems".into()).await.unwrap();
    let text = std::fs::read_to_string(dataset.path).expect("a dataset");
    assert!(text.contains("Rhyme."), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_presets_answer_equals_one_after_applying_the_preset() {
    let mut harness = Harness::tiny();
    let sings = PresetValues {
        system_prompt: Some("Sing.".to_owned()),
        ..PresetValues::default()
    };
    let sings = harness.save_preset("Sings".into(), sings).await.unwrap().id;
    let id = harness.answer("say one").await.conversation;
    let fresh = NewConversation::default;
    for (system_prompt, shown) in [(None, "say one"), (Some("Mine."), "Mine.")] {
        harness.apply_preset(sings.clone(), Some(id), fresh()).await.unwrap();
        if let Some(own) = system_prompt {
            harness.set_system_prompt(id, Some(own.into())).await.unwrap();
        }
        let mut answer = with_preset(0.125, "");
        if let Some(preset) = &mut answer.overrides.preset {
            preset.values.system_prompt = None;
        }
        let answers = vec![ComparedAnswer::default(), answer];
        let compared = harness
            .compare(Some(id), None, "show".into(), Vec::new(), answers, fresh())
            .await;
        let [plain, other] = harness.all_ended(ids(&compared.unwrap())).await;
        assert_eq!(first_message(&plain), system_prompt.unwrap_or("Sing."));
        assert_eq!(first_message(&other), shown);
        harness.rate_answer(other.id, Some(Thumb::Up), None).await.unwrap();
        let dataset = harness.dataset_from_ratings("Songs".into()).await.unwrap();
        let text = std::fs::read_to_string(dataset.path).expect("a dataset");
        assert!(!text.contains("Sing."), "{text}");
        assert_eq!(text.contains("Mine."), system_prompt.is_some(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continued_answer_keeps_its_model_and_settings() {
    let mut harness = Harness::with_two_models();
    harness.load_model("tiny".into()).await.unwrap();
    let mut answer = with_preset(0.125, "Sing.");
    answer.overrides.model = Some("other".to_owned());
    let compared = compare(&harness, "cut", vec![ComparedAnswer::default(), answer])
        .await
        .unwrap();
    let [_, truncated] = harness.all_ended(ids(&compared)).await;
    let mut harness = harness.again().await;
    let sent = harness.continue_answer(truncated.id).await.unwrap();
    let whole = harness.ended(sent.answer.id).await;
    assert_eq!(
        (whole.id, whole.model.as_deref()),
        (truncated.id, Some("Another model"))
    );
    assert!(whole.text().ends_with("and its end"));
    assert_eq!(whole.settings.expect("settings").sampling.temperature, 0.125);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_the_answers_of_every_model() {
    let mut harness = Harness::with_two_models();
    let compared = compare(&harness, "slow", vec![ComparedAnswer::default(), with_model("other")])
        .await
        .unwrap();
    let [plain, other] = ids(&compared);
    harness.streaming(plain).await;
    harness.stop(compared.conversation.id).await.unwrap();
    let ends: [Message; 2] = harness.all_ended([plain, other]).await;
    assert!(
        ends.iter().all(|answer| answer.state == MessageState::Stopped),
        "{ends:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_than_two_or_more_than_four_answers_are_refused() {
    let harness = Harness::tiny();
    for count in [0, 1, 5] {
        let refused = compare(&harness, "say one", vec![ComparedAnswer::default(); count])
            .await
            .unwrap_err();
        assert_eq!(refused.code, ProblemCode::BadRequest);
    }
    let hot = vec![ComparedAnswer::default(), with_preset(101.0, "")];
    assert_eq!(
        compare(&harness, "say one", hot).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
    assert!(harness.snapshot().await.unwrap().conversations.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_is_exported_and_imported_whole() {
    let mut harness = Harness::tiny();
    let answers = vec![
        ComparedAnswer::default(),
        with_preset(0.125, "Sing."),
        ComparedAnswer::default(),
    ];
    let compared = compare(&harness, "say one", answers).await.unwrap();
    let [_, second, _] = harness.all_ended(ids(&compared)).await;
    harness.vote_answer(second.id, true).await.unwrap();
    let path = harness.folder.path().join("all.json");
    harness
        .export_conversations(None, ChatFormat::Json, export_labels(), path.clone())
        .await
        .unwrap();

    let other = Harness::tiny();
    other.import_conversations(path).await.unwrap();
    let all = other.snapshot().await.unwrap().conversations;
    let copy = other.conversation(all[0].id).await;
    assert_eq!(next_answers(&copy), [Some(2), Some(3), Some(1)]);
    assert_eq!(votes(&copy), [false, true, false]);
    assert_eq!(copy.messages[2].overrides, second.overrides);
}
