//! A screen in memory, and the driver that works on it.

use crate::place;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child process that ends with the test.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Asked, not killed: a driver ends what it started. It may have ended by itself.
        let _ = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .stderr(Stdio::null())
            .status();
        for _ in 0..100 {
            if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An Xvfb of its own.
pub struct Screen {
    /// What DISPLAY must be.
    pub display: String,
    _server: Ending,
}

impl Screen {
    /// Starts one on a free display.
    ///
    /// # Panics
    /// When Xvfb cannot be started.
    pub fn start() -> Self {
        let mut server = Command::new(place::tool("Xvfb"))
            .args(["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb starts");
        let mut number = String::new();
        let output = server.stdout.take().expect("its output is piped");
        let server = Ending(server);
        BufReader::new(output)
            .read_line(&mut number)
            .expect("Xvfb names its display");
        assert!(!number.trim().is_empty(), "Xvfb found no free display");
        Self {
            display: format!(":{}", number.trim()),
            _server: server,
        }
    }

    /// A program that shows itself here, with its data in `data`.
    pub fn command(&self, program: &Path, data: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("DISPLAY", &self.display)
            .env("HEARTH_DATA", data)
            .env("HEARTH_MODELS", place::models())
            .env("HEARTH_DATASETS", place::root().join("assets/datasets"))
            // No GPU and no desktop around it: what would look for them only waits, up to a minute.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .env("GSETTINGS_BACKEND", "memory")
            .env_remove("WAYLAND_DISPLAY")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("WEBKIT_DISABLE_DMABUF_RENDERER", "1")
            .env("NO_AT_BRIDGE", "1");
        command
    }
}

/// A running WebDriver.
pub struct Driver {
    /// Its address.
    pub address: String,
    _process: Ending,
}

impl Driver {
    /// Starts `tauri-driver` on a screen; the windows it opens have their data in `data`.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub fn start(screen: &Screen, data: &Path) -> Self {
        let (port, native) = (free_port(), free_port());
        let process = screen
            .command(&place::tool("tauri-driver"), data)
            .args(["--port", &port.to_string(), "--native-port", &native.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("tauri-driver starts");
        let process = Ending(process);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", native)).is_err() || TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "tauri-driver does not answer"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            address: format!("http://127.0.0.1:{port}"),
            _process: process,
        }
    }
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let socket = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    socket.local_addr().expect("a socket has an address").port()
}

/// Waits for the first line on a program's stderr that has `text` in it, while it runs.
///
/// # Panics
/// When it ends without one.
pub fn first_line_with(child: &mut Child, text: &str) -> String {
    let said = BufReader::new(child.stderr.take().expect("its stderr is piped"));
    let mut lines = said.lines().map_while(Result::ok);
    lines
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("it ended and never said {text:?}"))
}
