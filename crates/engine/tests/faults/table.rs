//! Work on the disk, one row each, with a fault at every disk operation: a kill that loses unsynced
//! data, a disk that is full from there on, one failed operation. Then everything is read back, and
//! the work is repeated.

use crate::faults::{self, Fault, Kind};
use hearth_test_parts::Parts;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};
use std::sync::{Mutex, PoisonError};

/// Environment of a child: the row, the fault, and the folder.
const ROW: &str = "HEARTH_TEST_ROW";
const FAULT: &str = "HEARTH_TEST_FAULT";
const FOLDER: &str = "HEARTH_TEST_FOLDER";
/// Concurrent children.
const CHILDREN: usize = 3;

/// Work on the disk.
pub struct Row {
    /// The name, for people.
    pub name: &'static str,
    /// Each run makes the same disk operations in the same order, so cases can be named by them. A
    /// connection's bytes arrive in a varying number of pieces; each run then has all cases.
    pub ordered: bool,
    /// Prepares a new folder.
    pub prepare: fn(&Path),
    /// Does the work. Its changes in the subfolder `work` have faults.
    pub work: fn(&Path) -> Result<(), String>,
    /// Reads everything back: earlier files are intact or replaced as a whole, and no incomplete
    /// file is used. Results reported as done exist.
    pub check: fn(&Path, bool),
}

/// Does the work and exits, if this test's executable was started for that.
pub fn work_if_asked(rows: &[Row]) {
    let (Ok(row), Ok(fault), Some(folder)) = (std::env::var(ROW), std::env::var(FAULT), std::env::var_os(FOLDER))
    else {
        return;
    };
    let folder = Path::new(&folder);
    let row = rows.iter().find(|one| one.name == row).expect("a row");
    let fault: Fault = fault.parse().expect("a fault");
    faults::arm(&folder.join("work"), fault.clone());
    let done = (row.work)(folder);
    let kinds = faults::disarm();
    match (fault, done) {
        (Fault::Count { .. }, done) => {
            done.expect("nothing failed");
            faults::write_kinds(&folder.join("operations"), &kinds);
        }
        // A fault may have no effect, or end the work with an error sentence.
        (_, Ok(())) => fs::write(folder.join("done"), "").expect("it is written"),
        (_, Err(sentence)) => fs::write(folder.join("problem"), sentence).expect("it is written"),
    }
    exit(0)
}

/// Whether this process was started for the work of a row.
#[allow(dead_code, reason = "not every table has rows that depend on it")]
pub fn is_child() -> bool {
    std::env::var_os(ROW).is_some()
}

/// A trial per row and kind of fault.
pub fn trials(rows: &'static [Row]) -> Vec<Trial> {
    type Faulty = (&'static str, fn(usize) -> Fault, fn(Kind) -> bool);
    const FAULTS: [Faulty; 3] = [
        (
            "killed at every operation",
            |at| Fault::Kill {
                at,
                cannot_exchange: false,
            },
            |_| true,
        ),
        (
            "on a disk that is full from any write on",
            |at| Fault::Full { at },
            Kind::takes_room,
        ),
        (
            "on a disk that fails once",
            |at| Fault::Broken { at },
            |kind| !kind.takes_room(),
        ),
    ];
    let trial = |row: &'static Row, (with, fault, counts): Faulty| {
        let name = format!("{}, {with}", row.name);
        Trial::test(name.clone(), move || {
            try_each(&name, row, fault, counts);
            Ok(())
        })
    };
    rows.iter()
        .flat_map(|row| FAULTS.map(|faulty| trial(row, faulty)))
        .collect()
}

/// The trials run one after the other: each also works in this process.
static TURN: Mutex<()> = Mutex::new(());

fn try_each(test: &str, row: &Row, fault: fn(usize) -> Fault, counts: fn(Kind) -> bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    (row.prepare)(folder.path());
    let counted = start(row, folder.path(), &Fault::Count { cannot_exchange: false }).wait();
    assert!(counted.expect("it ends").success());
    (row.check)(folder.path(), true);
    let operations = faults::read_kinds(&folder.path().join("operations"));
    let at: Vec<usize> = (0..operations.len()).filter(|at| counts(operations[*at])).collect();
    let at = if row.ordered {
        faults::due(test, &operations, &at)
    } else {
        Parts::from_variable("faults").always(&format!("{test}: every operation"));
        at
    };
    let mut met = 0;
    for group in at.chunks(CHILDREN) {
        let started: Vec<_> = group
            .iter()
            .map(|at| {
                let folder = tempfile::tempdir().expect("a folder");
                (row.prepare)(folder.path());
                let child = start(row, folder.path(), &fault(*at));
                (*at, folder, child)
            })
            .collect();
        for (at, folder, mut child) in started {
            let status = child.wait().expect("it ends");
            let what = format!("{} ({:?})", fault(at), operations[at]);
            let _told = Told(&what);
            let killed = status.code() == Some(faults::KILLED);
            met += usize::from(killed);
            match fault(at) {
                // The operations are those that were counted, in the same order: cases are named
                // by them.
                Fault::Kill { .. } if row.ordered => assert!(killed, "{status}"),
                // There may be fewer of them this time.
                Fault::Kill { .. } => assert!(killed || status.success(), "{status}"),
                _ => assert!(status.success(), "{status}"),
            }
            if let Ok(sentence) = fs::read_to_string(folder.path().join("problem")) {
                assert!(sentence.len() > 20 && sentence.ends_with('.'), "{sentence}");
            }
            let done = folder.path().join("done").exists();
            (row.check)(folder.path(), done);
            (row.work)(folder.path()).expect("a second try succeeds");
            (row.check)(folder.path(), true);
        }
    }
    let kills = matches!(fault(0), Fault::Kill { .. });
    assert!(!kills || met * 2 >= at.len(), "{met} of {} kills were met", at.len());
}

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

/// Prints the fault if something panics.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with the fault {}", self.0);
        }
    }
}
