//! A keyboard: keys that the X server sends as if they were pressed (the XTEST extension), to
//! whatever has the focus.

use crate::drag::{Outcome, largest};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, Keycode, Keysym};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::{CURRENT_TIME, atom_manager};

atom_manager! {
    Atoms: AtomsCookie {
        XdndAware,
    }
}

/// Keys that are not characters, by the names of the UI's shortcuts, and their keysyms.
const NAMED: [(&str, Keysym); 12] = [
    ("Escape", 0xff1b),
    ("Enter", 0xff0d),
    ("Tab", 0xff09),
    ("Delete", 0xffff),
    ("Up", 0xff52),
    ("Down", 0xff54),
    ("Left", 0xff51),
    ("Right", 0xff53),
    ("Home", 0xff50),
    ("F2", 0xffbf),
    ("Ctrl", 0xffe3),
    ("Shift", 0xffe1),
];

/// Column of a keysym with Shift.
const SHIFTED: usize = 1;

/// The keyboard of a display.
pub struct Keyboard {
    connection: RustConnection,
    root: u32,
    /// The keysyms of each keycode: plain, and with Shift.
    keysyms: Vec<(Keycode, [Keysym; 2])>,
}

impl Keyboard {
    /// The keyboard of a display.
    ///
    /// # Errors
    /// The display has none.
    pub fn new(display: &str) -> Outcome<Self> {
        let (connection, screen) = RustConnection::connect(Some(display))?;
        let setup = connection.setup();
        let (root, first) = (setup.roots[screen].root, setup.min_keycode);
        let count = setup.max_keycode - first + 1;
        let mapping = connection.get_keyboard_mapping(first, count)?.reply()?;
        let per_code = usize::from(mapping.keysyms_per_keycode);
        let pair = |keysyms: &[Keysym]| [0, SHIFTED].map(|column| keysyms.get(column).copied().unwrap_or(0));
        let keysyms = mapping.keysyms.chunks(per_code).map(pair);
        let keysyms = (first..=setup.max_keycode).zip(keysyms).collect();
        Ok(Self {
            connection,
            root,
            keysyms,
        })
    }

    /// Gives the focus to the largest window, as a window manager does.
    ///
    /// # Errors
    /// There is no window.
    pub fn focus(&self) -> Outcome<()> {
        let atoms = Atoms::new(&self.connection)?.reply()?;
        let (window, _) = largest(&self.connection, self.root, atoms.XdndAware)?.ok_or("there is no window")?;
        self.connection
            .set_input_focus(InputFocus::PARENT, window, CURRENT_TIME)?;
        self.sync()
    }

    /// Presses keys together and releases them: `Ctrl+Shift+f`, `Enter`.
    ///
    /// # Errors
    /// The keyboard has no such key.
    pub fn press(&self, keys: &str) -> Outcome<()> {
        let codes: Vec<Keycode> = keys
            .split('+')
            .map(|name| Ok(self.code(keysym(name)?)?.0))
            .collect::<Outcome<_>>()?;
        for code in &codes {
            self.send(KEY_PRESS_EVENT, *code)?;
        }
        for code in codes.iter().rev() {
            self.send(KEY_RELEASE_EVENT, *code)?;
        }
        self.sync()
    }

    /// Types a text of ASCII characters.
    ///
    /// # Errors
    /// The keyboard has no such key.
    pub fn write(&self, text: &str) -> Outcome<()> {
        let (shift, _) = self.code(keysym("Shift")?)?;
        for character in text.chars() {
            let (code, shifted) = self.code(Keysym::from(character))?;
            if shifted {
                self.send(KEY_PRESS_EVENT, shift)?;
            }
            self.send(KEY_PRESS_EVENT, code)?;
            self.send(KEY_RELEASE_EVENT, code)?;
            if shifted {
                self.send(KEY_RELEASE_EVENT, shift)?;
            }
        }
        self.sync()
    }

    /// The keycode of a keysym, and whether it needs Shift.
    fn code(&self, keysym: Keysym) -> Outcome<(Keycode, bool)> {
        let key = self.keysyms.iter().find_map(|(code, keysyms)| {
            keysyms
                .iter()
                .position(|candidate| *candidate == keysym)
                .map(|column| (*code, column == SHIFTED))
        });
        key.ok_or_else(|| format!("the keyboard has no key {keysym:#x}").into())
    }

    fn send(&self, event: u8, code: Keycode) -> Outcome<()> {
        self.connection
            .xtest_fake_input(event, code, CURRENT_TIME, self.root, 0, 0, 0)?;
        Ok(())
    }

    /// Waits until the server has handled all requests.
    fn sync(&self) -> Outcome<()> {
        self.connection.get_input_focus()?.reply()?;
        Ok(())
    }
}

/// The keysym of a key: a name, or an ASCII character, whose code it is.
fn keysym(name: &str) -> Outcome<Keysym> {
    let named = NAMED
        .iter()
        .find(|(key_name, _)| *key_name == name)
        .map(|(_, keysym)| *keysym);
    let mut characters = name.chars();
    let character = characters
        .next()
        .filter(|character| character.is_ascii_graphic() && characters.next().is_none());
    named
        .or(character.map(Keysym::from))
        .ok_or_else(|| format!("no key is called {name:?}").into())
}
