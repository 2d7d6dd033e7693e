//! The icon in the system's tray: what is running, and a way back to a hidden window.
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

/// Ids of the icon and of the entries of its menu that do something.
const ID: &str = "hearth";
const OPEN: &str = "open";
const QUIT: &str = "quit";

/// Most lines of what is running: the menu stays on the screen.
const MAX_LINES: usize = 8;

/// Most characters of an entry, as names of models have no limit.
const MAX_CHARACTERS: usize = 80;

/// The state of the tray, managed by Tauri.
#[derive(Default)]
pub struct Tray {
    shown: Mutex<Option<Shown>>,
    // The main thread reads these without the lock.
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

    /// Sets the texts, so that an open menu stays open. The content has as many lines as before.
    fn set(&self, content: &TrayContent) -> tauri::Result<()> {
        self.open.set_text(label(&content.open))?;
        for (entry, line) in self.running.iter().zip(lines(content)) {
            entry.set_text(label(line))?;
        }
        self.quit.set_text(label(&content.quit))
    }
}

/// Sets what the icon's menu shows, or removes the icon. Returns whether the tray has the icon. A
/// hidden window whose icon is gone is shown.
///
/// It waits for the main thread, so it must not run there.
pub fn set(app: &AppHandle, content: Option<&TrayContent>) -> bool {
    let tray = app.state::<Tray>();
    let mut shown = tray.shown.lock().unwrap_or_else(PoisonError::into_inner);
    // A desktop without a tray, such as GNOME without an extension, or no session bus.
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

/// Removes the icon on the main thread, the only one that may.
fn remove(app: &AppHandle, shown: Option<Shown>) {
    let Some(shown) = shown else { return };
    let (ended, end) = mpsc::channel();
    let main = app.clone();
    let started = app.run_on_main_thread(move || {
        drop((shown, main.remove_tray_by_id(ID)));
        if window::main(&main).is_some_and(|window| !window.is_visible().unwrap_or(true)) {
            window::focus(&main);
        }
        // The receiver is dropped if the app is closing.
        let _ = ended.send(());
    });
    if started.is_ok() {
        // The sender is dropped if the main thread has ended.
        let _ = end.recv();
    }
}

/// Remembers whether closing the window may hide it.
pub fn follow(app: &AppHandle, setting: TraySetting) {
    let keep_running = setting == TraySetting::KeepRunning;
    app.state::<Tray>().keep_running.store(keep_running, Ordering::SeqCst);
}

/// Whether closing the window hides it: the tray has an icon to bring it back.
pub fn keeps_running(app: &AppHandle) -> bool {
    let tray = app.state::<Tray>();
    tray.has_icon.load(Ordering::SeqCst) && tray.keep_running.load(Ordering::SeqCst)
}

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
        // On macOS, a click opens the menu; elsewhere the window, and the other button the menu.
        .show_menu_on_left_click(cfg!(target_os = "macos"))
        .on_tray_icon_event(clicked);
    if let Some(icon) = app.default_window_icon() {
        builder = builder.icon(icon.clone());
    }
    builder.build(app)
}

/// Does what an entry of the menu says.
pub fn chosen(app: &AppHandle, event: MenuEvent) {
    match event.id().as_ref() {
        OPEN => window::focus(app),
        QUIT => close::quit(app),
        _ => {}
    }
}

fn clicked(icon: &TrayIcon, event: TrayIconEvent) {
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

fn lines(content: &TrayContent) -> impl Iterator<Item = &str> {
    content.running.iter().take(MAX_LINES).map(String::as_str)
}

/// A text as an entry: short, and without keys, which a single `&` would mark.
fn label(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_CHARACTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.replace('&', "&&")
}
