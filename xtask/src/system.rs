//! System dependencies: installed automatically on Debian and its derivatives; elsewhere listed
//! with an install command.

use crate::paths::program;
use crate::process::{Outcome, announce, read, run};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The purpose of the set-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Building and running.
    Run,
    /// Running all tests.
    Test,
}

/// Debian packages for building and running.
const DEBIAN_RUN_PACKAGES: &[&str] = &[
    "build-essential",
    "pkg-config",
    "libwebkit2gtk-4.1-dev",
    "libgtk-3-dev",
    "librsvg2-dev",
    "libdbus-1-dev",
];

/// Additional Debian packages for tests: a virtual display, two browsers, a software Vulkan driver,
/// and the bus that a screen reader listens to.
const DEBIAN_TEST_PACKAGES: &[&str] = &[
    "xvfb",
    "webkit2gtk-driver",
    "chromium",
    "libvulkan1",
    "mesa-vulkan-drivers",
    "fonts-dejavu-core",
    "dbus",
    "at-spi2-core",
];

/// Programs that can run the web UI's tests, the preferred one first; `ui/scripts/browser.mjs` has
/// the same list.
const BROWSERS: &[&str] = &[
    HEADLESS_SHELL,
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Debian's package of Chromium's headless shell, and its program.
const HEADLESS_SHELL: &str = "chromium-headless-shell";

/// Minimum version of Node for the web UI's tools, major and minor.
const MIN_NODE: (u32, u32) = (20, 19);

/// Checks and installs system dependencies.
///
/// # Errors
/// Lists what is missing and how to install it, if it cannot be installed automatically.
pub fn provide(purpose: Purpose) -> Outcome {
    announce("Checking system dependencies");
    if cfg!(target_os = "linux") && program(&["apt-get"]).is_some() && program(&["dpkg-query"]).is_some() {
        debian(purpose)?;
    } else {
        other_systems(purpose)?;
    }
    node_and_python()
}

fn debian(purpose: Purpose) -> Outcome {
    let mut packages = DEBIAN_RUN_PACKAGES.to_vec();
    if purpose == Purpose::Test {
        packages.extend(DEBIAN_TEST_PACKAGES);
    }
    if read(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
        packages.extend(["python3", "python3-pip"]);
    }
    // Ubuntu's chromium package is a snap that WebDriver tests cannot use; any installed browser
    // will do.
    if browser().is_some() {
        packages.retain(|name| *name != "chromium");
    }
    // The browser without its own windows, which opens pages in less time; Debian alone has it.
    if purpose == Purpose::Test && env::var_os("CHROME").is_none() && available(HEADLESS_SHELL) {
        packages.push(HEADLESS_SHELL);
    }
    packages.retain(|name| !installed(name));
    if packages.is_empty() {
        println!("    all system packages are installed");
        return Ok(());
    }
    println!("    installing with apt-get: {}", packages.join(" "));
    run("Updating package lists", apt()?.arg("update"))?;
    run(
        "Installing system packages",
        apt()?
            .args(["install", "-y", "--no-install-recommends"])
            .args(&packages),
    )
}

fn installed(package: &str) -> bool {
    read(Command::new("dpkg-query").args(["-W", "-f=${Status}", package]))
        .is_some_and(|status| status == "install ok installed")
}

/// Whether the package lists have this package.
fn available(package: &str) -> bool {
    read(Command::new("apt-cache").args(["show", package])).is_some_and(|about| !about.is_empty())
}

fn apt() -> Outcome<Command> {
    let root = read(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    let mut command = if root {
        Command::new("env")
    } else if program(&["sudo"]).is_some() {
        let mut command = Command::new("sudo");
        command.arg("env");
        command
    } else {
        return Err(
            "System packages are missing, but you are not root and there is no `sudo`. \
             Install the packages listed above as root, then run this again."
                .to_owned(),
        );
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    Ok(command)
}

/// The browser of the web UI's tests: the one that `CHROME` names, or one on the path.
pub fn browser() -> Option<PathBuf> {
    let named = env::var_os("CHROME").map(PathBuf::from);
    named.or_else(|| program(BROWSERS))
}

/// Other systems: lists missing dependencies with an install command.
fn other_systems(purpose: Purpose) -> Outcome {
    let mut missing = Vec::new();
    if cfg!(target_os = "linux") {
        let has = |library: &str| read(Command::new("pkg-config").args(["--exists", library])).is_some();
        if program(&["cc", "gcc", "clang"]).is_none() || program(&["pkg-config"]).is_none() {
            missing.push("a C compiler and pkg-config");
        }
        if purpose == Purpose::Test && program(&["c++", "g++", "clang++"]).is_none() {
            missing.push("a C++ compiler");
        }
        for (library, name) in [
            ("webkit2gtk-4.1", "WebKitGTK 4.1 (development files)"),
            ("gtk+-3.0", "GTK 3 (development files)"),
            ("dbus-1", "D-Bus (development files)"),
        ] {
            if !has(library) {
                missing.push(name);
            }
        }
        if purpose == Purpose::Test {
            for (name, what) in [
                ("Xvfb", "Xvfb"),
                ("WebKitWebDriver", "WebKitWebDriver"),
                ("dbus-daemon", "dbus-daemon"),
            ] {
                if program(&[name]).is_none() {
                    missing.push(what);
                }
            }
        }
    }
    if cfg!(target_os = "macos") && read(Command::new("xcode-select").arg("-p")).is_none() {
        missing.push("the Xcode command line tools");
    }
    if purpose == Purpose::Test && !has_browser() {
        missing.push("Chromium or Chrome (or its path in CHROME)");
    }
    if missing.is_empty() {
        println!("    nothing is missing");
        return Ok(());
    }
    let command = if program(&["dnf"]).is_some() {
        "sudo dnf install gcc gcc-c++ pkgconf webkit2gtk4.1-devel gtk3-devel dbus-devel xorg-x11-server-Xvfb \
         webkit2gtk4.1 dbus-daemon at-spi2-core chromium"
    } else if program(&["pacman"]).is_some() {
        "sudo pacman -S --needed base-devel webkit2gtk-4.1 gtk3 dbus xorg-server-xvfb at-spi2-core chromium"
    } else if cfg!(target_os = "macos") {
        "xcode-select --install; brew install --cask chromium"
    } else if cfg!(windows) {
        "winget install Google.Chrome"
    } else {
        "your system's package manager"
    };
    Err(format!(
        "Missing: {}.\nInstall with: {command}\nThen run this again.",
        missing.join(", ")
    ))
}

/// Whether there is a browser on the path or in its default location.
fn has_browser() -> bool {
    const BROWSER_PATHS: &[&str] = &[
        "/Applications/Google Chrome.app",
        "/Applications/Chromium.app",
        "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
        "C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe",
    ];
    browser().is_some() || BROWSER_PATHS.iter().any(|paths| Path::new(paths).exists())
}

/// Checks Node and Python, which are not installed automatically.
fn node_and_python() -> Outcome {
    let node = read(Command::new("node").arg("--version")).unwrap_or_default();
    let mut parts = node
        .trim_start_matches('v')
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) >= MIN_NODE => {}
        (Some(_), _) => {
            return Err(format!(
                "Building the web UI requires Node 20.19 or newer; {node} is installed. See https://nodejs.org."
            ));
        }
        _ => {
            return Err(
                "Building the web UI requires Node 20.19 or newer, which is not installed. See https://nodejs.org."
                    .to_owned(),
            );
        }
    }
    if python().is_none() {
        return Err(
            "Fetching the default model requires Python 3, which is not installed. See https://python.org.".to_owned(),
        );
    }
    Ok(())
}

/// The command name of Python 3.
pub fn python() -> Option<&'static str> {
    ["python3", "python"]
        .into_iter()
        .find(|name| read(Command::new(name).arg("--version")).is_some_and(|version| version.starts_with("Python 3")))
}
