//! The operations under test.

mod adapters;
mod archives;
mod downloads;
mod models;
mod pace;
mod presets;
mod stores;

use crate::table::Row;
use hearth_app::{App, Options};

pub const ALL: &[Row] = &[
    Row {
        name: "a download",
        ordered: false,
        prepare: downloads::prepare,
        work: downloads::download,
        check: downloads::check,
    },
    Row {
        name: "a download in ranges",
        ordered: false,
        prepare: downloads::prepare,
        work: downloads::download_in_ranges,
        check: downloads::check,
    },
    Row {
        name: "a new store",
        ordered: true,
        prepare: |_| {},
        work: stores::begin,
        check: stores::check_begun,
    },
    Row {
        name: "a store of an older version",
        ordered: true,
        prepare: stores::put_older,
        work: stores::open,
        check: stores::check_copied,
    },
    Row {
        name: "the daily copy",
        ordered: true,
        prepare: stores::put_used,
        work: stores::copy,
        check: stores::check_copied,
    },
    Row {
        name: "going back to a copy",
        ordered: true,
        prepare: stores::put_corrupt,
        work: stores::restore,
        check: stores::check_restored,
    },
    Row {
        name: "beginning again with what can be read",
        ordered: true,
        prepare: stores::put_corrupt,
        work: stores::salvage,
        check: stores::check_replaced,
    },
    Row {
        name: "the cache of models' metadata",
        ordered: true,
        prepare: models::prepare,
        work: models::list,
        check: models::check,
    },
    Row {
        name: "an adapter that is imported",
        ordered: true,
        prepare: adapters::prepare,
        work: adapters::import,
        check: adapters::check,
    },
    Row {
        name: "a backup of everything",
        ordered: true,
        prepare: archives::put_data,
        work: archives::back_up,
        check: archives::check_backup,
    },
    Row {
        name: "the restoration of a backup of everything",
        ordered: true,
        prepare: archives::put_newer,
        work: archives::restore,
        check: archives::check_restored,
    },
    Row {
        name: "presets that are updated and restored",
        ordered: true,
        prepare: presets::prepare,
        work: presets::work,
        check: presets::check,
    },
];

/// Does something with an app, and shuts it down.
fn with_app<T>(options: Options, act: impl AsyncFnOnce(&App) -> Result<T, String>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let app = App::open(options, |_| {}).map_err(|problem| problem.to_string())?;
        let done = act(&app).await;
        app.shut_down().await.map_err(|problem| problem.to_string())?;
        done
    })
}
