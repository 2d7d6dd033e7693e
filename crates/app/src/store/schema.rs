//! Checks that a store has the schema and the invariants of Hearth. Restored stores are untrusted.

use super::{MAX_ID, StoreError, connect, migrations};
use hearth_protocol::StoreFault;
use rusqlite::{Connection, OptionalExtension};
use std::{collections::BTreeSet, path::Path};

/// A row of SQLite's schema: type, name, table and SQL.
type Entry = [Option<String>; 4];

/// Checks a copy of a store before it is added to a backup, by the rules of the restoration, except
/// that ids may be up to [`MAX_ID`].
///
/// # Errors
/// The errors of [`check`].
pub(crate) fn check_copy(path: &Path) -> Result<(), StoreError> {
    let at = |error| StoreError::from_sqlite(error, path);
    check(&connect::read_only(path).map_err(at)?, path, MAX_ID)
}

/// Checks that a store is Hearth's and not from a newer one, has exactly the tables, indexes,
/// triggers and views of its version, is not corrupt, that its ids and times are at most `max_id`,
/// and that each message follows an earlier one of its conversation.
///
/// # Errors
/// [`StoreError::Foreign`] with the fault, or an error if the store is corrupt or from a newer
/// Hearth.
pub(super) fn check(connection: &Connection, path: &Path, max_id: i64) -> Result<(), StoreError> {
    let at = |error| StoreError::from_sqlite(error, path);
    migrations::check(connection, path)?;
    // The schema is checked first, because the other checks evaluate its expressions.
    if let Some(fault) = foreign_entry(connection).map_err(at)? {
        return Err(StoreError::Foreign(fault));
    }
    let message: String = connection
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .map_err(at)?;
    if message != "ok" {
        return Err(StoreError::Corrupt {
            path: path.to_owned(),
            detail: message,
        });
    }
    if has_misplaced_message(connection).map_err(at)? {
        return Err(StoreError::Foreign(StoreFault::MisplacedMessage));
    }
    match out_of_range_table(connection, max_id).map_err(at)? {
        None => Ok(()),
        Some(table) => Err(StoreError::Foreign(StoreFault::LargeNumbers { table })),
    }
}

/// Returns an entry of the schema that differs from the migrations' schema, or is missing.
fn foreign_entry(connection: &Connection) -> rusqlite::Result<Option<StoreFault>> {
    let version = migrations::version(connection)?;
    let expected = Connection::open_in_memory()?;
    for migration in migrations::up_to(version) {
        expected.execute_batch(migration)?;
    }
    let (actual, expected) = (entries(connection)?, entries(&expected)?);
    if expected.is_empty() {
        return Ok(Some(StoreFault::UnknownVersion { version }));
    }
    let mut differences = actual.symmetric_difference(&expected);
    Ok(differences.next().map(|[_, name, ..]| StoreFault::ForeignEntry {
        name: name.clone().unwrap_or_default(),
    }))
}

fn entries(connection: &Connection) -> rusqlite::Result<BTreeSet<Entry>> {
    // The excluded tables have SQLite's own statistics. Only SQLite can create them.
    let sql = "SELECT CAST(type AS TEXT), CAST(name AS TEXT), CAST(tbl_name AS TEXT), CAST(sql AS TEXT)
        FROM sqlite_schema WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4')";
    let mut rows = connection.prepare(sql)?;
    let entry = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
    rows.query_map([], entry)?.collect()
}

/// Whether a message has a parent that is not older, or is of another conversation: a branch could
/// be infinite.
fn has_misplaced_message(connection: &Connection) -> rusqlite::Result<bool> {
    // Stores of the first versions have no messages, or none with a parent.
    let has_parents = "SELECT count(*) > 0 FROM pragma_table_info('message') WHERE name = 'parent'";
    if !connection.query_row(has_parents, [], |row| row.get::<_, bool>(0))? {
        return Ok(false);
    }
    let is_misplaced = "SELECT EXISTS (SELECT 1 FROM message m JOIN message p ON p.id = m.parent
        WHERE p.id >= m.id OR p.conversation <> m.conversation)";
    if connection.query_row(is_misplaced, [], |row| row.get(0))? {
        return Ok(true);
    }
    let has_deleted = "SELECT count(*) > 0 FROM pragma_table_info('deleted_message')";
    if !connection.query_row(has_deleted, [], |row| row.get::<_, bool>(0))? {
        return Ok(false);
    }
    // A message follows no deleted one, and is not deleted itself.
    let is_misplaced = "SELECT
        EXISTS (SELECT 1 FROM deleted_message m JOIN message p ON p.id = m.parent
            WHERE p.id >= m.id OR p.conversation <> m.conversation)
        OR EXISTS (SELECT 1 FROM deleted_message m JOIN deleted_message p ON p.id = m.parent
            WHERE p.id >= m.id OR p.conversation <> m.conversation)
        OR EXISTS (SELECT 1 FROM message m JOIN deleted_message p ON p.id = m.parent)
        OR EXISTS (SELECT 1 FROM message JOIN deleted_message USING (id))";
    connection.query_row(is_misplaced, [], |row| row.get(0))
}

/// Returns a table with ids or deletion times out of range.
fn out_of_range_table(connection: &Connection, max_id: i64) -> rusqlite::Result<Option<String>> {
    let large_sequence = format!(
        "SELECT CAST(name AS TEXT) FROM sqlite_sequence
         WHERE typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND {max_id}"
    );
    if let Some(table) = connection.query_row(&large_sequence, [], |row| row.get(0)).optional()? {
        return Ok(Some(table));
    }
    for table in migrations::TABLES {
        for (column, min) in [("id", 1), ("deleted_at", -max_id)] {
            let exists = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
            if connection.query_row(exists, [table, column], |row| row.get::<_, i64>(0))? == 0 {
                continue;
            }
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} NOT BETWEEN {min} AND {max_id})");
            if connection.query_row(&sql, [], |row| row.get(0))? {
                return Ok(Some(table.to_owned()));
            }
        }
    }
    Ok(None)
}
