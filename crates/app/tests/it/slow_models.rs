//! Model files that take long to read, as on a drive that does not answer, delay nothing else.

use crate::{
    harness::{self, Harness},
    support,
};
use hearth_app::{
    Options,
    library::{Library, Reader, probe::ProbeCommand},
    wire::{ConversationSettings, MessageState, ModelState, NewConversation},
};
use hearth_formats::hex;
use sha2::{Digest, Sha256};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time for which the fake probe hangs at each of these files.
const HANGS: Duration = Duration::from_secs(12);

/// An app whose probe gives up a file that hangs after [`HANGS`].
fn with_slow_probe(folder: TempDir) -> Harness {
    let options = Options {
        probe: ProbeCommand {
            timeout: Some(HANGS),
            ..support::probe()
        },
        ..harness::options(&folder)
    };
    Harness::with(folder, options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_hang_delay_no_answer_of_another_model_and_no_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let hanging: Vec<_> = (0..4)
        .map(|at| support::model(&folder.path().join(format!("data/models/x{at}")), "hang.gguf"))
        .collect();
    let mut harness = with_slow_probe(folder);
    // The window's list waits for all of them.
    let app = harness.app.clone();
    let listing = tokio::spawn(async move { app.rescan_models().await });
    let begin = Instant::now();
    assert_eq!(harness.answer("Hello").await.state, MessageState::Complete);
    assert!(begin.elapsed() < HANGS, "an answer came after {:?}", begin.elapsed());

    let sent = harness
        .send(None, None, "Wait".into(), Vec::new(), with_model(&hanging[0]))
        .await
        .expect("sent");
    let begin = Instant::now();
    harness.stop(sent.conversation.id).await.expect("stopped");
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert!(
        begin.elapsed() < HANGS / 2,
        "it was stopped after {:?}",
        begin.elapsed()
    );
    harness.unload_model().await.expect("unloaded");
    assert_eq!(harness.app.model_state().await.expect("a state"), ModelState::None);
    assert!(
        begin.elapsed() < HANGS / 2,
        "it was unloaded after {:?}",
        begin.elapsed()
    );
    listing.abort();
}

/// A new conversation with the model of this file.
fn with_model(path: &Path) -> NewConversation {
    let path = path.as_os_str().as_encoded_bytes();
    NewConversation {
        settings: ConversationSettings {
            model: Some(format!("file-{}", hex(&Sha256::digest(path)[..6]))),
            ..ConversationSettings::default()
        },
        ..NewConversation::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_hangs_delays_no_answer_of_another_conversation() {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let hanging = support::model(&folder.path().join("data/models/x"), "hang.gguf");
    let mut harness = with_slow_probe(folder);
    let waiting = harness
        .send(None, None, "Wait".into(), Vec::new(), with_model(&hanging))
        .await;
    let waiting = waiting.expect("sent");
    let begin = Instant::now();
    assert_eq!(harness.answer("Hello").await.state, MessageState::Complete);
    assert!(
        begin.elapsed() < HANGS / 2,
        "an answer came after {:?}",
        begin.elapsed()
    );
    harness.stop(waiting.conversation.id).await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_was_looked_up_for_long_takes_no_place_of_a_later_one() {
    let folder = tempfile::tempdir().expect("a folder");
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let late = support::model(&folder.path().join("data/models/x"), "late.gguf");
    let options = harness::options(&folder);
    let mut harness = Harness::with(folder, options);
    harness.answer("Hello").await;
    let ModelState::Ready { model: tiny, .. } = harness.app.model_state().await.expect("a state") else {
        panic!("a model answered");
    };
    let sent = harness
        .send(None, None, "Wait".into(), Vec::new(), with_model(&late))
        .await;
    harness.load_model(tiny.clone()).await.expect("loaded");
    assert_eq!(
        harness.ended(sent.expect("sent").answer.id).await.state,
        MessageState::Complete
    );
    let state = harness.app.model_state().await.expect("a state");
    assert!(
        matches!(&state, ModelState::Ready { model, .. } if *model == tiny),
        "{state:?}"
    );
}

#[test]
fn a_model_is_found_as_it_is_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bundled, data) = (folder.path().join("bundled"), folder.path().join("data"));
    support::model(&bundled, "tiny.gguf");
    support::model(&data.join("models"), "flat.gguf");
    support::model(&data.join("models/o/n"), "nested.gguf");
    fs::write(data.join("models/broken.gguf"), "no model").expect("a file");
    let added = [support::model(folder.path(), "added.gguf")];
    let library = Library::new(vec![bundled], &data, Reader::InProcess, None);
    let listed = library.list(&added);
    assert_eq!(listed.len(), 5);
    for model in &listed {
        let actual = library.find(&model.id, &added).expect("it is listed");
        assert_eq!(format!("{actual:?}"), format!("{model:?}"));
    }
    assert!(library.find("nothing", &added).is_none());
    let default = library.default(&listed).map(|model| &model.id);
    assert_eq!(library.find_default(&added).as_ref().map(|model| &model.id), default);
}
