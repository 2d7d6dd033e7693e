//! What the page can ask about the machine: one line a command.

use super::Answer;
use hearth_app::App;
use hearth_app::wire::{Cache, Cached, Device, Measurement, Plan, WhatIf};
use tauri::{State, command};

#[command]
pub async fn devices(app: State<'_, App>) -> Answer<Vec<Device>> {
    app.devices().await
}

#[command]
pub async fn check_device(app: State<'_, App>, device: String) -> Answer<Vec<Device>> {
    app.check_device(device).await
}

#[command]
pub async fn plan(app: State<'_, App>, model: String, what_if: WhatIf) -> Answer<Plan> {
    app.plan(model, what_if).await
}

#[command]
pub async fn measure(app: State<'_, App>) -> Answer<Measurement> {
    app.measure().await
}

#[command]
pub async fn stop_measuring(app: State<'_, App>) -> Answer<()> {
    app.stop_measuring().await
}

#[command]
pub async fn measurements(app: State<'_, App>) -> Answer<Vec<Measurement>> {
    app.measurements().await
}

#[command]
pub async fn report(app: State<'_, App>) -> Answer<String> {
    app.report().await
}

#[command]
pub async fn caches(app: State<'_, App>) -> Answer<Vec<Cached>> {
    app.caches().await
}

#[command]
pub async fn clear_cache(app: State<'_, App>, cache: Cache) -> Answer<Vec<Cached>> {
    app.clear_cache(cache).await
}
