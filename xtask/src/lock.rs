//! One run of the tests at a time on a machine: two would compete for cores, displays and memory.

use crate::process::Outcome;
use crate::{cache, kept_tree, paths};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;

/// Takes the lock, which the system releases when this process exits or is killed. If another run
/// has the lock, prints which one and waits for it.
///
/// A run in CI's work tree takes a separate lock, since the run that started it has this one.
///
/// # Errors
/// If the lock file cannot be created or locked.
pub fn take() -> Outcome<File> {
    if kept_tree::is_inside() {
        take_inside()
    } else {
        take_in(&folder(), "run.lock")
    }
}

/// Takes the lock of CI's work tree.
///
/// # Errors
/// If the lock file cannot be created or locked.
pub fn take_inside() -> Outcome<File> {
    take_in(&folder(), "ci.lock")
}

fn folder() -> PathBuf {
    cache::folder().unwrap_or_else(paths::target)
}

fn take_in(folder: &Path, name: &str) -> Outcome<File> {
    let path = folder.join(name);
    let failed = |error: std::io::Error| format!("{} could not be locked ({error}).", path.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            println!("Waiting for {}.", holder(&mut file));
            file.lock().map_err(failed)?;
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let text = format!(
        "the test run of process {} in {}",
        process::id(),
        paths::root().display()
    );
    file.set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| file.write_all(text.as_bytes()))
        .map_err(failed)?;
    Ok(file)
}

/// A description of the run that holds the lock.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // Windows refuses to read a locked file.
    match file.take(1024).read_to_string(&mut text) {
        Ok(_) if !text.is_empty() => text,
        _ => "another test run".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_second_run_waits_until_the_first_has_ended() {
        let folder = std::env::temp_dir().join(format!("hearth-lock-{}", process::id()));
        let first = take_in(&folder, "run.lock").expect("the lock");
        let (sender, receiver) = mpsc::channel();
        let second = thread::spawn({
            let folder = folder.clone();
            move || sender.send(take_in(&folder, "run.lock").map(|_| ()))
        });
        assert!(
            receiver.recv_timeout(Duration::from_millis(300)).is_err(),
            "the lock was taken twice"
        );
        drop(first);
        let outcome = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(outcome.expect("the second run goes on"), Ok(()));
        second.join().expect("no panic").expect("the outcome was received");
        fs::remove_dir_all(&folder).expect("the folder of the test");
    }

    #[test]
    fn the_holder_of_the_lock_is_named() {
        let folder = std::env::temp_dir().join(format!("hearth-holder-{}", process::id()));
        let mut file = take_in(&folder, "run.lock").expect("the lock");
        file.seek(SeekFrom::Start(0)).expect("the beginning");
        let holder = holder(&mut file);
        assert!(holder.contains(&process::id().to_string()), "{holder}");
        fs::remove_dir_all(&folder).expect("the folder of the test");
    }
}
