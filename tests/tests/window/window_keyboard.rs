//! Twelve tasks by keyboard alone, checked through a screen reader: keys come from the X server,
//! and roles, names, states and announcements from the bus of AT-SPI. No WebDriver is used.
//!
//! The worker is scripted (`scripted.rs`).

use hearth_tests::keyboard::Keyboard;
use hearth_tests::paths;
use hearth_tests::screen::{ChildGuard, Screen};
use hearth_tests::screen_reader::{Node, ScreenReader, SessionBus};
use hearth_tests::scripted::Scripted;
use hearth_tests::wait;
use std::time::Duration;

/// Maximum number of key presses to reach an element of a view.
const MAX_TABS: usize = 40;

/// Time limit for the focus to move.
const MOVE: Duration = Duration::from_secs(2);

/// The user of a window, with a keyboard and a screen reader only.
struct User {
    reader: ScreenReader,
    keyboard: Keyboard,
    // Dropped in this order.
    _window: ChildGuard,
    _bus: SessionBus,
    _screen: Screen,
    _data: tempfile::TempDir,
    _scripted: Scripted,
}

impl User {
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
            let state = |node: &Node| (node.address.clone(), node.name.clone(), node.is("selected"));
            let before = focus.as_ref().map(state);
            wait::poll(MOVE, || {
                focus = self.reader.focus();
                // Nothing has the focus while it moves.
                (focus.is_some() && focus.as_ref().map(state) != before).then_some(())
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
    let user = User::new();
    writes_reads_and_copies(&user);
    stops_and_finds(&user);
    changes_the_theme_and_runs_an_action(&user);
    chooses_a_model_and_visits_every_view(&user);
}

fn writes_reads_and_copies(user: &User) {
    // 1. Write a message and send it; the answer is announced.
    user.is_on("entry", "Message");
    user.write("count 20");
    user.press("Enter");
    user.hears("Answer: 1 2 3");

    // 2. Go through the messages: a feed of articles that say which of how many they are.
    user.reader.until("the answer is article 2 of 2", |node| {
        node.role == "article" && node.attribute("posinset") == Some("2") && node.attribute("setsize") == Some("2")
    });

    // 3. Copy the answer, and paste it.
    user.press("Ctrl+Shift+c");
    user.press("Ctrl+l");
    user.is_on("entry", "Message");
    // The clipboard is written a moment after the key.
    user.reader.until("the answer is pasted", |node| {
        let field = is(node, "entry", "Message");
        if field && !node.text.contains("19 20") {
            user.press("Ctrl+a");
            user.press("Ctrl+v");
        }
        field && node.text.contains("19 20")
    });
    user.press("Ctrl+a");
    user.press("Delete");
}

fn stops_and_finds(user: &User) {
    // 4. Begin another conversation.
    user.press("Ctrl+n");
    user.finds("heading", "What do you want to talk about?");
    user.is_on("entry", "Message");

    // 5. Stop an answer.
    user.write("slow");
    user.press("Enter");
    user.hears("The model is answering.");
    user.finds("push button", "Stop");
    user.press("Escape");
    user.hears("Answer: word");
    user.finds("push button", "Send");

    // 6. Find the first conversation by a word of it, and open it.
    user.press("Ctrl+Shift+f");
    user.is_on("entry", "Search conversations");
    user.write("count");
    user.reader.until("a result", |node| node.text.contains("found"));
    user.press("Enter");
    user.reader.until("its answer", |node| {
        node.role == "paragraph" && node.text.contains("19 20")
    });
    user.press("Escape");

    // 7. Rename a conversation.
    user.press("Ctrl+Shift+f");
    user.is_on("entry", "Search conversations");
    user.goes_to("Down", "push button", "slow");
    user.press("F2");
    user.is_on("entry", "Title");
    user.press("Ctrl+a");
    user.write("Stopped early");
    user.press("Enter");
    user.is_on("push button", "Stopped early");
}

fn changes_the_theme_and_runs_an_action(user: &User) {
    // 8. Open Settings and change the theme.
    user.press("Ctrl+,");
    user.reader.until("the page General", |node| {
        is(node, "page tab", "General") && node.is("selected")
    });
    user.goes_to("Tab", "radio button", "System");
    user.press("Right");
    user.reader.until("a chosen theme", |node| {
        is(node, "radio button", "Light") && node.is("checked") && node.is("focused")
    });

    // 9. Run an action of the command palette.
    user.press("Ctrl+k");
    user.is_on("combo box", "Find an action");
    user.write("larger text");
    user.reader.until("the action is selected", |node| {
        node.is("selected") && (node.name.contains("Larger text") || node.text.contains("Larger text"))
    });
    user.press("Enter");
    user.hears("Text size 110 percent.");
}

fn chooses_a_model_and_visits_every_view(user: &User) {
    // 10. Choose another model.
    user.press("Ctrl+1");
    user.goes_to("Tab", "combo box", "Model: ");
    user.press("Enter");
    user.goes_to("Tab", "push button", "qwen3");
    user.press("Enter");
    user.reader.until("the model is chosen", |node| {
        node.name.starts_with("Model: ") && node.name.contains("qwen3")
    });

    // 11. Open Tune.
    user.press("Ctrl+2");
    user.finds("heading", "Tune");

    // 12. Open Models, and search: an announcement says that the hub cannot be reached.
    user.press("Ctrl+3");
    user.goes_to("Tab", "page tab", "");
    user.press("Right");
    user.reader.until("the tab Discover", |node| {
        is(node, "page tab", "Discover") && node.is("selected")
    });
    user.goes_to("Tab", "entry", "paste a link");
    user.write("tiny");
    user.press("Enter");
    user.hears("the server cannot be reached");
}
