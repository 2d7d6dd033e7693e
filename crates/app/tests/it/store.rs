//! The store's tables, backups and recovery.

use hearth_app::store::{
    FILE, Store, StoreError, adapter, backups, conversation, dataset,
    deleted_message::{self, Restoration},
    message::{self, Message, New, State},
    model, read_only, run, run_evaluation, run_point, search, setting,
    title_source::{self, TitleSource},
};
use hearth_protocol::{DraftKind, DraftStats, DroppedTurns, Part, Role};
use proptest::prelude::*;
use std::{cell::RefCell, collections::HashMap, fs, path::Path};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(folder: &TempDir) -> Store {
    Store::open(folder.path()).expect("a store")
}

fn say(store: &Store, conversation: i64, parent: Option<i64>, content: &str, state: State) -> Message {
    let role = if state == State::Unfinished {
        Role::Assistant
    } else {
        Role::User
    };
    store
        .write(|t| {
            message::create(
                t,
                New {
                    conversation,
                    parent,
                    role,
                    parts: parts(content),
                    state,
                    adapters: None,
                    model: None,
                    edited: false,
                    overrides: None,
                    created_at: 5,
                },
            )
        })
        .expect("a message")
}

/// The parts of a message of one text.
fn parts(text: &str) -> Vec<Part> {
    let text = text.to_owned();
    if text.is_empty() {
        Vec::new()
    } else {
        vec![Part::Text { text }]
    }
}

fn begin(store: &Store, title: &str) -> i64 {
    store
        .write(|t| conversation::create(t, title, TitleSource::User, 1))
        .expect("a conversation")
}

fn search(store: &Store, query: &str) -> Vec<search::Hit> {
    store
        .read(|t| search::search(t, query, &search::Filter::default()))
        .expect("an answer, whatever is asked")
}

#[test]
fn a_message_is_read_back_unchanged() {
    let folder = folder();
    let text = "NUL \0 in the middle, \u{1f642}, \u{feff} and a line\nend".to_owned() + &"x".repeat(5 << 20);
    let saved = {
        let store = open(&folder);
        let id = begin(&store, "a");
        let mut message = say(&store, id, None, "", State::Unfinished);
        message.parts = parts(&text);
        message.state = State::Failed("{}".into());
        message.model = Some("m".into());
        message.dropped = Some(DroppedTurns { messages: 2, tokens: 9 });
        message.stats = Some(message::Stats {
            prompt_tokens: 1,
            cached_tokens: 2,
            tokens: 3,
            tokens_per_second: 4.5,
            prompt_tokens_per_second: 5.5,
            first_token_seconds: 0.25,
            context_used: 7,
            context: 8,
            draft: Some(DraftStats {
                kind: DraftKind::FirstLayers,
                drafted: 9,
                accepted: 10,
                gain: 1.5,
                used: 0.75,
                stopped: true,
            }),
            thinking_seconds: Some(2.5),
        });
        store.write(|t| message::save(t, &message)).unwrap();
        message
    };
    let again = open(&folder).read(|t| message::get(t, saved.id)).unwrap();
    assert_eq!(again, Some(saved));
}

#[test]
fn messages_left_unfinished_by_a_crash_are_stopped_and_found() {
    let folder = folder();
    let (growing, whole) = {
        let store = open(&folder);
        let id = begin(&store, "a");
        let whole = say(&store, id, None, "question", State::Complete);
        let mut growing = say(&store, id, Some(whole.id), "", State::Unfinished);
        growing.parts = parts("half an albatross");
        store.write(|t| message::save(t, &growing)).unwrap();
        assert!(
            search(&store, "albatross").is_empty(),
            "an answer is indexed once finished"
        );
        (growing, whole)
    };
    let store = open(&folder);
    let rows = store
        .read(|t| message::of_conversation(t, growing.conversation))
        .unwrap();
    assert_eq!(
        rows,
        [
            whole,
            Message {
                state: State::Stopped,
                ..growing
            }
        ]
    );
    assert_eq!(search(&store, "albatross").len(), 1);
}

#[test]
fn a_deleted_conversation_can_be_restored_for_a_month() {
    let folder = folder();
    let (kept, old) = {
        let store = open(&folder);
        let (kept, old) = (begin(&store, "kept"), begin(&store, "old"));
        say(&store, kept, None, "cormorant", State::Complete);
        // Deeper than SQLite's recursion limit.
        let mut parent = None;
        for _ in 0..3000 {
            parent = Some(say(&store, old, parent, "deep", State::Complete).id);
        }
        store.write(|t| conversation::set_leaf(t, old, parent)).unwrap();
        let now = hearth_app::store::now();
        store
            .write(|t| Ok(conversation::delete(t, kept, now)? && conversation::delete(t, old, now - (31 << 30))?))
            .unwrap();
        assert!(search(&store, "cormorant").is_empty());
        assert!(store.read(|t| conversation::list(t)).unwrap().is_empty());
        (kept, old)
    };
    let store = open(&folder);
    assert!(store.write(|t| conversation::restore(t, kept)).unwrap());
    assert!(!store.write(|t| conversation::restore(t, old)).unwrap(), "purged");
    assert_eq!(search(&store, "cormorant").len(), 1);
    assert!(store.read(|t| message::of_conversation(t, old)).unwrap().is_empty());
    assert!(search(&store, "deep").is_empty());
    assert!(begin(&store, "new") > old, "ids are never reused");
}

#[test]
fn a_branch_and_its_newest_leaf() {
    let folder = folder();
    let store = open(&folder);
    let id = begin(&store, "a");
    let root = say(&store, id, None, "root", State::Complete);
    let left = say(&store, id, Some(root.id), "left", State::Complete);
    let right = say(&store, id, Some(root.id), "right", State::Complete);
    let leaf = say(&store, id, Some(left.id), "leaf", State::Complete);
    let branch = |leaf: i64| -> Vec<String> {
        store
            .read(|t| message::branch(t, leaf))
            .unwrap()
            .into_iter()
            .map(|row| row.text())
            .collect()
    };
    assert_eq!(branch(leaf.id), ["root", "left", "leaf"]);
    assert_eq!(branch(right.id), ["root", "right"]);
    let newest = |message| store.read(|t| message::newest_leaf(t, message)).unwrap();
    assert_eq!(
        (newest(root.id), newest(left.id), newest(leaf.id)),
        (right.id, leaf.id, leaf.id)
    );
}

#[test]
fn search_finds_words_beginnings_titles_and_scripts_without_spaces() {
    let folder = folder();
    let store = open(&folder);
    let id = begin(&store, "Seabirds of \u{c5}land");
    for text in [
        "The albatross sleeps",
        "Un caf\u{e9} noir",
        "\u{4eca}\u{65e5}\u{306f}\u{6674}\u{308c}\u{3067}\u{3059}",
        "100% of \"it\" \0 after",
        "a <b>tag</b>",
    ] {
        say(&store, id, None, text, State::Complete);
    }
    let cases = [
        ("albatross", 1),
        ("ALBA slee", 1),
        ("slee alba", 1),
        ("albatross noir", 0),
        ("cafe", 1),
        ("\u{6674}\u{308c}", 1),
        ("100%", 1),
        ("\"it\"", 1),
        ("after", 1),
        ("<b>", 1),
        ("NEAR(", 0),
        ("\u{e5}land", 1),
        ("seabirds \u{e5}l", 1),
        ("", 0),
        (" \0 ", 0),
    ];
    for (query, hits) in cases {
        assert_eq!(search(&store, query).len(), hits, "{query:?}");
    }
    let marked = |query: &str| search(&store, query)[0].snippet.clone();
    assert_eq!(
        marked("alba"),
        [
            ("The ".into(), false),
            ("albatross".into(), true),
            (" sleeps".into(), false)
        ]
    );
    assert_eq!(
        marked("\u{e5}LAND"),
        [("Seabirds of ".into(), false), ("\u{c5}land".into(), true)]
    );
    assert_eq!(search(&store, "\u{e5}land")[0].message, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// No query is an error, and a message is found by its words.
    #[test]
    fn search_takes_anything(text in "[a-z]{3,8}( [a-z]{3,8}){0,3}", query in "\\PC*|[\"*():^\\-a-z\0 ]*") {
        thread_local! { static STORE: (TempDir, Store, i64) = { let f = folder(); let s = open(&f); let c = begin(&s, "\u{3b2}"); (f, s, c) }; }
        STORE.with(|(_, store, id)| {
            search(store, &query);
            let said = say(store, *id, None, &text, State::Complete);
            let hits = store.read(|t| search::search(t, &format!("\"{text}"), &search::Filter::default())).unwrap();
            assert!(hits.len() == 50 || hits.iter().any(|hit| hit.message == Some(said.id)), "{text}");
        });
    }
}

#[test]
fn settings_and_models() {
    let folder = folder();
    let store = open(&folder);
    store
        .write(|t| setting::set(t, "theme", "1").and_then(|()| setting::set(t, "theme", "2")))
        .unwrap();
    assert_eq!(store.read(|t| setting::get(t, "theme")).unwrap(), Some("2".into()));
    for path in ["/b.gguf", "/a.gguf", "/b.gguf"] {
        store.write(|t| model::add(t, path, 1)).unwrap();
    }
    // Also while another process (here, this one) has the store open.
    let added = read_only(folder.path(), model::list).unwrap().unwrap_or_default();
    assert_eq!(added, [Path::new("/a.gguf"), Path::new("/b.gguf")]);
    assert!(store.write(|t| model::remove(t, "/a.gguf")).unwrap());
    assert!(!store.write(|t| model::remove(t, "/a.gguf")).unwrap());
}

fn point(step: u32) -> run_point::RunPoint {
    run_point::RunPoint {
        step,
        epoch: 1.5,
        loss: f64::from(step),
        learning_rate: 1e-4,
        gradient_norm: f64::INFINITY,
        tokens_per_second: 9.0,
        memory: 1 << 40,
        seconds_left: 0.0,
    }
}

#[test]
fn a_run_with_its_curves_survives_a_crash_and_is_removed_whole() {
    let folder = folder();
    let id = {
        let store = open(&folder);
        let dataset = store.write(|t| dataset::add(t, "/data.jsonl", "data", 1)).unwrap();
        let new = run::New {
            name: "run",
            model: "m",
            model_name: "M",
            dataset,
            dataset_name: "data",
            data_path: "/data.jsonl",
            mapping: None,
            skip_broken: true,
            settings: "{}",
            created_at: 1,
        };
        let id = store.write(|t| run::create(t, &new)).unwrap();
        let points: Vec<_> = (1..=10_000).map(point).collect();
        store.write(|t| run_point::add(t, id, &points)).unwrap();
        for step in [0, 5000, 10_000, 5000] {
            let evaluation = run_evaluation::RunEvaluation {
                step,
                loss: (step != 0).then_some(2.5),
                best: step == 0,
            };
            store.write(|t| run_evaluation::add(t, id, &evaluation)).unwrap();
        }
        // Resumed from a checkpoint.
        store
            .write(|t| run_point::add(t, id, &[point(9000), point(9001)]))
            .unwrap();
        store.write(|t| dataset::delete(t, dataset, 1)).unwrap();
        let adapter = adapter::New {
            name: "a",
            run: Some(id),
            model: "m",
            model_name: "M",
            path: "/first",
            created_at: 1,
        };
        let first = store.write(|t| adapter::add(t, &adapter)).unwrap();
        let again = adapter::New {
            path: "/again",
            ..adapter
        };
        assert_eq!(
            store.write(|t| adapter::add(t, &again)).unwrap(),
            first,
            "a run has one adapter"
        );
        id
    };
    let store = open(&folder);
    let row = store.read(|t| run::get(t, id)).unwrap().unwrap();
    assert_eq!(
        (row.state, row.dataset),
        (run::State::Interrupted(None), None),
        "its dataset is purged"
    );
    let points = store.read(|t| run_point::of_run(t, id)).unwrap();
    assert_eq!(points, (1..=9001).map(point).collect::<Vec<_>>());
    assert_eq!(store.read(|t| run_point::last(t, id)).unwrap(), Some(point(9001)));
    let evaluations = store.read(|t| run_evaluation::of_run(t, id)).unwrap();
    assert_eq!(
        evaluations.iter().map(|evaluation| evaluation.step).collect::<Vec<_>>(),
        [0, 5000]
    );
    assert_eq!([evaluations[0].loss, evaluations[1].loss], [None, Some(2.5)]);

    assert!(
        !store.write(|t| run::remove(t, id)).unwrap(),
        "not before it is deleted"
    );
    store.write(|t| run::delete(t, id, 2)).unwrap();
    assert!(store.read(|t| adapter::list(t)).unwrap().is_empty());
    assert_eq!(store.read(|t| run::deleted(t, 3)).unwrap(), [id]);
    assert!(store.write(|t| run::remove(t, id)).unwrap());
    assert!(store.read(|t| run_point::of_run(t, id)).unwrap().is_empty());
}

#[test]
fn a_generated_title_replaces_an_automatic_one_only() {
    let folder = folder();
    let store = open(&folder);
    let answers = RefCell::new(HashMap::<i64, i64>::new());
    let replace = |id: i64| {
        let answer = answers.borrow()[&id];
        let replaced = store.write(|t| title_source::replace_automatic(t, id, "first words", answer, "Generated"));
        replaced.expect("a write")
    };
    let create = |source| {
        let id = store.write(|t| conversation::create(t, "first words", source, 1));
        let id = id.expect("a conversation");
        answers
            .borrow_mut()
            .insert(id, say(&store, id, None, "an answer", State::Complete).id);
        id
    };
    let automatic = create(TitleSource::FirstWords);
    assert!(replace(automatic));
    let row = store.read(|t| conversation::get(t, automatic)).unwrap();
    assert_eq!(row.unwrap().title, "Generated");
    assert!(!replace(automatic), "once");
    assert!(!replace(create(TitleSource::User)));
    let renamed = create(TitleSource::FirstWords);
    assert!(
        store
            .write(|t| conversation::rename(t, renamed, "first words"))
            .unwrap()
    );
    assert!(!replace(renamed));
    let deleted = create(TitleSource::FirstWords);
    assert!(store.write(|t| conversation::delete(t, deleted, 1)).unwrap());
    assert!(!replace(deleted));
    let unanswered = create(TitleSource::FirstWords);
    let answer = answers.borrow()[&unanswered];
    let is_first = || {
        let is_first = store.read(|t| title_source::is_first_answer(t, unanswered, answer));
        is_first.expect("a read")
    };
    assert!(is_first());
    let root = store.read(|t| message::get(t, answer)).unwrap().unwrap();
    store.write(|t| deleted_message::delete(t, &root, 1)).unwrap();
    assert!(!is_first() && !replace(unanswered));
    // A row of an earlier version.
    let forget = |id: i64| {
        let forgotten = store.write(|t| t.execute("UPDATE conversation SET titled = NULL WHERE id = ?1", [id]));
        forgotten.expect("a write");
    };
    for (id, expected) in [(create(TitleSource::User), true), (automatic, false)] {
        forget(id);
        assert_eq!(replace(id), expected);
    }
}

#[test]
fn a_failed_transaction_changes_nothing() {
    let folder = folder();
    let store = open(&folder);
    let failed: Result<(), _> = store.write(|t| {
        conversation::create(t, "a", TitleSource::User, 1)?;
        Err(rusqlite::Error::InvalidQuery)
    });
    assert!(matches!(failed, Err(StoreError::Sqlite { .. })));
    assert!(store.read(|t| conversation::list(t)).unwrap().is_empty());
}

#[test]
fn two_instances_are_refused() {
    let folder = folder();
    let first = open(&folder);
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse(_))));
    drop(first);
    open(&folder);
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let folder = folder();
    let store = open(&folder);
    let id = begin(&store, "a");
    store.limit_size(Some(0)).unwrap();
    let big = "x".repeat(1 << 20);
    let new = New {
        conversation: id,
        parent: None,
        role: Role::User,
        parts: parts(&big),
        state: State::Complete,
        adapters: None,
        model: None,
        edited: false,
        overrides: None,
        created_at: 1,
    };
    assert!(matches!(
        store.write(|t| message::create(t, new.clone())),
        Err(StoreError::DiskFull { .. })
    ));
    assert_eq!(store.read(|t| conversation::list(t)).unwrap().len(), 1);
    store.limit_size(None).unwrap();
    store.write(|t| message::create(t, new)).unwrap();
}

#[test]
fn corrupt_and_foreign_files_are_refused_and_unchanged() {
    type Harm = fn(&Path);
    type Told = fn(&StoreError) -> bool;
    let corrupt: Told = |error| matches!(error, StoreError::Corrupt { .. });
    let other: Told = |error| matches!(error, StoreError::OtherProgram { .. });
    let newer: Told = |error| matches!(error, StoreError::Newer { found: 1000, .. });
    let cases: [(&str, Harm, Told); 5] = [
        (
            "text",
            |path| fs::write(path, "not a database, but long enough to be one ".repeat(50)).unwrap(),
            corrupt,
        ),
        (
            "a file of NULs",
            |path| fs::write(path, vec![0; 8192]).unwrap(),
            corrupt,
        ),
        (
            "flipped bytes",
            |path| {
                let mut bytes = fs::read(path).unwrap();
                for byte in bytes.iter_mut().skip(100).step_by(3) {
                    *byte ^= 0x5a;
                }
                fs::write(path, bytes).unwrap();
            },
            corrupt,
        ),
        (
            "another program's",
            |path| {
                fs::remove_file(path).unwrap();
                rusqlite::Connection::open(path)
                    .unwrap()
                    .execute_batch("CREATE TABLE bookmark (url TEXT)")
                    .unwrap();
            },
            other,
        ),
        (
            "a newer Hearth's",
            |path| {
                rusqlite::Connection::open(path)
                    .unwrap()
                    .execute_batch("PRAGMA user_version = 1000")
                    .unwrap();
            },
            newer,
        ),
    ];
    for (what, harm, told) in cases {
        let folder = folder();
        begin(&open(&folder), "a");
        let path = folder.path().join(FILE);
        harm(&path);
        let before = fs::read(&path).unwrap();
        let error = Store::open(folder.path()).expect_err(what);
        assert!(told(&error), "{what}: {error}");
        assert!(error.to_string().contains(FILE), "{error}");
        assert!(fs::read(&path).unwrap() == before, "{what}: the file was left as it is");
        let aside = Store::salvage(folder.path()).unwrap();
        assert!(fs::read(aside).unwrap() == before);
        open(&folder);
    }
}

#[test]
fn corruption_is_found_after_a_crash() {
    let folder = folder();
    let store = open(&folder);
    let id = begin(&store, "a");
    for _ in 0..50 {
        say(&store, id, None, &"words and more words ".repeat(100), State::Complete);
    }
    drop(store);
    // Like a crash: the lock file still has the open mark.
    fs::write(folder.path().join("hearth.lock"), "open").unwrap();
    let path = folder.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_folder_that_cannot_be_created_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("data")).expect_err("a file is no folder");
    assert!(matches!(&error, StoreError::Folder { .. }));
    assert!(error.to_string().contains("HEARTH_DATA"));
}

#[test]
fn a_store_is_backed_up_before_migrations() {
    let folder = folder();
    begin(&open(&folder), "kept");
    assert_eq!(backups(folder.path()), []);
    let path = folder.path().join(FILE);
    let older = rusqlite::Connection::open(&path).unwrap();
    older
        .execute_batch(
            "DROP TABLE deleted_message; ALTER TABLE run DROP COLUMN seen; ALTER TABLE model DROP COLUMN adapter;
             DROP TABLE unsent; DROP TABLE saved_prompt; DROP TABLE tag; DROP INDEX conversation_by_folder;
             ALTER TABLE conversation DROP COLUMN folder; DROP TABLE folder;
             ALTER TABLE message DROP COLUMN parts; ALTER TABLE message DROP COLUMN settings;
             ALTER TABLE message DROP COLUMN tokens; ALTER TABLE message DROP COLUMN edited;
             ALTER TABLE message DROP COLUMN own;
             ALTER TABLE conversation DROP COLUMN settings; DROP TABLE measurement; DROP TABLE download;
             DROP INDEX conversation_by_origin;
             ALTER TABLE conversation DROP COLUMN origin; ALTER TABLE conversation DROP COLUMN pinned;
             ALTER TABLE conversation DROP COLUMN titled;
             PRAGMA user_version = 12",
        )
        .unwrap();
    drop(older);
    drop(open(&folder));
    let [backup] = &backups(folder.path())[..] else {
        panic!("one copy")
    };
    let copy = rusqlite::Connection::open(&backup.path).unwrap();
    let version: i64 = copy.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    let title: String = copy
        .query_row("SELECT title FROM conversation", [], |row| row.get(0))
        .unwrap();
    assert_eq!((version, title.as_str()), (12, "kept"));
    drop(open(&folder));
    assert_eq!(backups(folder.path()).len(), 1, "the schema is the present one");
}

#[test]
fn a_store_is_backed_up_daily_and_the_last_backups_stay() {
    let folder = folder();
    let store = open(&folder);
    store.back_up_daily().unwrap();
    store.back_up_daily().unwrap();
    let made = backups(folder.path());
    assert_eq!(made.len(), 1);
    // Simulates elapsed days.
    let day = 24 * 60 * 60 * 1000;
    for days in 1..=6 {
        let older = made[0]
            .path
            .with_file_name(format!("hearth-{}.db", made[0].made_at - days * day));
        fs::copy(&made[0].path, older).unwrap();
    }
    let unfinished = made[0].path.with_file_name("hearth-1.unfinished");
    fs::write(&unfinished, "half a copy").unwrap();
    fs::remove_file(&made[0].path).unwrap();
    store.back_up_daily().unwrap();
    let kept = backups(folder.path());
    assert_eq!((kept.len(), unfinished.exists()), (5, false));
    assert!(kept[0].made_at >= made[0].made_at && kept.is_sorted_by(|a, b| a.made_at > b.made_at));
}

#[test]
fn a_corrupt_store_is_replaced_by_its_last_backup() {
    let folder = folder();
    let store = open(&folder);
    begin(&store, "in the copy");
    store.back_up_daily().unwrap();
    begin(&store, "after the copy");
    drop(store);
    let (path, backup) = (folder.path().join(FILE), backups(folder.path()).remove(0));
    fs::write(&path, "no longer a store ".repeat(500)).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Corrupt { .. })));

    let whole = fs::read(&backup.path).unwrap();
    fs::write(&backup.path, "a corrupt copy ".repeat(500)).unwrap();
    assert!(matches!(
        Store::restore(folder.path(), &backup),
        Err(StoreError::Corrupt { .. })
    ));
    assert!(
        fs::read(&path).unwrap().starts_with(b"no longer"),
        "the store is unchanged"
    );

    fs::write(&backup.path, whole).unwrap();
    let aside = Store::restore(folder.path(), &backup).unwrap();
    assert!(fs::read(aside).unwrap().starts_with(b"no longer"));
    let titles = open(&folder).read(|t| conversation::list(t)).unwrap();
    assert_eq!(
        titles
            .iter()
            .map(|conversation| &*conversation.title)
            .collect::<Vec<_>>(),
        ["in the copy"]
    );
}

/// Creates a conversation of 400 messages, which take many pages of the file.
fn begin_long(store: &Store) -> i64 {
    let conversation = begin(store, "a long one");
    let mut parent = None;
    for number in 0..400 {
        let text = format!("message {number} {}", "words ".repeat(60));
        parent = Some(say(store, conversation, parent, &text, State::Complete).id);
    }
    conversation
}

/// Overwrites pages with messages in the middle of a closed store. Returns the file's bytes.
fn corrupt(folder: &Path) -> Vec<u8> {
    let path = folder.join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 3 * 4096].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    bytes
}

#[test]
fn readable_rows_of_a_corrupt_store_are_recovered() {
    let folder = folder();
    let store = open(&folder);
    begin_long(&store);
    store.write(|t| setting::set(t, "theme", "dark")).unwrap();
    drop(store);
    let corrupt = corrupt(folder.path());
    let aside = Store::salvage(folder.path()).unwrap();
    assert!(fs::read(aside).unwrap() == corrupt, "the corrupt file is unchanged");
    let store = open(&folder);
    let titles = store.read(|t| conversation::list(t)).unwrap();
    assert_eq!(titles.len(), 1);
    let messages: i64 = store
        .read(|t| t.query_row("SELECT count(*) FROM message", [], |row| row.get(0)))
        .unwrap();
    assert!((200..400).contains(&messages), "{messages} messages");
    let lost: i64 = store
        .read(|t| t.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)))
        .unwrap();
    assert_eq!(lost, 0, "no dangling references");
    assert_eq!(
        store.read(|t| setting::get(t, "theme")).unwrap().as_deref(),
        Some("dark")
    );
    assert!(!search(&store, "message").is_empty());
}

#[test]
fn recovered_deletions_can_be_restored() {
    let folder = folder();
    let store = open(&folder);
    let (id, now) = (begin(&store, "a"), store.time());
    let add = |parent: Option<i64>| say(&store, id, parent, "words", State::Complete);
    let first = add(None);
    let root = add(Some(first.id));
    let below = [add(Some(root.id)), add(Some(root.id))];
    let other = add(None);
    let after = add(Some(other.id));
    for message in [&root, &after] {
        store.write(|t| deleted_message::delete(t, message, now)).unwrap();
    }
    // The first message of a deletion, and the one that another deletion follows.
    for (table, lost) in [("deleted_message", root.id), ("message", other.id)] {
        let sql = format!("DELETE FROM {table} WHERE id = ?1");
        store.write(|t| t.execute(&sql, [lost])).unwrap();
    }
    drop(store);
    Store::salvage(folder.path()).unwrap();
    let store = open(&folder);
    for deletion in [below[0].id, after.id] {
        let restoration = store.write(|t| deleted_message::restore(t, deletion)).unwrap();
        assert_eq!(restoration, Restoration::Done { conversation: id });
    }
    let messages = store.read(|t| message::of_conversation(t, id)).unwrap();
    let links: Vec<_> = messages.iter().map(|message| (message.id, message.parent)).collect();
    let roots = [first.id, below[0].id, below[1].id, after.id];
    assert_eq!(links, roots.map(|id| (id, None)));
}

#[test]
fn recovered_runs_have_the_names_of_their_adapters() {
    let folder = folder();
    let store = open(&folder);
    let dataset = store.write(|t| dataset::add(t, "/a.jsonl", "a", 1)).unwrap();
    let run = run::New {
        name: "Keeper",
        model: "tiny",
        model_name: "Tiny",
        dataset,
        dataset_name: "a",
        data_path: "/a.jsonl",
        mapping: None,
        skip_broken: false,
        settings: "{}",
        created_at: 1,
    };
    let run = store.write(|t| run::create(t, &run)).unwrap();
    // As in a store of an earlier version.
    let new = adapter::New {
        name: "Warden",
        run: Some(run),
        model: "tiny",
        model_name: "Tiny",
        path: "/runs/1",
        created_at: 1,
    };
    let id = store.write(|t| adapter::add(t, &new)).unwrap();
    drop(store);
    Store::salvage(folder.path()).unwrap();
    let row = open(&folder).read(|t| adapter::get(t, id)).unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.run), ("Keeper", Some(run)));
}

#[test]
fn a_clock_jump_ages_deleted_rows_by_a_day() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let folder = folder();
    let store = open(&folder);
    let now = store.time();
    // Days since each deletion; after thirty, a row is purged.
    let deleted = [0, 22, 28, 30].map(|days| {
        let conversation = begin(&store, "deleted");
        let path = format!("/{days}.jsonl");
        let dataset = store.write(|t| dataset::add(t, &path, "deleted", 1)).unwrap();
        let time = now - days * DAY;
        store.write(|t| conversation::delete(t, conversation, time)).unwrap();
        store.write(|t| dataset::delete(t, dataset, time)).unwrap();
        (conversation, dataset)
    });
    drop(store);
    // The system clock was at 1970 and is correct now: a gap of fifty years.
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let kept = setting::get(&connection, "clock").unwrap().unwrap();
    let [_, own]: [i64; 2] = serde_json::from_str(&kept).unwrap();
    setting::set(&connection, "clock", &format!("[0,{own}]")).unwrap();
    drop(connection);
    let store = open(&folder);
    let comes_back = deleted.map(|(conversation, dataset)| {
        let conversation = store.write(|t| conversation::restore(t, conversation)).unwrap();
        (conversation, store.write(|t| dataset::restore(t, dataset)).unwrap())
    });
    assert_eq!(comes_back, [true, true, true, false].map(|there| (there, there)));
}

#[test]
fn corruption_in_an_open_store_is_checked_at_the_next_start() {
    let folder = folder();
    let store = open(&folder);
    let conversation = begin_long(&store);
    drop(store);
    corrupt(folder.path());

    // It was closed properly, so the next start checks the header only.
    let store = open(&folder);
    let read = store.read(|t| message::of_conversation(t, conversation));
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    drop(store);
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Corrupt { .. })));
}

#[cfg(unix)]
#[test]
fn a_store_its_lock_and_its_backups_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let store = open(&folder);
    begin(&store, "private");
    store.back_up_daily().unwrap();
    let backup = backups(folder.path()).remove(0).path;
    let files = [FILE, "hearth.db-wal", "hearth.db-shm", "hearth.lock"].map(|name| folder.path().join(name));
    for file in files.into_iter().chain([backup]) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn the_id_of_a_run_unknown_to_a_restored_store_is_not_reused() {
    let folder = folder();
    let store = open(&folder);
    store.back_up_daily().unwrap();
    drop(store);
    fs::create_dir_all(folder.path().join("runs/7")).unwrap();
    Store::restore(folder.path(), &backups(folder.path()).remove(0)).unwrap();
    let next: i64 = open(&folder)
        .read(|t| {
            t.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'run'", [], |row| {
                row.get(0)
            })
        })
        .unwrap();
    assert_eq!(next, 7);
    assert!(!folder.path().join("hearth-coming").exists());
}

#[test]
fn a_backup_from_the_future_and_a_failed_backup_remove_no_other() {
    let folder = folder();
    let store = open(&folder);
    store.back_up_daily().unwrap();
    let made = backups(folder.path()).remove(0);
    let future = made.path.with_file_name("hearth-99999999999999.db");
    fs::copy(&made.path, &future).unwrap();
    store.back_up_daily().unwrap();
    let kept = backups(folder.path());
    assert_eq!(
        kept.iter().map(|backup| &backup.path).collect::<Vec<_>>(),
        [&made.path, &future]
    );
    // A backup fails: the leftover to remove first is a folder.
    fs::remove_file(&future).unwrap();
    fs::rename(&made.path, made.path.with_file_name("hearth-1.db")).unwrap();
    let folder_of_copies = made.path.parent().unwrap();
    fs::create_dir(folder_of_copies.join("hearth-0.unfinished")).unwrap();
    assert!(matches!(store.back_up_daily(), Err(StoreError::Backup { .. })));
    let left: Vec<_> = fs::read_dir(folder_of_copies)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(backups(folder.path())[0].check().is_ok());
    begin(&store, "still usable");
}
