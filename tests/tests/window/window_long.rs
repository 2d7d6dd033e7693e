//! A conversation of 10,000 messages in the real window, while two answers stream.
//!
//! The measurement prints frame times and the time from a key to the painted character: `cargo test
//! --release --locked --workspace --test window window_long -- --ignored --nocapture`. The worker
//! is scripted (`scripted.rs`).

use hearth_app::store::{
    Store, conversation,
    message::{self, New, State},
    title_source::TitleSource,
};
use hearth_protocol::{Part, Role};
use hearth_tests::keyboard::Keyboard;
use hearth_tests::scripted::Scripted;
use hearth_tests::wait::PATIENCE;
use hearth_tests::webdriver::Key;
use hearth_tests::window::{Desktop, Window, id};
use std::path::Path;
use std::time::Duration;

/// Messages of the long conversation.
const MESSAGES: usize = 10_000;

/// The last number of each answer, of which one streams every 10 ms.
const LAST: usize = 1500;

/// Long enough for both answers on a busy machine.
const ANSWERS: Duration = Duration::from_secs(180);

const TITLE: &str = "The long conversation";

/// Writes the long conversation to the store of a data folder.
fn fill(data: &Path) {
    let store = Store::open(data).expect("a store");
    let result = store.write(|t| {
        let conversation = conversation::create(t, TITLE, TitleSource::User, 1)?;
        let mut parent = None;
        for number in 0..MESSAGES {
            let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
            let text = format!("Message {number} of a **long** conversation. ").repeat(1 + number % 7);
            let new = New {
                conversation,
                parent,
                role,
                parts: vec![Part::Text { text }],
                state: State::Complete,
                adapters: None,
                model: None,
                edited: false,
                overrides: None,
                created_at: 1 + number as i64,
            };
            parent = Some(message::create(t, new)?.id);
        }
        conversation::set_leaf(t, conversation, parent)?;
        Ok(())
    });
    result.expect("messages are written");
}

/// Opens the window, and starts an answer in a new conversation and one in the long conversation,
/// which is shown.
fn open(desk: &Desktop) -> Window {
    fill(desk.data.path());
    let window = desk.open();
    window.send(&format!("count {LAST}"));
    window.until_answer(1, &["streaming"]);
    open_conversation(&window, TITLE);
    until_message_count(&window, MESSAGES);
    window.send(&format!("count {LAST}"));
    window.until_answer(MESSAGES / 2 + 1, &["streaming"]);
    window
}

fn open_conversation(window: &Window, title: &str) {
    let find = format!(
        "const found = [...document.querySelectorAll('{}')].find((one) => one.textContent.includes('{title}')); \
         found?.click(); return found !== undefined",
        id("open-conversation")
    );
    window.session.until(PATIENCE, title, || {
        (window.session.script(&find).ok()? == true).then_some(())
    });
}

/// Waits until the open conversation has this number of messages.
fn until_message_count(window: &Window, messages: usize) {
    let article = format!("article[aria-setsize=\"{messages}\"]");
    window.session.one(&article);
}

/// Waits until the answer after this number of messages has ended, and checks that it is complete.
fn until_complete(window: &Window, before: usize) {
    let answer = format!("article[aria-posinset=\"{}\"] [data-role=assistant]", before + 2);
    let expected: String = (1..=LAST).map(|number| format!("{number} ")).collect();
    window.session.until(ANSWERS, "the answer is whole", || {
        let answer = window.session.all(&answer).pop()?;
        let state = window.session.attribute(&answer, "data-state")?;
        assert!(["streaming", "complete"].contains(&state.as_str()), "{state}");
        (state == "complete").then_some(())
    });
    let text = format!("return document.querySelector('{answer} .markdown').textContent");
    let text = window.session.script(&text).expect("a text");
    assert_eq!(text.as_str().map(str::trim), Some(expected.trim()));
}

#[test]
fn two_answers_stream_beside_ten_thousand_messages_and_nothing_is_lost() {
    let scripted = Scripted::new();
    let desk = Desktop::with(&scripted.variables());
    let window = open(&desk);
    until_message_count(&window, MESSAGES + 2);
    let shown = window.session.all("article").len();
    assert!(shown < 200, "{shown} messages exist in the page");
    until_complete(&window, MESSAGES);
    open_conversation(&window, "count");
    until_message_count(&window, 2);
    until_complete(&window, 0);
}

/// Records the time between frames from now on.
const RECORD: &str = "window.gaps = []; let last; const step = (now) => { if (last !== undefined) \
                      window.gaps.push(now - last); last = now; requestAnimationFrame(step); }; \
                      requestAnimationFrame(step);";

/// Records the time from each key to the frame after the one that draws its character.
const RECORD_KEYS: &str = "window.keyTimes = []; let pressed = 0; \
                           addEventListener('keydown', (event) => (pressed = event.timeStamp), true); \
                           addEventListener('input', () => { const from = pressed; requestAnimationFrame(() => \
                           setTimeout(() => window.keyTimes.push(performance.now() - from))); }, true);";

/// Scrolls up by 60 pixels in each of 240 frames; the wheel ends following the answer.
const SCROLL: &str = "window.scrolled = false; let left = 240; const thread = \
                      document.querySelector('[data-testid=thread]'); const by = () => { \
                      thread.dispatchEvent(new WheelEvent('wheel', { deltaY: -60 })); thread.scrollTop -= 60; \
                      if (--left > 0) requestAnimationFrame(by); else window.scrolled = true; }; \
                      requestAnimationFrame(by);";

/// The numbers in a list of the page, in order.
fn numbers(window: &Window, list: &str) -> Vec<f64> {
    let values = window.session.script(&format!("return {list}")).expect("a list");
    let mut numbers: Vec<f64> = values
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|value| value.as_f64())
        .collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Prints the median, the 95 % quantile and the maximum of times.
fn print(what: &str, numbers: &[f64]) {
    let quantile = |share: f64| {
        let last = numbers.len().saturating_sub(1);
        numbers.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    };
    println!(
        "{what}: {} measured; median {:.1} ms, 95 % {:.1} ms, longest {:.1} ms",
        numbers.len(),
        quantile(0.5),
        quantile(0.95),
        quantile(1.0)
    );
}

#[test]
#[ignore = "a measurement: it prints times and asserts none"]
fn frames_and_keys_beside_ten_thousand_messages() {
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average before: {}", load().trim());
    let scripted = Scripted::new();
    let desk = Desktop::with(&scripted.variables());
    let window = open(&desk);
    let keyboard = Keyboard::new(&desk.screen.display).expect("a keyboard");
    keyboard.focus().expect("a window");

    window.session.script(RECORD_KEYS).expect("a script");
    window.session.press(&window.session.one(&id("composer")), Key::END);
    for (index, character) in "the quick brown fox jumps".chars().enumerate() {
        keyboard.write(&character.to_string()).expect("a key");
        window.session.until(PATIENCE, "a painted character", || {
            (numbers(&window, "window.keyTimes").len() > index).then_some(())
        });
    }
    print(
        "key to painted character, two answers stream",
        &numbers(&window, "window.keyTimes"),
    );
    // A draft is saved for the next window.
    for keys in ["Ctrl+a", "Delete"] {
        keyboard.press(keys).expect("keys");
    }

    window.session.script(RECORD).expect("a script");
    window.session.script(SCROLL).expect("a script");
    window.session.until(ANSWERS, "scrolling ends", || {
        (window.session.script("return window.scrolled").ok()? == true).then_some(())
    });
    print(
        "frame to frame, scrolling and two answers stream",
        &numbers(&window, "window.gaps"),
    );
    window.session.script("window.gaps.length = 0").expect("a script");
    window.session.until(ANSWERS, "300 frames", || {
        (numbers(&window, "window.gaps").len() > 300).then_some(())
    });
    print("frame to frame, two answers stream", &numbers(&window, "window.gaps"));
    println!("load average after: {}", load().trim());
}
