//! Fine-tuning in the window, end to end: the real page, the real workers and the real model.
//!
//! Linux only, as all tests of the window are.
#![cfg(target_os = "linux")]

use hearth_tests::close::close_window;
use hearth_tests::drag::drop_file;
use hearth_tests::place;
use hearth_tests::window::{Desk, Window, id, process, worker};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

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

#[test]
fn closing_the_window_saves_the_run_that_is_under_way() {
    let desk = Desk::new();
    let window = desk.open();
    window.click("view-tune");
    window.click("sample");
    window.click("train");
    until_run_is(&window, "running");
    let made = until_past(&window, 0);
    close_window(&desk.screen.display).expect("the window is closed");
    let told = until_gone(&desk, Some(&window));
    assert!(told.contains("Saving the run"), "{told:?}");
    drop(window);
    assert!(logged(&desk).len() >= made as usize);

    // The same where the system ends the session.
    let window = desk.open();
    window.click("view-tune");
    window.click("open-run");
    until_run_is(&window, "interrupted");
    window.screenshot("tune-closed");
    window.click("resume-run");
    until_run_is(&window, "running");
    until_past(&window, logged(&desk).len() as u32);
    let app = process("hearth-desktop", desk.data.path()).expect("the window's process");
    let asked = Command::new("kill").args(["-TERM", &app.to_string()]).status();
    assert!(asked.is_ok_and(|status| status.success()));
    until_gone(&desk, None);
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
    // No step was lost. Nor is one made twice, unless a slow machine takes longer for it than closing waits.
    let mut steps = logged(&desk);
    steps.sort_unstable();
    steps.dedup();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>());
}

/// Waits until the window's process has ended; what the window said meanwhile.
fn until_gone(desk: &Desk, window: Option<&Window>) -> String {
    let (begun, mut told) = (Instant::now(), String::new());
    while process("hearth-desktop", desk.data.path()).is_some() {
        assert!(begun.elapsed() < STEPS, "it does not end");
        let script = "return document.querySelector('[data-testid=closing]')?.innerText ?? ''";
        let shown = window.and_then(|window| window.session.script(script).ok());
        if let (Some(shown), true) = (shown.as_ref().and_then(|it| it.as_str()), told.is_empty()) {
            shown.clone_into(&mut told);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    told
}

/// The steps in the log of the first run.
fn logged(desk: &Desk) -> Vec<u64> {
    let log = fs::read_to_string(desk.data.path().join("runs/1/log.jsonl")).expect("a log");
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line"));
    lines.map(|line| line["step"].as_u64().expect("a step")).collect()
}
