//! Continued and edited answers, and the settings of conversations: a real store and the fake
//! worker.

use crate::harness::Harness;
use hearth_app::wire::{
    AnswerOverrides, ConversationSettings, Effort, LogitBias, Message, MessageState, NewConversation, Part, Problem,
    ProblemCode, SamplingOverrides, Sent, Settings, ThinkingChoice, ThinkingEffort, ThinkingSwitch, TruncationReason,
};
use hearth_protocol::{GenerateRequest, Prompt};

fn code(problem: Problem) -> ProblemCode {
    assert!(problem.to_string().ends_with('.'), "{problem:?}");
    problem.code
}

fn truncated() -> MessageState {
    MessageState::Truncated {
        reason: TruncationReason::Length,
    }
}

/// The request that an answer to `show` shows, behind the text that it had.
fn shown(answer: &Message) -> GenerateRequest {
    let text = answer.text();
    let at = text.find('{').expect("a request");
    serde_json::from_str(&text[at..]).expect("a request")
}

async fn ended(harness: &mut Harness, sent: Result<Sent, Problem>) -> Message {
    harness.ended(sent.expect("it begins").answer.id).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_answer_is_continued_in_the_same_message() {
    let mut harness = Harness::tiny();
    let half = harness.answer("cut").await;
    assert_eq!(
        (half.state.clone(), half.text().as_str()),
        (truncated(), "Half an answer")
    );
    let sent = harness.continue_answer(half.id).await.expect("it begins");
    assert_eq!(
        (sent.user, sent.answer.id, sent.answer.state),
        (None, half.id, MessageState::Waiting)
    );
    assert_eq!(sent.answer.parts, half.parts, "the text stays in view");
    let whole = harness.ended(half.id).await;
    assert_eq!(
        (whole.state.clone(), whole.text().as_str()),
        (MessageState::Complete, "Half an answer, and its end")
    );
    let stats = whole.stats.clone().expect("stats");
    assert_eq!(stats.tokens, 3, "one, the text held back, and its end");
    let kept = harness.conversation(half.conversation).await;
    assert_eq!((kept.messages.len(), kept.messages.last()), (2, Some(&whole)));
    // Again, behind a restart.
    let mut harness = harness.again().await;
    let again = harness.continue_answer(half.id).await;
    let longer = ended(&mut harness, again).await;
    assert_eq!(longer.text(), "Half an answer, and its end, and its end");
    assert_eq!(longer.stats.expect("stats").tokens, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_answer_and_one_whose_worker_died_are_continued() {
    let mut harness = Harness::tiny();
    let slow = harness.say(None, "slow").await;
    harness.streaming(slow.answer.id).await;
    harness.stop(slow.conversation.id).await.expect("it stops");
    let stopped = harness.ended(slow.answer.id).await;
    let died = harness.answer("die").await;
    assert_eq!(died.text(), "Half an answer");
    for half in [stopped, died] {
        let sent = harness.continue_answer(half.id).await;
        let whole = ended(&mut harness, sent).await;
        assert_eq!(whole.state, MessageState::Complete);
        assert_eq!(whole.text(), half.text() + ", and its end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_stopped_before_it_grows_stays_as_it_was() {
    // A model called slow is never loaded.
    let mut harness = Harness::new(&["slow.gguf", "tiny.gguf"]);
    harness.load_model("tiny".into()).await.expect("it loads");
    let half = harness.answer("cut").await;
    harness.load_model("slow".into()).await.expect("it is selected");
    harness.continue_answer(half.id).await.expect("it begins");
    harness.stop(half.conversation).await.expect("it stops");
    assert_eq!(harness.ended(half.id).await, half);
    assert_eq!(harness.conversation(half.conversation).await.messages[1], half);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_continued_is_refused() {
    let mut harness = Harness::tiny();
    let first = harness.say(None, "say one").await;
    harness.ended(first.answer.id).await;
    let id = first.conversation.id;
    let slow = harness.say(Some(id), "slow").await;
    harness.streaming(slow.answer.id).await;
    let refused = |sent: Result<Sent, Problem>| code(sent.expect_err("refused"));
    assert_eq!(
        refused(harness.continue_answer(slow.answer.id).await),
        ProblemCode::Busy
    );
    assert_eq!(
        refused(harness.continue_answer(first.answer.id).await),
        ProblemCode::Busy
    );
    harness.stop(id).await.expect("it stops");
    harness.ended(slow.answer.id).await;
    let user = slow.user.expect("a message").id;
    assert_eq!(refused(harness.continue_answer(user).await), ProblemCode::BadRequest);
    assert_eq!(refused(harness.continue_answer(999).await), ProblemCode::NotFound);
    let with_replies = harness.continue_answer(first.answer.id).await.expect_err("refused");
    assert!(with_replies.to_string().contains("replies"), "{with_replies:?}");
    harness.delete_conversation(id).await.expect("it is deleted");
    assert_eq!(
        refused(harness.continue_answer(slow.answer.id).await),
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_answer_is_another_version_and_nothing_is_lost() {
    let mut harness = Harness::tiny();
    let thought = harness.answer("think Paris.").await;
    let edited = harness
        .edit_answer(thought.id, "Lyon.".into(), false)
        .await
        .expect("it is edited");
    assert!(edited.answer.edited && !thought.edited);
    assert_eq!(
        (
            edited.answer.parent,
            edited.answer.state.clone(),
            edited.answer.model.clone()
        ),
        (thought.parent, MessageState::Complete, thought.model.clone())
    );
    let parts = [thought.parts[0].clone(), Part::Text { text: "Lyon.".into() }];
    assert_eq!(edited.answer.parts, parts, "its thought stays");
    let kept = harness.conversation(thought.conversation).await;
    assert_eq!(kept.leaf, Some(edited.answer.id));
    assert_eq!(kept.messages[1..], [thought.clone(), edited.answer.clone()]);
    // The conversation goes on from it.
    let next = harness.say(Some(thought.conversation), "show").await;
    let Prompt::Chat(turns) = shown(&harness.ended(next.answer.id).await).prompt else {
        panic!("no chat")
    };
    assert!(turns.iter().any(|turn| turn.parts == parts), "{turns:?}");
    let refused = harness
        .edit_answer(thought.id, " \n".into(), true)
        .await
        .expect_err("refused");
    assert_eq!(code(refused), ProblemCode::BadRequest);
    let user = thought.parent.expect("a message");
    assert_eq!(
        code(harness.edit_answer(user, "x".into(), false).await.expect_err("refused")),
        ProblemCode::BadRequest
    );
    assert_eq!(
        code(harness.edit_answer(999, "x".into(), false).await.expect_err("refused")),
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_continues_what_a_person_began() {
    let mut harness = Harness::tiny();
    let first = harness.answer("show").await;
    let sent = harness.edit_answer(first.id, "It is ".into(), true).await;
    let whole = ended(&mut harness, sent).await;
    assert!(
        whole.edited && whole.id != first.id && whole.text().starts_with("It is {"),
        "{whole:?}"
    );
    let Prompt::Continue { messages, ids } = shown(&whole).prompt else {
        panic!("not continued")
    };
    let texts: Vec<String> = messages.iter().map(hearth_protocol::Message::text).collect();
    assert_eq!((texts, ids), (vec!["show".to_owned(), "It is ".to_owned()], Vec::new()));
    // Its tokens are known from then on.
    let sent = harness.continue_answer(whole.id).await;
    let longer = ended(&mut harness, sent).await;
    let text = longer.text();
    let last: GenerateRequest =
        serde_json::from_str(&text[text.rfind("{\"prompt\"").expect("a request")..]).expect("a request");
    assert!(
        matches!(last.prompt, Prompt::Continue { ids, .. } if ids == [1]),
        "{text}"
    );
    assert_eq!(harness.conversation(first.conversation).await.messages[1], first);
}

/// An override of every parameter but the ones in [`settings`], none of them a default.
fn every_sampler() -> SamplingOverrides {
    SamplingOverrides {
        min_p: Some(0.125),
        typical_p: Some(0.5),
        top_n_sigma: Some(1.5),
        repetition_penalty: Some(1.25),
        frequency_penalty: Some(-0.5),
        presence_penalty: Some(0.75),
        repeat_last_n: Some(32),
        xtc_probability: Some(0.25),
        xtc_threshold: Some(0.375),
        dry_multiplier: Some(0.875),
        dry_base: Some(2.0),
        dry_allowed_length: Some(3),
        dry_last_n: Some(512),
        mirostat: Some(true),
        mirostat_tau: Some(4.5),
        mirostat_eta: Some(0.0625),
        dynatemp_range: Some(0.5),
        dynatemp_exponent: Some(1.5),
        dry_breakers: Some(Vec::new()),
        logit_bias: Some(vec![
            LogitBias::Text {
                text: " Paris".into(),
                bias: Some(-2.5),
            },
            LogitBias::Id { id: 7, bias: None },
        ]),
        banned_strings: Some(vec!["delve".into()]),
        ..SamplingOverrides::default()
    }
}

fn settings() -> ConversationSettings {
    ConversationSettings {
        model: None,
        preset: Some("creative".into()),
        sampling: SamplingOverrides {
            temperature: Some(0.25),
            top_k: Some(7),
            seed: Some(11),
            ..every_sampler()
        },
        max_tokens: Some(99),
        stop: Some(vec!["END".into()]),
        thinking: ThinkingChoice {
            enabled: Some(ThinkingSwitch::Fixed(false)),
            effort: Some(ThinkingEffort::Fixed(Effort::Low)),
        },
        json_schema: Some("{\"type\": \"object\"}".into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_conversation_make_its_answers() {
    let mut harness = Harness::tiny();
    let fresh = NewConversation {
        settings: settings(),
        system_prompt: Some("Be brief.".into()),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "show".into(), Vec::new(), fresh).await;
    let answer = ended(&mut harness, sent).await;
    let request = shown(&answer);
    let Prompt::Chat(turns) = &request.prompt else {
        panic!("no chat")
    };
    assert_eq!(turns[0].text(), "Be brief.");
    let made = answer.settings.clone().expect("settings");
    assert_eq!(
        (request.max_tokens, &request.stop, request.thinking),
        (Some(99), &vec!["END".into()], settings().thinking.into())
    );
    assert_eq!(
        (made.sampling.temperature, made.sampling.top_k, made.sampling.seed),
        (0.25, 7, Some(11))
    );
    assert_eq!(made.sampling, request.sampling);
    assert_eq!(
        (&made.json_schema, &request.json_schema),
        (&settings().json_schema, &settings().json_schema)
    );
    let of_answer = serde_json::to_value(&made.sampling).expect("it is written");
    let chosen = serde_json::to_value(settings().sampling).expect("it is written");
    let chosen = chosen.as_object().expect("an object").iter();
    let set: Vec<_> = chosen.filter(|(_, value)| !value.is_null()).collect();
    assert_eq!(set.len(), 24, "all but top-p, which stays the default");
    for (key, value) in set {
        assert_eq!(of_answer.get(key), Some(value), "{key}");
    }
    assert_eq!(made.sampling.top_p, 0.95, "the default");
    assert_eq!(
        (made.max_tokens, made.thinking, made.effort),
        (Some(99), Some(false), Some(Effort::Low))
    );

    let harness = harness.again().await;
    let kept = harness.conversation(answer.conversation).await;
    assert_eq!(kept.settings, settings());
    assert_eq!(kept.messages[1], answer);
    let default = ConversationSettings::default();
    harness
        .set_conversation_settings(answer.conversation, default.clone())
        .await
        .expect("they are set");
    assert_eq!(harness.conversation(answer.conversation).await.settings, default);
    let mut harness = harness;
    let again = harness.regenerate(answer.id, None).await;
    let made = ended(&mut harness, again).await.settings.expect("settings");
    assert_eq!((made.sampling.temperature, made.max_tokens), (0.8, None));
    assert!(made.sampling.seed.is_some(), "the seed that was drawn is known");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_settings_are_refused_with_a_sentence() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let with = |change: &dyn Fn(&mut ConversationSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let hostile = [
        with(&|s| s.sampling.temperature = Some(f32::NAN)),
        with(&|s| s.sampling.temperature = Some(f32::INFINITY)),
        with(&|s| s.sampling.temperature = Some(-1.0)),
        with(&|s| s.sampling.top_p = Some(1.5)),
        with(&|s| s.sampling.repetition_penalty = Some(0.0)),
        with(&|s| s.sampling.top_k = Some(u32::MAX)),
        with(&|s| s.sampling.seed = Some(u64::MAX)),
        with(&|s| s.sampling.typical_p = Some(-0.1)),
        with(&|s| s.sampling.top_n_sigma = Some(101.0)),
        with(&|s| s.sampling.xtc_probability = Some(f32::NAN)),
        with(&|s| s.sampling.xtc_threshold = Some(2.0)),
        with(&|s| s.sampling.dry_multiplier = Some(f32::NEG_INFINITY)),
        with(&|s| s.sampling.dry_base = Some(0.5)),
        with(&|s| s.sampling.dry_allowed_length = Some(u32::MAX)),
        with(&|s| s.sampling.dry_last_n = Some(u32::MAX)),
        with(&|s| s.sampling.mirostat_tau = Some(-1.0)),
        with(&|s| s.sampling.mirostat_eta = Some(1.5)),
        with(&|s| s.sampling.dynatemp_range = Some(-1.0)),
        with(&|s| s.sampling.dynatemp_exponent = Some(f32::NAN)),
        with(&|s| s.sampling.dry_breakers = Some(vec!["x".to_owned(); 257])),
        with(&|s| s.sampling.dry_breakers = Some(vec![String::new()])),
        with(&|s| s.sampling.banned_strings = Some(vec!["x".repeat(257)])),
        with(&|s| s.sampling.banned_strings = Some(vec!["\u{fffd}".into()])),
        with(&|s| s.sampling.logit_bias = Some(vec![LogitBias::Id { id: 1, bias: None }; 257])),
        with(&|s| s.sampling.logit_bias = Some(vec![bias_of("x", f32::NAN)])),
        with(&|s| s.sampling.logit_bias = Some(vec![bias_of("x", -1001.0)])),
        with(&|s| s.sampling.logit_bias = Some(vec![bias_of("", 1.0)])),
        with(&|s| s.sampling.logit_bias = Some(vec![bias_of(&"x".repeat(257), 1.0)])),
        with(&|s| s.max_tokens = Some(u32::MAX)),
        with(&|s| s.max_tokens = Some(0)),
        with(&|s| s.stop = Some(vec!["x".to_owned(); 10_000])),
        with(&|s| s.stop = Some(vec![String::new()])),
        with(&|s| s.stop = Some(vec!["x".repeat(1 << 20)])),
        with(&|s| s.model = Some("x".repeat(1 << 20))),
    ];
    for settings in hostile {
        let refused = harness
            .set_conversation_settings(id, settings.clone())
            .await
            .expect_err("refused");
        assert!(refused.to_string().len() < 200, "{refused:?}");
        assert_eq!(code(refused), ProblemCode::BadRequest);
        let fresh = NewConversation {
            settings,
            ..NewConversation::default()
        };
        let refused = harness
            .send(None, None, "say".into(), Vec::new(), fresh)
            .await
            .expect_err("refused");
        assert_eq!(code(refused), ProblemCode::BadRequest);
    }
    assert_eq!(harness.conversation(id).await.settings, ConversationSettings::default());
    let missing = harness
        .set_conversation_settings(999, settings())
        .await
        .expect_err("refused");
    assert_eq!(code(missing), ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_has_defaults_for_a_model() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let before = harness.snapshot().await.expect("a snapshot").settings;
    let settings_with = |temperature, model: &str| Settings {
        sampling: [(model.to_owned(), temperature_of(temperature))].into(),
        ..before.clone()
    };
    harness.set_settings(settings_with(0.25, "tiny")).await.expect("set");
    let mut harness = harness.again().await;
    let made = async |harness: &mut Harness| {
        let sent = harness.say(Some(id), "show").await;
        harness.ended(sent.answer.id).await.settings.expect("settings").sampling
    };
    let sampling = made(&mut harness).await;
    assert_eq!((sampling.temperature, sampling.top_p), (0.25, 0.95));
    let own = ConversationSettings {
        sampling: temperature_of(0.75),
        ..ConversationSettings::default()
    };
    harness.set_conversation_settings(id, own).await.expect("set");
    assert_eq!(
        made(&mut harness).await.temperature,
        0.75,
        "a conversation's own counts more"
    );
    harness
        .set_conversation_settings(id, ConversationSettings::default())
        .await
        .expect("set");
    harness.set_settings(settings_with(0.25, "other")).await.expect("set");
    assert_eq!(made(&mut harness).await.temperature, 0.8, "of another model");
    let hot = harness
        .set_settings(settings_with(101.0, "tiny"))
        .await
        .expect_err("refused");
    assert!(hot.to_string().contains("temperature"), "{hot:?}");
    let many = Settings {
        sampling: (0..300).map(|model| (model.to_string(), temperature_of(0.5))).collect(),
        ..before
    };
    assert_eq!(
        code(harness.set_settings(many).await.expect_err("refused")),
        ProblemCode::BadRequest
    );
}

fn temperature_of(temperature: f32) -> SamplingOverrides {
    SamplingOverrides {
        temperature: Some(temperature),
        ..SamplingOverrides::default()
    }
}

fn bias_of(text: &str, bias: f32) -> LogitBias {
    LogitBias::Text {
        text: text.to_owned(),
        bias: Some(bias),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_setting() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let settings_with = |sampling| ConversationSettings {
        sampling,
        ..ConversationSettings::default()
    };
    let none = SamplingOverrides::default();
    for (sampling, name) in [
        (
            SamplingOverrides {
                dry_base: Some(0.5),
                ..none.clone()
            },
            "DRY base",
        ),
        (
            SamplingOverrides {
                top_n_sigma: Some(-2.0),
                ..none.clone()
            },
            "top-nσ",
        ),
        (
            SamplingOverrides {
                logit_bias: Some(vec![bias_of("x", 2e3)]),
                ..none.clone()
            },
            "logit bias",
        ),
        (
            SamplingOverrides {
                dry_breakers: Some(vec!["x".into(); 300]),
                ..none.clone()
            },
            "256 DRY sequence breakers, not 300",
        ),
    ] {
        let refused = harness
            .set_conversation_settings(id, settings_with(sampling))
            .await
            .expect_err("refused");
        assert!(refused.to_string().contains(name), "{refused:?}");
    }
    let long = format!("{{\"description\": \"{}\"}}", "a".repeat(70_000));
    for (schema, why) in [
        ("{", "JSON object"),
        ("[]", "JSON object"),
        ("", "JSON object"),
        (&long, "65536"),
    ] {
        let settings = ConversationSettings {
            json_schema: Some(schema.to_owned()),
            ..ConversationSettings::default()
        };
        let refused = harness
            .set_conversation_settings(id, settings)
            .await
            .expect_err("refused");
        assert!(
            refused.to_string().contains(why) && refused.to_string().contains("JSON schema"),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_ended_because_it_repeats_itself_is_kept_and_goes_on() {
    let mut harness = Harness::tiny();
    let repetition = MessageState::Truncated {
        reason: TruncationReason::Repetition,
    };
    let answer = harness.answer("loop").await;
    assert_eq!(answer.state, repetition);
    let mut harness = harness.again().await;
    assert_eq!(harness.conversation(answer.conversation).await.messages[1], answer);
    let again = harness.continue_answer(answer.id).await;
    let longer = ended(&mut harness, again).await;
    assert_eq!((longer.id, &longer.state), (answer.id, &repetition));
    assert!(longer.text().len() > answer.text().len(), "{:?}", longer.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_repeated_tokens_is_a_setting_and_0_is_none() {
    let mut harness = Harness::tiny();
    assert_eq!(shown(&harness.answer("show").await).max_repeated, Some(300));
    for (repetition_limit, expected) in [(1000, Some(1000)), (0, None)] {
        let settings = Settings {
            repetition_limit,
            ..Settings::default()
        };
        harness.set_settings(settings).await.expect("they are saved");
        assert_eq!(shown(&harness.answer("show").await).max_repeated, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_tried_again_with_its_own_sampling() {
    let mut harness = Harness::tiny();
    let fresh = NewConversation {
        settings: settings(),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "show".into(), Vec::new(), fresh).await;
    let first = ended(&mut harness, sent).await;
    let with = |dry_multiplier| AnswerOverrides {
        sampling: Some(SamplingOverrides {
            dry_multiplier: Some(dry_multiplier),
            dry_breakers: Some(Vec::new()),
            ..SamplingOverrides::default()
        }),
        ..AnswerOverrides::default()
    };
    let again = harness.regenerate(first.id, Some(with(0.375))).await;
    let again = ended(&mut harness, again).await;
    let sampling = shown(&again).sampling;
    assert_eq!((sampling.dry_multiplier, sampling.dry_breakers), (0.375, Vec::new()));
    assert_eq!(
        Some(sampling.temperature),
        settings().sampling.temperature,
        "the conversation's"
    );
    assert_eq!(again.overrides, Some(with(0.375)));
    assert_eq!(
        harness.conversation(first.conversation).await.settings,
        settings(),
        "unchanged"
    );
    let plain = harness.regenerate(again.id, None).await;
    let plain = ended(&mut harness, plain).await;
    assert_eq!(
        (shown(&plain).sampling.dry_multiplier, plain.overrides),
        (shown(&first).sampling.dry_multiplier, None)
    );
    let refused = harness.regenerate(first.id, Some(with(f32::NAN))).await;
    assert_eq!(refused.map_err(code).err(), Some(ProblemCode::BadRequest));
}
