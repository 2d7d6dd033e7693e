//! The interface of a screen reader: the tree of roles, names and states on the bus of AT-SPI
//! (<https://gnome.pages.gitlab.gnome.org/at-spi2-core/devel-docs/>).

use crate::drag::Outcome;
use crate::paths;
use crate::screen::{ChildGuard, Screen};
use crate::wait::{self, PATIENCE};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use zbus::blocking::{Connection, connection};
use zbus::zvariant::{DynamicType, OwnedObjectPath, OwnedValue};

/// Interface of every element.
const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";

/// Interface of elements with text.
const TEXT: &str = "org.a11y.atspi.Text";

/// Path of the tree's root, which the registry has.
const ROOT: &str = "/org/a11y/atspi/accessible/root";

/// The roles that are named, by their numbers in AT-SPI. WebKit sends the numbers alone.
const ROLES: [(u32, &str); 22] = [
    (2, "alert"),
    (7, "check box"),
    (11, "combo box"),
    (16, "dialog"),
    (31, "list"),
    (32, "list item"),
    (37, "page tab"),
    (39, "panel"),
    (43, "push button"),
    (44, "radio button"),
    (54, "status bar"),
    (62, "toggle button"),
    (73, "paragraph"),
    (79, "entry"),
    (83, "heading"),
    (88, "link"),
    (95, "document web"),
    (98, "list box"),
    (101, "notification"),
    (109, "article"),
    (110, "landmark"),
    (111, "log"),
];

/// The role of a page, below which all elements are of one process.
const PAGE: &str = "document web";

/// Most levels of a tree that are read: far more than the window has.
const MAX_DEPTH: usize = 100;

/// The states that are read, by their numbers in AT-SPI.
const STATES: [(u32, &str); 8] = [
    (3, "busy"),
    (4, "checked"),
    (8, "enabled"),
    (10, "expanded"),
    (12, "focused"),
    (20, "pressed"),
    (23, "selected"),
    (25, "showing"),
];

/// A session bus for one screen, on which the bus of AT-SPI is started on demand.
pub struct SessionBus {
    /// Value of DBUS_SESSION_BUS_ADDRESS.
    pub address: String,
    _daemon: ChildGuard,
}

impl SessionBus {
    /// Starts a session bus.
    ///
    /// # Panics
    /// Panics if `dbus-daemon` cannot be started.
    pub fn start(screen: &Screen, data: &Path) -> Self {
        let mut daemon = Command::new(paths::tool("dbus-daemon"))
            .args(["--session", "--nofork", "--print-address=1"])
            .env("DISPLAY", &screen.display)
            .env("XDG_RUNTIME_DIR", data)
            .env_remove("AT_SPI_BUS_ADDRESS")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon starts");
        let mut address = String::new();
        let output = daemon.stdout.take().expect("its output is piped");
        let daemon = ChildGuard(daemon);
        BufReader::new(output)
            .read_line(&mut address)
            .expect("dbus-daemon prints its address");
        assert!(!address.trim().is_empty(), "dbus-daemon has no address");
        Self {
            address: address.trim().to_owned(),
            _daemon: daemon,
        }
    }
}

/// An element of the tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// Role, of those in `ROLES`, or `other`.
    pub role: &'static str,
    /// Name.
    pub name: String,
    /// Its own text, if it has any.
    pub text: String,
    /// States, of those in `STATES`.
    pub states: Vec<&'static str>,
    /// Attributes that come of ARIA: `live`, `posinset` and so on.
    pub attributes: Vec<(String, String)>,
    /// Levels below the root.
    pub depth: usize,
    /// Its address on the bus, which differs even between elements that read the same.
    pub address: String,
}

impl Node {
    /// Whether it has this state.
    pub fn is(&self, state: &str) -> bool {
        self.states.contains(&state)
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find_map(|(own, value)| (own == name).then_some(value.as_str()))
    }
}

/// A screen reader: a client of the bus of AT-SPI.
pub struct ScreenReader {
    bus: Connection,
}

impl ScreenReader {
    /// Connects to the bus of AT-SPI of a session.
    ///
    /// # Errors
    /// AT-SPI is not installed.
    pub fn connect(session: &SessionBus) -> Outcome<Self> {
        let session = connection::Builder::address(session.address.as_str())?.build()?;
        let reply = session.call_method(
            Some("org.a11y.Bus"),
            "/org/a11y/bus",
            Some("org.a11y.Bus"),
            "GetAddress",
            &(),
        )?;
        let address: String = reply.body().deserialize()?;
        // Applications build their trees only for a screen reader.
        let enabled = (
            "org.a11y.Status",
            "ScreenReaderEnabled",
            zbus::zvariant::Value::from(true),
        );
        session.call_method(
            Some("org.a11y.Bus"),
            "/org/a11y/bus",
            Some("org.freedesktop.DBus.Properties"),
            "Set",
            &enabled,
        )?;
        Ok(Self {
            bus: connection::Builder::address(address.as_str())?.build()?,
        })
    }

    /// All elements of all windows, each before its children.
    ///
    /// # Errors
    /// The registry does not answer.
    pub fn tree(&self) -> Outcome<Vec<Node>> {
        let mut nodes = Vec::new();
        self.first(|node| {
            nodes.push(node.clone());
            false
        })?;
        if nodes.is_empty() {
            return Err("the registry of AT-SPI does not answer".into());
        }
        Ok(nodes)
    }

    /// The first element of [`ScreenReader::tree`] that is as asked for; those after it are not
    /// read.
    fn first(&self, mut is_it: impl FnMut(&Node) -> bool) -> Outcome<Option<Node>> {
        let mut found = None;
        self.walk(&root()?, 0, false, &mut |at, depth| {
            found = self.node(at, depth).ok().filter(&mut is_it);
            found.is_some()
        });
        Ok(found)
    }

    /// The innermost element that has the focus. Of the others, no more is read.
    pub fn focus(&self) -> Option<Node> {
        let mut innermost = None;
        self.walk(&root().ok()?, 0, false, &mut |at, depth| {
            if self.states(at).is_ok_and(|states| states.contains(&"focused")) {
                innermost = Some((at.clone(), depth));
            }
            false
        });
        let (at, depth) = innermost?;
        self.node(&at, depth).ok()
    }

    /// Visits an element and what is below it, each before its children, until `visit` returns
    /// `true`. Returns whether it did.
    fn walk(
        &self,
        at: &Reference,
        depth: usize,
        in_page: bool,
        visit: &mut dyn FnMut(&Reference, usize) -> bool,
    ) -> bool {
        if visit(at, depth) {
            return true;
        }
        if depth == MAX_DEPTH {
            return false;
        }
        let in_page = in_page || self.role(at).is_ok_and(|role| role == PAGE);
        let children = self.children(at, in_page);
        children.iter().any(|child| self.walk(child, depth + 1, in_page, visit))
    }

    fn children(&self, at: &Reference, in_page: bool) -> Vec<Reference> {
        let mut children: Vec<Reference> = self.call(at, ACCESSIBLE, "GetChildren", &()).unwrap_or_default();
        // A page is the child of a widget in another process, which GTK's bridge tells only so.
        if children.is_empty() && !in_page {
            children.extend(self.call(at, ACCESSIBLE, "GetChildAtIndex", &0i32).ok());
        }
        children
    }

    fn node(&self, at: &Reference, depth: usize) -> Outcome<Node> {
        let attributes: std::collections::HashMap<String, String> =
            self.call(at, ACCESSIBLE, "GetAttributes", &()).unwrap_or_default();
        // An element without text does not have the interface.
        let text: String = self.call(at, TEXT, "GetText", &(0i32, -1i32)).unwrap_or_default();
        Ok(Node {
            role: self.role(at)?,
            name: self.name(at).unwrap_or_default(),
            // An embedded element is an object replacement character.
            text: text.replace('\u{fffc}', ""),
            states: self.states(at)?,
            attributes: attributes.into_iter().collect(),
            depth,
            address: format!("{}{}", at.0, at.1),
        })
    }

    fn role(&self, at: &Reference) -> Outcome<&'static str> {
        let number: u32 = self.call(at, ACCESSIBLE, "GetRole", &())?;
        let known = ROLES.iter().find(|(known, _)| *known == number);
        Ok(known.map_or("other", |(_, name)| name))
    }

    fn states(&self, at: &Reference) -> Outcome<Vec<&'static str>> {
        let bits: Vec<u32> = self.call(at, ACCESSIBLE, "GetState", &())?;
        let has = |number: u32| {
            bits.get((number / 32) as usize)
                .is_some_and(|bits| bits >> (number % 32) & 1 == 1)
        };
        let set = STATES.iter().filter(|(number, _)| has(*number));
        Ok(set.map(|(_, name)| *name).collect())
    }

    fn name(&self, at: &Reference) -> Outcome<String> {
        let value: OwnedValue = self.call(at, "org.freedesktop.DBus.Properties", "Get", &(ACCESSIBLE, "Name"))?;
        Ok(String::try_from(value)?)
    }

    fn call<T: for<'a> serde::Deserialize<'a> + zbus::zvariant::Type>(
        &self,
        (bus, path): &Reference,
        interface: &str,
        method: &str,
        arguments: &(impl serde::Serialize + DynamicType),
    ) -> Outcome<T> {
        let reply = self
            .bus
            .call_method(Some(bus.as_str()), path, Some(interface), method, arguments)?;
        Ok(reply.body().deserialize()?)
    }

    /// Waits until an element is as asked for.
    ///
    /// # Panics
    /// Panics with `what` and the tree after a time limit.
    pub fn until(&self, what: &str, is_it: impl Fn(&Node) -> bool) -> Node {
        let found = wait::poll(PATIENCE, || self.first(&is_it).ok()?);
        found.unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}. The tree is:\n{}", self.drawn()))
    }

    /// The tree as text.
    pub fn drawn(&self) -> String {
        let line = |node: &Node| {
            let Node {
                role,
                name,
                text,
                states,
                attributes,
                depth,
                address: _,
            } = node;
            format!(
                "{:1$}{role} {name:?} {text:?} {states:?} {attributes:?}\n",
                "",
                depth * 2
            )
        };
        self.tree().unwrap_or_default().iter().map(line).collect()
    }
}

/// The address of an element: its bus name and path.
type Reference = (String, OwnedObjectPath);

/// The address of the tree's root.
fn root() -> Outcome<Reference> {
    Ok(("org.a11y.atspi.Registry".to_owned(), OwnedObjectPath::try_from(ROOT)?))
}
