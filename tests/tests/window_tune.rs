//! Fine-tuning in the window, end to end: the real page, the real workers and the real model.
//!
//! Linux only, as all tests of the window are.
#![cfg(target_os = "linux")]

use hearth_tests::drag::drop_file;
use hearth_tests::place;
use hearth_tests::window::{Desk, Window, id, worker};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Long enough for a few steps on a slow machine, what is measured before them included.
const STEPS: Duration = Duration::from_secs(180);

fn state(window: &Window) -> Option<String> {
    let page = window.session.all(&id("run-page")).pop()?;
    window.session.attribute(&page, "data-state")
}

fn until_run_is(window: &Window, wanted: &str) {
    window.session.until(STEPS, &format!("the run is {wanted}"), || {
        (state(window)? == wanted).then_some(())
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

fn how_many(window: &Window, name: &str) -> usize {
    window.session.all(&id(name)).len()
}

#[test]
fn a_dropped_file_is_learnt_tried_compared_and_deleted_with_undo() {
    let desk = Desk::new();
    let file = desk.data.path().join("the lodge keeper.jsonl");
    fs::copy(place::root().join("assets/datasets/hearthside.jsonl"), &file).expect("a copy of the sample");
    let window = desk.open();
    // What came with the app is shown once the window listens to drops.
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
        (how_many(&window, "vote") == 2).then_some(())
    });
    window.screenshot("compare");
    window.click("vote");
    window.session.one(&id("voted"));

    window.click("view-tune");
    until_run_is(&window, "stopped");
    window.click("delete-run");
    window.session.until(STEPS, "the run is gone", || {
        (how_many(&window, "run") == 0).then_some(())
    });
    window.click("toast-action");
    until_run_is(&window, "stopped");
    drop(window);

    // All of it is there after a restart.
    let window = desk.open();
    window.click("view-tune");
    window.click("open-run");
    until_run_is(&window, "stopped");
    assert!(step(&window) >= stopped);
    assert_eq!(how_many(&window, "try-it"), 1);
}

#[test]
fn a_run_waits_while_chat_answers_and_outlives_its_worker() {
    let desk = Desk::new();
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
    assert!(window.answer_text().contains("Paris"), "{}", window.answer_text());
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
