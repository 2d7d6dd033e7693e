//! The operations under test.

mod adapters;
mod archives;
mod downloads;
mod stores;

use crate::table::Row;

pub const ALL: &[Row] = &[
    Row {
        name: "a download",
        prepare: downloads::prepare,
        work: downloads::download,
        check: downloads::check,
    },
    Row {
        name: "a new store",
        prepare: |_| {},
        work: stores::begin,
        check: stores::check_begun,
    },
    Row {
        name: "a store of an older version",
        prepare: stores::put_older,
        work: stores::open,
        check: stores::check_copied,
    },
    Row {
        name: "the daily copy",
        prepare: stores::put_used,
        work: stores::copy,
        check: stores::check_copied,
    },
    Row {
        name: "going back to a copy",
        prepare: stores::put_corrupt,
        work: stores::restore,
        check: stores::check_restored,
    },
    Row {
        name: "beginning again with what can be read",
        prepare: stores::put_corrupt,
        work: stores::salvage,
        check: stores::check_replaced,
    },
    Row {
        name: "an adapter that is imported",
        prepare: adapters::prepare,
        work: adapters::import,
        check: adapters::check,
    },
    Row {
        name: "a backup of everything",
        prepare: archives::put_data,
        work: archives::back_up,
        check: archives::check_backup,
    },
    Row {
        name: "the restoration of a backup of everything",
        prepare: archives::put_newer,
        work: archives::restore,
        check: archives::check_restored,
    },
];
