//! Fine-tuning in the window, end to end: the real page, the real workers and the real model.

use hearth_tests::close::close_window;
use hearth_tests::drag::drop_file;
use hearth_tests::paths;
use hearth_tests::wait;
use hearth_tests::window::{Desktop, Window, id, process, worker};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Long enough for a few steps on a slow machine, with the first evaluation.
const STEPS: Duration = Duration::from_secs(180);

fn state(window: &Window) -> Option<String> {
    let page = window.session.all(&id("run-page")).pop()?;
    window.session.attribute(&page, "data-state")
}

fn until_run_is(window: &Window, expected: &str) {
    window.session.until(STEPS, &format!("the run is {expected}"), || {
        (state(window)? == expected).then_some(())
    });
}

/// The step that the page shows.
fn step(window: &Window) -> u32 {
    let script = "return document.querySelector('[data-testid=run-tiles] dd')?.firstChild?.textContent ?? '0'";
    let shown = window.session.script(script).unwrap_or_default();
    shown.as_str().and_then(|step| step.parse().ok()).unwrap_or_default()
}

fn until_past(window: &Window, last: u32) -> u32 {
    window.session.until(STEPS, &format!("a step after {last}"), || {
        Some(step(window)).filter(|step| *step > last)
    })
}

fn count(window: &Window, name: &str) -> usize {
    window.session.all(&id(name)).len()
}

#[test]
fn a_dropped_file_is_trained_on_compared_and_deleted_with_undo() {
    let desk = Desktop::new();
    let file = desk.data.path().join("the lodge keeper.jsonl");
    fs::copy(paths::root().join("assets/datasets/hearthside.jsonl"), &file).expect("a copy of the sample");
    let window = desk.open();
    // The samples are shown once the window accepts drops.
    window.click("view-tune");
    window.session.one(&id("sample"));
    drop_file(&desk.screen.display, &file).expect("the file is dropped");
    window.session.one(&id("preview"));
    window.screenshot("tune-data");
    window.click("train");
    until_run_is(&window, "running");
    let before = until_past(&window, 1);

    window.click("pause-run");
    until_run_is(&window, "paused");
    window.screenshot("tune-paused");
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, before + 1);
    window.screenshot("tune-running");
    window.click("stop-run");
    until_run_is(&window, "stopped");
    window.session.one(&id("verdict"));
    window.screenshot("tune-stopped");
    let stopped = step(&window);
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, stopped);
    window.click("stop-run");
    until_run_is(&window, "stopped");

    window.click("try-it");
    window.session.one(&id("compare-welcome"));
    window.send("What should I have for breakfast?");
    window.session.until(STEPS, "two answers to choose from", || {
        (count(&window, "vote") == 2).then_some(())
    });
    window.screenshot("compare");
    window.click("vote");
    window.session.one(&id("voted"));

    window.click("view-tune");
    until_run_is(&window, "stopped");
    window.click("delete-run");
    window
        .session
        .until(STEPS, "the run is gone", || (count(&window, "run") == 0).then_some(()));
    window.click("toast-action");
    until_run_is(&window, "stopped");
    drop(window);

    // Everything is there after a restart.
    let window = desk.open();
    window.click("view-tune");
    window.click("open-run");
    until_run_is(&window, "stopped");
    assert!(step(&window) >= stopped);
    assert_eq!(count(&window, "try-it"), 1);
}

#[test]
fn a_run_pauses_for_the_chat_and_survives_its_worker() {
    let desk = Desktop::new();
    let window = desk.open();
    window.click("view-tune");
    window.click("sample");
    window.click("train");
    until_run_is(&window, "running");
    until_past(&window, 0);
    let trainer = worker(desk.data.path()).expect("a worker trains");
    window.click("view-chat");
    window.send("What is the capital of France?");
    window.until_ended(1);
    assert_ne!(window.answer_words(), "");
    window.click("view-tune");
    // Past the first checkpoint, of which there are twenty in 120 steps.
    let before = until_past(&window, 6);

    let killed = Command::new("kill").args(["-KILL", &trainer.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    until_run_is(&window, "interrupted");
    window.screenshot("tune-interrupted");
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, before);
    window.click("stop-run");
    until_run_is(&window, "stopped");
}

#[test]
fn closing_the_window_saves_the_active_run() {
    let desk = Desktop::new();
    let window = desk.open();
    window.click("view-tune");
    window.click("sample");
    window.click("train");
    until_run_is(&window, "running");
    let steps_made = until_past(&window, 0);
    close_window(&desk.screen.display).expect("the window is closed");
    let shown = until_exit(&desk, Some(&window));
    assert!(shown.contains("Saving the run"), "{shown:?}");
    drop(window);
    assert!(logged(&desk).len() >= steps_made as usize);

    // The same when the system ends the session.
    let window = desk.open();
    window.click("view-tune");
    window.click("open-run");
    until_run_is(&window, "interrupted");
    window.screenshot("tune-closed");
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, logged(&desk).len() as u32);
    let app = process("hearth-desktop", desk.data.path()).expect("the window's process");
    let sent = Command::new("kill").args(["-TERM", &app.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    until_exit(&desk, None);
    drop(window);

    let window = desk.open();
    window.click("view-tune");
    window.click("open-run");
    until_run_is(&window, "interrupted");
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, logged(&desk).len() as u32);
    window.click("stop-run");
    until_run_is(&window, "stopped");
    // No step was lost. One may be repeated only if a slow machine exceeds the shutdown timeout.
    let mut steps = logged(&desk);
    steps.sort_unstable();
    steps.dedup();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>());
}

/// Waits until the window's process has exited. Returns the closing message of the page.
fn until_exit(desk: &Desktop, window: Option<&Window>) -> String {
    let mut message = String::new();
    wait::until(STEPS, "the window's process has exited", || {
        if process("hearth-desktop", desk.data.path()).is_none() {
            return Some(());
        }
        let script = "return document.querySelector('[data-testid=closing]')?.innerText ?? ''";
        let shown = window.and_then(|window| window.session.script(script).ok());
        if let (Some(shown), true) = (shown.as_ref().and_then(|value| value.as_str()), message.is_empty()) {
            shown.clone_into(&mut message);
        }
        None
    });
    message
}

/// The steps in the log of the first run.
fn logged(desk: &Desktop) -> Vec<u64> {
    let log = fs::read_to_string(desk.data.path().join("runs/1/log.jsonl")).expect("a log");
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line"));
    lines.map(|line| line["step"].as_u64().expect("a step")).collect()
}
