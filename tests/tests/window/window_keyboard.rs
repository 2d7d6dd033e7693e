//! Twelve tasks by keyboard alone, read back as a screen reader is told: keys come from the X
//! server, and roles, names, states and announcements from the bus of AT-SPI. No WebDriver is
//! involved.
//!
//! The worker is scripted (`scripted.rs`).

use hearth_tests::keyboard::Keyboard;
use hearth_tests::paths;
use hearth_tests::screen::{ChildGuard, Screen};
use hearth_tests::screen_reader::{Node, ScreenReader, SessionBus};
use hearth_tests::scripted::Scripted;
use hearth_tests::wait;
use std::time::Duration;

/// Most presses of Tab to an element of a view.
const MAX_TABS: usize = 40;

/// Time limit for the focus to move.
const MOVE: Duration = Duration::from_secs(2);

/// The user of a window, with a keyboard and a screen reader only.
struct Person {
    reader: ScreenReader,
    keyboard: Keyboard,
    // In the order in which they end.
    _window: ChildGuard,
    _bus: SessionBus,
    _screen: Screen,
    _data: tempfile::TempDir,
    _scripted: Scripted,
}

impl Person {
    /// Opens the window.
    fn new() -> Self {
        let (scripted, data, screen) = (Scripted::new(), tempfile::tempdir().expect("a folder"), Screen::start());
        let bus = SessionBus::start(&screen, data.path());
        let reader = ScreenReader::connect(&bus).expect("AT-SPI is installed");
        let window = screen
            .command(&paths::executable("hearth-desktop"), data.path())
            .envs(scripted.variables())
            .env("DBUS_SESSION_BUS_ADDRESS", &bus.address)
            .env("XDG_RUNTIME_DIR", data.path())
            // No hub: nothing is asked of the network.
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .env_remove("NO_AT_BRIDGE")
            .spawn()
            .expect("the window opens");
        let window = ChildGuard(window);
        reader.until("the field for a message", |node| is(node, "entry", "Message"));
        let keyboard = Keyboard::new(&screen.display).expect("a keyboard");
        keyboard.focus().expect("a window");
        Self {
            reader,
            keyboard,
            _window: window,
            _bus: bus,
            _screen: screen,
            _data: data,
            _scripted: scripted,
        }
    }

    fn press(&self, keys: &str) {
        self.keyboard.press(keys).expect("keys");
    }

    fn write(&self, text: &str) {
        self.keyboard.write(text).expect("keys");
    }

    /// Waits until an element of this role with a name that contains `name` has the focus.
    fn is_on(&self, role: &str, name: &str) -> Node {
        self.reader.until(&format!("the focus is on {role} {name:?}"), |node| {
            is(node, role, name) && node.is("focused")
        })
    }

    /// Waits until there is an element of this role with a name that contains `name`.
    fn finds(&self, role: &str, name: &str) -> Node {
        self.reader
            .until(&format!("{role} {name:?}"), |node| is(node, role, name))
    }

    /// Waits until a live region says something that contains `text`.
    fn hears(&self, text: &str) {
        self.reader.until(&format!("{text:?} is announced"), |node| {
            let live = node.attribute("container-live").or(node.attribute("live"));
            live.is_some_and(|live| live != "off") && node.text.contains(text)
        });
    }

    /// Presses a key until an element of this role with a name that contains `name` has the focus.
    fn goes_to(&self, key: &str, role: &str, name: &str) {
        let mut focus = self.reader.focus();
        for _ in 0..MAX_TABS {
            if focus.as_ref().is_some_and(|node| is(node, role, name)) {
                return;
            }
            self.press(key);
            // A key may also select what has the focus already.
            let place = |node: &Node| (node.address.clone(), node.name.clone(), node.is("selected"));
            let before = focus.as_ref().map(place);
            wait::poll(MOVE, || {
                focus = self.reader.focus();
                // Nothing has the focus while it moves.
                (focus.is_some() && focus.as_ref().map(place) != before).then_some(())
            });
        }
        panic!(
            "{MAX_TABS} times {key} do not lead to {role} {name:?}:\n{}",
            self.reader.drawn()
        );
    }
}

fn is(node: &Node, role: &str, name: &str) -> bool {
    node.role == role && node.name.contains(name)
}

#[test]
fn twelve_tasks_by_keyboard_alone() {
    let person = Person::new();
    writes_reads_and_copies(&person);
    stops_and_finds(&person);
    changes_the_theme_and_runs_an_action(&person);
    chooses_a_model_and_visits_every_view(&person);
}

fn writes_reads_and_copies(person: &Person) {
    // 1. Write a message and send it; the answer is announced.
    person.is_on("entry", "Message");
    person.write("count 20");
    person.press("Enter");
    person.hears("Answer: 1 2 3");

    // 2. Go through the messages: a feed of articles that say which of how many they are.
    person.reader.until("the answer is article 2 of 2", |node| {
        node.role == "article" && node.attribute("posinset") == Some("2") && node.attribute("setsize") == Some("2")
    });

    // 3. Copy the answer, and paste it.
    person.press("Ctrl+Shift+c");
    person.press("Ctrl+l");
    person.is_on("entry", "Message");
    // The clipboard is written a moment after the key.
    person.reader.until("the answer is pasted", |node| {
        let field = is(node, "entry", "Message");
        if field && !node.text.contains("19 20") {
            person.press("Ctrl+a");
            person.press("Ctrl+v");
        }
        field && node.text.contains("19 20")
    });
    person.press("Ctrl+a");
    person.press("Delete");
}

fn stops_and_finds(person: &Person) {
    // 4. Begin another conversation.
    person.press("Ctrl+n");
    person.finds("heading", "What do you want to talk about?");
    person.is_on("entry", "Message");

    // 5. Stop an answer.
    person.write("slow");
    person.press("Enter");
    person.hears("The model is answering.");
    person.finds("push button", "Stop");
    person.press("Escape");
    person.hears("Answer: word");
    person.finds("push button", "Send");

    // 6. Find the first conversation by a word of it, and open it.
    person.press("Ctrl+Shift+f");
    person.is_on("entry", "Search conversations");
    person.write("count");
    person.reader.until("a result", |node| node.text.contains("found"));
    person.press("Enter");
    person.reader.until("its answer", |node| {
        node.role == "paragraph" && node.text.contains("19 20")
    });
    person.press("Escape");

    // 7. Rename a conversation.
    person.press("Ctrl+Shift+f");
    person.is_on("entry", "Search conversations");
    person.goes_to("Down", "push button", "slow");
    person.press("F2");
    person.is_on("entry", "Title");
    person.press("Ctrl+a");
    person.write("Stopped early");
    person.press("Enter");
    person.is_on("push button", "Stopped early");
}

fn changes_the_theme_and_runs_an_action(person: &Person) {
    // 8. Open Settings and change the theme.
    person.press("Ctrl+,");
    person.reader.until("the page General", |node| {
        is(node, "page tab", "General") && node.is("selected")
    });
    person.goes_to("Tab", "radio button", "System");
    person.press("Right");
    person.reader.until("a chosen theme", |node| {
        is(node, "radio button", "Light") && node.is("checked") && node.is("focused")
    });

    // 9. Run an action of the command palette.
    person.press("Ctrl+k");
    person.is_on("combo box", "Find an action");
    person.write("larger text");
    person.reader.until("the action is selected", |node| {
        node.is("selected") && (node.name.contains("Larger text") || node.text.contains("Larger text"))
    });
    person.press("Enter");
    person.hears("Text size 110 percent.");
}

fn chooses_a_model_and_visits_every_view(person: &Person) {
    // 10. Choose another model.
    person.press("Ctrl+1");
    person.goes_to("Tab", "combo box", "Model: ");
    person.press("Enter");
    person.goes_to("Tab", "push button", "qwen3");
    person.press("Enter");
    person.reader.until("the model is chosen", |node| {
        node.name.starts_with("Model: ") && node.name.contains("qwen3")
    });

    // 11. Open Tune.
    person.press("Ctrl+2");
    person.finds("heading", "Tune");

    // 12. Open Models, and search: that no hub answers is said.
    person.press("Ctrl+3");
    person.goes_to("Tab", "page tab", "");
    person.press("Right");
    person.reader.until("the tab Discover", |node| {
        is(node, "page tab", "Discover") && node.is("selected")
    });
    person.goes_to("Tab", "entry", "paste a link");
    person.write("tiny");
    person.press("Enter");
    person.hears("the server cannot be reached");
}
