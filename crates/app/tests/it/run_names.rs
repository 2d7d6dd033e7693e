//! The name that a run shares with its adapter and with the models into which it was merged.

use crate::{
    harness::{
        Harness, fixtures,
        runs::{find_run, new_run, wait_until_finished},
    },
    support,
};
use hearth_app::{library::catalog, wire::*};
use hearth_protocol::SamplingParams;
use std::fs;

/// Finishes a run with this name and returns it.
async fn finish_run(harness: &mut Harness, name: Option<&str>) -> Run {
    let new = NewRun {
        name: name.map(str::to_owned),
        ..new_run(harness, "learn 2").await
    };
    let run = harness.start_run(new).await.expect("a run");
    wait_until_finished(harness, run.id).await
}

async fn name_of_run(harness: &Harness, id: i64) -> String {
    find_run(harness, id).await.expect("the run").name
}

async fn name_of_adapter(harness: &Harness, run: &Run) -> String {
    let adapters = harness.adapters().await.expect("adapters");
    let adapter = adapters.into_iter().find(|adapter| Some(adapter.id) == run.adapter);
    adapter.expect("the adapter").name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_name_another_one_has_gets_a_number() {
    let mut harness = Harness::tiny();
    let mut names = Vec::new();
    for name in [None, None, Some(" Keeper "), Some("KEEPER"), Some("script")] {
        names.push(finish_run(&mut harness, name).await.name);
    }
    assert_eq!(names, ["script", "script 2", "Keeper", "KEEPER 2", "script 3"]);
    let adapters = harness.adapters().await.unwrap();
    let of_adapters: Vec<_> = adapters.iter().rev().map(|adapter| &adapter.name).collect();
    assert_eq!(of_adapters, names.iter().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renaming_a_run_or_its_adapter_renames_both() {
    let mut harness = Harness::tiny();
    let (first, second) = (
        finish_run(&mut harness, None).await,
        finish_run(&mut harness, None).await,
    );
    harness.rename_run(first.id, "Keeper".into()).await.unwrap();
    let names = (
        name_of_run(&harness, first.id).await,
        name_of_adapter(&harness, &first).await,
    );
    assert_eq!(names, ("Keeper".to_owned(), "Keeper".to_owned()));
    let adapter = second.adapter.unwrap();
    harness.rename_adapter(adapter, "Keeper".into()).await.unwrap();
    let names = (
        name_of_run(&harness, second.id).await,
        name_of_adapter(&harness, &second).await,
    );
    assert_eq!(names, ("Keeper 2".to_owned(), "Keeper 2".to_owned()));
    harness.rename_adapter(adapter, "keeper 2".into()).await.unwrap();
    assert_eq!(
        name_of_run(&harness, second.id).await,
        "keeper 2",
        "its own name is not taken"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_run_whose_name_is_taken_gets_a_number() {
    let mut harness = Harness::tiny();
    let first = finish_run(&mut harness, None).await;
    harness.delete_run(first.id).await.unwrap();
    let second = finish_run(&mut harness, None).await;
    assert_eq!(second.name, "script");
    harness.restore_run(first.id).await.unwrap();
    let names = (
        name_of_run(&harness, first.id).await,
        name_of_adapter(&harness, &first).await,
    );
    assert_eq!(names, ("script 2".to_owned(), "script 2".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merged_model_has_the_name_of_its_run() {
    let mut harness = Harness::tiny();
    let run = finish_run(&mut harness, None).await;
    let adapter = run.adapter.unwrap();
    let out = harness.folder.path().join("merged.gguf");
    let options = ExportOptions {
        adapter,
        format: ExportFormat::Gguf { kind: None },
        out: out.to_string_lossy().into_owned(),
        verify: false,
    };
    harness.export_adapter(options.clone()).await.unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), "exported script");
    support::model(harness.folder.path(), "merged.gguf");
    let problem = harness.add_merged_model(out.clone(), 99).await.unwrap_err();
    assert_eq!(problem.code, ProblemCode::NotFound);
    assert_eq!(harness.add_merged_model(out, adapter).await.unwrap().name, "script");
    harness.rename_run(run.id, "Keeper".into()).await.unwrap();
    assert_eq!(name_of_merged(&harness).await, "Keeper");

    let other = finish_run(&mut harness, Some("Warden")).await;
    let options = ExportOptions {
        adapter: other.adapter.unwrap(),
        ..options
    };
    harness.export_adapter(options.clone()).await.unwrap();
    assert_eq!(name_of_merged(&harness).await, "Warden", "the file was replaced");

    let third = finish_run(&mut harness, Some("unverifiable")).await;
    let options = ExportOptions {
        adapter: third.adapter.unwrap(),
        verify: true,
        ..options
    };
    harness.export_adapter(options).await.unwrap_err();
    assert_eq!(name_of_merged(&harness).await, "unverifiable", "the file was replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merged_model_has_the_system_prompt_of_its_run() {
    let mut harness = Harness::tiny();
    let mut new = new_run(&harness, "learn 2").await;
    new.settings.system_prompt = Some("Be brief.".into());
    let run = harness.start_run(new).await.unwrap();
    let adapter = wait_until_finished(&mut harness, run.id).await.adapter.unwrap();
    let merged = support::model(harness.folder.path(), "merged.gguf");
    let added = harness.add_merged_model(merged, adapter).await.unwrap();
    assert_eq!(added.system_prompt.as_deref(), Some("Be brief."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merged_model_has_the_sampling_of_its_base() {
    let base = &catalog::entries()[0];
    let mut harness = Harness::new(&[&base.file]);
    let new = NewRun {
        model: base.id.clone(),
        ..new_run(&harness, "learn 2").await
    };
    let run = harness.start_run(new).await.unwrap();
    let adapter = wait_until_finished(&mut harness, run.id).await.adapter.unwrap();
    let merged = support::model(harness.folder.path(), "merged.gguf");
    let added = harness.add_merged_model(merged, adapter).await.unwrap();
    let expected = base.sampling.as_ref().expect("parameters");
    assert_eq!(added.sampling.temperature, expected.temperature);
    assert_ne!(added.sampling.temperature, SamplingParams::default().temperature);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_or_restored_adapter_whose_name_is_taken_gets_a_number() {
    let mut harness = Harness::tiny();
    let folder = harness.folder.path().join("script");
    fs::create_dir(&folder).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(fixtures().join("training/llama/end").join(file), folder.join(file)).unwrap();
    }
    finish_run(&mut harness, None).await;
    let imported = harness.import_adapter(folder, None).await.unwrap();
    assert_eq!(imported.name, "script 2");
    harness.delete_adapter(imported.id).await.unwrap();
    finish_run(&mut harness, Some("script 2")).await;
    harness.restore_adapter(imported.id).await.unwrap();
    let adapters = harness.adapters().await.unwrap();
    let restored = adapters.iter().find(|adapter| adapter.id == imported.id);
    assert_eq!(restored.unwrap().name, "script 2 2");
}

async fn name_of_merged(harness: &Harness) -> String {
    let models = harness.rescan_models().await.expect("models");
    let merged = models.into_iter().find(|model| model.path.ends_with("merged.gguf"));
    merged.expect("the model").name
}
