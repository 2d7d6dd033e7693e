//! The icon in the tray of a desktop: what runs, a way back to the window that was closed, an end.
//!
//! The test provides the panel, on a separate bus. The worker is scripted (`scripted.rs`).

use hearth_tests::close::{close_window, shows_window};
use hearth_tests::panel::Panel;
use hearth_tests::scripted::Scripted;
use hearth_tests::wait::{self, PATIENCE};
use hearth_tests::window::{Desktop, Window};

const IDLE: &str = "Nothing is running";

/// Long enough to be seen in the menu.
const LONG: &str = "count 20000";

/// Shortens the time after which the window looks for a tray again, which is half a minute.
const LOOK_AGAIN_SOON: &str = "const later = window.setTimeout; window.setTimeout = (work, delay, ...rest) => \
                               later(work, delay === 30000 ? 300 : delay, ...rest);";

fn choose(window: &Window, setting: &str) {
    window.open_settings("general");
    window.choose("tray", setting);
}

fn until_shown(desk: &Desktop, shown: bool) {
    let what = format!("the window is {}", if shown { "shown" } else { "hidden" });
    wait::until(PATIENCE, &what, || {
        (shows_window(&desk.screen.display).ok()? == shown).then_some(())
    });
}

#[test]
fn the_tray_says_what_runs_and_brings_the_window_back() {
    let scripted = Scripted::new();
    let (desk, bus) = Desktop::with_bus(&scripted.variables());
    let panel = Panel::start(&bus).expect("a panel");
    let window = desk.open();
    assert!(!panel.until(IDLE).enabled);
    let pictures = panel.pictures().expect("a picture");
    assert!(pictures.iter().any(|(width, height, argb)| {
        *width > 0 && argb.len() == (4 * width * height) as usize && argb.iter().any(|byte| *byte != argb[0])
    }));

    window.send(LONG);
    panel.until("One conversation is being answered");
    window.click("stop");
    panel.until(IDLE);

    choose(&window, "keepRunning");
    close_window(&desk.screen.display).expect("the window is closed");
    until_shown(&desk, false);
    panel.choose(&panel.until("Show window")).expect("an entry");
    until_shown(&desk, true);
    close_window(&desk.screen.display).expect("the window is closed");
    until_shown(&desk, false);
    panel.click().expect("a click");
    until_shown(&desk, true);

    close_window(&desk.screen.display).expect("the window is closed");
    until_shown(&desk, false);
    panel.choose(&panel.until("Quit Hearth")).expect("an entry");
    wait::until(PATIENCE, "the program ends", || panel.icon().is_none().then_some(()));
}

#[test]
fn the_icon_comes_with_the_panel_and_goes_with_the_setting() {
    let scripted = Scripted::new();
    let (desk, bus) = Desktop::with_bus(&scripted.variables());
    let window = desk.open();
    window.session.script(LOOK_AGAIN_SOON).expect("a script");
    // The window looks for a tray immediately when the setting changes to one with an icon.
    choose(&window, "off");
    choose(&window, "keepRunning");
    window.until_shows("This desktop has no tray");
    let panel = Panel::start(&bus).expect("a panel");
    panel.until(IDLE);
    choose(&window, "off");
    wait::until(PATIENCE, "the icon is gone", || panel.icon().is_none().then_some(()));
    close_window(&desk.screen.display).expect("the window is closed");
    until_shown(&desk, false);
    let driver_ends = || window.session.script("return 1").is_err().then_some(());
    wait::until(PATIENCE, "the program ends", driver_ends);
}
