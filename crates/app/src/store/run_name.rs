//! The name that a run shares with its adapter. No other run and no imported adapter has it.

use rusqlite::{Connection, params};
use std::collections::HashSet;

/// Earlier versions renamed runs and adapters separately. A run that still has its default name
/// gets its adapter's name, and any other adapter its run's.
pub(super) const MIGRATION: &str = "
UPDATE run SET name = (SELECT adapter.name FROM adapter WHERE adapter.run = run.id)
    WHERE name = dataset_name || ' on ' || model_name AND id IN (SELECT run FROM adapter);
UPDATE adapter SET name = (SELECT run.name FROM run WHERE run.id = adapter.run)
    WHERE run IN (SELECT id FROM run);
";

/// The row that a unique name is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A new run or imported adapter.
    New,
    /// A run and its adapter.
    Run(i64),
    /// An imported adapter.
    Imported(i64),
}

/// Renames a run and its adapter. Returns the new name, which has a number if `name` was taken.
/// `None` means that the run does not exist.
pub fn rename(connection: &Connection, run: i64, name: &str) -> rusqlite::Result<Option<String>> {
    let name = unique(connection, Owner::Run(run), name)?;
    if !super::run::rename(connection, run, &name)? {
        return Ok(None);
    }
    connection
        .prepare_cached("UPDATE adapter SET name = ?2 WHERE run = ?1")?
        .execute(params![run, name])?;
    Ok(Some(name))
}

/// Renames an imported adapter. Returns `false` if it does not exist. The name may get a number.
pub fn rename_imported(connection: &Connection, id: i64, name: &str) -> rusqlite::Result<bool> {
    let name = unique(connection, Owner::Imported(id), name)?;
    super::adapter::rename(connection, id, &name)
}

/// `name`, or the first of `name 2`, `name 3` and so on that no other run or imported adapter has,
/// in any case.
pub fn unique(connection: &Connection, owner: Owner, name: &str) -> rusqlite::Result<String> {
    let (run, imported) = match owner {
        Owner::New => (None, None),
        Owner::Run(id) => (Some(id), None),
        Owner::Imported(id) => (None, Some(id)),
    };
    let taken: HashSet<String> = connection
        .prepare_cached(
            "SELECT name FROM run WHERE deleted_at IS NULL AND id IS NOT ?1
             UNION ALL SELECT name FROM adapter WHERE deleted_at IS NULL AND run IS NULL AND id IS NOT ?2",
        )?
        .query_map(params![run, imported], |row| {
            Ok(row.get::<_, String>(0)?.to_lowercase())
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(numbered(name, |candidate| taken.contains(&candidate.to_lowercase())))
}

/// `name`, or the first of `name 2`, `name 3` and so on that is not taken. A long name is truncated
/// for the number.
fn numbered(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let with_number = |number: u64| {
        let suffix = format!(" {number}");
        let stem: String = name.chars().take(crate::title::MAX_NAME - suffix.len()).collect();
        stem.trim_end().to_owned() + &suffix
    };
    let mut candidates = std::iter::once(name.to_owned()).chain((2..).map(with_number));
    candidates.find(|candidate| !is_taken(candidate)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{MIGRATION, numbered};
    use crate::{
        store::{adapter, dataset, run},
        title::MAX_NAME,
    };
    use rusqlite::Connection;

    #[test]
    fn names_of_earlier_versions_become_one() {
        let store = Connection::open_in_memory().unwrap();
        for migration in [dataset::MIGRATION, run::MIGRATION, adapter::MIGRATION] {
            store.execute_batch(migration).unwrap();
        }
        // (The run's name, the adapter's, and the one that both get.)
        let cases = [
            ("tales on Tiny", "Keeper", "Keeper"),
            ("Keeper", "tales on Tiny", "Keeper"),
            ("Keeper", "Warden", "Keeper"),
        ];
        for (id, (run, adapter, _)) in (1..).zip(cases) {
            store
                .execute(
                    "INSERT INTO run (id, name, model, model_name, dataset_name, data_path, skip_broken, settings,
                         state, created_at)
                     VALUES (?1, ?2, 'tiny', 'Tiny', 'tales', '/tales', 0, '{}', 'finished', 1)",
                    rusqlite::params![id, run],
                )
                .unwrap();
            let new = adapter::New {
                name: adapter,
                run: Some(id),
                model: "tiny",
                model_name: "Tiny",
                path: "/runs",
                created_at: 1,
            };
            adapter::add(&store, &new).unwrap();
        }
        // Foreign keys were off when this adapter's run was lost.
        store.pragma_update(None, "foreign_keys", false).unwrap();
        let dangling = "INSERT INTO adapter (name, run, model, model_name, path, created_at)
            VALUES ('orphan', 99, 'tiny', 'Tiny', '/runs', 1)";
        store.execute(dangling, []).unwrap();
        store.execute_batch(MIGRATION).unwrap();
        let orphan = "SELECT name FROM adapter WHERE run = 99";
        let orphan: String = store.query_row(orphan, [], |row| row.get(0)).unwrap();
        assert_eq!(orphan, "orphan");
        for (id, (.., expected)) in (1..).zip(cases) {
            let names = "SELECT run.name, adapter.name FROM run JOIN adapter ON adapter.run = run.id WHERE run.id = ?1";
            let names: [String; 2] = store
                .query_row(names, [id], |row| Ok([row.get(0)?, row.get(1)?]))
                .unwrap();
            assert_eq!(names, [expected; 2]);
        }
    }

    #[test]
    fn a_name_gets_the_first_free_number() {
        let cases: [(&[&str], &str, &str); 5] = [
            (&[], "tales", "tales"),
            (&["tales"], "tales", "tales 2"),
            (&["tales", "tales 2", "tales 4"], "tales", "tales 3"),
            (&["tales 2"], "tales", "tales"),
            (&["chapter 1"], "chapter 1", "chapter 1 2"),
        ];
        for (taken, name, expected) in cases {
            assert_eq!(
                numbered(name, |candidate| taken.contains(&candidate)),
                expected,
                "{taken:?}"
            );
        }
    }

    #[test]
    fn a_long_name_is_truncated_for_its_number() {
        let long = "\u{e4}".repeat(MAX_NAME);
        let numbered = numbered(&long, |candidate| candidate == long);
        assert!(
            numbered.chars().count() == MAX_NAME && numbered.ends_with("\u{e4} 2"),
            "{numbered}"
        );
    }
}
