//! Adapters from the hub and from files, and the models that they fit.

use crate::harness::{Harness, failure};
use crate::support::hub::{FakeHub, Reply, tagged_repository};
use hearth_app::{
    library::{Library, Reader},
    wire::{
        Adapter, AdapterChoice, AdapterFit, AdapterMismatch, Download, DownloadState, Event, HubKind, HubSort,
        ProblemCode, Settings, UnmatchedEntries,
    },
};
use hearth_protocol::GenerateRequest;
use std::{
    collections::HashMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";
const COMMIT: &str = "0123456789ab";

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

fn read(file: &str) -> Vec<u8> {
    fs::read(fixture(file)).expect("a fixture")
}

/// PEFT's settings of the tiny llama's adapter, made for this base.
fn config(base: &str) -> Vec<u8> {
    let mut config: serde_json::Value = serde_json::from_slice(&read("adapters/llama/adapter_config.json")).unwrap();
    config["base_model_name_or_path"] = base.into();
    serde_json::to_vec(&config).unwrap()
}

/// The bodies of a repository with a PEFT adapter.
fn peft() -> HashMap<String, Vec<u8>> {
    let files = [
        (CONFIG, config("owner/Llama-Q8_0")),
        (TENSORS, read("adapters/llama/adapter_model.safetensors")),
        ("README.md", b"# An adapter".to_vec()),
    ];
    tagged_repository(
        "o/Poet-LoRA",
        &["peft", "base_model:adapter:owner/Llama", "license:mit"],
        &files,
    )
}

/// An app with the tiny llama and its larger sister.
fn harness(models: &[&str]) -> Harness {
    let harness = Harness::tiny();
    models.iter().for_each(|model| add(&harness, model));
    harness
}

fn add(harness: &Harness, model: &str) {
    let file = format!("{model}.gguf");
    let to = harness.folder.path().join("bundled").join(&file);
    fs::copy(fixture("models").join(file), to).expect("a copy");
}

async fn use_hub(harness: &Harness, hub: &FakeHub) {
    let settings = Settings {
        hub_endpoint: Some(hub.hub.endpoint.clone()),
        ..Settings::default()
    };
    harness.set_settings(settings).await.expect("a mirror on this machine");
}

async fn ended(harness: &mut Harness) -> Download {
    let is_end = |download: &Download| {
        matches!(
            download.state,
            DownloadState::Done { .. } | DownloadState::Failed { .. }
        )
    };
    harness
        .next(|event| match event {
            Event::DownloadsChanged { downloads } => downloads.into_iter().find(is_end),
            _ => None,
        })
        .await
}

fn fit<'a>(adapter: &'a Adapter, model: &str) -> Option<&'a AdapterFit> {
    let actual = adapter.matches.iter().find(|actual| actual.model == model);
    actual.map(|actual| &actual.fit)
}

/// A copy of the llama's PEFT folder.
fn folder(harness: &Harness, base: &str) -> PathBuf {
    let folder = harness.folder.path().join("theirs");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(CONFIG), config(base)).expect("a file");
    fs::write(folder.join(TENSORS), read("adapters/llama/adapter_model.safetensors")).expect("a file");
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peft_adapter_of_the_hub_joins_its_base() {
    let mut harness = harness(&["llama", "llama3"]);
    let hub = FakeHub::with(peft(), &[Reply::Good]);
    use_hub(&harness, &hub).await;
    let page = harness.hub_repository("o/Poet-LoRA".into()).await.unwrap();
    assert_eq!(page.base.as_deref(), Some("owner/Llama"));
    let [variant] = &page.variants[..] else {
        panic!("{page:?}")
    };
    assert!(variant.is_adapter && !variant.is_recommended && variant.adapter.is_none() && variant.files == 2);
    let started = harness.start_download(variant.source.clone()).await.unwrap();
    assert_eq!(started.source, "hf.co/o/Poet-LoRA");
    let done = ended(&mut harness).await;
    let DownloadState::Done {
        model: None,
        adapter: Some(id),
    } = done.state
    else {
        panic!("{done:?}")
    };
    let adapter = harness.adapters().await.unwrap().remove(0);
    let folder = harness.folder.path().join("data/adapters/o/Poet-LoRA").join(COMMIT);
    assert_eq!(
        (adapter.id, adapter.name.as_str(), adapter.problem.as_ref()),
        (id, "Poet-LoRA", None)
    );
    assert_eq!(
        (Path::new(&adapter.path), adapter.model.as_deref()),
        (folder.as_path(), None)
    );
    assert_eq!(adapter.base_repository.as_deref(), Some("owner/Llama-Q8_0"));
    assert_eq!((adapter.license.as_deref(), adapter.is_deletable), (Some("mit"), true));
    assert_eq!(adapter.downloaded_from.as_deref(), Some("hf.co/o/Poet-LoRA"));
    assert!(adapter.size > 1000);
    assert_eq!(fit(&adapter, "llama"), Some(&AdapterFit::Named));
    assert!(matches!(fit(&adapter, "llama3"), Some(AdapterFit::Mismatch { .. })));
    let unsupported = AdapterMismatch::Unsupported;
    assert_eq!(
        fit(&adapter, "tiny"),
        Some(&AdapterFit::Mismatch { reason: unsupported })
    );
    let page = harness.hub_repository("o/Poet-LoRA".into()).await.unwrap();
    assert_eq!(page.variants[0].adapter, Some(id));
    assert!(
        harness
            .snapshot()
            .await
            .unwrap()
            .models
            .iter()
            .all(|model| model.id != "Poet-LoRA")
    );

    // The user's own file next to it stays.
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    harness.delete_adapter(id).await.unwrap();
    assert!(folder.join(TENSORS).exists(), "the deletion can be undone");
    harness.restore_adapter(id).await.unwrap();
    harness.delete_adapter(id).await.unwrap();
    let harness = harness.again().await;
    assert!(harness.adapters().await.unwrap().is_empty());
    let left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["notes.txt"]);
    assert_eq!(
        harness.restore_adapter(id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_adapter_comes_back_when_it_is_downloaded_again() {
    let mut harness = harness(&["llama"]);
    let hub = FakeHub::with(peft(), &[Reply::Good]);
    use_hub(&harness, &hub).await;
    harness.start_download("o/Poet-LoRA".into()).await.unwrap();
    let DownloadState::Done { adapter: Some(id), .. } = ended(&mut harness).await.state else {
        panic!("it is downloaded")
    };
    harness.delete_adapter(id).await.unwrap();
    harness.rescan_models().await.unwrap();
    assert!(
        harness.adapters().await.unwrap().is_empty(),
        "a search does not undo it"
    );
    harness.start_download("o/Poet-LoRA".into()).await.unwrap();
    let is_back = |state: &DownloadState| matches!(state, DownloadState::Done { adapter: Some(_), .. });
    harness
        .next(|event| match event {
            Event::DownloadsChanged { downloads } => {
                downloads.iter().any(|download| is_back(&download.state)).then_some(())
            }
            _ => None,
        })
        .await;
    assert_eq!(harness.adapters().await.unwrap()[0].id, id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gguf_adapter_is_known_by_its_header() {
    let mut harness = harness(&["llama", "qwen2"]);
    let files = [
        ("poet-F16.gguf", read("adapters/llama.gguf")),
        ("merged-Q8_0.gguf", read("models/llama.gguf")),
    ];
    let hub = FakeHub::with(
        tagged_repository("o/Poet", &["gguf", "base_model:adapter:owner/Other"], &files),
        &[Reply::Good],
    );
    use_hub(&harness, &hub).await;
    let page = harness.hub_repository("o/Poet".into()).await.unwrap();
    let kinds: Vec<_> = page
        .variants
        .iter()
        .map(|variant| (variant.name.as_str(), variant.is_adapter))
        .collect();
    assert!(
        kinds.contains(&("F16", true)) && kinds.contains(&("Q8_0", false)),
        "{kinds:?}"
    );
    harness.start_download("hf.co/o/Poet:F16".into()).await.unwrap();
    let done = ended(&mut harness).await;
    assert!(
        matches!(
            done.state,
            DownloadState::Done {
                model: None,
                adapter: Some(_)
            }
        ),
        "{done:?}"
    );
    let adapter = harness.adapters().await.unwrap().remove(0);
    let file = harness
        .folder
        .path()
        .join("data/adapters/o/Poet")
        .join(COMMIT)
        .join("poet-F16.gguf");
    assert_eq!(
        (Path::new(&adapter.path), adapter.name.as_str()),
        (file.as_path(), "poet-F16")
    );
    assert_eq!(fit(&adapter, "llama"), Some(&AdapterFit::Sizes));
    let reason = AdapterMismatch::Architecture {
        adapter: "llama".to_owned(),
    };
    assert_eq!(fit(&adapter, "qwen2"), Some(&AdapterFit::Mismatch { reason }));
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(!harness.folder.path().join("data/adapters/o").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_or_unverifiable_adapter_is_refused() {
    // The description, the settings for their hash, then the download of the settings.
    for (replies, why) in [
        (
            &[Reply::Good, Reply::Good, Reply::Other] as &'static [Reply],
            "not the expected file",
        ),
        (&[Reply::Good, Reply::Portal], "web page"),
        (&[Reply::Good, Reply::Long], "another size"),
        (&[Reply::Good, Reply::Status(404)], "does not have it"),
        (
            &[Reply::Good, Reply::Good, Reply::Good, Reply::Other],
            "not the expected file",
        ),
    ] {
        let mut harness = harness(&[]);
        let hub = FakeHub::with(peft(), replies);
        use_hub(&harness, &hub).await;
        harness.start_download("o/Poet-LoRA".into()).await.unwrap();
        let DownloadState::Failed { problem } = ended(&mut harness).await.state else {
            panic!("{why}")
        };
        assert!(problem.to_string().contains(why), "{why}: {problem}");
        assert!(harness.adapters().await.unwrap().is_empty());
    }
    let tensors = (
        "weights/adapter_model.safetensors",
        read("adapters/llama/adapter_model.safetensors"),
    );
    let refused = async |files: &[(&str, Vec<u8>)], edit: (&str, &str), why: &str| {
        let mut bodies = tagged_repository("o/n", &["peft"], files);
        let page = bodies.get_mut("/api/models/o/n/revision/main").unwrap();
        let text = String::from_utf8(page.clone()).unwrap();
        assert!(text.contains(edit.0));
        *page = text.replace(edit.0, edit.1).into_bytes();
        let mut harness = harness(&[]);
        let hub = FakeHub::with(bodies, &[Reply::Good]);
        use_hub(&harness, &hub).await;
        harness.start_download("o/n".into()).await.unwrap();
        let DownloadState::Failed { problem } = ended(&mut harness).await.state else {
            panic!("{why}")
        };
        assert!(problem.to_string().contains(why), "{why}: {problem}");
    };
    let settings = ("weights/adapter_config.json", config("o/n"));
    refused(
        &[settings.clone(), tensors.clone()],
        ("\"sha256\"", "\"other\""),
        "no checksum",
    )
    .await;
    let huge = (settings.0, vec![b' '; (1 << 20) + 1]);
    refused(&[huge, tensors.clone()], ("weights", "weights"), "at most").await;
    refused(&[settings, tensors], ("weights/", "../weights/"), "cannot be used").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_download_of_an_adapter_is_resumed() {
    let mut harness = harness(&["llama"]);
    let hub = FakeHub::with(
        peft(),
        &[Reply::Good, Reply::Good, Reply::Good, Reply::Broken(100), Reply::Good],
    );
    use_hub(&harness, &hub).await;
    harness.start_download("o/Poet-LoRA".into()).await.unwrap();
    let done = ended(&mut harness).await;
    assert!(
        matches!(done.state, DownloadState::Done { adapter: Some(_), .. }),
        "{done:?}"
    );
    let resumed = |request: &String| request.contains(TENSORS) && request.to_lowercase().contains("bytes=100-");
    assert!(hub.requests().iter().any(resumed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_that_was_pulled_is_listed() {
    let harness = harness(&["llama"]);
    let data = harness.folder.path().join("data");
    let (endpoint, path) = tokio::task::spawn_blocking(move || {
        let fake = FakeHub::with(peft(), &[Reply::Good]);
        let library = Library::new(Vec::new(), &data, Reader::InProcess, None);
        let pulled = library.pull(&fake.hub, "o/Poet-LoRA", &mut |_| ControlFlow::Continue(()));
        (fake.hub.endpoint, pulled.expect("an adapter"))
    })
    .await
    .unwrap();
    assert!(
        path.join(CONFIG).is_file() && path.join(TENSORS).is_file(),
        "{endpoint}"
    );
    assert!(harness.adapters().await.unwrap().is_empty());
    harness.rescan_models().await.unwrap();
    let adapter = harness.adapters().await.unwrap().remove(0);
    assert_eq!((Path::new(&adapter.path), adapter.is_deletable), (path.as_path(), true));
    // Once only.
    harness.rescan_models().await.unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_is_imported_for_what_it_fits() {
    let mut harness = harness(&["llama3"]);
    let path = folder(&harness, "owner/Llama");
    let imported = harness.import_adapter(path.clone(), None).await.unwrap();
    assert_eq!((imported.model.as_deref(), imported.problem.as_ref()), (None, None));
    assert_eq!(imported.base_repository.as_deref(), Some("owner/Llama"));
    assert!(!imported.is_deletable);
    assert!(
        imported
            .matches
            .iter()
            .all(|choice| matches!(choice.fit, AdapterFit::Mismatch { .. }))
    );
    let again = harness.import_adapter(path.clone(), None).await.unwrap();
    assert_eq!(again.id, imported.id, "it is listed once");
    // Its base comes later.
    add(&harness, "llama");
    harness.rescan_models().await.unwrap();
    let fits = harness
        .next(|event| match event {
            Event::AdaptersChanged { adapters } => fit(&adapters[0], "llama").cloned(),
            _ => None,
        })
        .await;
    assert_eq!(fits, AdapterFit::Named);

    harness.delete_adapter(imported.id).await.unwrap();
    let harness = harness.again().await;
    assert!(path.join(TENSORS).exists(), "an imported file is a person's own");

    // Values are checked if there is a model to check them with.
    let tensors = path.join(TENSORS);
    let mut file = fs::read(&tensors).unwrap();
    let end = file.len();
    file[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&tensors, &file).unwrap();
    let nan = harness.import_adapter(path.clone(), None).await.unwrap_err();
    assert!(
        nan.code == ProblemCode::AdapterInvalid && nan.to_string().contains("NaN"),
        "{nan}"
    );
    fs::write(&tensors, (1u64 << 30).to_le_bytes()).unwrap();
    for path in [path, harness.folder.path().join("bundled/llama.gguf")] {
        let error = harness.import_adapter(path, None).await.unwrap_err();
        assert_eq!(error.code, ProblemCode::AdapterInvalid, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fitting_adapter_answers_and_another_one_says_why_not() {
    let mut harness = harness(&["llama", "llama3"]);
    let adapter = harness.import_adapter(folder(&harness, "x"), None).await.unwrap();
    assert_eq!(fit(&adapter, "llama"), Some(&AdapterFit::Sizes));
    let choice = vec![AdapterChoice {
        adapter: adapter.id,
        scale: 1.0,
    }];
    harness.load_model("llama".into()).await.unwrap();
    let first = harness.answer("show").await;
    harness
        .set_conversation_adapters(first.conversation, choice)
        .await
        .unwrap();
    let sent = harness.say(Some(first.conversation), "show").await;
    let answer = harness.ended(sent.answer.id).await;
    let shown: GenerateRequest = serde_json::from_str(&answer.text()).unwrap_or_else(|_| panic!("{answer:?}"));
    assert_eq!(shown.adapters[0].path, Path::new(&adapter.path));
    harness.load_model("llama3".into()).await.unwrap();
    let sent = harness.say(Some(first.conversation), "show").await;
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(failure(&answer).code, ProblemCode::AdapterInvalid);
    assert!(failure(&answer).to_string().contains("does not fit"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_are_searched_for_and_marked() {
    let rows =
        br#"[{"id": "o/lora", "tags": ["peft", "base_model:adapter:owner/Base"]}, {"id": "o/m", "tags": ["gguf"]}]"#;
    let bodies = HashMap::from([("/api/models".to_owned(), rows.to_vec())]);
    let (harness, hub) = (harness(&[]), FakeHub::with(bodies, &[Reply::Good]));
    use_hub(&harness, &hub).await;
    let search = |kind| harness.search_hub("poet".into(), HubSort::Trending, kind);
    let actual = search(HubKind::Adapters).await.unwrap();
    let marked: Vec<_> = actual
        .iter()
        .map(|result| (result.is_adapter, result.base.as_deref()))
        .collect();
    assert_eq!(marked, [(true, Some("owner/Base")), (false, None)]);
    search(HubKind::Models).await.unwrap();
    let requests = hub.requests();
    assert!(requests[0].contains("filter=peft") && requests[1].contains("filter=gguf"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_an_imported_adapter_that_match_nothing_are_told() {
    let harness = harness(&["llama"]);
    let folder = folder(&harness, "owner/Llama");
    let mut config: serde_json::Value = serde_json::from_slice(&config("owner/Llama")).unwrap();
    config["alpha_pattern"] = serde_json::json!({"^q_proj": 100, "k_proj": 8});
    fs::write(folder.join(CONFIG), config.to_string()).expect("a file");
    let adapter = harness
        .import_adapter(folder.clone(), None)
        .await
        .expect("it is imported");
    let unmatched = UnmatchedEntries {
        setting: "alpha_pattern".to_owned(),
        entries: vec!["^q_proj".to_owned()],
        more: 0,
    };
    assert_eq!((adapter.problem, adapter.unmatched), (None, vec![unmatched]));
    // A pattern that only Python reads is not called damage.
    config["alpha_pattern"] = serde_json::json!({"(?!v)q_proj": 100});
    fs::write(folder.join(CONFIG), config.to_string()).expect("a file");
    let problem = harness.adapters().await.unwrap().remove(0).problem;
    let refused = problem.expect("a problem").to_string();
    assert!(
        refused.contains("not supported") && !refused.contains("corrupt"),
        "{refused}"
    );
}
