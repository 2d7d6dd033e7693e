//! Folders, tags, saved prompts, files in messages and filtered searches: a real store and the fake
//! worker.

use crate::harness::Harness;
use hearth_app::wire::{
    ConversationSettings, ConversationSummary, Effort, Event, Folder, MAX_FILE, MAX_FILES, NewConversation, Part,
    Problem, ProblemCode, Role, SamplingOverrides, SavedPrompt, SearchFilter, TextFile,
};
use hearth_protocol::{GenerateRequest, Prompt};

fn refused<T: std::fmt::Debug>(result: Result<T, Problem>) -> Problem {
    let problem = result.expect_err("refused");
    assert!(
        problem.to_string().ends_with('.') && problem.to_string().len() < 400,
        "{problem:?}"
    );
    problem
}

/// The request that the fake worker shows as the answer.
async fn shown(harness: &mut Harness, conversation: Option<i64>, fresh: NewConversation) -> GenerateRequest {
    let sent = harness.send(conversation, None, "show".into(), Vec::new(), fresh).await;
    let answer = harness.ended(sent.expect("a message").answer.id).await;
    serde_json::from_str(&answer.text()).expect("a request")
}

fn system(request: &GenerateRequest) -> Option<String> {
    let Prompt::Chat(turns) = &request.prompt else {
        panic!("no chat")
    };
    let first = turns.first().filter(|turn| turn.role == Role::System);
    first.map(hearth_protocol::Message::text)
}

async fn summary(harness: &Harness, id: i64) -> ConversationSummary {
    let all = harness.snapshot().await.expect("a snapshot").conversations;
    all.into_iter()
        .find(|conversation| conversation.id == id)
        .expect("a conversation")
}

async fn folders(harness: &Harness) -> Vec<Folder> {
    harness.snapshot().await.expect("a snapshot").folders
}

fn temperature(value: f32, model: Option<&str>) -> ConversationSettings {
    ConversationSettings {
        model: model.map(str::to_owned),
        sampling: SamplingOverrides {
            temperature: Some(value),
            ..SamplingOverrides::default()
        },
        ..ConversationSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_what_its_conversations_begin_from() {
    let mut harness = Harness::tiny();
    let folder = harness.create_folder(" Work \n".into()).await.expect("a folder");
    assert_eq!(folder.name, "Work");
    let changed = Folder {
        system_prompt: Some("Be formal.".into()),
        settings: ConversationSettings {
            max_tokens: Some(77),
            ..temperature(0.25, None)
        },
        ..folder.clone()
    };
    harness.update_folder(changed.clone()).await.expect("a change");
    let fresh = NewConversation {
        folder: Some(folder.id),
        ..NewConversation::default()
    };
    let request = shown(&mut harness, None, fresh.clone()).await;
    assert_eq!(system(&request).as_deref(), Some("Be formal."));
    assert_eq!((request.max_tokens, request.sampling.temperature), (Some(77), 0.25));
    // The conversation's own settings take precedence.
    let own = NewConversation {
        settings: temperature(0.5, None),
        system_prompt: Some("Be brief.".into()),
        ..fresh
    };
    let request = shown(&mut harness, None, own).await;
    assert_eq!(system(&request).as_deref(), Some("Be brief."));
    assert_eq!((request.max_tokens, request.sampling.temperature), (Some(77), 0.5));
    // Outside of the folder nothing of it counts.
    let outside = shown(&mut harness, None, NewConversation::default()).await;
    assert_eq!((outside.max_tokens, system(&outside) != system(&request)), (None, true));
    let harness = harness.again().await;
    assert_eq!(folders(&harness).await, [changed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_leaves_the_thinking_of_its_folder_to_the_model() {
    let mut harness = Harness::tiny();
    let folder = harness.create_folder("Work".into()).await.expect("a folder");
    let thinking = |json: &str| ConversationSettings {
        thinking: serde_json::from_str(json).expect(json),
        ..ConversationSettings::default()
    };
    let changed = Folder {
        settings: thinking(r#"{"enabled":false,"effort":"high"}"#),
        ..folder.clone()
    };
    harness.update_folder(changed).await.expect("a change");
    let (off, high) = (Some(false), Some(Effort::High));
    for (own, wanted) in [
        ("{}", (off, high)),
        (r#"{"effort":"low"}"#, (off, Some(Effort::Low))),
        (r#"{"effort":"model"}"#, (off, None)),
        (r#"{"enabled":"model"}"#, (None, high)),
    ] {
        let fresh = NewConversation {
            settings: thinking(own),
            folder: Some(folder.id),
            ..NewConversation::default()
        };
        let request = shown(&mut harness, None, fresh).await;
        assert_eq!((request.thinking.enabled, request.thinking.effort), wanted, "{own}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_chooses_the_model() {
    let mut harness = Harness::new(&["one.gguf", "two.gguf"]);
    let folder = harness.create_folder("Two".into()).await.expect("a folder");
    let models = harness.snapshot().await.expect("a snapshot").models;
    let two = models
        .iter()
        .find(|model| model.path.ends_with("two.gguf"))
        .expect("a model");
    let changed = Folder {
        settings: temperature(1.0, Some(&two.id)),
        ..folder.clone()
    };
    harness.update_folder(changed).await.expect("a change");
    let fresh = NewConversation {
        folder: Some(folder.id),
        ..NewConversation::default()
    };
    let sent = harness.send(None, None, "say one".into(), Vec::new(), fresh).await;
    let answer = harness.ended(sent.expect("a message").answer.id).await;
    assert_eq!(answer.model.as_deref(), Some(two.name.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_folder_leaves_its_conversations_and_comes_back_with_them() {
    let mut harness = Harness::tiny();
    let folder = harness.create_folder("Trips".into()).await.expect("a folder");
    let id = harness.answer("say one").await.conversation;
    harness.move_conversation(id, Some(folder.id)).await.expect("a move");
    assert_eq!(summary(&harness, id).await.folder, Some(folder.id));
    harness.delete_folder(folder.id).await.expect("a deletion");
    assert_eq!(summary(&harness, id).await.folder, None);
    assert_eq!(folders(&harness).await, []);
    assert_eq!(
        refused(harness.move_conversation(id, Some(folder.id)).await).code,
        ProblemCode::NotFound
    );
    assert_eq!(
        refused(harness.delete_folder(folder.id).await).code,
        ProblemCode::NotFound
    );
    harness.restore_folder(folder.id).await.expect("a restoration");
    assert_eq!(summary(&harness, id).await.folder, Some(folder.id));
    harness.move_conversation(id, None).await.expect("a move");
    assert_eq!(summary(&harness, id).await.folder, None);
    assert_eq!(
        refused(harness.create_folder(" \u{7} ".into()).await).code,
        ProblemCode::BadRequest
    );
    let hostile = Folder {
        system_prompt: Some("x".repeat(70_000)),
        ..folder
    };
    assert_eq!(
        refused(harness.update_folder(hostile).await).code,
        ProblemCode::BadRequest
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_are_clean_and_each_is_there_once() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let given = ["#rust", "Rust", " a \n b ", "", "\u{1}"].map(str::to_owned);
    harness.set_tags(id, given.to_vec()).await.expect("tags");
    let summary = harness
        .next(|event| match event {
            Event::ConversationChanged { conversation, .. } if !conversation.tags.is_empty() => Some(conversation),
            _ => None,
        })
        .await;
    assert_eq!(summary.tags, ["a b", "rust"]);
    let many: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    assert!(refused(harness.set_tags(id, many).await).to_string().contains("not 33"));
    assert!(
        refused(harness.set_tags(id, vec!["x".repeat(41)]).await)
            .to_string()
            .contains("40")
    );
    assert_eq!(
        refused(harness.set_tags(99, Vec::new()).await).code,
        ProblemCode::NotFound
    );
    harness.set_tags(id, Vec::new()).await.expect("none");
    assert_eq!(self::summary(&harness, id).await.tags, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_filtered() {
    let mut harness = Harness::tiny();
    let folder = harness.create_folder("Birds".into()).await.expect("a folder").id;
    let inside = harness.answer("say albatross").await.conversation;
    let outside = harness.answer("say albatross").await.conversation;
    harness.move_conversation(inside, Some(folder)).await.expect("a move");
    harness.set_tags(outside, vec!["sea".into()]).await.expect("tags");
    let find = async |query: &str, filter: SearchFilter| {
        let hits = harness.search(query.into(), filter).await.expect("hits");
        hits.into_iter()
            .map(|hit| (hit.conversation, hit.message.is_some()))
            .collect::<Vec<_>>()
    };
    let any = SearchFilter::default;
    let in_folder = SearchFilter {
        folder: Some(folder),
        ..any()
    };
    let tagged = SearchFilter {
        tag: Some("sea".into()),
        ..any()
    };
    let answers = SearchFilter {
        role: Some(Role::Assistant),
        ..any()
    };
    assert_eq!(
        find("albatross", any()).await.len(),
        6,
        "two titles, two messages, two answers"
    );
    assert_eq!(
        find("albatross", in_folder.clone()).await,
        [(inside, false), (inside, true), (inside, true)]
    );
    assert_eq!(find("albatross", tagged.clone()).await.len(), 3);
    assert_eq!(find("albatross", answers).await.len(), 2);
    // Without a word a filter lists conversations, and without either there is nothing.
    assert_eq!(find("", in_folder).await, [(inside, false)]);
    assert_eq!(find(" ", tagged).await, [(outside, false)]);
    assert_eq!(find("", any()).await, []);
    let later = SearchFilter {
        since: Some(i64::MAX),
        ..any()
    };
    let earlier = SearchFilter {
        until: Some(0),
        ..any()
    };
    assert_eq!(
        (find("albatross", later).await, find("albatross", earlier).await),
        (vec![], vec![])
    );
    // Words that are none are searched literally, with the same filters.
    let quoted = SearchFilter {
        tag: Some("' OR 1 --".into()),
        ..any()
    };
    assert_eq!(find("lbatro", quoted).await, []);
    let own = SearchFilter {
        role: Some(Role::User),
        ..any()
    };
    assert_eq!(find("lbatro", own).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_saved_under_names_of_their_own() {
    let harness = Harness::tiny();
    let text = "Review {{language}} code:".to_owned();
    let saved = harness
        .save_prompt(None, "review".into(), text.clone())
        .await
        .expect("a prompt");
    assert!(
        refused(harness.save_prompt(None, "Review".into(), text.clone()).await)
            .to_string()
            .contains("/Review")
    );
    for name in ["", "a b", "a/b", "../x", &"x".repeat(41)] {
        assert_eq!(
            refused(harness.save_prompt(None, name.into(), text.clone()).await).code,
            ProblemCode::BadRequest
        );
    }
    assert_eq!(
        refused(harness.save_prompt(None, "e".into(), " ".into()).await).code,
        ProblemCode::BadRequest
    );
    let other = harness
        .save_prompt(None, "übersetze".into(), "x".into())
        .await
        .expect("a prompt");
    let renamed = harness
        .save_prompt(Some(saved.id), "REVIEW".into(), text.clone())
        .await
        .expect("a change");
    let expected = SavedPrompt {
        id: saved.id,
        name: "REVIEW".into(),
        text,
    };
    assert_eq!(renamed, expected);
    assert_eq!(
        harness.saved_prompts().await.expect("prompts"),
        [expected, other.clone()]
    );
    let harness = harness.again().await;
    harness.delete_prompt(saved.id).await.expect("a deletion");
    assert_eq!(
        refused(harness.delete_prompt(saved.id).await).code,
        ProblemCode::NotFound
    );
    assert_eq!(
        refused(harness.save_prompt(Some(saved.id), "y".into(), "y".into()).await).code,
        ProblemCode::NotFound
    );
    assert_eq!(harness.saved_prompts().await.expect("prompts"), [other]);
}

fn file(name: &str, text: &str) -> TextFile {
    TextFile {
        name: name.into(),
        text: text.into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_parts_of_a_message_and_stay_when_it_is_edited() {
    let mut harness = Harness::tiny();
    let files = vec![file("a.rs", "fn a() {}"), file("b.md", "# B")];
    let sent = harness
        .send(None, None, "show".into(), files, NewConversation::default())
        .await
        .expect("a message");
    let user = sent.user.expect("a message");
    let [Part::File { name, .. }, Part::File { text, .. }, Part::Text { .. }] = &user.parts[..] else {
        panic!("{:?}", user.parts)
    };
    assert_eq!(
        (name.as_str(), text.as_str(), sent.conversation.title.as_str()),
        ("a.rs", "# B", "show")
    );
    let answer = harness.ended(sent.answer.id).await;
    let request: GenerateRequest = serde_json::from_str(&answer.text()).expect("a request");
    let Prompt::Chat(turns) = request.prompt else {
        panic!("no chat")
    };
    assert_eq!(turns.last().expect("a turn").parts, user.parts);
    let edited = harness
        .edit(user.id, "say two".into())
        .await
        .expect("an edit")
        .user
        .expect("a message");
    assert_eq!((edited.parts.len(), edited.text().as_str()), (3, "say two"));
    // A message may be its files alone; a title is then a file's name.
    let alone = harness
        .send(
            None,
            None,
            " ".into(),
            vec![file("notes.txt", "x")],
            NewConversation::default(),
        )
        .await;
    let alone = alone.expect("a message");
    assert_eq!(
        (
            alone.conversation.title.as_str(),
            alone.user.expect("a message").parts.len()
        ),
        ("notes.txt", 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_too_many_or_too_large_are_refused() {
    let harness = Harness::tiny();
    let send = async |files| {
        harness
            .send(None, None, "x".into(), files, NewConversation::default())
            .await
    };
    assert!(
        refused(send(vec![file("a", ""); MAX_FILES + 1]).await)
            .to_string()
            .contains("not 51")
    );
    assert!(
        refused(send(vec![file("big.txt", &"x".repeat(MAX_FILE + 1))]).await)
            .to_string()
            .contains("big.txt")
    );
    assert!(refused(send(vec![file(&"n".repeat(2000), "")]).await).to_string().len() < 300);
    assert_eq!(harness.snapshot().await.expect("a snapshot").conversations, []);
}
