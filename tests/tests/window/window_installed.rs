//! Hearth as installed and started by a user, without environment variables: a second start, and a
//! data folder that moves.
//!
//! The worker is scripted (`scripted.rs`).

use hearth_tests::close::{close_window, shows_window};
use hearth_tests::paths;
use hearth_tests::scripted::Scripted;
use hearth_tests::wait::{self, PATIENCE};
use hearth_tests::window::{Desktop, id};
use std::ffi::OsStr;
use std::fs::File;

const QUESTION: &str = "count 3";

#[test]
fn a_second_start_hands_its_link_to_the_first_window() {
    let (scripted, home) = (Scripted::new(), tempfile::tempdir().expect("a folder"));
    // The system's folder for app data, where one instance runs at a time.
    let folders = [
        ("HEARTH_DATA", OsStr::new("")),
        ("HOME", home.path().as_os_str()),
        ("XDG_DATA_HOME", home.path().as_os_str()),
        ("HF_ENDPOINT", OsStr::new("http://127.0.0.1:9")),
    ];
    let variables = [&scripted.variables()[..], &folders].concat();
    let (desk, bus) = Desktop::with_bus(&variables);
    let window = desk.open();
    window.send(QUESTION);
    window.until_ended(1);
    assert!(window.session.all(&id("opened-link")).is_empty());

    let second = desk
        .screen
        .command(&paths::executable("hearth-desktop"), home.path())
        .envs(variables)
        .env("DBUS_SESSION_BUS_ADDRESS", &bus.address)
        .arg("hearth://conversation/1")
        .status()
        .expect("a second start");
    assert!(second.success(), "{second}");
    window.session.one(&id("opened-link"));
    window.until_shows(QUESTION);
    window.click("link-agree");
    window.session.until(PATIENCE, "the dialog closes", || {
        window.session.all(&id("opened-link")).is_empty().then_some(())
    });
}

#[test]
fn the_data_folder_moves_and_hearth_starts_again_there() {
    let (scripted, drive) = (Scripted::new(), tempfile::tempdir().expect("a folder"));
    let desk = Desktop::with(&scripted.variables());
    let window = desk.open();
    window.send(QUESTION);
    window.until_ended(1);
    // The button opens a dialog of the system, which WebDriver cannot see.
    let target = drive.path().join("elsewhere");
    let move_there = format!(
        "window.__TAURI_INTERNALS__.invoke('move_data', {{ folder: {:?} }})",
        target.to_str().expect("the folder's name is text")
    );
    window.session.script(&move_there).expect("a script");
    // WebDriver does not follow it to the next start.
    let ended = || window.session.script("return 1").is_err().then_some(());
    wait::until(PATIENCE, "the first process ends", ended);
    wait::until(PATIENCE, "Hearth starts again", || {
        shows_window(&desk.screen.display).ok()?.then_some(())
    });
    let moved = target.join("hearth.db");
    assert!(moved.is_file(), "no store in {}", target.display());

    close_window(&desk.screen.display).expect("the window is closed");
    // The process outlives its window while it saves.
    let lock = File::open(target.join("hearth.lock")).expect("the store's lock");
    wait::until(PATIENCE, "the second process ends", || lock.try_lock().ok());
    drop(lock);
    // The driver has one session at a time, and ends the browser with it.
    drop(window);
    let window = desk.open();
    window.session.one(&id("open-conversation"));
    window.until_shows(QUESTION);
    window.open_settings("data");
    assert_eq!(window.text_of("data-place"), target.display().to_string());
}
