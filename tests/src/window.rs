//! The real window with the real model.

use crate::paths;
use crate::screen::{Driver, Screen};
use crate::screen_reader::SessionBus;
use crate::wait::PATIENCE;
use crate::webdriver::{Element, Key, Session};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for a small model on a slow machine to load and answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Time after which an answer is stopped: its length is random.
const STOP_AFTER: Duration = Duration::from_secs(20);

/// Allows one window at a time: a model uses the whole machine.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// A screen, a data folder, and the driver that opens windows there.
pub struct Desktop {
    /// The data folder, which outlives a window.
    pub data: tempfile::TempDir,
    /// The screen of the windows.
    pub screen: Screen,
    driver: Driver,
    _guard: MutexGuard<'static, ()>,
}

impl Desktop {
    /// A desktop with an empty data folder.
    ///
    /// # Panics
    /// Panics if a tool is not installed.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// A desktop with an empty data folder, whose windows have these environment variables.
    ///
    /// # Panics
    /// Panics if a tool is not installed.
    pub fn with(variables: &[(&str, &OsStr)]) -> Self {
        let (guard, data, screen) = Self::empty();
        let driver = Driver::start(&screen, data.path(), variables);
        Self {
            data,
            screen,
            driver,
            _guard: guard,
        }
    }

    /// As [`Desktop::with`], in a session with a bus.
    ///
    /// # Panics
    /// Panics if a tool is not installed.
    pub fn with_bus(variables: &[(&str, &OsStr)]) -> (Self, SessionBus) {
        let (guard, data, screen) = Self::empty();
        let bus = SessionBus::start(&screen, data.path());
        let address = ("DBUS_SESSION_BUS_ADDRESS", OsStr::new(&bus.address));
        let driver = Driver::start(&screen, data.path(), &[variables, &[address]].concat());
        let desktop = Self {
            data,
            screen,
            driver,
            _guard: guard,
        };
        (desktop, bus)
    }

    fn empty() -> (MutexGuard<'static, ()>, tempfile::TempDir, Screen) {
        let guard = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        (guard, tempfile::tempdir().expect("a temporary folder"), Screen::start())
    }

    /// Opens Hearth's window.
    ///
    /// # Panics
    /// Panics if it does not open.
    pub fn open(&self) -> Window {
        self.open_program(&paths::executable("hearth-desktop"))
    }

    /// Opens the window of another copy of Hearth.
    ///
    /// # Panics
    /// Panics if it does not open.
    pub fn open_program(&self, program: &Path) -> Window {
        self.open_with(program, &[])
    }

    /// Opens the window of a copy of Hearth with these arguments.
    ///
    /// # Panics
    /// Panics if it does not open.
    pub fn open_with(&self, program: &Path, arguments: &[&str]) -> Window {
        let session = Session::open(&self.driver.address, program, arguments);
        let window = Window {
            session: session.unwrap_or_else(|error| panic!("the window does not open: {error}")),
        };
        window.session.one(&id("composer"));
        window
    }
}

impl Default for Desktop {
    fn default() -> Self {
        Self::new()
    }
}

/// An open window. Dropping it closes it.
pub struct Window {
    /// The WebDriver session.
    pub session: Session,
}

/// The CSS selector of a `data-testid` (listed in `ui/README.md`).
pub fn id(name: &str) -> String {
    format!("[data-testid=\"{name}\"]")
}

/// Answers commands of the page before they reach the program: Tauri sends them by `fetch`.
const DIALOGS: &str = "
    if (!window.answeredDialogs) {
        const send = window.fetch;
        const answered = (window.answeredDialogs = {});
        const headers = { 'Content-Type': 'application/json', 'Tauri-Response': 'ok' };
        window.fetch = (address, options) => {
            const path = answered[String(address).split('/').at(-1)];
            return path === undefined
                ? send(address, options)
                : Promise.resolve(new Response(JSON.stringify(path), { headers }));
        };
    }
    window.answeredDialogs['COMMAND'] = PATH;";

/// The CSS selector of answers.
const ANSWERS: &str = "[data-testid=\"message\"][data-role=\"assistant\"]";

impl Window {
    /// Types a message and sends it.
    pub fn send(&self, text: &str) {
        let composer = self.session.one(&id("composer"));
        self.session.fill(&composer, text);
        self.session.press(&composer, Key::ENTER);
    }

    /// The text of the element with this `data-testid`.
    pub fn text_of(&self, name: &str) -> String {
        self.session.text(&self.session.one(&id(name))).unwrap_or_default()
    }

    /// Chooses an option of the list with this `data-testid` by its value.
    ///
    /// # Panics
    /// Panics if there is no such list.
    pub fn choose(&self, name: &str, value: &str) {
        self.session.one(&id(name));
        let choose = format!(
            "const list = document.querySelector('{}'); list.value = '{value}'; list.dispatchEvent(new Event('change', \
             {{ bubbles: true }}))",
            id(name)
        );
        self.session.script(&choose).expect("the option is chosen");
    }

    /// Clicks the element with this `data-testid`.
    pub fn click(&self, name: &str) {
        self.session.click(&self.session.one(&id(name)));
    }

    /// Answers the next and later dialogs of this command of the window with a path. The system's
    /// own dialogs have no WebDriver.
    ///
    /// # Panics
    /// Panics if the page cannot be changed.
    pub fn answer_dialog(&self, command: &str, path: &Path) {
        let path = serde_json::to_string(&path.display().to_string()).expect("JSON");
        let script = DIALOGS.replace("COMMAND", command).replace("PATH", &path);
        self.session.script(&script).expect("the dialog is answered");
    }

    /// Opens a page of Settings: `hardware`, `models` and so on.
    pub fn open_settings(&self, page: &str) {
        self.click("view-settings");
        self.click(&format!("settings-page-{page}"));
    }

    /// The newest answer's state.
    pub fn state(&self) -> Option<String> {
        self.session.attribute(&self.answer()?, "data-state")
    }

    /// The state of an answer, counted from 1. Rows out of view are not in the page, so answers are
    /// found by position.
    fn state_of(&self, number: usize) -> Option<String> {
        let answer = format!("article[aria-posinset=\"{}\"] {ANSWERS}", 2 * number);
        self.session.attribute(&self.session.all(&answer).pop()?, "data-state")
    }

    /// The newest answer.
    pub fn answer(&self) -> Option<Element> {
        self.session.all(ANSWERS).pop()
    }

    /// The newest answer's text.
    pub fn answer_text(&self) -> String {
        self.answer()
            .and_then(|answer| self.session.text(&answer))
            .unwrap_or_default()
    }

    /// The newest answer without its heading and buttons. Which words it has depends on the seed.
    pub fn answer_words(&self) -> String {
        let script = format!("return [...document.querySelectorAll('{ANSWERS} .markdown')].at(-1)?.textContent");
        let words = self.session.script(&script).ok();
        words
            .as_ref()
            .and_then(|words| words.as_str())
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// Waits until this answer, counted from 1, has reached one of these states.
    ///
    /// # Panics
    /// Panics after a time limit.
    pub fn until_answer(&self, number: usize, states: &[&str]) -> String {
        self.session
            .until(ANSWER_TIMEOUT, &format!("answer {number} is one of {states:?}"), || {
                let state = self.state_of(number)?;
                states.contains(&state.as_str()).then_some(state)
            })
    }

    /// Waits until this answer, counted from 1, has ended; a long one is stopped.
    ///
    /// # Panics
    /// Panics after a time limit.
    pub fn until_ended(&self, number: usize) -> String {
        let stop_at = Instant::now() + STOP_AFTER;
        self.until_ended_or(number, || Instant::now() > stop_at)
    }

    /// Waits until this answer, counted from 1, has ended; it is stopped once it has words.
    ///
    /// # Panics
    /// Panics after a time limit.
    pub fn until_stopped(&self, number: usize) -> String {
        self.until_ended_or(number, || !self.answer_words().is_empty())
    }

    /// Waits until this answer has ended, and stops it once it is long enough.
    fn until_ended_or(&self, number: usize, is_enough: impl Fn() -> bool) -> String {
        self.session
            .until(ANSWER_TIMEOUT, &format!("answer {number} has ended"), || {
                let state = self.state_of(number)?;
                if state == "streaming" && is_enough() {
                    // It may end before the click.
                    self.session
                        .all(&id("stop"))
                        .first()
                        .and_then(|stop| self.session.try_click(stop).ok());
                }
                ["complete", "stopped", "truncated"]
                    .contains(&state.as_str())
                    .then_some(state)
            })
    }

    /// Waits until the page shows this text.
    ///
    /// # Panics
    /// Panics after a time limit.
    pub fn until_shows(&self, text: &str) {
        self.session
            .until(ANSWER_TIMEOUT, &format!("the page shows {text:?}"), || {
                let page = self.session.script("return document.body.innerText").ok()?;
                page.as_str()?.contains(text).then_some(())
            });
    }

    /// Saves a screenshot of the window under this name, once its transitions have ended.
    pub fn screenshot(&self, name: &str) {
        let has_animations = "return document.getAnimations().some((animation) => animation.playState === 'running' && \
                      animation.effect.getComputedTiming().iterations !== Infinity)";
        self.session.until(PATIENCE, "the page is still", || {
            (self.session.script(has_animations).ok()? == false).then_some(())
        });
        self.session
            .screenshot(&paths::screenshots().join(format!("{name}.png")));
    }
}

/// Process id of the worker with a model, or a run, of the window with the data folder `data`: the
/// largest one, since the planner has neither.
pub fn worker(data: &Path) -> Option<u32> {
    let workers = processes("hearth", data);
    workers.into_iter().max_by_key(|process| resident_pages(*process))
}

/// Process id of this build's executable with the data folder `data`.
pub fn process(name: &str, data: &Path) -> Option<u32> {
    processes(name, data).first().copied()
}

fn processes(name: &str, data: &Path) -> Vec<u32> {
    let variable = format!("HEARTH_DATA={}", data.display());
    let (Ok(executable), Ok(processes)) = (paths::executable(name).canonicalize(), fs::read_dir("/proc")) else {
        return Vec::new();
    };
    let pids = processes.filter_map(Result::ok).filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let is_executable = fs::read_link(entry.path().join("exe")).ok()? == executable;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let has_data_folder = environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == variable.as_bytes());
        (is_executable && has_data_folder).then_some(pid)
    });
    pids.collect()
}

/// Resident memory of a process in pages.
fn resident_pages(process: u32) -> u64 {
    let sizes = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let resident = sizes.split_whitespace().nth(1);
    resident.and_then(|pages| pages.parse().ok()).unwrap_or(0)
}
