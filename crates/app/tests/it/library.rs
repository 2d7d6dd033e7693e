//! The library: listing models, resolving names, and downloads from a faulty hub.

use crate::support::{
    self,
    hub::{FakeHub, Reply},
};
use hearth_app::{
    library::{Library, LibraryError, ModelMetadata, Place, Progress, Reader, catalog, chat_template, download},
    wire::{Problem, ProblemCode, Source},
};
use hearth_formats::{
    gguf::{Metadata, Strings, Value},
    hex,
};
use hearth_protocol::SamplingParams;
use sha2::{Digest, Sha256};
use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

const DEFAULT: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// A library with the default model bundled, one model in the app's folder, and one that was added.
fn library(folder: &Path) -> (Library, Vec<PathBuf>) {
    let bundled = folder.join("bundled");
    support::model(&bundled, DEFAULT);
    support::model(&folder.join("data/models"), "own.gguf");
    support::model(&folder.join("data/models"), "split-00001-of-00002.gguf");
    support::model(&folder.join("data/models"), "split-00002-of-00002.gguf");
    fs::write(folder.join("data/models/notes.txt"), "no model").unwrap();
    fs::write(folder.join("data/models/half.gguf.partial"), "no model yet").unwrap();
    let added = support::model(folder, "added.gguf");
    (
        Library::new(
            vec![folder.join("nowhere"), bundled],
            &folder.join("data"),
            Reader::InProcess,
            None,
        ),
        vec![added],
    )
}

#[test]
fn lists_each_model_once_and_the_default_first() {
    let folder = folder();
    let (library, added) = library(folder.path());
    // Including a file that is already listed.
    let added = vec![
        added[0].clone(),
        fs::canonicalize(library.folder().join("own.gguf")).unwrap(),
    ];
    let models = library.list(&added);
    let ids_and_sources: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.source)).collect();
    let default = catalog::entries()[0].id.as_str();
    assert_eq!(
        ids_and_sources[..3],
        [
            (default, Source::Bundled),
            ("own", Source::Catalog),
            ("split-00001-of-00002", Source::Catalog)
        ]
    );
    assert_eq!((ids_and_sources.len(), ids_and_sources[3].1), (4, Source::File));
    assert_eq!(library.default(&models).map(|model| model.id.as_str()), Some(default));
    assert_eq!(
        models[0].system_prompt(),
        catalog::entries()[0].system_prompt.as_deref()
    );
    assert_eq!(models[3].name, "A tiny model");
}

#[test]
fn a_vocabulary_is_told_from_others() {
    let folder = folder();
    let vocabulary = |keys: &[(&str, Value)]| {
        let mut metadata = support::metadata();
        for (key, value) in keys {
            metadata.insert(*key, value.clone());
        }
        let path = support::write(folder.path(), "model.gguf", &metadata, "weight", 8);
        ModelMetadata::read(&path).expect("a model").vocabulary
    };
    let tokens = |texts: &[&str]| ("tokenizer.ggml.tokens", Value::from(texts.iter().collect::<Strings>()));
    let (bpe, spm) = (
        ("tokenizer.ggml.model", "gpt2".into()),
        ("tokenizer.ggml.model", "llama".into()),
    );
    let pre = |name: &str| ("tokenizer.ggml.pre", Value::from(name));
    let one = vocabulary(&[bpe.clone(), pre("smollm"), tokens(&["a", "bc"])]);
    let digits = one.clone().expect("a vocabulary");
    assert!(
        digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{digits}"
    );
    // The order of keys is up to the writer, and the merges and the chat template do not count.
    let merges = (
        "tokenizer.ggml.merges",
        Value::from(["a b"].iter().collect::<Strings>()),
    );
    assert_eq!(
        vocabulary(&[tokens(&["a", "bc"]), merges, pre("smollm"), bpe.clone()]),
        one
    );
    for other in [
        vec![bpe.clone(), pre("smollm"), tokens(&["ab", "c"])],
        vec![bpe.clone(), pre("smollm"), tokens(&["bc", "a"])],
        vec![bpe.clone(), pre("smollm"), tokens(&["a", "bc", "d"])],
        vec![bpe.clone(), pre("qwen2"), tokens(&["a", "bc"])],
        vec![bpe.clone(), tokens(&["a", "bc"])],
        vec![spm, pre("smollm"), tokens(&["a", "bc"])],
    ] {
        let actual = vocabulary(&other);
        assert!(actual.is_some() && actual != one, "{other:?}");
    }
    for none in [
        vec![],
        vec![tokens(&["a"])],
        vec![bpe.clone()],
        vec![bpe.clone(), ("tokenizer.ggml.tokens", vec![7u32].into())],
        vec![("tokenizer.ggml.model", 7u32.into()), tokens(&["a"])],
    ] {
        assert_eq!(vocabulary(&none), None, "{none:?}");
    }
}

#[test]
fn sampling_is_the_catalogs_then_the_files_then_the_default() {
    let folder = folder();
    let mut metadata = support::metadata();
    // An entry may leave the parameters to the file.
    let without = catalog::find("phi-4-mini-instruct").expect("an entry");
    assert_eq!(without.sampling, None);
    let library = |metadata: &Metadata| {
        for name in [DEFAULT, "own.gguf", &without.file] {
            support::write(&folder.path().join("data/models"), name, metadata, "weight", 8);
        }
        let library = Library::new(Vec::new(), &folder.path().join("data"), Reader::InProcess, None);
        let models = library.list(&[]);
        let sampling = |file: &str| {
            let model = models.iter().find(|model| model.path.ends_with(file));
            model.expect("a model").sampling()
        };
        [sampling(DEFAULT), sampling("own.gguf"), sampling(&without.file)]
    };
    let catalog = catalog::entries()[0].sampling.clone().expect("parameters");
    let default = SamplingParams::default();
    assert_eq!(library(&metadata), [catalog.clone(), default.clone(), default]);
    metadata.insert("general.sampling.temp", Value::F32(0.35));
    metadata.insert("general.sampling.top_k", Value::I32(-1));
    metadata.insert("general.sampling.top_p", Value::F32(7.0));
    let own = SamplingParams {
        temperature: 0.35,
        top_k: 0,
        ..SamplingParams::default()
    };
    assert_eq!(library(&metadata), [catalog, own.clone(), own]);
}

#[test]
fn resolves_names_of_models() {
    let folder = folder();
    let (library, added) = library(folder.path());
    let own = library.folder().join("own.gguf");
    let cases = [
        ("smollm2-135m-instruct", Some(DEFAULT)),
        ("SMOLLM2-135m-Instruct", Some(DEFAULT)),
        ("SmolLM2 135M Instruct", Some(DEFAULT)),
        ("smollm2-135m-instruct.q4_1", Some(DEFAULT)),
        ("own", Some("own.gguf")),
        ("Own.GGUF", Some("own.gguf")),
        ("added", Some("added.gguf")),
        (own.to_str().unwrap(), Some("own.gguf")),
        ("nothing", None),
        ("qwen3-0.6b", None),
        ("no/such/file.gguf", None),
        ("", None),
    ];
    for (name, file) in cases {
        let actual = library.resolve(name, &added);
        match file {
            Some(file) => assert_eq!(actual.expect(name).path.file_name(), Some(file.as_ref()), "{name}"),
            None => assert!(actual.is_err(), "{name}"),
        }
    }
    let resolve_error = |name| library.resolve(name, &added).unwrap_err().to_string();
    assert!(resolve_error("qwen3-0.6b").contains("hearth pull qwen3-0.6b"));
    assert!(resolve_error("no/such/file.gguf").contains("no/such/file.gguf"));
    assert!(resolve_error("nothing").contains("smollm2-135m-instruct"));
}

#[test]
fn a_split_model_is_one_model() {
    let folder = folder();
    let (library, _) = library(folder.path());
    let root = fs::canonicalize(folder.path()).unwrap();
    let parts = support::split_model(&root.join("parts"), "big");
    for part in &parts {
        let (model, path) = library.check(part).unwrap();
        assert_eq!(
            (model.path.as_path(), path.as_str()),
            (&*parts[0], parts[0].to_str().unwrap())
        );
    }
    // In the cache of Hugging Face the targets have no part numbers.
    #[cfg(unix)]
    {
        let links = root.join("snapshots");
        fs::create_dir(&links).unwrap();
        for (part, blob) in parts.iter().zip(["b1", "b2"]) {
            fs::rename(part, root.join(blob)).unwrap();
            std::os::unix::fs::symlink(root.join(blob), links.join(part.file_name().unwrap())).unwrap();
        }
        let first = links.join("big-00001-of-00002.gguf");
        for name in ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"] {
            assert_eq!(library.check(&links.join(name)).unwrap().0.path, first);
        }
    }
}

#[test]
fn a_corrupt_model_is_listed_with_its_problem() {
    let folder = folder();
    let (library, _) = library(folder.path());
    let path = library.folder().join("own.gguf");
    assert!(library.by_path(&path).metadata.is_ok());
    fs::write(&path, "no longer a model").unwrap();
    let problem = library.by_path(&path).metadata.unwrap_err();
    assert!(problem.to_string().contains("own.gguf"), "{problem}");
    let error = library.check(&path).unwrap_err();
    assert!(matches!(&error, LibraryError::Unreadable(_)), "{error}");
    assert_eq!(Problem::from(error).code, ProblemCode::FileInvalid);
}

#[test]
fn an_adapter_that_is_added_as_a_model_is_told_apart_from_a_corrupt_file() {
    let folder = folder();
    let (library, _) = library(folder.path());
    let mut metadata = support::metadata();
    metadata.insert("general.type", "adapter");
    metadata.insert("adapter.type", "lora");
    let path = support::write(folder.path(), "lora.gguf", &metadata, "blk.0.attn_q.weight.lora_a", 8);
    let error = library.check(&path).unwrap_err();
    assert!(matches!(&error, LibraryError::IsAdapter(_)), "{error}");
    let problem = Problem::from(error);
    assert_eq!(problem.code, ProblemCode::IsAdapter);
    assert!(problem.to_string().contains("lora.gguf"), "{problem}");
}

#[test]
fn the_chat_template_of_a_model_is_read_up_to_a_limit() {
    let folder = folder();
    let with = |file: &str, template: Value| {
        let mut metadata = support::metadata();
        metadata.insert("tokenizer.chat_template", template);
        support::write(folder.path(), file, &metadata, "weight", 8)
    };
    let source = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let path = with("with.gguf", Value::from(source));
    assert_eq!(chat_template(&path).unwrap().as_deref(), Some(source));
    let without = support::model(folder.path(), "without.gguf");
    assert_eq!(chat_template(&without).unwrap(), None);
    let longest = "x".repeat(256 << 10);
    assert_eq!(
        chat_template(&with("longest.gguf", Value::from(longest.as_str()))).unwrap(),
        Some(longest.clone())
    );
    let longer = chat_template(&with("longer.gguf", Value::from(&*format!("{longest}x"))));
    let longer = longer.unwrap_err().to_string();
    assert!(longer.contains("longer.gguf") && longer.contains("262145"), "{longer}");
    assert!(chat_template(&with("number.gguf", Value::from(7u32))).is_err());
    assert!(chat_template(&folder.path().join("nowhere.gguf")).is_err());
}

fn entry(file: &[u8]) -> catalog::Entry {
    catalog::Entry {
        id: "a".into(),
        name: "A model".into(),
        license: "MIT".into(),
        repository: "owner/name".into(),
        revision: "main".into(),
        file: "a.gguf".into(),
        size: file.len() as u64,
        sha256: Some(hex(Sha256::digest(file))),
        system_prompt: None,
        sampling: None,
        titles: true,
        first_run: true,
    }
}

fn bytes() -> Vec<u8> {
    (0..100_000u32)
        .flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes())
        .collect()
}

fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_download_survives_a_bad_connection() {
    let cases: [(&str, &'static [Reply], usize); 5] = [
        ("good", &[Reply::Good], 1),
        (
            "breaks twice",
            &[Reply::Broken(1000), Reply::Broken(300_000), Reply::Good],
            3,
        ),
        ("knows no ranges", &[Reply::Broken(1000), Reply::NoRanges], 2),
        (
            "is busy",
            &[
                Reply::Status(503),
                Reply::Status(429),
                Reply::Broken(5),
                Reply::Status(500),
                Reply::Good,
            ],
            5,
        ),
        (
            "says nothing for a while",
            &[Reply::Broken(0), Reply::Broken(0), Reply::Good],
            3,
        ),
    ];
    for (what, replies, requests) in cases {
        let (folder, file) = (folder(), bytes());
        let hub = FakeHub::new(file.clone(), replies);
        let mut seen: Vec<Progress> = Vec::new();
        let path = download(
            &hub.hub,
            &entry(&file).remote(&hub.hub).unwrap(),
            folder.path(),
            &mut |progress| {
                if seen.last() != Some(&progress) {
                    seen.push(progress);
                }
                ControlFlow::Continue(())
            },
        )
        .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(fs::read(&path).unwrap() == file, "{what}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "{what}: the model and the record of its origin"
        );
        assert_eq!(hub.requests().len(), requests, "{what}");
        let total = file.len() as u64;
        assert_eq!(
            seen[seen.len() - 2..],
            [Progress::Loading { done: total, total }, Progress::Checking],
            "{what}"
        );
    }
}

#[test]
fn a_partial_download_is_saved_and_resumed() {
    let (folder, file) = (folder(), bytes());
    let hub = FakeHub::new(file.clone(), &[Reply::Broken(1000), Reply::Status(503)]);
    let failed = download(
        &hub.hub,
        &entry(&file).remote(&hub.hub).unwrap(),
        folder.path(),
        &mut proceed,
    );
    assert!(matches!(failed, Err(LibraryError::Download { .. })));
    assert_eq!(fs::metadata(folder.path().join("a.gguf.partial")).unwrap().len(), 1000);
    assert_eq!(hub.requests().len(), 6, "one request with data, and five without");

    let hub = FakeHub::new(file.clone(), &[Reply::Good]);
    let path = download(
        &hub.hub,
        &entry(&file).remote(&hub.hub).unwrap(),
        folder.path(),
        &mut proceed,
    )
    .unwrap();
    assert!(fs::read(path).unwrap() == file);
    let request = hub.requests().remove(0).to_lowercase();
    assert!(request.starts_with("get /owner/name/resolve/main/a.gguf "), "{request}");
    assert!(
        request.contains("range: bytes=1000-") && !request.contains("secret"), // Anybody on the way could read it.
        "{request}"
    );
}

#[test]
fn a_download_that_is_not_the_file_is_refused() {
    type Told = fn(&LibraryError) -> bool;
    let cases: [(&'static [Reply], Told, Option<u64>); 9] = [
        (
            &[Reply::Other],
            |error| matches!(error, LibraryError::HashMismatch { .. }),
            None,
        ),
        (
            &[Reply::Broken(1000), Reply::Other],
            |error| matches!(error, LibraryError::HashMismatch { .. }),
            None,
        ),
        (
            &[Reply::Broken(1000), Reply::OtherRange],
            |error| error.to_string().contains("another part"),
            Some(1000),
        ),
        (
            &[Reply::Broken(1000), Reply::NoRange],
            |error| error.to_string().contains("shorter"),
            Some(1000),
        ),
        (
            &[Reply::Portal],
            |error| error.to_string().contains("web page"),
            Some(0),
        ),
        (
            &[Reply::Circle],
            |error| error.to_string().contains("in circles"),
            Some(0),
        ),
        (
            &[Reply::Long],
            |error| error.to_string().contains("another size than it was said to have"),
            Some(0),
        ),
        (
            &[Reply::Status(404)],
            |error| error.to_string().contains("does not have it"),
            Some(0),
        ),
        (
            &[Reply::Status(401)],
            |error| error.to_string().contains("login"),
            Some(0),
        ),
    ];
    for (replies, told, at_least) in cases {
        let (folder, file) = (folder(), bytes());
        let hub = FakeHub::new(file.clone(), replies);
        let error = download(
            &hub.hub,
            &entry(&file).remote(&hub.hub).unwrap(),
            folder.path(),
            &mut proceed,
        )
        .expect_err("not the file");
        assert!(told(&error), "{error}");
        assert!(!folder.path().join("a.gguf").exists());
        let kept = fs::metadata(folder.path().join("a.gguf.partial"))
            .ok()
            .map(|about| about.len());
        assert_eq!(kept.is_some(), at_least.is_some(), "{error}");
        assert!(kept.is_none_or(|kept| kept <= file.len() as u64), "{error}");
    }
}

#[test]
fn a_download_can_be_cancelled_and_is_locked() {
    let (folder, file) = (folder(), bytes());
    let hub = FakeHub::new(file.clone(), &[Reply::Good]);
    let stopped = download(
        &hub.hub,
        &entry(&file).remote(&hub.hub).unwrap(),
        folder.path(),
        &mut |progress| match progress {
            Progress::Loading { done, .. } if done > 0 => {
                let second = download(
                    &hub.hub,
                    &entry(&file).remote(&hub.hub).unwrap(),
                    folder.path(),
                    &mut proceed,
                );
                assert!(matches!(second, Err(LibraryError::AlreadyDownloading(_))));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        },
    );
    assert!(matches!(stopped, Err(LibraryError::Cancelled)));
    assert!(fs::metadata(folder.path().join("a.gguf.partial")).unwrap().len() > 0);
}

#[test]
fn an_unreachable_hub_is_reported() {
    let (folder, file) = (folder(), bytes());
    let hub = support::hub::unreachable();
    let error = download(&hub, &entry(&file).remote(&hub).unwrap(), folder.path(), &mut proceed).unwrap_err();
    assert!(error.to_string().contains("http://127.0.0.1:1/owner/name"), "{error}");
}

#[test]
fn pull_skips_existing_models_and_lists_the_catalog() {
    let folder = folder();
    let (library, _) = library(folder.path());
    let hub = support::hub::unreachable();
    let path = library.pull(&hub, "smollm2-135m-instruct", &mut proceed).unwrap();
    assert_eq!(path.file_name(), Some(DEFAULT.as_ref()));
    let error = library.pull(&hub, "nothing", &mut proceed).unwrap_err().to_string();
    assert!(error.contains("smollm2-135m-instruct"), "{error}");
}

/// Leaves the first bytes of a file, so that its last tensor ends beyond them.
fn cut(path: &Path) {
    let len = fs::metadata(path).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len - 1).unwrap();
}

#[test]
fn incomplete_models_of_other_programs_are_listed_with_the_reason() {
    let folder = folder();
    let place = |source, name: &str| Place {
        source,
        folder: folder.path().join(name),
    };
    let studio = support::model(&folder.path().join("studio/owner/repo"), "a.gguf");
    let jan = support::model(&folder.path().join("jan/qwen"), "model.gguf");
    let hash = "ab".repeat(32);
    let blob = support::model(&folder.path().join("ollama/blobs"), &format!("sha256-{hash}"));
    let manifest = format!(
        r#"{{"layers": [{{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:{hash}", "size": {}}}]}}"#,
        fs::metadata(&blob).unwrap().len()
    );
    let tags = folder.path().join("ollama/manifests/registry.ollama.ai/library/tiny");
    fs::create_dir_all(&tags).unwrap();
    fs::write(tags.join("latest"), manifest).unwrap();
    let snapshot = folder.path().join("hub/models--o--n/snapshots/1");
    let [first, second] = support::split_model(&snapshot, "big");
    let cached = support::model(&folder.path().join("cache"), "c.gguf");
    let library = Library::new(Vec::new(), &folder.path().join("data"), Reader::InProcess, None);
    library.set_places(vec![
        place(Source::LmStudio, "studio"),
        place(Source::Jan, "jan"),
        place(Source::Ollama, "ollama"),
        place(Source::HuggingFace, "hub"),
        place(Source::LlamaCpp, "cache"),
    ]);
    assert!(library.list(&[]).iter().all(|model| model.metadata.is_ok()));
    // One is garbage, which is no model of anybody.
    fs::write(folder.path().join("cache/notes.gguf"), "no model").unwrap();
    [&studio, &jan, &blob, &second, &cached]
        .into_iter()
        .for_each(|path| cut(path));
    library.rescan();
    let models = library.list(&[]);
    assert_eq!(models.len(), 5, "{models:?}");
    for path in [&studio, &jan, &blob, &first, &cached] {
        let model = models.iter().find(|model| model.path == *path).expect("it is listed");
        let why = model.metadata.as_ref().expect_err("it is incomplete").to_string();
        assert!(
            why.contains("is incomplete") && why.contains("download it again"),
            "{why}"
        );
        assert!(model.is_incomplete && library.delete(model).is_err());
    }
    let shard = models.iter().find(|model| model.path == first).expect("it is listed");
    assert!(
        shard
            .metadata
            .as_ref()
            .expect_err("a shard")
            .to_string()
            .contains("big-00002-of-00002.gguf")
    );
}

#[test]
fn a_model_of_the_catalog_is_settled_with_its_hash_or_commit() {
    let entry = &catalog::entries()[0];
    let hash = entry.sha256.as_deref().expect("a hash");
    let record = |revision: &str, files: &str| {
        let id = &entry.id;
        format!(r#"{{"source": "{id}", "revision": "{revision}", "license": null, "files": [{files}]}}"#)
    };
    let file = |hash: &str| format!(r#"{{"path": "{DEFAULT}", "size": 1, "sha256": "{hash}"}}"#);
    let mark = record("x", &file(hash)).replace("\"files\"", "\"updating\": true, \"files\"");
    let cases = [
        (record("x", &file(hash)), true, true),
        (record(&entry.revision, ""), true, true),
        (record(&entry.revision, &file("00")), false, true),
        (record("x", &file("00")), false, true),
        (record("x", ""), false, true),
        (mark, false, false),
    ];
    let reference = hearth_app::library::hub::Reference::Catalog(entry);
    let unreachable = support::hub::unreachable();
    for (text, is_settled, is_complete) in cases {
        let folder = folder();
        let library = Library::new(Vec::new(), folder.path(), Reader::InProcess, None);
        let path = support::model(library.folder(), DEFAULT);
        fs::write(library.folder().join(format!("{DEFAULT}.origin.json")), &text).unwrap();
        assert_eq!(library.settled(&reference).is_some(), is_settled, "{text}");
        // Without the network the file that is there has to do.
        let pulled = library.pull(&unreachable, &entry.id, &mut proceed);
        assert_eq!(pulled.ok(), is_complete.then_some(path), "{text}");
    }
    let folder = folder();
    let (library, _) = library(folder.path());
    assert!(library.settled(&reference).is_some(), "it is bundled");
}
