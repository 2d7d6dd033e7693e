//! The icon in the system's tray. Its menu lists the running tasks and opens a hidden window.
//!
//! On Linux it is a StatusNotifierItem on D-Bus
//! (<https://www.freedesktop.org/wiki/Specifications/StatusNotifierItem/>), through the feature
//! `ksni` of `tray-icon`: libappindicator, which Tauri would use, panics if it is missing.

use crate::{close, panel, window};
use hearth_app::wire::{TrayContent, TraySetting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use tauri::menu::{Menu, MenuEvent, MenuItem, PredefinedMenuItem};
use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Manager, Wry};

/// Id of the icon.
const ID: &str = "hearth";

/// Ids of the menu entries with an action.
const OPEN: &str = "open";
const QUIT: &str = "quit";

/// Most running tasks in the menu, so that it fits on the screen.
const MAX_LINES: usize = 8;

/// Most characters of an entry: names of models may be long.
const MAX_CHARACTERS: usize = 80;

/// The state of the tray, managed by Tauri.
#[derive(Default)]
pub struct Tray {
    shown: Mutex<Option<Shown>>,
    // The main thread reads the following without the lock.
    has_icon: AtomicBool,
    /// The user's setting: whether Hearth keeps running after the window is closed.
    keep_running: AtomicBool,
}

/// The icon and its menu.
struct Shown {
    icon: TrayIcon,
    entries: Entries,
}

/// The entries of the menu whose texts change.
struct Entries {
    open: MenuItem<Wry>,
    running: Vec<MenuItem<Wry>>,
    quit: MenuItem<Wry>,
}

impl Entries {
    fn new(app: &AppHandle, content: &TrayContent) -> tauri::Result<Self> {
        let running = lines(content).map(|line| MenuItem::new(app, label(line), false, None::<&str>));
        Ok(Self {
            open: MenuItem::with_id(app, OPEN, label(&content.open), true, None::<&str>)?,
            running: running.collect::<Result<_, _>>()?,
            quit: MenuItem::with_id(app, QUIT, label(&content.quit), true, None::<&str>)?,
        })
    }

    fn menu(&self, app: &AppHandle) -> tauri::Result<Menu<Wry>> {
        let menu = Menu::with_items(app, &[&self.open, &PredefinedMenuItem::separator(app)?])?;
        for line in &self.running {
            menu.append(line)?;
        }
        menu.append(&PredefinedMenuItem::separator(app)?)?;
        menu.append(&self.quit)?;
        Ok(menu)
    }

    /// Sets the texts of the entries, so that an open menu stays open. The number of lines must not
    /// change.
    fn set(&self, content: &TrayContent) -> tauri::Result<()> {
        self.open.set_text(label(&content.open))?;
        for (entry, line) in self.running.iter().zip(lines(content)) {
            entry.set_text(label(line))?;
        }
        self.quit.set_text(label(&content.quit))
    }
}

/// Sets the content of the icon's menu, or removes the icon. Returns whether the tray has the icon.
/// Shows a hidden window if its icon was removed.
///
/// Waits for the main thread, so it must not run there.
pub fn set(app: &AppHandle, content: Option<&TrayContent>) -> bool {
    let tray = app.state::<Tray>();
    let mut shown = tray.shown.lock().unwrap_or_else(PoisonError::into_inner);
    // The desktop may have no tray, such as GNOME without an extension, or no session bus.
    let content = content.filter(|_| panel::has_tray());
    let is_shown = content.is_some_and(|content| {
        show(app, &mut shown, content)
            .inspect_err(|error| tracing::info!(%error, "the tray has no icon"))
            .is_ok()
    });
    tray.has_icon.store(is_shown, Ordering::SeqCst);
    if !is_shown {
        remove(app, shown.take());
    }
    is_shown
}

/// Removes the icon on the main thread, as Tauri requires.
fn remove(app: &AppHandle, shown: Option<Shown>) {
    let Some(shown) = shown else { return };
    let (done, receiver) = mpsc::channel();
    let handle = app.clone();
    let scheduled = app.run_on_main_thread(move || {
        drop((shown, handle.remove_tray_by_id(ID)));
        if window::main(&handle).is_some_and(|window| !window.is_visible().unwrap_or(true)) {
            window::focus(&handle);
        }
        // The receiver is dropped if the app is closing.
        let _ = done.send(());
    });
    if scheduled.is_ok() {
        // The sender is dropped if the main thread has ended.
        let _ = receiver.recv();
    }
}

/// Applies the setting: whether closing the window hides it.
pub fn apply_setting(app: &AppHandle, setting: TraySetting) {
    let keep_running = setting == TraySetting::KeepRunning;
    app.state::<Tray>().keep_running.store(keep_running, Ordering::SeqCst);
}

/// Whether closing the window hides it. Requires an icon in the tray, which shows the window again.
pub fn keeps_running(app: &AppHandle) -> bool {
    let tray = app.state::<Tray>();
    tray.has_icon.load(Ordering::SeqCst) && tray.keep_running.load(Ordering::SeqCst)
}

/// Shows the icon with its menu, or updates it.
fn show(app: &AppHandle, shown: &mut Option<Shown>, content: &TrayContent) -> tauri::Result<()> {
    match shown {
        Some(shown) if shown.entries.running.len() == lines(content).count() => shown.entries.set(content)?,
        Some(shown) => {
            shown.entries = Entries::new(app, content)?;
            shown.icon.set_menu(Some(shown.entries.menu(app)?))?;
        }
        None => {
            let entries = Entries::new(app, content)?;
            let icon = add_icon(app, &entries.menu(app)?)?;
            *shown = Some(Shown { icon, entries });
        }
    }
    Ok(())
}

fn add_icon(app: &AppHandle, menu: &Menu<Wry>) -> tauri::Result<TrayIcon> {
    let mut builder = TrayIconBuilder::with_id(ID)
        .title(if cfg!(target_os = "macos") { "" } else { "Hearth" })
        .tooltip("Hearth")
        .menu(menu)
        // On macOS, a click opens the menu. Elsewhere it opens the window, and a right click the
        // menu.
        .show_menu_on_left_click(cfg!(target_os = "macos"))
        .on_tray_icon_event(on_icon_event);
    if let Some(icon) = app.default_window_icon() {
        builder = builder.icon(icon.clone());
    }
    builder.build(app)
}

/// Executes the action of a menu entry.
pub fn on_menu_event(app: &AppHandle, event: MenuEvent) {
    match event.id().as_ref() {
        OPEN => window::focus(app),
        QUIT => close::quit(app),
        _ => {}
    }
}

/// Opens the window on a left click, except on macOS.
fn on_icon_event(icon: &TrayIcon, event: TrayIconEvent) {
    let is_click = matches!(
        event,
        TrayIconEvent::Click {
            button: MouseButton::Left,
            button_state: MouseButtonState::Up,
            ..
        }
    );
    if is_click && !cfg!(target_os = "macos") {
        window::focus(icon.app_handle());
    }
}

/// The running tasks that the menu shows.
fn lines(content: &TrayContent) -> impl Iterator<Item = &str> {
    content.running.iter().take(MAX_LINES).map(String::as_str)
}

/// The label of an entry: a shortened text, in which `&` is escaped, since it marks an access key.
fn label(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_CHARACTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.replace('&', "&&")
}
