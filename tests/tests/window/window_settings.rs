//! Settings, end to end: devices, a plan that follows the slider, a reload with other layers, a
//! measurement.
//!
//! The GPU is a software driver unless the environment names another.

use hearth_tests::driver;
use hearth_tests::wait::PATIENCE;
use hearth_tests::window::{Desktop, Window, id, worker};
use std::time::Duration;

/// Moves the slider like a drag.
fn slide(window: &Window, layers: u32) {
    let script = format!(
        "const slider = document.querySelector('{}'); slider.value = {layers}; slider.dispatchEvent(new Event('input', \
         {{ bubbles: true }}))",
        id("layers")
    );
    window.session.script(&script).expect("the slider moves");
}

/// Clicks a button on the card of this device.
fn click_on(window: &Window, device: &str, name: &str) {
    let css = format!("[data-testid=\"device-row\"][data-id=\"{device}\"] {}", id(name));
    window.session.click(&window.session.one(&css));
}

fn until_text(window: &Window, name: &str, text: &str) {
    window.session.until(PATIENCE, &format!("{name} says {text:?}"), || {
        window.text_of(name).contains(text).then_some(())
    });
}

/// The enabled button that measures: a model is loaded.
const MEASURE: &str = "[data-testid=\"measure\"]:not([disabled])";

fn until_loaded(window: &Window) {
    window.session.until(PATIENCE, "a model is loaded", || {
        (!window.session.all(MEASURE).is_empty()).then_some(())
    });
}

/// Scrolls to a part of the page.
fn show(window: &Window, name: &str) {
    let scroll = format!(
        "document.querySelector('{}').scrollIntoView({{ block: 'center' }})",
        id(name)
    );
    window.session.script(&scroll).expect("the page scrolls");
}

#[test]
fn layers_are_planned_placed_and_measured_in_the_window() {
    if driver::is_disabled() {
        return;
    }
    driver::select();
    let desk = Desktop::new();
    let window = desk.open();
    window.send("What is the capital of France?");
    window.until_ended(1);

    window.open_settings("models");
    window.session.one(&id("plan-verdict"));
    assert!(
        window.session.all(&id("layers")).is_empty(),
        "a software GPU was selected automatically"
    );
    window.open_settings("hardware");
    window.session.one(&id("device-row"));
    window.screenshot("settings-software");
    click_on(&window, "gpu0", "use-for-chat");
    window.open_settings("models");
    window.session.one(&id("layers"));
    until_loaded(&window);
    for layers in [5, 2, 1] {
        slide(&window, layers);
        until_text(&window, "layers-value", &format!("{layers} of 31 layers"));
        window.session.until(PATIENCE, "the plan follows", || {
            let devices = window.session.all(&id("plan-device"));
            (devices.len() == 2).then_some(())
        });
    }
    show(&window, "load-plan");
    window.screenshot("settings-slider");
    window.click("reload-model");
    until_loaded(&window);
    // A reload cancels a measurement, which is then requested again.
    window.session.until(Duration::from_secs(180), "it is measured", || {
        if let [measure] = &*window.session.all(MEASURE) {
            let _ = window.session.try_click(measure);
        }
        (!window.session.all(&id("measurements")).is_empty()).then_some(())
    });
    show(&window, "measurements");
    window.screenshot("settings-measured");
    let measured = worker(desk.data.path()).expect("a worker has measured");

    // The conversation continues in the worker that was measured.
    window.click("view-chat");
    assert_ne!(window.answer_words(), "");
    window.send("And of Italy?");
    window.until_ended(2);
    assert_eq!(worker(desk.data.path()), Some(measured));
}
