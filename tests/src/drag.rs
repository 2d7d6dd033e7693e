//! Dragging files onto a window like a file manager: the XDND protocol, version 5
//! (<https://www.freedesktop.org/wiki/Specifications/XDND/>).

use crate::wait::{self, PATIENCE};
use std::error::Error;
use std::path::Path;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ClientMessageEvent, ConnectionExt, CreateWindowAux, EventMask, MapState, PropMode,
    SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{CURRENT_TIME, atom_manager};

atom_manager! {
    Atoms: AtomsCookie {
        XdndAware,
        XdndEnter,
        XdndPosition,
        XdndStatus,
        XdndDrop,
        XdndFinished,
        XdndSelection,
        XdndActionCopy,
        TARGETS,
        URIS: b"text/uri-list",
    }
}

const VERSION: u32 = 5;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Drags and drops a file onto the largest window of a display.
///
/// # Errors
/// No window accepts drops, or it rejects this one.
pub fn drop_file(display: &str, file: &Path) -> Outcome<()> {
    let (connection, screen) = RustConnection::connect(Some(display))?;
    let root = connection.setup().roots[screen].root;
    let atoms = Atoms::new(&connection)?.reply()?;
    let source = connection.generate_id()?;
    let aux = CreateWindowAux::new();
    connection.create_window(0, source, root, 0, 0, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &aux)?;
    connection.set_selection_owner(source, atoms.XdndSelection, CURRENT_TIME)?;
    let (target, middle) = largest(&connection, root, atoms.XdndAware)?.ok_or("no window takes drops")?;
    let drag = Drag {
        connection,
        atoms,
        source,
        target,
        uri: format!("file://{}\r\n", file.display()),
    };
    drag.send(drag.atoms.XdndEnter, [VERSION << 24, drag.atoms.URIS, 0, 0])?;
    // The page handles the drag before the drop, so the drag waits until the window accepts it.
    let accepted = wait::poll(PATIENCE, || {
        drag.is_accepted(middle)
            .map_or_else(|error| Some(Err(error)), |accepted| accepted.then_some(Ok(())))
    });
    accepted.ok_or("the window does not accept the file")??;
    drag.send(drag.atoms.XdndDrop, [0, CURRENT_TIME, 0, 0])?;
    match drag.reply(drag.atoms.XdndFinished)? {
        [_, flags, ..] if flags & 1 == 1 => Ok(()),
        _ => Err("the window did not take the file".into()),
    }
}

/// The largest window on the screen that accepts drops, and its center in the protocol's encoding.
pub(crate) fn largest(connection: &RustConnection, root: Window, aware: Atom) -> Outcome<Option<(Window, u32)>> {
    let mut best: Option<(u32, Window, u32)> = None;
    for window in connection.query_tree(root)?.reply()?.children {
        let is_shown = connection.get_window_attributes(window)?.reply()?.map_state == MapState::VIEWABLE;
        let property = connection.get_property(false, window, aware, AtomEnum::ANY, 0, 1)?;
        if !is_shown || property.reply()?.value_len == 0 {
            continue;
        }
        let geometry = connection.get_geometry(window)?.reply()?;
        let area = u32::from(geometry.width) * u32::from(geometry.height);
        let [x, y] = [(geometry.x, geometry.width), (geometry.y, geometry.height)]
            .map(|(start, size)| u32::from(start.max(0).unsigned_abs() + size / 2));
        if best.is_none_or(|(largest, ..)| area > largest) {
            best = Some((area, window, x << 16 | y));
        }
    }
    Ok(best.map(|(_, window, middle)| (window, middle)))
}

struct Drag {
    connection: RustConnection,
    atoms: Atoms,
    source: Window,
    target: Window,
    uri: String,
}

impl Drag {
    /// Sends a client message to the window.
    fn send(&self, kind: Atom, [a, b, c, d]: [u32; 4]) -> Outcome<()> {
        let message = ClientMessageEvent::new(32, self.target, kind, [self.source, a, b, c, d]);
        self.connection
            .send_event(false, self.target, EventMask::NO_EVENT, message)?;
        self.connection.flush()?;
        Ok(())
    }

    /// Whether the window accepts the file at this position.
    fn is_accepted(&self, position: u32) -> Outcome<bool> {
        let copy = self.atoms.XdndActionCopy;
        self.send(self.atoms.XdndPosition, [0, position, CURRENT_TIME, copy])?;
        Ok(self.reply(self.atoms.XdndStatus)?[1] & 1 == 1)
    }

    /// Waits for the window's client message, serving its requests for the file.
    fn reply(&self, kind: Atom) -> Outcome<[u32; 5]> {
        let reply = wait::poll(PATIENCE, || self.next_reply(kind).transpose());
        reply.ok_or("the window does not reply")?
    }

    /// The window's client message, if it has arrived.
    fn next_reply(&self, kind: Atom) -> Outcome<Option<[u32; 5]>> {
        while let Some(event) = self.connection.poll_for_event()? {
            match event {
                Event::ClientMessage(message) if message.type_ == kind => return Ok(Some(message.data.as_data32())),
                Event::SelectionRequest(request) => self.serve(&request)?,
                _ => {}
            }
        }
        Ok(None)
    }

    fn serve(&self, request: &SelectionRequestEvent) -> Outcome<()> {
        let (window, property) = (request.requestor, request.property);
        if request.target == self.atoms.TARGETS {
            let targets = [self.atoms.TARGETS, self.atoms.URIS];
            self.connection
                .change_property32(PropMode::REPLACE, window, property, AtomEnum::ATOM, &targets)?;
        } else {
            self.connection.change_property8(
                PropMode::REPLACE,
                window,
                property,
                self.atoms.URIS,
                self.uri.as_bytes(),
            )?;
        }
        let notification = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: request.property,
        };
        self.connection
            .send_event(false, request.requestor, EventMask::NO_EVENT, notification)?;
        self.connection.flush()?;
        Ok(())
    }
}
