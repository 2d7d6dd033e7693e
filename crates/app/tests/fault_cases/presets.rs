//! A preset that is updated, and one that is restored.

use crate::support;
use hearth_app::{
    App,
    wire::{PresetValues, Presets, Problem, SamplingOverrides},
};
use std::path::Path;

fn with_app<T>(folder: &Path, act: impl AsyncFnOnce(&App) -> Result<T, Problem>) -> Result<T, String> {
    super::with_app(support::options(&folder.join("work/data")), async |app| {
        act(app).await.map_err(|problem| problem.to_string())
    })
}

fn values(temperature: f32) -> PresetValues {
    PresetValues {
        sampling: SamplingOverrides {
            temperature: Some(temperature),
            ..SamplingOverrides::default()
        },
        ..PresetValues::default()
    }
}

fn has(presets: &Presets, id: &str) -> bool {
    presets.presets.iter().any(|preset| preset.id == id)
}

pub fn prepare(folder: &Path) {
    with_app(folder, async |app| {
        app.save_preset("One".into(), values(0.25)).await?;
        app.save_preset("Two".into(), values(0.5)).await?;
        app.delete_preset("two".into()).await
    })
    .expect("two presets");
}

pub fn work(folder: &Path) -> Result<(), String> {
    with_app(folder, async |app| {
        app.update_preset("one".into(), values(0.75)).await?;
        if !has(&app.presets().await?, "two") {
            app.restore_preset("two".into()).await?;
        }
        Ok(())
    })
}

/// The first preset is whole, as before or updated; the second one is there or can be restored.
pub fn check(folder: &Path, done: bool) {
    let (presets, is_restored) = with_app(folder, async |app| {
        let presets = app.presets().await?;
        let is_restored = has(&presets, "two");
        if !is_restored {
            app.restore_preset("two".into()).await?;
            app.delete_preset("two".into()).await?;
        }
        Ok((presets, is_restored))
    })
    .expect("the app opens");
    assert!(presets.broken.is_empty() && (is_restored || !done), "{presets:?}");
    let one = presets.presets.iter().find(|preset| preset.id == "one");
    let values_now = &one.expect("it is there").values;
    assert!(*values_now == values(0.75) || (!done && *values_now == values(0.25)));
}
