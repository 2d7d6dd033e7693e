//! The progress and the cancellation of exports of adapters.

use crate::harness::{Harness, runs::train_adapter};
use hearth_app::wire::*;

fn options(harness: &Harness, adapter: i64, file: &str) -> ExportOptions {
    ExportOptions {
        adapter,
        format: ExportFormat::GgufLora,
        out: harness.folder.path().join(file).to_string_lossy().into_owned(),
        verify: false,
    }
}

/// The adapter, fraction and stage of the next progress event.
async fn progress(harness: &mut Harness) -> (i64, f32, Stage) {
    harness
        .next(|event| match event {
            Event::ExportProgress {
                adapter,
                fraction,
                stage,
            } => Some((adapter, fraction, stage)),
            _ => None,
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_reports_its_progress() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await.id;
    harness
        .export_adapter(options(&harness, adapter, "out.gguf"))
        .await
        .unwrap();
    assert_eq!(progress(&mut harness).await, (adapter, 0.5, Stage::Writing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_ends_the_export_in_progress_and_no_later_one() {
    let mut harness = Harness::tiny();
    let adapter = train_adapter(&mut harness).await.id;
    harness.cancel_export().await.unwrap();
    let (app, slow) = (harness.app.clone(), options(&harness, adapter, "slow.gguf"));
    let exporting = tokio::spawn(async move { app.export_adapter(slow).await });
    progress(&mut harness).await;
    harness.cancel_export().await.unwrap();
    assert_eq!(exporting.await.unwrap().unwrap_err().code, ProblemCode::Cancelled);
    harness
        .export_adapter(options(&harness, adapter, "out.gguf"))
        .await
        .unwrap();
}
