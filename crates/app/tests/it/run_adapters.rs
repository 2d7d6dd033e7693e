//! Adapters that runs write: exported, imported in place, deleted and written again.

use crate::harness::{
    Harness, fixtures,
    runs::{run_folder, start_run, train_adapter, wait_for_run},
};
use hearth_app::wire::{Adapter, ExportFormat, ExportOptions, ProblemCode, RunState};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

/// Sets the time at which a file appears to have been written.
fn set_modified(path: &str, time: SystemTime) {
    let file = fs::File::options().append(true).open(path).expect("a file");
    file.set_modified(time).expect("its time can be set");
}

/// Finishes a run whose adapter is a real one for the model `llama`, which is added. Returns the
/// adapter.
async fn train_real_adapter(harness: &mut Harness) -> Adapter {
    let adapter = train_adapter(harness).await;
    let folder = Path::new(&adapter.path);
    fs::remove_file(folder).unwrap();
    fs::create_dir(folder).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(fixtures().join("training/llama/end").join(file), folder.join(file)).unwrap();
    }
    let model = harness.folder.path().join("bundled/llama.gguf");
    fs::copy(fixtures().join("models/llama.gguf"), model).unwrap();
    adapter
}

/// Imports a run's adapter in place.
async fn import_in_place(harness: &Harness, adapter: &Adapter) -> Adapter {
    let path = adapter.path.clone().into();
    harness
        .import_adapter(path, Some("llama".into()))
        .await
        .expect("an adapter")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_are_imported_checked_and_exported() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let out = harness.folder.path().join("out.gguf");
    let order = ExportOptions {
        adapter: adapter.id,
        format: ExportFormat::GgufLora,
        out: out.to_string_lossy().into_owned(),
        verify: true,
    };
    let written = harness.export_adapter(order.clone()).await.unwrap();
    assert!(written.bytes == 8 && written.verification.is_some_and(|verification| verification.passed) && out.exists());
    fs::remove_file(&adapter.path).unwrap();
    assert_eq!(
        harness.export_adapter(order).await.unwrap_err().code,
        ProblemCode::FileUnreadable
    );
    assert!(harness.adapters().await.unwrap()[0].problem.is_some());

    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let bundled = harness.folder.path().join("bundled");
    for model in ["llama.gguf", "llama3.gguf"] {
        fs::copy(fixtures.join("models").join(model), bundled.join(model)).unwrap();
    }
    let peft = harness.folder.path().join("peft");
    fs::create_dir_all(&peft).unwrap();
    let copy = |file: &str| fs::copy(fixtures.join("training/llama/end").join(file), peft.join(file)).unwrap();
    copy("adapter_config.json");
    let half = harness
        .import_adapter(peft.clone(), Some("llama".into()))
        .await
        .unwrap_err();
    assert_eq!(half.code, ProblemCode::AdapterInvalid);
    assert!(half.to_string().contains("adapter_model.safetensors"), "{half}");
    copy("adapter_model.safetensors");
    for (path, model, code) in [
        (peft.clone(), "llama3", ProblemCode::AdapterInvalid),
        (peft.clone(), "nothing", ProblemCode::NotFound),
        (bundled.join("llama.gguf"), "llama", ProblemCode::AdapterInvalid),
        (
            harness.folder.path().join("script.jsonl"),
            "llama",
            ProblemCode::AdapterInvalid,
        ),
        ("nowhere".into(), "llama", ProblemCode::FileUnreadable),
    ] {
        assert_eq!(
            harness.import_adapter(path, Some(model.into())).await.unwrap_err().code,
            code
        );
    }
    let imported = harness
        .import_adapter(peft.clone(), Some("llama".into()))
        .await
        .unwrap();
    assert_eq!(
        (imported.name.as_str(), imported.run, imported.problem.as_ref()),
        ("peft", None, None)
    );
    harness.rename_adapter(imported.id, "Theirs".into()).await.unwrap();
    harness.delete_adapter(imported.id).await.unwrap();
    assert_eq!(
        harness.rename_adapter(imported.id, "x".into()).await.unwrap_err().code,
        ProblemCode::NotFound
    );
    let harness = harness.again().await;
    assert!(peft.exists(), "imported files are not deleted");
    assert_eq!(
        harness.restore_adapter(imported.id).await.unwrap_err().code,
        ProblemCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_adapter_owns_no_files() {
    let mut harness = Harness::tiny();
    let adapter = train_real_adapter(&mut harness).await;
    let imported = import_in_place(&harness, &adapter).await;
    assert_eq!(imported.run, None);
    harness.delete_adapter(imported.id).await.unwrap();
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap().len(), 1, "the imported one is gone");
    assert!(
        Path::new(&adapter.path).join("adapter_model.safetensors").exists(),
        "the files are the run's"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_adapter_was_imported_keeps_its_files() {
    let mut harness = Harness::tiny();
    let adapter = train_real_adapter(&mut harness).await;
    let imported = import_in_place(&harness, &adapter).await;
    let weights = Path::new(&adapter.path).join("adapter_model.safetensors");
    // Neither deletion removes files that hold another adapter.
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(weights.exists());
    harness.delete_run(adapter.run.unwrap()).await.unwrap();
    let harness = harness.again().await;
    assert!(weights.exists() && harness.runs().await.unwrap().is_empty());
    assert_eq!(harness.adapters().await.unwrap()[0].id, imported.id);
    // Its deletion removes them.
    harness.delete_adapter(imported.id).await.unwrap();
    let harness = harness.again().await.again().await;
    assert!(!run_folder(&harness, adapter.run.unwrap()).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_written_again_after_its_deletion_stays() {
    let mut harness = Harness::tiny();
    let id = start_run(&harness, "learn 6 wait 4").await.id;
    wait_for_run(&mut harness, id, |run| run.checkpoint == Some(4)).await;
    harness.stop_run(id).await.unwrap();
    let first = wait_for_run(&mut harness, id, |run| run.adapter.is_some())
        .await
        .adapter;
    harness.delete_adapter(first.unwrap()).await.unwrap();
    harness.resume_run(id).await.unwrap();
    wait_for_run(&mut harness, id, |run| run.state == RunState::Finished).await;
    // The end is saved a moment after its event.
    harness.run_points(id).await.unwrap();
    let made = harness.adapters().await.unwrap();
    assert_eq!(made.iter().map(|adapter| Some(adapter.id)).collect::<Vec<_>>(), [first]);
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap(), made);
    assert!(Path::new(&made[0].path).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_an_adapter_that_a_killed_run_wrote_again_is_undone() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    harness.delete_adapter(adapter.id).await.unwrap();
    // Like a resumed run that was killed before its end was saved.
    fs::write(&adapter.path, "better!").unwrap();
    let minute = Duration::from_secs(60);
    set_modified(&adapter.path, SystemTime::now() + minute);
    let harness = harness.again().await;
    assert_eq!(harness.adapters().await.unwrap(), std::slice::from_ref(&adapter));
    assert_eq!(fs::read_to_string(&adapter.path).unwrap(), "better!");
    // A deletion after the last change removes it.
    set_modified(&adapter.path, SystemTime::now() - minute);
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(harness.adapters().await.unwrap().is_empty() && !Path::new(&adapter.path).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_in_a_recovery_candidate_exists() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await;
    let beside = Path::new(&adapter.path).with_file_name(".adapter.last");
    fs::rename(&adapter.path, &beside).unwrap();
    assert_eq!(harness.adapters().await.unwrap()[0].problem, None);
    harness.delete_adapter(adapter.id).await.unwrap();
    let harness = harness.again().await;
    assert!(harness.adapters().await.unwrap().is_empty() && !beside.exists());
}
