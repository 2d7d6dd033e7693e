//! A desktop's panel with a tray: the watcher of StatusNotifierItem
//! (<https://www.freedesktop.org/wiki/Specifications/StatusNotifierItem/>), and a reader of the
//! menus of its icons (`com.canonical.dbusmenu`).

use crate::drag::Outcome;
use crate::screen_reader::SessionBus;
use crate::wait::{self, PATIENCE};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use zbus::blocking::{Connection, connection};
use zbus::message::Header;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

/// Names of the watcher and of the menus' interface.
const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const MENU: &str = "com.canonical.dbusmenu";

/// Path and interface of an icon.
const ICON_PATH: &str = "/StatusNotifierItem";
const ICON: &str = "org.kde.StatusNotifierItem";

/// Bus names of the registered icons.
type Icons = Arc<Mutex<Vec<String>>>;

struct Watcher(Icons);

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, _service: &str, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().map(ToString::to_string);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(sender);
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// An entry of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    id: i32,
    /// Its text, without marks of keys.
    pub text: String,
    /// Whether the entry can be chosen.
    pub enabled: bool,
}

/// A panel, whose tray shows one icon.
pub struct Panel {
    bus: Connection,
    icons: Icons,
}

impl Panel {
    /// Adds a tray to a session.
    ///
    /// # Errors
    /// The session has one already.
    pub fn start(session: &SessionBus) -> Outcome<Self> {
        let icons = Icons::default();
        let bus = connection::Builder::address(session.address.as_str())?
            .serve_at("/StatusNotifierWatcher", Watcher(icons.clone()))?
            .name(WATCHER)?
            .build()?;
        Ok(Self { bus, icons })
    }

    /// Bus name of the icon that was added last, if its program still runs.
    pub fn icon(&self) -> Option<String> {
        let icon = self
            .icons
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last()?
            .clone();
        let owner = self.bus.call_method(
            Some("org.freedesktop.DBus"),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus"),
            "NameHasOwner",
            &(&icon,),
        );
        owner.ok()?.body().deserialize::<bool>().ok()?.then_some(icon)
    }

    /// Waits until the menu of the icon has an entry whose text contains `text`.
    ///
    /// # Panics
    /// Panics after a time limit.
    pub fn until(&self, text: &str) -> Entry {
        let mut last_menu = String::new();
        let entry = wait::poll(PATIENCE, || {
            let menu = self.menu();
            last_menu = format!("{menu:?}");
            menu.ok()?.into_iter().find(|entry| entry.text.contains(text))
        });
        entry.unwrap_or_else(|| panic!("no entry contains {text:?}: {last_menu}"))
    }

    /// Chooses an entry.
    ///
    /// # Errors
    /// The icon's program does not answer.
    pub fn choose(&self, entry: &Entry) -> Outcome<()> {
        let event = (entry.id, "clicked", Value::from(0_i32), 0_u32);
        self.call(MENU, &self.menu_path()?, "Event", &event)?;
        Ok(())
    }

    /// Clicks the icon.
    ///
    /// # Errors
    /// The icon's program does not answer.
    pub fn click(&self) -> Outcome<()> {
        self.call(ICON, ICON_PATH, "Activate", &(0_i32, 0_i32))?;
        Ok(())
    }

    /// The icon's picture as width, height and bytes of ARGB.
    ///
    /// # Errors
    /// The icon's program does not answer.
    pub fn pictures(&self) -> Outcome<Vec<(i32, i32, Vec<u8>)>> {
        Ok(self.property("IconPixmap")?.try_into()?)
    }

    fn menu(&self) -> Outcome<Vec<Entry>> {
        type Layout = (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>);
        let arguments = (0_i32, -1_i32, Vec::<&str>::new());
        let reply = self.call(MENU, &self.menu_path()?, "GetLayout", &arguments)?;
        let (_revision, root): (u32, Layout) = reply.body().deserialize()?;
        let mut entries = Vec::new();
        for child in root.2 {
            let (id, mut properties, _): Layout = child.try_into()?;
            if let Some(text) = properties.remove("label") {
                // Enabled by default.
                let enabled = properties.remove("enabled").map(bool::try_from).transpose()?;
                entries.push(Entry {
                    id,
                    text: without_keys(&String::try_from(text)?),
                    enabled: enabled.unwrap_or(true),
                });
            }
        }
        Ok(entries)
    }

    fn menu_path(&self) -> Outcome<String> {
        let path: OwnedObjectPath = self.property("Menu")?.try_into()?;
        Ok(path.to_string())
    }

    fn property(&self, name: &str) -> Outcome<OwnedValue> {
        let reply = self.call("org.freedesktop.DBus.Properties", ICON_PATH, "Get", &(ICON, name))?;
        Ok(reply.body().deserialize()?)
    }

    fn call<T: serde::Serialize + zbus::zvariant::DynamicType>(
        &self,
        interface: &str,
        path: &str,
        method: &str,
        arguments: &T,
    ) -> Outcome<zbus::Message> {
        let icon = self.icon().ok_or("the tray has no icon")?;
        Ok(self
            .bus
            .call_method(Some(icon.as_str()), path, Some(interface), method, arguments)?)
    }
}

/// A label without its marks of keys: a single `_` marks the next character, two are one.
fn without_keys(label: &str) -> String {
    let parts: Vec<String> = label.split("__").map(|part| part.replace('_', "")).collect();
    parts.join("_")
}
