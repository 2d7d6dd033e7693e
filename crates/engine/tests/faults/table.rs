//! A table of work on the disk. Each row is tested with a fault at every disk operation: a kill
//! that loses unsynced data, a disk that is full from this operation on, and a failed operation.
//! After the fault, the files are checked and the work is repeated.

use crate::faults::{self, Fault, Kind};
use hearth_test_parts::Parts;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};
use std::sync::{Mutex, PoisonError};

/// Environment variables of a child process: the row, the fault, and the folder.
const ROW: &str = "HEARTH_TEST_ROW";
const FAULT: &str = "HEARTH_TEST_FAULT";
const FOLDER: &str = "HEARTH_TEST_FOLDER";
/// Maximum number of concurrent child processes.
const MAX_CHILDREN: usize = 3;

/// Work on the disk.
pub struct Row {
    /// The name in the names of tests.
    pub name: &'static str,
    /// Whether the work always does the same disk operations in the same order, so that cases can
    /// be identified by them. The bytes of a connection, for example, arrive in a varying number of
    /// pieces. If `false`, all faults are tested in each run.
    pub ordered: bool,
    /// Prepares an empty folder.
    pub prepare: fn(&Path),
    /// Does the work. Faults are injected into its changes in the subfolder `work`.
    pub work: fn(&Path) -> Result<(), String>,
    /// Checks the files: earlier files are intact or replaced as a whole, and no incomplete file is
    /// used. If the second argument is `true`, the work has succeeded and its results must exist.
    pub check: fn(&Path, bool),
}

/// If this process was started as a child, does the work and exits.
pub fn work_if_asked(rows: &[Row]) {
    let (Ok(row), Ok(fault), Some(folder)) = (std::env::var(ROW), std::env::var(FAULT), std::env::var_os(FOLDER))
    else {
        return;
    };
    let folder = Path::new(&folder);
    let row = rows.iter().find(|candidate| candidate.name == row).expect("a row");
    let fault: Fault = fault.parse().expect("a fault");
    faults::arm(&folder.join("work"), fault.clone());
    let result = (row.work)(folder);
    let kinds = faults::disarm();
    match (fault, result) {
        (Fault::Count { .. }, result) => {
            result.expect("nothing failed");
            faults::write_kinds(&folder.join("operations"), &kinds);
        }
        // The work may succeed in spite of the fault, or fail with a sentence.
        (_, Ok(())) => fs::write(folder.join("done"), "").expect("it is written"),
        (_, Err(sentence)) => fs::write(folder.join("problem"), sentence).expect("it is written"),
    }
    exit(0)
}

/// Whether this process was started as a child.
#[allow(dead_code, reason = "not every table has rows that depend on it")]
pub fn is_child() -> bool {
    std::env::var_os(ROW).is_some()
}

/// A kind of fault.
struct FaultKind {
    /// Part of the test's name.
    name: &'static str,
    /// Returns the fault at an operation.
    fault: fn(usize) -> Fault,
    /// Whether the fault is tested at operations of a kind.
    applies: fn(Kind) -> bool,
}

/// Returns a trial per row and kind of fault.
pub fn trials(rows: &'static [Row]) -> Vec<Trial> {
    const FAULTS: [FaultKind; 3] = [
        FaultKind {
            name: "killed at every operation",
            fault: |at| Fault::Kill {
                at,
                cannot_exchange: false,
            },
            applies: |_| true,
        },
        FaultKind {
            name: "on a disk that is full from any write on",
            fault: |at| Fault::Full { at },
            applies: Kind::needs_space,
        },
        FaultKind {
            name: "on a disk that fails once",
            fault: |at| Fault::Broken { at },
            applies: |kind| !kind.needs_space(),
        },
    ];
    let trial = |row: &'static Row, kind: FaultKind| {
        let name = format!("{}, {}", row.name, kind.name);
        Trial::test(name.clone(), move || {
            test_faults(&name, row, &kind);
            Ok(())
        })
    };
    rows.iter()
        .flat_map(|row| FAULTS.map(|kind| trial(row, kind)))
        .collect()
}

/// Held by a trial while it runs. Trials are sequential, because each also works in this process.
static TURN: Mutex<()> = Mutex::new(());

/// Tests the faults of a kind at all selected operations of a row.
fn test_faults(test: &str, row: &Row, kind: &FaultKind) {
    let FaultKind { fault, applies, .. } = kind;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    (row.prepare)(folder.path());
    let status = start(row, folder.path(), &Fault::Count { cannot_exchange: false }).wait();
    assert!(status.expect("it ends").success());
    (row.check)(folder.path(), true);
    let operations = faults::read_kinds(&folder.path().join("operations"));
    let indices: Vec<usize> = (0..operations.len())
        .filter(|index| applies(operations[*index]))
        .collect();
    let indices = if row.ordered {
        faults::select(test, &operations, &indices)
    } else {
        Parts::from_variable("faults").always(&format!("{test}: every operation"));
        indices
    };
    let mut killed_children = 0;
    for group in indices.chunks(MAX_CHILDREN) {
        let children: Vec<_> = group
            .iter()
            .map(|index| {
                let folder = tempfile::tempdir().expect("a folder");
                (row.prepare)(folder.path());
                let child = start(row, folder.path(), &fault(*index));
                (*index, folder, child)
            })
            .collect();
        for (index, folder, mut child) in children {
            let status = child.wait().expect("it ends");
            let description = format!("{} ({:?})", fault(index), operations[index]);
            let _printer = PanicMessage(&description);
            let was_killed = status.code() == Some(faults::KILLED);
            killed_children += usize::from(was_killed);
            match fault(index) {
                // The work does the counted operations again, in the same order.
                Fault::Kill { .. } if row.ordered => assert!(was_killed, "{status}"),
                // The work may do fewer operations this time.
                Fault::Kill { .. } => assert!(was_killed || status.success(), "{status}"),
                _ => assert!(status.success(), "{status}"),
            }
            if let Ok(sentence) = fs::read_to_string(folder.path().join("problem")) {
                assert!(sentence.len() > 20 && sentence.ends_with('.'), "{sentence}");
            }
            let succeeded = folder.path().join("done").exists();
            (row.check)(folder.path(), succeeded);
            (row.work)(folder.path()).expect("a second try succeeds");
            (row.check)(folder.path(), true);
        }
    }
    let are_kills = matches!(fault(0), Fault::Kill { .. });
    assert!(
        !are_kills || killed_children * 2 >= indices.len(),
        "{killed_children} of {} children were killed",
        indices.len()
    );
}

/// Starts a child process that does the work of a row with a fault.
fn start(row: &Row, folder: &Path, fault: &Fault) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .env(ROW, row.name)
        .env(FAULT, fault.to_string())
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// Prints the description of a fault if its test panics.
struct PanicMessage<'a>(&'a str);

impl Drop for PanicMessage<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with the fault {}", self.0);
        }
    }
}
