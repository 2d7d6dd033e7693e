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

/// Path of the tree's root in the registry.
const ROOT: &str = "/org/a11y/atspi/accessible/root";

/// Names of the roles, by their numbers in AT-SPI. WebKit sends only the numbers.
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

/// Maximum depth of a tree; the window has far fewer levels.
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
    /// Attributes from ARIA: `live`, `posinset` and so on.
    pub attributes: Vec<(String, String)>,
    /// Levels below the root.
    pub depth: usize,
    /// Its address on the bus, which is unique.
    pub address: String,
}

impl Node {
    /// Whether the element has this state.
    pub fn is(&self, state: &str) -> bool {
        self.states.contains(&state)
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find_map(|(key, value)| (key == name).then_some(value.as_str()))
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

    /// The first element of [`ScreenReader::tree`] that satisfies `predicate`. Later elements are
    /// not read.
    fn first(&self, mut predicate: impl FnMut(&Node) -> bool) -> Outcome<Option<Node>> {
        let mut found = None;
        self.walk(&root()?, 0, false, &mut |element, depth| {
            found = self.node(element, depth).ok().filter(&mut predicate);
            found.is_some()
        });
        Ok(found)
    }

    /// The innermost element that has the focus. Of other elements only the states are read.
    pub fn focus(&self) -> Option<Node> {
        let mut innermost = None;
        self.walk(&root().ok()?, 0, false, &mut |element, depth| {
            if self.states(element).is_ok_and(|states| states.contains(&"focused")) {
                innermost = Some((element.clone(), depth));
            }
            false
        });
        let (element, depth) = innermost?;
        self.node(&element, depth).ok()
    }

    /// Visits an element and its descendants, parents before children, until `visit` returns
    /// `true`. Returns whether it did.
    fn walk(
        &self,
        element: &Reference,
        depth: usize,
        in_page: bool,
        visit: &mut dyn FnMut(&Reference, usize) -> bool,
    ) -> bool {
        if visit(element, depth) {
            return true;
        }
        if depth == MAX_DEPTH {
            return false;
        }
        let in_page = in_page || self.role(element).is_ok_and(|role| role == PAGE);
        let children = self.children(element, in_page);
        children.iter().any(|child| self.walk(child, depth + 1, in_page, visit))
    }

    fn children(&self, element: &Reference, in_page: bool) -> Vec<Reference> {
        let mut children: Vec<Reference> = self.call(element, ACCESSIBLE, "GetChildren", &()).unwrap_or_default();
        // A page is the child of a widget in another process. GTK's bridge returns it only by
        // index.
        if children.is_empty() && !in_page {
            children.extend(self.call(element, ACCESSIBLE, "GetChildAtIndex", &0i32).ok());
        }
        children
    }

    fn node(&self, element: &Reference, depth: usize) -> Outcome<Node> {
        let attributes: std::collections::HashMap<String, String> =
            self.call(element, ACCESSIBLE, "GetAttributes", &()).unwrap_or_default();
        // An element without text does not have the interface.
        let text: String = self.call(element, TEXT, "GetText", &(0i32, -1i32)).unwrap_or_default();
        Ok(Node {
            role: self.role(element)?,
            name: self.name(element).unwrap_or_default(),
            // An embedded element is an object replacement character.
            text: text.replace('\u{fffc}', ""),
            states: self.states(element)?,
            attributes: attributes.into_iter().collect(),
            depth,
            address: format!("{}{}", element.0, element.1),
        })
    }

    fn role(&self, element: &Reference) -> Outcome<&'static str> {
        let number: u32 = self.call(element, ACCESSIBLE, "GetRole", &())?;
        let role = ROLES.iter().find(|(role, _)| *role == number);
        Ok(role.map_or("other", |(_, name)| name))
    }

    fn states(&self, element: &Reference) -> Outcome<Vec<&'static str>> {
        let bits: Vec<u32> = self.call(element, ACCESSIBLE, "GetState", &())?;
        let has = |number: u32| {
            bits.get((number / 32) as usize)
                .is_some_and(|bits| bits >> (number % 32) & 1 == 1)
        };
        let states = STATES.iter().filter(|(number, _)| has(*number));
        Ok(states.map(|(_, name)| *name).collect())
    }

    fn name(&self, element: &Reference) -> Outcome<String> {
        let value: OwnedValue = self.call(element, "org.freedesktop.DBus.Properties", "Get", &(ACCESSIBLE, "Name"))?;
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

    /// Waits until an element satisfies `predicate`.
    ///
    /// # Panics
    /// Panics with `what` and the tree after a time limit.
    pub fn until(&self, what: &str, predicate: impl Fn(&Node) -> bool) -> Node {
        let element = wait::poll(PATIENCE, || self.first(&predicate).ok()?);
        element.unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}. The tree is:\n{}", self.drawn()))
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
