//! Datasets for fine-tuning: added, inspected, and written from rated answers.

use crate::harness::{
    Harness, PATIENCE,
    runs::{train_adapter, write_script},
};
use hearth_app::wire::{ColumnMapping, ExportFormat, ExportOptions, ProblemCode, Rating, Severity, Thumb};
use std::{
    fs,
    io::{ErrorKind, Read},
    net::{TcpListener, TcpStream},
    thread,
};
use tokio::{sync::oneshot, time::timeout};

/// Accepts the connection of the worker that inspects an endless dataset.
async fn accept(listener: TcpListener) -> TcpStream {
    let (send, accepted) = oneshot::channel();
    // The end of a test does not wait for this thread, as it would for a task's.
    thread::spawn(move || send.send(listener.accept()));
    let accepted = timeout(PATIENCE, accepted).await.expect("a worker that connects");
    accepted.unwrap().unwrap().0
}

/// Waits until the process at the other end has exited.
fn wait_for_close(mut connection: TcpStream) {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it still runs: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datasets_are_added_inspected_and_removed() {
    let harness = Harness::tiny();
    let samples = harness.folder.path().join("samples");
    fs::create_dir_all(&samples).unwrap();
    fs::write(samples.join("pirate.jsonl"), "{}").unwrap();
    fs::write(samples.join("README.md"), "no data").unwrap();
    let sample = &harness.sample_datasets().await.unwrap()[..];
    assert!(
        matches!(sample, [one] if one.name == "pirate" && one.size == 2),
        "{sample:?}"
    );

    let path = write_script(&harness, "one two three");
    let dataset = harness.add_dataset(path.clone()).await.unwrap();
    assert_eq!((dataset.name.as_str(), dataset.examples), ("script", None));
    let mapping = ColumnMapping {
        text: Some("text".into()),
        ..ColumnMapping::default()
    };
    let seen = harness
        .inspect_dataset(dataset.id, "tiny".into(), Some(mapping.clone()), true, Some(64), None)
        .await
        .unwrap();
    assert_eq!(
        (seen.examples, seen.sequence, seen.mapping, seen.unsure),
        (3, 64, mapping, false)
    );
    assert_eq!(seen.previews[0].pieces[0].text, "one two three");
    assert_eq!(seen.findings[0].severity, Severity::Warning);
    assert_eq!(harness.datasets().await.unwrap()[0].examples, Some(3));

    harness.rename_dataset(dataset.id, "Mine".into()).await.unwrap();
    harness.remove_dataset(dataset.id).await.unwrap();
    assert!(harness.datasets().await.unwrap().is_empty() && path.exists());
    let gone = harness
        .inspect_dataset(dataset.id, "tiny".into(), None, false, None, None)
        .await;
    assert_eq!(gone.unwrap_err().code, ProblemCode::NotFound);
    harness.restore_dataset(dataset.id).await.unwrap();
    assert_eq!(harness.add_dataset(path).await.unwrap().id, dataset.id);
    let harness = harness.again().await;
    assert_eq!(harness.datasets().await.unwrap()[0].name, "Mine");
    for path in ["nowhere.jsonl", "."] {
        assert_eq!(
            harness.add_dataset(path.into()).await.unwrap_err().code,
            ProblemCode::FileUnreadable
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_inspection_cancels_an_older_one() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("endless {}", listener.local_addr().unwrap());
    let dataset = harness.add_dataset(write_script(&harness, &script)).await.unwrap();
    let inspect = || harness.inspect_dataset(dataset.id, "tiny".into(), None, false, None, None);
    let work = async {
        let worker = accept(listener).await;
        let order = ExportOptions {
            adapter: adapter.id,
            format: ExportFormat::GgufLora,
            out: harness.folder.path().join("out.gguf").to_string_lossy().into_owned(),
            verify: false,
        };
        harness.export_adapter(order).await.unwrap();
        write_script(&harness, "one two");
        let new = inspect().await;
        wait_for_close(worker);
        new
    };
    let (endless, new) = tokio::join!(inspect(), work);
    assert_eq!(endless.unwrap_err().code, ProblemCode::Cancelled);
    assert_eq!(new.unwrap().examples, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rated_answers_become_a_dataset() {
    let mut harness = Harness::tiny();
    assert_eq!(
        harness.dataset_from_ratings("Mine".into()).await.unwrap_err().code,
        ProblemCode::DataInvalid
    );
    let good = harness.answer("say one").await;
    harness.rate_answer(good.id, Some(Thumb::Up), None).await.unwrap();
    let next = harness.say(Some(good.conversation), "say two").await;
    let wrong = harness.ended(next.answer.id).await;
    harness.rate_answer(wrong.id, None, Some("three".into())).await.unwrap();
    let bad = harness.answer("say four").await;
    harness.rate_answer(bad.id, Some(Thumb::Down), None).await.unwrap();
    let after = harness.say(Some(bad.conversation), "say five").await;
    harness.ended(after.answer.id).await;
    harness
        .rate_answer(after.answer.id, Some(Thumb::Up), None)
        .await
        .unwrap();
    harness
        .set_system_prompt(good.conversation, Some("Count.".into()))
        .await
        .unwrap();
    let kept = &harness.conversation(wrong.conversation).await.messages[3];
    let rating = Rating {
        thumb: Thumb::Down,
        correction: Some("three".into()),
    };
    assert_eq!(kept.rating, Some(rating));
    assert_eq!(
        harness.rated_examples().await,
        Ok(2),
        "conversations with a bad answer are left out"
    );

    let dataset = harness.dataset_from_ratings(" My / answers ".into()).await.unwrap();
    assert_eq!(dataset.name, "My / answers");
    let written = fs::read_to_string(&dataset.path).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    let begin = r#"{"messages":[{"role":"system","content":"Count."},{"role":"user","content":"say one"},{"role":"assistant","content":"one"}"#;
    let end = r#",{"role":"user","content":"say two"},{"role":"assistant","content":"three"}]}"#;
    assert_eq!(lines, [format!("{begin}]}}"), format!("{begin}{end}")]);

    harness.rate_answer(good.id, None, None).await.unwrap();
    assert_eq!(harness.rated_examples().await, Ok(1));
    let user = wrong.parent.unwrap();
    assert_eq!(
        harness.rate_answer(user, Some(Thumb::Up), None).await.unwrap_err().code,
        ProblemCode::BadRequest
    );
}
