//! A virtual screen, and a WebDriver on it.

use crate::paths;
use crate::wait::{self, PATIENCE};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time for a child process to exit before it is killed.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// A child process that is ended on drop.
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // SIGTERM, so that a driver ends its children. It may have exited already.
        let _ = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .stderr(Stdio::null())
            .status();
        if wait::poll(EXIT_LIMIT, || self.0.try_wait().ok().flatten()).is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Environment variables of the user's folders. Web views store the data of pages there, by the
/// name of the program, so concurrent windows would share it.
const HOME_FOLDERS: [&str; 4] = ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// An Xvfb server, and the folders of its user.
pub struct Screen {
    /// Value of DISPLAY.
    pub display: String,
    _server: ChildGuard,
    home: tempfile::TempDir,
}

impl Screen {
    /// Starts a server on a free display.
    ///
    /// # Panics
    /// Panics if Xvfb cannot be started.
    pub fn start() -> Self {
        let mut server = Command::new(paths::tool("Xvfb"))
            .args(["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"])
            // A server that resets when its last window closes refuses the next one meanwhile.
            .arg("-noreset")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb starts");
        let mut number = String::new();
        let output = server.stdout.take().expect("its output is piped");
        let server = ChildGuard(server);
        BufReader::new(output)
            .read_line(&mut number)
            .expect("Xvfb names its display");
        assert!(!number.trim().is_empty(), "Xvfb found no free display");
        Self {
            display: format!(":{}", number.trim()),
            _server: server,
            home: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// A command that shows its windows here, with the data folder `data`.
    pub fn command(&self, program: &Path, data: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("DISPLAY", &self.display)
            .env("HEARTH_DATA", data)
            .env("HEARTH_MODELS", paths::models())
            .env("HEARTH_DATASETS", paths::root().join("assets/datasets"))
            // No GPU and no desktop session: looking for them takes up to a minute.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .env("GSETTINGS_BACKEND", "memory")
            .env_remove("WAYLAND_DISPLAY")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("WEBKIT_DISABLE_DMABUF_RENDERER", "1")
            .env("NO_AT_BRIDGE", "1")
            .envs(HOME_FOLDERS.map(|name| (name, self.home.path().join(name))));
        command
    }
}

/// A running WebDriver.
pub struct Driver {
    /// Its address.
    pub address: String,
    _process: ChildGuard,
}

impl Driver {
    /// Starts `tauri-driver` on a screen; its windows have the data folder `data` and these
    /// environment variables.
    ///
    /// # Panics
    /// Panics if it does not respond in time.
    pub fn start(screen: &Screen, data: &Path, variables: &[(&str, &OsStr)]) -> Self {
        let (port, native) = (free_port(), free_port());
        let process = screen
            .command(&paths::tool("tauri-driver"), data)
            .envs(variables.iter().copied())
            .args(["--port", &port.to_string(), "--native-port", &native.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("tauri-driver starts");
        let process = ChildGuard(process);
        wait::until(PATIENCE, "tauri-driver responds", || {
            let [native, driver] = [native, port].map(|port| TcpStream::connect(("127.0.0.1", port)));
            native.and(driver).ok()
        });
        Self {
            address: format!("http://127.0.0.1:{port}"),
            _process: process,
        }
    }
}

/// A free port.
fn free_port() -> u16 {
    let socket = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    socket.local_addr().expect("a socket has an address").port()
}

/// Waits for the first line of a program's stderr that contains `text`.
///
/// # Panics
/// Panics if the program exits without one.
pub fn first_line_with(child: &mut Child, text: &str) -> String {
    let stderr = BufReader::new(child.stderr.take().expect("its stderr is piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    lines
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("it exited without printing {text:?}"))
}
