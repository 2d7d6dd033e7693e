//! The thread of the real window follows its end until the user scrolls up: WebKit reports scrolled
//! positions later than other browsers, so that a row that shrinks could look like the user.
//!
//! The worker is scripted (`scripted.rs`).

use hearth_tests::scripted::Scripted;
use hearth_tests::wait::PATIENCE;
use hearth_tests::webdriver::Key;
use hearth_tests::window::{Desktop, Window, id};
use std::thread;
use std::time::Duration;

/// An answer that is taller than the window and ends.
const TALL: &str = "count 900";

/// An answer that only a stop ends.
const ENDLESS: &str = "slow";

/// Time in which a late event of the page would move the thread.
const LATE: Duration = Duration::from_millis(300);

/// The distance of the thread from its end in pixels.
const FROM_END: &str = "const thread = document.querySelector('[data-testid=thread]'); return thread.scrollHeight - \
                        thread.scrollTop - thread.clientHeight";

fn open() -> (Scripted, Desktop, Window) {
    let scripted = Scripted::new();
    let desk = Desktop::with(&scripted.variables());
    let window = desk.open();
    (scripted, desk, window)
}

fn from_end(window: &Window) -> f64 {
    let distance = window.session.script(FROM_END).expect("a thread");
    distance.as_f64().expect("a number")
}

fn is_pill_shown(window: &Window) -> bool {
    !window.session.all(&id("jump-to-latest")).is_empty()
}

/// Checks that the thread is at its end, and stays there.
fn assert_at_end(window: &Window, when: &str) {
    window
        .session
        .until(PATIENCE, &format!("the thread is at its end: {when}"), || {
            (from_end(window) < 2.0).then_some(())
        });
    thread::sleep(LATE);
    assert!(from_end(window) < 2.0, "{when}: {} pixels are below", from_end(window));
    assert!(
        !is_pill_shown(window),
        "{when}: the button to the end is shown at the end"
    );
}

/// Waits until the thread is taller than the window by half its height.
fn until_tall(window: &Window) {
    let is_tall = "const thread = document.querySelector('[data-testid=thread]'); return thread.scrollHeight > 1.5 * \
                   thread.clientHeight";
    window.session.until(PATIENCE, "the thread is tall", || {
        (window.session.script(is_tall).ok()? == true).then_some(())
    });
}

/// Sends a message that is too long to type.
fn paste(window: &Window, text: &str) {
    let text = serde_json::to_string(text).expect("JSON");
    let write = format!(
        "const box = document.querySelector('{}'); box.value = {text}; box.dispatchEvent(new Event('input', {{ \
         bubbles: true }}))",
        id("composer")
    );
    window.session.script(&write).expect("the text is set");
    window.click("send");
}

#[test]
fn the_end_is_followed_through_actions_errors_panels_and_sizes() {
    let (_scripted, _desk, window) = open();
    window.send(TALL);
    window.until_answer(1, &["complete"]);
    window.session.one(&id("regenerate"));
    assert_at_end(&window, "an answer is complete");

    window.click("chat-settings-toggle");
    assert_at_end(&window, "the settings are open");
    window.send(TALL);
    window.until_answer(2, &["complete"]);
    assert_at_end(&window, "an answer is complete beside the settings");
    for (width, height) in [(800, 560), (1400, 880), (1120, 760)] {
        window.session.resize(width, height);
        assert_at_end(&window, &format!("the window has {width} x {height} pixels"));
    }
    window.click("chat-settings-toggle");
    assert_at_end(&window, "the settings are closed");

    window.send(ENDLESS);
    window.until_answer(3, &["streaming"]);
    thread::sleep(LATE);
    window.click("stop");
    window.until_answer(3, &["stopped"]);
    assert_at_end(&window, "an answer is stopped");

    window.send("die");
    window.until_answer(4, &["failed"]);
    window.session.one(&id("failed"));
    assert_at_end(&window, "an answer has failed");
}

#[test]
fn the_end_is_followed_after_a_tall_message_and_in_a_comparison() {
    let (_scripted, _desk, window) = open();
    paste(
        &window,
        &format!("slow {}", "A line of mine that is not short.\n".repeat(120)),
    );
    window.until_answer(1, &["streaming"]);
    assert_at_end(&window, "an answer begins after a tall message");
    window.click("stop");
    window.until_answer(1, &["stopped"]);
    assert_at_end(&window, "it is stopped");

    window.click("compare");
    assert_at_end(&window, "a comparison is prepared");
    window.send(ENDLESS);
    window.session.until(PATIENCE, "two answers grow", || {
        let growing = window.session.all("[data-role=assistant][data-state=streaming]").len();
        (growing == 2).then_some(())
    });
    thread::sleep(LATE);
    window.click("stop");
    window.session.until(PATIENCE, "both can be preferred", || {
        (window.session.all(&id("vote")).len() == 2).then_some(())
    });
    assert_at_end(&window, "two answers are stopped");
}

#[test]
fn scrolling_up_ends_it_and_the_button_to_the_end_covers_nothing() {
    let (_scripted, _desk, window) = open();
    window.send(ENDLESS);
    window.until_answer(1, &["streaming"]);
    until_tall(&window);
    let thread = window.session.one(&id("thread"));
    window.session.press(&thread, Key::HOME);
    window.session.one(&id("jump-to-latest"));
    let is_at_top = "return document.querySelector('[data-testid=thread]').scrollTop === 0";
    window.session.until(PATIENCE, "the thread is at its top", || {
        (window.session.script(is_at_top).ok()? == true).then_some(())
    });
    let before = from_end(&window);
    window.session.until(PATIENCE, "the answer goes on", || {
        (from_end(&window) > before + 40.0).then_some(())
    });
    assert_eq!(window.session.script(is_at_top).expect("a thread"), true);
    let is_apart = "const box = (name) => document.querySelector(`[data-testid=${name}]`).getBoundingClientRect(); \
                    const pill = box('jump-to-latest'); return pill.top >= box('thread').bottom - 1 && pill.bottom \
                    <= box('composer').top";
    assert_eq!(window.session.script(is_apart).expect("boxes"), true);
    window.screenshot("scrolled-up");
    window.click("jump-to-latest");
    assert_at_end(&window, "the user went back");
    window.click("stop");
    window.until_answer(1, &["stopped"]);
    assert_at_end(&window, "an answer is stopped");
}
