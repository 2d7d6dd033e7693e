//! Presets: a real folder, a real store and the fake worker.

use crate::harness::Harness;
use hearth_app::wire::{
    ConversationSettings, Effort, Event, NewConversation, Preset, PresetValues, Problem, ProblemCode,
    SamplingOverrides, ThinkingChoice, ThinkingEffort, ThinkingSwitch,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn refused<T: std::fmt::Debug>(result: Result<T, Problem>) -> Problem {
    let problem = result.expect_err("refused");
    assert!(
        problem.to_string().ends_with('.') && problem.to_string().len() < 600,
        "{problem:?}"
    );
    problem
}

fn values(temperature: f32, prompt: Option<&str>) -> PresetValues {
    PresetValues {
        system_prompt: prompt.map(str::to_owned),
        sampling: SamplingOverrides {
            temperature: Some(temperature),
            banned_strings: Some(vec!["delve".into()]),
            ..SamplingOverrides::default()
        },
        max_tokens: Some(64),
        stop: Some(vec!["END".into()]),
        thinking: ThinkingChoice {
            enabled: Some(ThinkingSwitch::Fixed(true)),
            effort: Some(ThinkingEffort::Fixed(Effort::High)),
        },
        json_schema: Some("{\"type\": \"object\"}".into()),
    }
}

fn folder(harness: &Harness) -> PathBuf {
    harness.folder.path().join("data/presets")
}

/// The names of all files in a folder and those in it.
fn files(folder: &Path) -> Vec<String> {
    let mut actual = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().expect("a kind").is_dir() {
            actual.extend(files(&entry.path()))
        } else {
            actual.push(entry.file_name().into_string().expect("text"))
        }
    }
    actual.sort();
    actual
}

/// The presets of the user.
async fn own(harness: &Harness) -> Vec<Preset> {
    let all = harness.presets().await.expect("presets");
    all.presets.into_iter().filter(|preset| !preset.is_built_in).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preset_is_saved_changed_deleted_and_restored() {
    let mut harness = Harness::tiny();
    let saved = harness
        .save_preset(" My  Preset ".into(), values(0.5, None))
        .await
        .expect("saved");
    assert_eq!(
        (saved.id.as_str(), saved.name.as_str(), saved.is_built_in),
        ("my-preset", "My Preset", false)
    );
    assert_eq!(saved.values, values(0.5, None));
    let listed = harness
        .next(|event| match event {
            Event::PresetsChanged { presets } => Some(presets),
            _ => None,
        })
        .await;
    assert_eq!(listed, harness.presets().await.expect("presets"));
    assert_eq!(files(&folder(&harness)), ["my-preset.json"]);
    let taken = refused(harness.save_preset("MY PRESET".into(), values(1.0, None)).await);
    assert!(taken.to_string().contains("already"), "{taken:?}");

    let updated = harness
        .update_preset(saved.id.clone(), values(0.7, Some("Hi.")))
        .await
        .expect("updated");
    assert_eq!(updated.values, values(0.7, Some("Hi.")));
    let renamed = harness
        .rename_preset(saved.id.clone(), "Warmer".into())
        .await
        .expect("renamed");
    assert_eq!((renamed.id, renamed.name), (saved.id.clone(), "Warmer".to_owned()));
    harness
        .rename_preset(saved.id.clone(), "WARMER".into())
        .await
        .expect("its own name");
    let harness = harness.again().await;
    assert_eq!(own(&harness).await[0].values, values(0.7, Some("Hi.")));

    harness.delete_preset(saved.id.clone()).await.expect("deleted");
    assert_eq!(own(&harness).await, []);
    assert_eq!(
        refused(harness.delete_preset(saved.id.clone()).await).code,
        ProblemCode::NotFound
    );
    let again = harness.restore_preset(saved.id.clone()).await.expect("restored");
    assert_eq!((again.id.as_str(), again.name.as_str()), ("my-preset", "WARMER"));
    assert_eq!(
        refused(harness.restore_preset(saved.id.clone()).await).code,
        ProblemCode::NotFound
    );

    // Its place and its name are taken meanwhile.
    harness.delete_preset(saved.id.clone()).await.expect("deleted");
    harness
        .save_preset("my preset".into(), values(0.1, None))
        .await
        .expect("saved");
    harness
        .save_preset("warmer".into(), values(0.1, None))
        .await
        .expect("saved");
    let other = harness.restore_preset(saved.id).await.expect("restored");
    assert_eq!((other.id.as_str(), other.name.as_str()), ("warmer-2", "WARMER 2"));
    assert_eq!(own(&harness).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_deleted_presets_are_removed() {
    let harness = Harness::tiny();
    for name in ["old", "new"] {
        harness
            .save_preset(name.into(), values(0.5, None))
            .await
            .expect("saved");
        harness.delete_preset(name.into()).await.expect("deleted");
    }
    let old = fs::File::options()
        .write(true)
        .open(folder(&harness).join("deleted/old.json"))
        .expect("a file");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(31 * 24 * 3600);
    old.set_modified(long_ago).expect("a time");
    own(&harness).await;
    assert_eq!(files(&folder(&harness)), ["new.json"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_stay_in_the_folder() {
    let harness = Harness::tiny();
    for name in [
        "../x",
        "CON",
        "\u{1f600}",
        "/etc/passwd",
        "a/b\\c",
        "\u{202e}x",
        "..",
        "NUL.json",
    ] {
        let saved = harness.save_preset(name.into(), values(0.5, None)).await.expect(name);
        let kept = own(&harness).await;
        assert!(kept.contains(&saved), "{name}");
    }
    assert_eq!(
        files(&folder(&harness)),
        [
            "a-b-c.json",
            "etc-passwd.json",
            "nul-json.json",
            "preset-2.json",
            "preset-con.json",
            "preset.json",
            "x-2.json",
            "x.json"
        ]
    );
    for name in ["x".repeat(300), " \n".into(), "\u{202e}".into(), "precise".into()] {
        assert_eq!(
            refused(harness.save_preset(name, values(0.5, None)).await).code,
            ProblemCode::BadRequest
        );
    }
    let outside = harness.folder.path().join("data/outside.json");
    fs::write(&outside, "{\"hearthPreset\":1,\"name\":\"outside\"}").expect("a file");
    for id in ["../outside", "deleted/x", "", ".", "x.json", "X\0", &"x".repeat(9000)] {
        let id = || id.to_owned();
        let fresh = NewConversation::default();
        for code in [
            refused(harness.delete_preset(id()).await).code,
            refused(harness.restore_preset(id()).await).code,
            refused(harness.rename_preset(id(), "y".into()).await).code,
            refused(harness.update_preset(id(), values(0.5, None)).await).code,
            refused(harness.apply_preset(id(), None, fresh).await).code,
        ] {
            assert_eq!(code, ProblemCode::NotFound);
        }
    }
    assert!(outside.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_values_and_changes_of_built_in_presets_are_refused() {
    let harness = Harness::tiny();
    let hot = values(101.0, None);
    assert!(
        refused(harness.save_preset("hot".into(), hot).await)
            .to_string()
            .contains("temperature")
    );
    let long = values(0.5, Some(&"x".repeat(70_000)));
    assert!(
        refused(harness.save_preset("long".into(), long).await)
            .to_string()
            .contains("system prompt")
    );
    assert_eq!(files(&folder(&harness)), [""; 0]);
    let all = harness.presets().await.expect("presets").presets;
    let names: Vec<&str> = all.iter().map(|preset| preset.name.as_str()).collect();
    assert_eq!(names, ["Precise", "Balanced", "Creative", "Code"]);
    for preset in all {
        preset.values.check().expect("valid");
        let id = || preset.id.clone();
        for problem in [
            refused(harness.delete_preset(id()).await),
            refused(harness.rename_preset(id(), "y".into()).await),
            refused(harness.update_preset(id(), values(0.5, None)).await),
        ] {
            assert!(problem.to_string().contains("Hearth's own"), "{problem:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_person_puts_there_are_listed_or_named() {
    let harness = Harness::tiny();
    let put = |name: &str, text: &str| fs::write(folder(&harness).join(name), text).expect("a file");
    fs::create_dir_all(folder(&harness).join("folder.json")).expect("a folder");
    put(
        "Von Hand.json",
        "{\"hearthPreset\":1,\"name\":\"Von Hand\",\"sampling\":{\"topK\":3}}",
    );
    put("newer.json", "{\"hearthPreset\":9,\"name\":\"x\"}");
    put("deep.json", &"[".repeat(200_000));
    put("large.json", &" ".repeat((1 << 20) + 1));
    put("unknown.json", "{\"hearthPreset\":1,\"name\":\"x\",\"color\":1}");
    put(".hidden.json", "no preset");
    put("notes.txt", "no preset");
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/passwd", folder(&harness).join("link.json")).expect("a link");
    let all = harness.presets().await.expect("presets");
    let broken: Vec<&str> = all.broken.iter().map(|preset| preset.file.as_str()).collect();
    assert_eq!(broken, ["deep.json", "large.json", "newer.json", "unknown.json"]);
    for one in &all.broken {
        assert!(one.problem.to_string().ends_with('.'), "{one:?}");
    }
    let by_hand = own(&harness).await;
    assert_eq!((by_hand.len(), by_hand[0].id.as_str()), (1, "Von Hand"));
    harness
        .rename_preset("Von Hand".into(), "By hand".into())
        .await
        .expect("renamed");
    let broken = refused(harness.rename_preset("newer".into(), "Mine".into()).await);
    assert!(broken.to_string().contains("newer Hearth"), "{broken:?}");
    harness.delete_preset("Von Hand".into()).await.expect("deleted");
    harness.restore_preset("Von Hand".into()).await.expect("restored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preset_is_exported_and_imported() {
    let harness = Harness::tiny();
    let path = harness.folder.path().join("shared.json");
    let saved = harness
        .save_preset("Shared \u{1f600}".into(), values(0.3, Some("Hi.")))
        .await
        .expect("saved");
    harness
        .export_preset(saved.id.clone(), path.clone())
        .await
        .expect("exported");
    let again = harness.import_preset(path.clone()).await.expect("imported");
    assert_eq!(
        (again.name.as_str(), again.id.as_str()),
        ("Shared \u{1f600} 2", "shared-2")
    );
    assert_eq!(again.values, saved.values);
    harness
        .export_preset("built-in:code".into(), path.clone())
        .await
        .expect("exported");
    assert_eq!(
        harness.import_preset(path.clone()).await.expect("imported").name,
        "Code 2"
    );
    fs::write(&path, "{}").expect("a file");
    let none = refused(harness.import_preset(path).await);
    assert!(
        none.code == ProblemCode::DataInvalid && none.to_string().contains("shared.json"),
        "{none:?}"
    );
    assert_eq!(
        refused(harness.import_preset(harness.folder.path().to_owned()).await).code,
        ProblemCode::DataInvalid
    );
    assert_eq!(own(&harness).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preset_is_applied_to_a_conversation_and_makes_its_answers() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let own_model = ConversationSettings {
        model: Some("tiny".into()),
        ..ConversationSettings::default()
    };
    harness.set_conversation_settings(id, own_model).await.expect("set");
    let with_prompt = harness
        .save_preset("Terse".into(), values(0.25, Some("Be terse.")))
        .await
        .expect("saved");
    let fresh = NewConversation::default;
    let applied = harness
        .apply_preset(with_prompt.id.clone(), Some(id), fresh())
        .await
        .expect("applied");
    let now = harness.conversation(id).await;
    assert_eq!(
        (&now.settings, &now.system_prompt),
        (&applied.settings, &applied.system_prompt)
    );
    assert_eq!(now.settings.preset.as_deref(), Some("terse"));
    assert_eq!(now.settings.model.as_deref(), Some("tiny"), "the model stays");
    assert_eq!(
        (now.settings.max_tokens, now.system_prompt.as_deref()),
        (Some(64), Some("Be terse."))
    );
    let sent = harness.say(Some(id), "show").await;
    let made = harness.ended(sent.answer.id).await.settings.expect("settings");
    assert_eq!((made.sampling.temperature, made.stop), (0.25, vec!["END".to_owned()]));

    // A preset without a prompt removes the previous preset's prompt, but not the user's own.
    let code = || "built-in:code".to_owned();
    let applied = harness.apply_preset(code(), Some(id), fresh()).await.expect("applied");
    assert_eq!((applied.system_prompt, applied.settings.max_tokens), (None, None));
    harness.set_system_prompt(id, Some("Mine.".into())).await.expect("set");
    let applied = harness.apply_preset(code(), Some(id), fresh()).await.expect("applied");
    assert_eq!(applied.system_prompt.as_deref(), Some("Mine."));

    let own_prompt = NewConversation {
        system_prompt: Some("Mine.".into()),
        ..fresh()
    };
    let fresh = harness.apply_preset(code(), None, own_prompt).await.expect("applied");
    assert_eq!(fresh.system_prompt.as_deref(), Some("Mine."));
    assert_eq!(fresh.settings.preset, Some(code()));
    assert_eq!(
        refused(
            harness
                .apply_preset(code(), Some(999), NewConversation::default())
                .await
        )
        .code,
        ProblemCode::NotFound
    );
    // A deleted preset changes nothing in its conversations.
    harness.delete_preset("terse".into()).await.expect("deleted");
    assert_eq!(harness.conversation(id).await.settings, applied.settings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_while_a_preset_is_applied_stays() {
    let mut harness = Harness::tiny();
    let id = harness.answer("say one").await.conversation;
    let mut ids = Vec::new();
    for name in ["One", "Two"] {
        let preset = harness
            .save_preset(name.into(), values(0.25, None))
            .await
            .expect("saved");
        ids.push(preset.id);
    }
    // Reading all presets takes a while.
    for number in 0..60 {
        let name = format!("Other {number}");
        harness.save_preset(name, values(0.5, None)).await.expect("saved");
    }
    for round in 0..40 {
        let prompt = format!("Mine {round}.");
        let (applied, set) = tokio::join!(
            harness.apply_preset(ids[round % 2].clone(), Some(id), NewConversation::default()),
            harness.set_system_prompt(id, Some(prompt.clone())),
        );
        applied.expect("applied");
        set.expect("set");
        let now = harness.conversation(id).await;
        assert_eq!(now.system_prompt, Some(prompt), "round {round}");
        assert_eq!(now.settings.preset.as_ref(), Some(&ids[round % 2]));
    }
}
