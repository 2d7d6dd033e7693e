//! The real window at every text size: no control overlaps another one or leaves the window.
//! WebKitGTK zooms pages differently from other browsers.
//!
//! The worker is scripted (`scripted.rs`).

use hearth_tests::scripted::{MODELS, Scripted};
use hearth_tests::wait::PATIENCE;
use hearth_tests::window::{Desktop, Window};
use std::fs;

/// Defines `layoutFaults`, which the page's tests use, too.
const LAYOUT_FAULTS: &str = include_str!("../../../ui/tests/browser/layoutFaults.js");

/// Text sizes in percent.
const TEXT_SIZES: [u32; 4] = [100, 150, 175, 200];

/// Widths of the window in pixels.
const WIDTHS: [u32; 2] = [1120, 800];

const HEIGHT: u32 = 760;

/// Two frames, after which a changed width has changed the classes.
const DRAWN: &str = "window.drawn = false; requestAnimationFrame(() => requestAnimationFrame(() => (window.drawn = \
                     true)))";

/// The first model, with a name that leaves no room.
fn long_name(scripted: &Scripted) {
    let [(name, _), _] = MODELS;
    let path = |name: &str| scripted.models().join(format!("{name}.gguf"));
    let long = format!("{name} 135M Instruct with quite a long name");
    fs::rename(path(name), path(&long)).expect("the model is renamed");
}

/// Clicks by script, because WebKit's driver clicks at the wrong place of a zoomed page. The layout
/// faults include controls that cannot be clicked.
fn press(window: &Window, name: &str) {
    let selector = format!("[data-testid={name}]");
    window.session.one(&selector);
    let click = format!("document.querySelector('{selector}').click()");
    window.session.script(&click).expect("a click");
}

/// Sets the text size of a window with this width, and waits until the page has it.
fn set_text_size(window: &Window, size: u32, width: u32) {
    press(window, "view-settings");
    press(window, "settings-page-general");
    window.choose("text-size", &size.to_string());
    let inner = f64::from(width) * 100.0 / f64::from(size);
    let has_size = format!("return Math.abs(innerWidth - {inner}) <= 2");
    window.session.until(PATIENCE, &format!("the text has {size} %"), || {
        (window.session.script(&has_size).ok()? == true).then_some(())
    });
    press(window, "view-chat");
}

/// Checks the page for layout faults.
fn assert_no_faults(window: &Window, what: &str) {
    window.session.script(DRAWN).expect("a script");
    window.session.until(PATIENCE, "two frames", || {
        (window.session.script("return window.drawn").ok()? == true).then_some(())
    });
    let faults = window
        .session
        .script(&format!("{LAYOUT_FAULTS}\nreturn layoutFaults()"));
    let faults = faults.expect("the script runs");
    let lines: Vec<_> = faults.as_array().into_iter().flatten().collect();
    if !lines.is_empty() {
        window.screenshot("layout-faults");
    }
    assert!(lines.is_empty(), "{what}: {lines:#?}");
}

/// Checks the chat at every size in this language, with an answer, a comparison and the settings.
fn check(language: &str) {
    let scripted = Scripted::new();
    long_name(&scripted);
    let desk = Desktop::with(&scripted.variables());
    let window = desk.open();
    window.send("say Paris is the capital of France.");
    window.until_answer(1, &["complete"]);
    window.open_settings("general");
    window.choose("language", language);
    for size in TEXT_SIZES {
        for width in WIDTHS {
            window.session.resize(width, HEIGHT);
            set_text_size(&window, size, width);
            let at = format!("{language}, {width} pixels, {size} %");
            assert_no_faults(&window, &at);
            press(&window, "compare");
            assert_no_faults(&window, &format!("{at}, with a comparison"));
            press(&window, "compare");
            press(&window, "chat-settings-toggle");
            assert_no_faults(&window, &format!("{at}, with the settings"));
            window.screenshot(&format!("chat-{language}-{width}-{size}"));
            press(&window, "chat-settings-close");
        }
    }
}

#[test]
fn nothing_overlaps_at_any_text_size_in_english() {
    check("en");
}

#[test]
fn nothing_overlaps_at_any_text_size_in_german() {
    check("de");
}
