//! The window, end to end: the real executable and the real page.
//!
//! Tests of answers have the real worker and the real model. Tests of the window itself have a
//! scripted worker (`scripted.rs`).

use hearth_tests::close::close_window;
use hearth_tests::paths;
use hearth_tests::scripted::Scripted;
use hearth_tests::wait::{self, PATIENCE};
use hearth_tests::webdriver::Key;
use hearth_tests::window::{Desktop, id, process, worker};
use std::process::{Command, Stdio};

const LONG: &str = "Write a very long story about a lighthouse keeper, with many chapters.";

/// An answer of the scripted worker that only a stop ends.
const ENDLESS: &str = "slow";

/// A desktop with the scripted worker, which must outlive it.
fn scripted() -> (Scripted, Desktop) {
    let scripted = Scripted::new();
    let desk = Desktop::with(&scripted.variables());
    (scripted, desk)
}

#[test]
fn an_answer_shows_its_speed() {
    let desk = Desktop::new();
    let window = desk.open();
    window.screenshot("welcome");
    window.send("What is the capital of France?");
    window.until_ended(1);
    assert_ne!(window.answer_words(), "");
    assert!(!window.session.all(&id("stats")).is_empty(), "the speed is not shown");
}

#[test]
fn an_answer_grows_until_it_is_stopped() {
    let desk = Desktop::new();
    let window = desk.open();
    window.send(LONG);
    window.until_answer(1, &["streaming"]);
    let longer_than = |length: usize| {
        window.session.until(PATIENCE, "the answer grows", || {
            let now = window.answer_text().len();
            (now > length && window.state().as_deref() == Some("streaming")).then_some(now)
        })
    };
    let early = longer_than(0);
    let later = longer_than(early);
    longer_than(later);
    window.click("stop");
    window.until_answer(1, &["stopped"]);
    let stopped = window.answer_text();
    // The stopped answer does not block the next one.
    window.send("What is the capital of France?");
    window.until_ended(2);
    assert!(stopped.len() > later);
}

#[test]
fn two_conversations_are_answered_at_once() {
    let (_scripted, desk) = scripted();
    let window = desk.open();
    window.send(ENDLESS);
    window.until_answer(1, &["streaming"]);
    window.click("new-conversation");
    window.send(ENDLESS);
    window.session.until(PATIENCE, "two conversations are answered", || {
        (window.session.all("[aria-label=\"Answering\"]").len() == 2).then_some(())
    });
    window.until_answer(1, &["streaming"]);
    window.screenshot("two-answers");
    window.click("stop");
    window.until_answer(1, &["stopped"]);
    assert_eq!(
        window.session.all("[aria-label=\"Answering\"]").len(),
        1,
        "the other one goes on"
    );
}

#[test]
fn three_presets_answer_side_by_side_and_the_preferred_one_goes_on() {
    let desk = Desktop::new();
    let window = desk.open();
    window.click("compare");
    window.click("contender-add");
    window.send("What is the capital of France?");
    let count = |name: &str| window.session.all(&id(name)).len();
    window.session.until(PATIENCE, "three answers to choose from", || {
        (count("vote") == 3).then_some(())
    });
    window.screenshot("compare-presets");
    window.click("vote");
    window.session.one(&id("voted"));
    window.click("use-contender");
    window.session.until(PATIENCE, "the comparison ends", || {
        (count("contenders") == 0).then_some(())
    });
    window.send("And of Italy?");
    window.session.until(PATIENCE, "one answer follows", || {
        (window.state().as_deref() == Some("complete") && count("regenerate") == 1).then_some(())
    });
    window.screenshot("compare-gone-on");
}

#[test]
fn a_conversation_survives_a_restart_and_is_found() {
    let (_scripted, desk) = scripted();
    let window = desk.open();
    // The scripted worker repeats all but the first word.
    window.send("Quillfeather is the name of a zebra.");
    window.until_ended(1);
    let answer = "is the name of a zebra.";
    assert!(window.answer_text().contains(answer), "{}", window.answer_text());
    drop(window);

    let window = desk.open();
    window.until_shows("Quillfeather");
    let search = window.session.one(&id("search"));
    window.session.fill(&search, "quillf");
    window.click("search-hit");
    window.until_ended(1);
    assert!(window.answer_text().contains(answer), "{}", window.answer_text());
}

#[test]
fn closing_the_window_saves_the_answer_so_far() {
    let (_scripted, desk) = scripted();
    let window = desk.open();
    window.send(ENDLESS);
    window.until_answer(1, &["streaming"]);
    window.session.until(PATIENCE, "some text", || {
        (window.answer_text().len() > 200).then_some(())
    });
    // The driver would kill the process.
    close_window(&desk.screen.display).expect("the window is closed");
    wait::until(PATIENCE, "the window's process ends", || {
        process("hearth-desktop", desk.data.path()).is_none().then_some(())
    });
    drop(window);

    let window = desk.open();
    window.click("open-conversation");
    window.until_answer(1, &["stopped"]);
    assert!(window.answer_text().len() > 200, "{}", window.answer_text());
}

#[test]
fn a_killed_worker_fails_the_answer_and_the_next_message_starts_another() {
    let desk = Desktop::new();
    let window = desk.open();
    window.send(LONG);
    window.until_answer(1, &["streaming"]);
    let first = worker(desk.data.path()).expect("a worker answers");
    let killed = Command::new("kill")
        .args(["-KILL", &first.to_string()])
        .status()
        .expect("kill starts");
    assert!(killed.success());
    window.until_answer(1, &["failed"]);
    window.screenshot("worker-died");
    window.send("What is the capital of France?");
    window.until_ended(2);
    assert!(worker(desk.data.path()).is_some_and(|second| second != first));
}

#[test]
fn a_deleted_conversation_can_be_restored() {
    let (_scripted, desk) = scripted();
    let window = desk.open();
    window.send("say Paris.");
    window.until_ended(1);
    let conversation = window.session.one(&id("open-conversation"));
    window.session.press(&conversation, Key::DELETE);
    window.session.until(PATIENCE, "it is gone", || {
        window.session.all(&id("open-conversation")).is_empty().then_some(())
    });
    window.click("toast-action");
    window.session.one(&id("open-conversation"));
}

#[test]
fn a_second_instance_on_the_same_data_shows_why_it_cannot_start() {
    let (_scripted, desk) = scripted();
    let _window = desk.open();
    let mut second = desk
        .screen
        .command(&paths::executable("hearth-desktop"), desk.data.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let line = hearth_tests::screen::first_line_with(&mut second, "cannot start");
    // Its dialog waits for the user.
    second.kill().expect("it still shows its dialog");
    second.wait().expect("it ends");
    assert!(line.contains("Hearth"), "{line}");
}

#[test]
fn screenshots_of_every_view_in_light_and_dark() {
    let desk = Desktop::new();
    let window = desk.open();
    window.send("Hi! Give me three reasons to read books, as a list.");
    window.until_ended(1);
    window.click("view-chat");
    for theme in ["light", "dark"] {
        window.open_settings("general");
        window.click(&format!("theme-{theme}"));
        window.open_settings("hardware");
        window.session.until(PATIENCE, "the devices", || {
            (!window.session.all(&id("device-row")).is_empty()).then_some(())
        });
        for view in ["settings", "models", "chat"] {
            window.click(&format!("view-{view}"));
            window.screenshot(&format!("{view}-{theme}"));
        }
    }
}
