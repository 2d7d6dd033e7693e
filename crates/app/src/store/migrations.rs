//! The migrations in order. A released migration never changes; a change to a table is a new
//! migration at the end.

use super::{
    StoreError, adapter, conversation, dataset, deleted_message, download, folder, measurement, message, model, run,
    run_evaluation, run_name, run_point, saved_prompt, search, setting, title_source, unsent,
};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// SQLite's `application_id` of the store ("HRTH").
const APPLICATION_ID: i64 = 0x4852_5448;

/// Migration n is at index n - 1; SQLite's `user_version` is the number of the last applied one.
const MIGRATIONS: &[&str] = &[
    conversation::MIGRATION,
    message::MIGRATION,
    search::MIGRATION,
    setting::MIGRATION,
    model::MIGRATION,
    dataset::MIGRATION,
    run::MIGRATION,
    run_point::MIGRATION,
    run_evaluation::MIGRATION,
    adapter::MIGRATION,
    conversation::ADAPTERS,
    message::ADAPTERS,
    measurement::MIGRATION,
    measurement::BY_THREADS,
    message::PARTS,
    download::MIGRATION,
    conversation::ORIGIN,
    conversation::PINNED,
    conversation::SETTINGS,
    folder::MIGRATION,
    saved_prompt::MIGRATION,
    message::OWN,
    unsent::MIGRATION,
    run_name::MIGRATION,
    model::ADAPTER,
    run::SEEN,
    deleted_message::MIGRATION,
    title_source::MIGRATION,
];

/// The tables. The search index is derived from messages.
pub(super) const TABLES: [&str; 16] = [
    "conversation",
    "message",
    "deleted_message",
    "setting",
    "model",
    "dataset",
    "run",
    "run_point",
    "run_evaluation",
    "adapter",
    "measurement",
    "download",
    "folder",
    "tag",
    "saved_prompt",
    "unsent",
];

/// Whether a store that is not empty needs migrations.
pub(super) fn is_older(connection: &Connection) -> rusqlite::Result<bool> {
    let version = version(connection)?;
    Ok(version > 0 && version < MIGRATIONS.len() as i64)
}

/// The migrations up to a version, as far as they are known.
pub(super) fn up_to(version: i64) -> &'static [&'static str] {
    let count = usize::try_from(version).unwrap_or(0).min(MIGRATIONS.len());
    &MIGRATIONS[..count]
}

/// The number of the last applied migration.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Checks, without writing, that a file is Hearth's and not from a newer Hearth.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != APPLICATION_ID && tables > 0 {
        return Err(StoreError::OtherProgram { path: path.to_owned() });
    }
    let version = version(connection)?;
    let newest_version = MIGRATIONS.len() as i64;
    if version > newest_version {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: version,
            known: newest_version,
        });
    }
    Ok(())
}

/// Applies the missing migrations, all or nothing.
pub(super) fn run(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let applied_count = usize::try_from(version(&transaction)?).unwrap_or(0);
    if applied_count < MIGRATIONS.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        for migration in &MIGRATIONS[applied_count..] {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::MIGRATIONS;
    use hearth_formats::hex;
    use sha2::{Digest, Sha256};

    /// Stores on users' disks have the released migrations: this list may only grow.
    #[test]
    fn released_migrations_never_change() {
        let released = [
            "00b2f7ba2d87c63a",
            "f42f9c263212f155",
            "e8031a830ba06e0c",
            "cae78a967053fbdf",
            "36a27764d294460f",
            "c70f7170aa433c35",
            "d4c82764f17fe065",
            "8cf2effe815869f7",
            "33282d63c320eb35",
            "11825a11d0d39b0c",
            "fe15110b0a696aab",
            "b1a05906c85b5d09",
            "e79b9a52d6ce56f8",
            "1ac943c5dba39c58",
            "270ce745ff4ea3e9",
            "d31629e50a6bc8b7",
            "08b9ad85611ed689",
            "6e14b468dbb5d7d9",
            "549e3b7e4ab31ae4",
            "5baf0ce3443ac512",
            "46ceab7fb10f5d93",
            "9f250c5d88111d4e",
            "f8f6cad6e858d49d",
            "db79e594b073b677",
            "2751c245b0b3b279",
            "4d2bb888e13a961c",
            "68226be23ade3279",
            "dbd2ddf10b65075b",
        ];
        assert_eq!(
            MIGRATIONS.len(),
            released.len(),
            "add the new migration's digest to this list"
        );
        for (index, (migration, expected)) in MIGRATIONS.iter().zip(released).enumerate() {
            let digest = Sha256::digest(migration.as_bytes());
            assert_eq!(hex(&digest[..8]), expected, "migration {} was changed", index + 1);
        }
    }
}
