//! The page's commands for hardware, one line each.

use super::Response;
use hearth_app::App;
use hearth_app::wire::{Cache, CacheUsage, Device, LoadSettings, Measurement, Plan};
use tauri::{State, command};

#[command]
pub async fn devices(app: State<'_, App>) -> Response<Vec<Device>> {
    app.devices().await
}

#[command]
pub async fn check_device(app: State<'_, App>, device: String) -> Response<Vec<Device>> {
    app.check_device(device).await
}

#[command]
pub async fn plan(app: State<'_, App>, model: String, load_settings: LoadSettings) -> Response<Plan> {
    app.plan(model, load_settings).await
}

#[command]
pub async fn measure(app: State<'_, App>) -> Response<Measurement> {
    app.measure().await
}

#[command]
pub async fn stop_measuring(app: State<'_, App>) -> Response<()> {
    app.stop_measuring().await
}

#[command]
pub async fn measurements(app: State<'_, App>) -> Response<Vec<Measurement>> {
    app.measurements().await
}

#[command]
pub async fn report(app: State<'_, App>) -> Response<String> {
    app.report().await
}

#[command]
pub async fn caches(app: State<'_, App>) -> Response<Vec<CacheUsage>> {
    app.caches().await
}

#[command]
pub async fn clear_cache(app: State<'_, App>, cache: Cache) -> Response<Vec<CacheUsage>> {
    app.clear_cache(cache).await
}
