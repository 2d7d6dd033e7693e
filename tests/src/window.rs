//! The real window with the real model, as a person uses it.

use crate::place;
use crate::screen::{Driver, Screen};
use crate::webdriver::{Element, Key, Session};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for a small model on a slow machine to load and answer.
const ANSWER: Duration = Duration::from_secs(90);

/// How long an answer may go on before it is stopped: how long it gets is chance.
const PATIENCE: Duration = Duration::from_secs(20);

/// One window at a time: a model that answers takes the whole machine.
static ONE: Mutex<()> = Mutex::new(());

/// A desk: a screen, a folder of data, and the driver that opens windows there.
pub struct Desk {
    /// The folder of data, which outlives a window.
    pub data: tempfile::TempDir,
    /// Where windows are shown.
    pub screen: Screen,
    driver: Driver,
    _turn: MutexGuard<'static, ()>,
}

impl Desk {
    /// An empty one.
    ///
    /// # Panics
    /// When what it takes is not installed.
    pub fn new() -> Self {
        let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let data = tempfile::tempdir().expect("a temporary folder");
        let screen = Screen::start();
        let driver = Driver::start(&screen, data.path());
        Self {
            data,
            screen,
            driver,
            _turn: turn,
        }
    }

    /// Opens Hearth's window, with whatever was said before.
    ///
    /// # Panics
    /// When it does not open.
    pub fn open(&self) -> Window {
        let application = place::executable("hearth-desktop");
        let session = Session::open(&self.driver.address, &application);
        let window = Window {
            session: session.unwrap_or_else(|error| panic!("the window does not open: {error}")),
        };
        window.session.one(&id("composer"));
        window
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

/// An open window. Dropping it closes it.
pub struct Window {
    /// For what is not said here.
    pub session: Session,
}

/// The CSS selector of what the page calls `name` (`ui/README.md` lists the names).
pub fn id(name: &str) -> String {
    format!("[data-testid=\"{name}\"]")
}

/// The newest answer.
const ANSWERS: &str = "[data-testid=\"message\"][data-role=\"assistant\"]";

impl Window {
    /// Types a message and sends it.
    pub fn send(&self, text: &str) {
        let composer = self.session.one(&id("composer"));
        self.session.fill(&composer, text);
        self.session.press(&composer, Key::ENTER);
    }

    /// Clicks the part of the page of that name.
    pub fn click(&self, name: &str) {
        self.session.click(&self.session.one(&id(name)));
    }

    /// The newest answer's state, as the page has it.
    pub fn state(&self) -> Option<String> {
        self.session.attribute(&self.answer()?, "data-state")
    }

    /// The state of an answer, counted from 1. Rows out of view are not in the page, so that answers there cannot be counted.
    fn state_of(&self, number: usize) -> Option<String> {
        let answer = format!("article[aria-posinset=\"{}\"] {ANSWERS}", 2 * number);
        self.session.attribute(&self.session.all(&answer).pop()?, "data-state")
    }

    /// The newest answer.
    pub fn answer(&self) -> Option<Element> {
        self.session.all(ANSWERS).pop()
    }

    /// What the newest answer shows.
    pub fn answer_text(&self) -> String {
        self.answer()
            .and_then(|answer| self.session.text(&answer))
            .unwrap_or_default()
    }

    /// Waits until this answer, counted from 1, has reached one of these states.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn until_answer(&self, number: usize, states: &[&str]) -> String {
        self.session
            .until(ANSWER, &format!("answer {number} is one of {states:?}"), || {
                let newest = self.state_of(number)?;
                states.contains(&newest.as_str()).then_some(newest)
            })
    }

    /// Waits until this answer, counted from 1, has ended; one that goes on and on is stopped.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn until_ended(&self, number: usize) -> String {
        let patient_until = Instant::now() + PATIENCE;
        self.session.until(ANSWER, &format!("answer {number} has ended"), || {
            let newest = self.state_of(number)?;
            if newest == "streaming" && Instant::now() > patient_until {
                // Between the look and the click it may end by itself.
                self.session
                    .all(&id("stop"))
                    .first()
                    .and_then(|stop| self.session.try_click(stop).ok());
            }
            ["complete", "stopped", "cut"]
                .contains(&newest.as_str())
                .then_some(newest)
        })
    }

    /// Waits until the page shows this text.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn until_shows(&self, text: &str) {
        self.session.until(ANSWER, &format!("the page shows {text:?}"), || {
            let page = self.session.script("return document.body.innerText").ok()?;
            page.as_str()?.contains(text).then_some(())
        });
    }

    /// Keeps a picture of the window under this name.
    pub fn screenshot(&self, name: &str) {
        self.session
            .screenshot(&place::screenshots().join(format!("{name}.png")));
    }
}

/// The worker of the window whose data lie in `data`: the process of `hearth` that was started with them.
pub fn worker(data: &Path) -> Option<u32> {
    process("hearth", data)
}

/// The process of this executable of the build that was started with its data in `data`.
pub fn process(name: &str, data: &Path) -> Option<u32> {
    let mark = format!("HEARTH_DATA={}", data.display());
    let executable = place::executable(name).canonicalize().ok()?;
    fs::read_dir("/proc").ok()?.filter_map(Result::ok).find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let same = fs::read_link(entry.path().join("exe")).ok()? == executable;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let ours = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes());
        (same && ours).then_some(pid)
    })
}
