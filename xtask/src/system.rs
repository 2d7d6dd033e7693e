//! What the system must have: installed by itself on Debian and its kin, named with a command anywhere else.

use crate::place::program;
use crate::process::{Outcome, announce, read, run};
use crate::setup::For;
use std::path::Path;
use std::process::Command;

/// Debian's packages for building and opening the window.
const DEBIAN_RUN: &[&str] = &[
    "build-essential",
    "pkg-config",
    "libwebkit2gtk-4.1-dev",
    "libgtk-3-dev",
    "librsvg2-dev",
    "libdbus-1-dev",
];

/// What tests need beside them: a screen that is not there, two browsers to drive, and a Vulkan driver in software.
const DEBIAN_TEST: &[&str] = &[
    "xvfb",
    "webkit2gtk-driver",
    "chromium",
    "libvulkan1",
    "mesa-vulkan-drivers",
    "fonts-dejavu-core",
];

/// The oldest Node, major and minor, that the page's tools run on.
const NODE: (u32, u32) = (20, 19);

/// Sees to it that the system has what is needed.
///
/// # Errors
/// Names what is missing, and how to get it, where it cannot be installed from here.
pub fn provide(purpose: For) -> Outcome {
    announce("Checking what the system has");
    if cfg!(target_os = "linux") && program(&["apt-get"]).is_some() && program(&["dpkg-query"]).is_some() {
        debian(purpose)?;
    } else {
        elsewhere(purpose)?;
    }
    languages()
}

fn debian(purpose: For) -> Outcome {
    let mut wanted = DEBIAN_RUN.to_vec();
    if purpose == For::Test {
        wanted.extend(DEBIAN_TEST);
    }
    if read(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
        wanted.extend(["python3", "python3-pip"]);
    }
    // Ubuntu's chromium package is a snap that tests cannot drive; a browser that is already there will do.
    if chromium() {
        wanted.retain(|name| *name != "chromium");
    }
    wanted.retain(|name| !installed(name));
    if wanted.is_empty() {
        println!("    every system package is there");
        return Ok(());
    }
    println!("    about to install with apt-get: {}", wanted.join(" "));
    run("Reading the lists of packages", apt()?.arg("update"))?;
    run(
        "Installing system packages",
        apt()?.args(["install", "-y", "--no-install-recommends"]).args(&wanted),
    )
}

fn installed(package: &str) -> bool {
    read(Command::new("dpkg-query").args(["-W", "-f=${Status}", package]))
        .is_some_and(|status| status == "install ok installed")
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
            "System packages are missing, and neither are you root nor is there `sudo`. \
                    Install the packages named above as root, then run this again."
                .to_owned(),
        );
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    Ok(command)
}

fn chromium() -> bool {
    std::env::var_os("CHROME").is_some()
        || program(&["chromium", "chromium-browser", "google-chrome", "chrome"]).is_some()
}

/// Other systems: what is missing is named, with the command that brings it.
fn elsewhere(purpose: For) -> Outcome {
    let mut missing = Vec::new();
    if cfg!(target_os = "linux") {
        let has = |library: &str| read(Command::new("pkg-config").args(["--exists", library])).is_some();
        if program(&["cc", "gcc", "clang"]).is_none() || program(&["pkg-config"]).is_none() {
            missing.push("a C compiler and pkg-config");
        }
        if purpose == For::Test && program(&["c++", "g++", "clang++"]).is_none() {
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
        if purpose == For::Test {
            for (name, what) in [("Xvfb", "Xvfb"), ("WebKitWebDriver", "WebKitWebDriver")] {
                if program(&[name]).is_none() {
                    missing.push(what);
                }
            }
        }
    }
    if cfg!(target_os = "macos") && read(Command::new("xcode-select").arg("-p")).is_none() {
        missing.push("the Xcode command line tools");
    }
    if purpose == For::Test && !browser() {
        missing.push("Chromium or Chrome (or its path in CHROME)");
    }
    if missing.is_empty() {
        println!("    everything is there");
        return Ok(());
    }
    let command = if program(&["dnf"]).is_some() {
        "sudo dnf install gcc gcc-c++ pkgconf webkit2gtk4.1-devel gtk3-devel dbus-devel xorg-x11-server-Xvfb webkit2gtk4.1 chromium"
    } else if program(&["pacman"]).is_some() {
        "sudo pacman -S --needed base-devel webkit2gtk-4.1 gtk3 dbus xorg-server-xvfb chromium"
    } else if cfg!(target_os = "macos") {
        "xcode-select --install; brew install --cask chromium"
    } else if cfg!(windows) {
        "winget install Google.Chrome"
    } else {
        "your system's way of installing them"
    };
    Err(format!(
        "Missing: {}.\nInstall with: {command}\nThen run this again.",
        missing.join(", ")
    ))
}

fn browser() -> bool {
    const USUAL: &[&str] = &[
        "/Applications/Google Chrome.app",
        "/Applications/Chromium.app",
        "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
        "C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe",
    ];
    chromium() || USUAL.iter().any(|place| Path::new(place).exists())
}

/// Node and Python, which no system package of ours brings.
fn languages() -> Outcome {
    let node = read(Command::new("node").arg("--version")).unwrap_or_default();
    let mut parts = node
        .trim_start_matches('v')
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) >= NODE => {}
        (Some(_), _) => {
            return Err(format!(
                "Node 20.19 or newer is needed to build the page; this is {node}. See https://nodejs.org."
            ));
        }
        _ => {
            return Err(
                "Node 20.19 or newer is needed to build the page, and there is none. See https://nodejs.org."
                    .to_owned(),
            );
        }
    }
    if python().is_none() {
        return Err(
            "Python 3 is needed to fetch the default model, and there is none. See https://python.org.".to_owned(),
        );
    }
    Ok(())
}

/// How Python 3 is called here.
pub fn python() -> Option<&'static str> {
    ["python3", "python"]
        .into_iter()
        .find(|name| read(Command::new(name).arg("--version")).is_some_and(|version| version.starts_with("Python 3")))
}
