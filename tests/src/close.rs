//! Closing a window like a window manager: `WM_DELETE_WINDOW`
//! (<https://www.x.org/releases/current/doc/xorg-docs/icccm/icccm.html>, 4.2.8.1).

use crate::drag::{Outcome, largest};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ClientMessageEvent, ConnectionExt, EventMask};
use x11rb::rust_connection::RustConnection;
use x11rb::{CURRENT_TIME, atom_manager};

atom_manager! {
    Atoms: AtomsCookie {
        XdndAware,
        WM_PROTOCOLS,
        WM_DELETE_WINDOW,
    }
}

/// Requests the largest window that accepts drops on a display to close.
///
/// # Errors
/// There is no such window.
pub fn close_window(display: &str) -> Outcome<()> {
    let (connection, screen) = RustConnection::connect(Some(display))?;
    let root = connection.setup().roots[screen].root;
    let atoms = Atoms::new(&connection)?.reply()?;
    let (window, _) = largest(&connection, root, atoms.XdndAware)?.ok_or("there is no window")?;
    let data = [atoms.WM_DELETE_WINDOW, CURRENT_TIME, 0, 0, 0];
    let message = ClientMessageEvent::new(32, window, atoms.WM_PROTOCOLS, data);
    connection.send_event(false, window, EventMask::NO_EVENT, message)?;
    // The server may drop requests of a disconnected client: the reply to a later request confirms
    // this one.
    connection.get_input_focus()?.reply()?;
    Ok(())
}

/// Whether a display shows a window that accepts drops.
///
/// # Errors
/// The display does not answer.
pub fn shows_window(display: &str) -> Outcome<bool> {
    let (connection, screen) = RustConnection::connect(Some(display))?;
    let root = connection.setup().roots[screen].root;
    let atoms = Atoms::new(&connection)?.reply()?;
    Ok(largest(&connection, root, atoms.XdndAware)?.is_some())
}
