//! The first hour in the real window: a model from the hub, and rendering and search in a chat.
//!
//! The hub is a local one.

#[path = "../../../crates/app/tests/support/hub.rs"]
#[allow(dead_code, reason = "the app's tests use the rest")]
mod hub;

use hearth_tests::paths;
use hearth_tests::scripted::Scripted;
use hearth_tests::wait::PATIENCE;
use hearth_tests::webdriver::Key;
use hearth_tests::window::{Desktop, Window, id};
use hub::{FakeHub, Reply, repository};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REPOSITORY: &str = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF";

/// Long enough to download, hash and list the model while other programs run.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// A hub with the default model.
fn hub() -> FakeHub {
    let bytes = std::fs::read(paths::model()).expect("the default model");
    let mut bodies = repository(REPOSITORY, &[("SmolLM2-135M-Instruct-Q4_1.gguf", bytes)]);
    let listing = format!(
        r#"[{{"_id": "1", "id": "{REPOSITORY}", "downloads": 91000, "likes": 120, "gated": false,
        "lastModified": "2026-01-02T03:04:05.000Z", "gguf": {{"total": 134515008, "architecture": "llama"}}}}]"#
    );
    bodies.insert("/api/models".to_owned(), listing.into_bytes());
    FakeHub::with(bodies, &[Reply::Good])
}

/// A copy of Hearth in a folder without models.
fn installed(folder: &Path) -> PathBuf {
    let copy = |name: &str| {
        let target = folder.join(name);
        let source = paths::executable(name);
        std::fs::hard_link(&source, &target)
            .or_else(|_| std::fs::copy(&source, &target).map(|_| ()))
            .expect("a copy");
        target
    };
    copy("hearth");
    copy("hearth-desktop")
}

/// A desktop with an installation of Hearth that has no models, and its executable.
fn without_models(hub: &FakeHub, folder: &Path) -> (Desktop, PathBuf) {
    let variables = [
        ("HF_ENDPOINT", hub.hub.endpoint.as_ref()),
        ("HEARTH_MODELS", folder.as_os_str()),
    ];
    (Desktop::with(&variables), installed(folder))
}

fn click_all(window: &Window, names: &[&str]) {
    for name in names {
        window.click(name);
    }
}

#[test]
fn a_model_of_the_hub_is_found_downloaded_and_answers() {
    let (hub, folder) = (hub(), tempfile::tempdir().expect("a folder"));
    let (desk, program) = without_models(&hub, folder.path());
    let window = desk.open_program(&program);
    window.until_shows("Hearth needs a model");
    window.until_shows("Better models for this machine");
    window.screenshot("first-run");
    assert!(
        hub.requests().is_empty(),
        "the hub is asked unasked: {:?}",
        hub.requests()
    );

    click_all(&window, &["view-models", "tab-discover"]);
    let query = window.session.one(&id("hub-query"));
    window.session.fill(&query, "smollm2");
    window.session.press(&query, Key::ENTER);
    window.click("hub-result");
    window.session.one(&id("variant"));
    window.click("check-variant");
    let checked = format!("{}[data-state=\"answered\"]", id("checked"));
    window.session.one(&checked);
    window.screenshot("repository-checked");
    click_all(&window, &["download", "view-models", "tab-downloads"]);
    window.session.until(DOWNLOAD, "the model is here", || {
        (!window.session.all(&id("download-chat")).is_empty()).then_some(())
    });
    window.screenshot("downloaded");
    window.click("download-chat");
    window.send("What is the capital of France?");
    window.until_ended(1);
    window.until_shows("tokens/s");
    window.screenshot("first-answer");
}

/// An answer with a formula, a diagram, code and a footnote.
const ANSWER: &str = "# Heat\n\nThe law is $\\dot q = -k \\nabla T$, so:\n\n$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$\n\nA \
                       note[^1].\n\n```mermaid\ngraph TD\nA[Fire] --> B{Warm?}\nB -->|yes| C[Tea]\nB -->|no| \
                       A\n```\n\n```rust\nfn main() {\n    println!(\"quillfeather\");\n}\n```\n\n[^1]: Of Fourier, \
                       quillfeather.\n";

#[test]
fn formulas_diagrams_and_notes_are_drawn_and_texts_are_found() {
    let scripted = Scripted::new();
    let desk = Desktop::with(&scripted.variables());
    let window = desk.open();
    window.send("say Paris.");
    window.until_ended(1);
    window.click("edit-answer");
    window.session.one(&id("edit-answer-text"));
    let text = serde_json::to_string(ANSWER).expect("JSON");
    let write = format!(
        "const box = document.querySelector('{}'); box.value = {text}; box.dispatchEvent(new Event('input', {{ \
         bubbles: true }}))",
        id("edit-answer-text")
    );
    window.session.script(&write).expect("the text is set");
    window.click("edit-answer-save");
    for part in ["maths", "diagram", "footnote-reference"] {
        window.session.one(&id(part));
    }
    window.screenshot("written-answer");

    window.session.shortcut('f');
    let field = window.session.one(&id("find-text"));
    window.session.fill(&field, "quillfeather");
    window.session.until(PATIENCE, "both are found", || {
        let count = window.session.text(&window.session.one(&id("find-count")))?;
        count.contains("of 2").then_some(())
    });
    window.screenshot("found");
    window.click("find-close");

    let width = || {
        let width = window.session.script("return window.innerWidth").expect("a width");
        width.as_f64().expect("a number")
    };
    let before = width();
    window.session.shortcut('=');
    window
        .session
        .until(PATIENCE, "the text is larger", || (width() < before).then_some(()));
    window.screenshot("larger-text");

    window.session.shortcut('k');
    let query = window.session.one(&id("palette-query"));
    window.session.fill(&query, "dark");
    window.session.one(&id("palette-item"));
    let height = "return document.querySelector('[data-testid=palette-item]').parentElement.clientHeight";
    let height = window.session.script(height).expect("a height");
    assert!(
        height.as_f64().is_some_and(|height| height > 30.0),
        "the list has no height: {height}"
    );
    window.screenshot("palette");
}

/// The schema that the user types, in two parts. The first part alone is not valid JSON.
const SCHEMA: [&str; 2] = [
    r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}"#,
    r#", "required": ["name", "age"], "additionalProperties": false}"#,
];

#[test]
fn a_link_on_the_command_line_asks_before_the_hub_is_asked() {
    let (hub, folder) = (hub(), tempfile::tempdir().expect("a folder"));
    let (desk, program) = without_models(&hub, folder.path());
    let link = format!("hearth://model?from=hf.co/{REPOSITORY}");
    let window = desk.open_with(&program, &[link.as_str()]);
    window.session.one(&id("opened-link"));
    window.until_shows("HuggingFaceTB");
    let host = hub.hub.endpoint.trim_start_matches("http://");
    window.until_shows(host);
    window.screenshot("link");
    assert!(
        hub.requests().is_empty(),
        "the hub is asked unasked: {:?}",
        hub.requests()
    );
    window.click("link-agree");
    window.session.one(&id("variant"));
}

#[test]
fn an_answer_follows_a_preset_and_a_schema() {
    let desk = Desktop::new();
    let window = desk.open();
    click_all(&window, &["chat-settings-toggle", "chat-settings-advanced"]);
    window.choose("preset", "built-in:precise");
    let temperature = format!("{} input", id("knob-temperature"));
    window.session.until(PATIENCE, "the preset is applied", || {
        let script = format!("return document.querySelector('{temperature}').value");
        (window.session.script(&script).ok()? == "0.2").then_some(())
    });
    let group = format!("{}[data-id=\"schema\"] {}", id("knob-group"), id("knob-group-toggle"));
    window.session.click(&window.session.one(&group));
    let field = window.session.one(&id("json-schema"));
    window.session.fill(&field, SCHEMA[0]);
    window.session.press(&field, Key::TAB);
    window.until_shows("not valid JSON yet");
    window.screenshot("schema-wrong");
    window.session.fill(&field, SCHEMA[1]);
    window.session.press(&field, Key::TAB);
    window.until_shows("1 changed");
    window.until_shows("modified");

    window.send("Lena is 7 years old. Answer in JSON.");
    assert_eq!(window.until_ended(1), "complete");
    let answer = "return document.querySelector('[data-role=assistant] pre code').textContent";
    let answer = window.session.script(answer).expect("the answer is code");
    let answer: serde_json::Value = serde_json::from_str(answer.as_str().expect("a text")).expect("the answer is JSON");
    assert!(answer["name"].is_string() && answer["age"].is_i64(), "{answer}");
    for theme in ["light", "dark"] {
        window.open_settings("general");
        click_all(&window, &[&format!("theme-{theme}"), "view-chat"]);
        window.session.one(&id("preset"));
        window.screenshot(&format!("schema-{theme}"));
    }
}
