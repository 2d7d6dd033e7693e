//! Each family of models in the window, from a tiny file with random weights: its card and plan,
//! its thinking switch, a chat, a short run, its exports, and adapters that do not fit it.

use crate::families::{FAMILIES, Family, fixture};
use hearth_formats::gguf::Gguf;
use hearth_test_parts::Parts;
use hearth_tests::paths;
use hearth_tests::webdriver::{Element, Key};
use hearth_tests::window::{Desktop, Window, id};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Long enough to load, train or export a tiny model on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The settings of a run. With this rate every family learns something in so few steps.
const RUN: [(&str, &str); 2] = [("maxSteps", "3"), ("learningRate", "0.01")];

/// A model of another family, and an adapter of it.
struct Other {
    id: &'static str,
    name: String,
    adapter: PathBuf,
}

impl Other {
    /// The model that is used with this family, which is of another one.
    fn new(family: &Family) -> Self {
        let id = if family.fixture == "qwen2" { "llama" } else { "qwen2" };
        Self {
            id,
            name: format!("tiny random {id}"),
            adapter: paths::root().join(format!("tests/fixtures/adapters/{id}.gguf")),
        }
    }
}

/// The selector of an element on the card of a model.
fn on_card(family: &Family, name: &str) -> String {
    format!("article[aria-label=\"{}\"] {}", family.name, id(name))
}

fn click_on_card(window: &Window, family: &Family, name: &str) {
    window.session.click(&window.session.one(&on_card(family, name)));
}

/// Waits until an element has this attribute value.
fn until_attribute(window: &Window, name: &str, attribute: &str, expected: &str) {
    let selector = format!("[data-testid=\"{name}\"][{attribute}=\"{expected}\"]");
    window.session.until(LIMIT, &selector, || {
        (!window.session.all(&selector).is_empty()).then_some(())
    });
}

/// Waits until the chat's model is this one, and loaded.
fn until_loaded(window: &Window, name: &str) {
    window.session.until(LIMIT, &format!("{name} is loaded"), || {
        window.text_of("model-pill").contains(name).then_some(())
    });
    until_attribute(window, "model-pill", "data-state", "ready");
}

/// Opens the start page of Tune, which shows the last run otherwise.
fn open_tune(window: &Window) {
    window.click("view-tune");
    window.session.until(LIMIT, "the start page of Tune", || {
        if let [back] = &*window.session.all(&id("tune-back")) {
            let _ = window.session.try_click(back);
        }
        (!window.session.all(&id("tune-start")).is_empty()).then_some(())
    });
}

/// Adds the file, and reads its card.
fn add(window: &Window, family: &Family, file: &Path) {
    window.click("view-models");
    window.answer_dialog("choose_model_file", file);
    window.click("add-model-file");
    click_on_card(window, family, "card-details");
    window.until_shows("Architecture");
    let card = window.session.one(&format!("article[aria-label=\"{}\"]", family.name));
    let card = || window.session.text(&card).unwrap_or_default();
    assert!(card().contains(family.architecture), "{}", card());
    let fit = window.session.one(&on_card(family, "card-fit"));
    assert_eq!(
        window.session.attribute(&fit, "data-verdict").as_deref(),
        Some("fits"),
        "{}",
        card()
    );
    click_on_card(window, family, "card-template");
    match family.template() {
        Some(template) => {
            let script = format!(
                "return document.querySelector('{}').textContent",
                on_card(family, "template-text")
            );
            window.session.one(&on_card(family, "template-text"));
            let shown = window.session.script(&script).expect("the template is shown");
            assert_eq!(shown.as_str(), Some(template.as_str()));
        }
        None => {
            window.session.one(&on_card(family, "template-none"));
        }
    }
    let card = format!("article[aria-label=\"{}\"]", family.name);
    let show = format!("document.querySelector('{card}').scrollIntoView()");
    window.session.script(&show).expect("the page scrolls");
    window.screenshot(&format!("family-{}-card", family.fixture));
}

/// Loads the model, reads its plan, and asks it with and without thinking.
fn chat(window: &Window, family: &Family) {
    click_on_card(window, family, "card-chat");
    until_loaded(window, family.name);
    let pressed = || {
        let switch = window.session.all(&id("thinking")).pop()?;
        window
            .session
            .attribute(&switch, "aria-pressed")
            .map(|is_on| is_on == "true")
    };
    assert_eq!(pressed(), family.thinks, "the switch of {}", family.name);
    ask(window, 1);
    if let Some(thinks) = family.thinks {
        window.click("thinking");
        window.session.until(LIMIT, "the switch follows", || {
            (pressed() == Some(!thinks)).then_some(())
        });
        ask(window, 2);
    }
    window.screenshot(&format!("family-{}-chat", family.fixture));
    window.open_settings("models");
    until_attribute(window, "plan-verdict", "data-verdict", "fits");
    window.session.until(LIMIT, "the plan is the model's", || {
        window.text_of("plan-verdict").contains(family.name).then_some(())
    });
    window.screenshot(&format!("family-{}-plan", family.fixture));
}

/// Asks, and ends the answer once it has words: noise may have no end.
fn ask(window: &Window, number: usize) {
    window.send("Hello");
    window.until_stopped(number);
}

/// Refuses to import an adapter of another family.
fn refuse_import(window: &Window, family: &Family, other: &Other) {
    open_tune(window);
    window.answer_dialog("choose_adapter", &other.adapter);
    window.click("import-gguf");
    let toast = format!("{}.problem", id("toast"));
    window.session.until(LIMIT, &format!("{} refuses it", family.name), || {
        let refusal = window.session.text(&window.session.all(&toast).pop()?)?;
        refusal.contains("does not belong to this model").then_some(())
    });
    window.screenshot(&format!("family-{}-refused", family.fixture));
    assert!(window.session.all(&id("imported-adapter")).is_empty());
    window
        .session
        .click(&window.session.one(&format!("{toast} .icon-button")));
}

/// Replaces a field's text, and leaves it.
fn set(window: &Window, field: &Element, value: &str) {
    let select_all = format!("{}a{}", Key::CONTROL.0, Key::CONTROL.0);
    window
        .session
        .fill(field, &format!("{select_all}{value}{}", Key::TAB.0));
}

/// Trains an adapter in a few steps.
fn train(window: &Window, family: &Family) {
    window.click("sample");
    window.session.one(&id("preview"));
    window.click("advanced");
    for (setting, value) in RUN {
        let field = window
            .session
            .one(&format!("{} input", id(&format!("setting-{setting}"))));
        set(window, &field, value);
    }
    let model = "return document.querySelector('[data-testid=train-model]').selectedOptions[0].textContent";
    let model = window.session.script(model).expect("a model is chosen");
    assert!(
        model.as_str().is_some_and(|model| model.contains(family.name)),
        "{model}"
    );
    window.click("train");
    until_attribute(window, "run-page", "data-state", "finished");
    window.session.one(&id("verdict"));
    window.screenshot(&format!("family-{}-run", family.fixture));
}

/// Exports the adapter for PEFT and for llama.cpp. The window compares each with the adapter.
fn export(window: &Window, family: &Family, folder: &Path) {
    window.click("export");
    let peft = folder.join(format!("{}-peft", family.fixture));
    let lora = folder.join(format!("{}-lora.gguf", family.fixture));
    for (format, target) in [("peft", &peft), ("ggufLora", &lora)] {
        window.answer_dialog("choose_export_target", target);
        window.click(&format!("format-{format}"));
        window.click("export-write");
        until_attribute(window, "verification", "data-passed", "true");
        // Unless it learned nothing, of which an export would be equal whatever it has.
        window.session.one(&format!("{}.good", id("verification")));
    }
    window.screenshot(&format!("family-{}-export", family.fixture));
    let close = format!("{} header button", id("export-dialog"));
    window.session.click(&window.session.one(&close));

    let config = fs::read_to_string(peft.join("adapter_config.json")).expect("PEFT's settings");
    for module in family.modules {
        assert!(config.contains(&format!("\"{module}\"")), "{module}: {config}");
    }
    let lora = Gguf::open(&lora).expect("an adapter");
    let architecture = lora.metadata().str("general.architecture").expect("a text");
    assert_eq!(architecture, Some(family.architecture));
}

/// Chats with the adapter, then with another model, which refuses it.
fn chat_with_adapter(window: &Window, family: &Family, other: &Other) {
    window.click("chat-with-it");
    until_loaded(window, family.name);
    ask(window, 1);
    window.session.one(&id("answer-adapters"));
    window.click("model-pill");
    let choice = format!("{}[data-id=\"{}\"]", id("model-choice"), other.id);
    window.session.click(&window.session.one(&choice));
    until_loaded(window, &other.name);
    window.send("Hello");
    window.until_answer(2, &["failed"]);
    window
        .session
        .until(LIMIT, "the refusal names the adapter's model", || {
            window.text_of("failed").contains(family.name).then_some(())
        });
    window.screenshot(&format!("family-{}-mismatch", family.fixture));
}

#[test]
fn each_family_is_loaded_trained_and_exported_and_refuses_other_adapters() {
    let parts = Parts::from_variable("families");
    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("models");
    fs::create_dir(&models).expect("a folder of models");
    for name in ["llama", "qwen2"] {
        fs::copy(fixture(name), models.join(format!("{name}.gguf"))).expect("a copy");
    }
    let desk = Desktop::with(&[("HEARTH_MODELS", models.as_os_str())]);
    let window = desk.open();
    for (index, family) in FAMILIES.iter().enumerate() {
        if !parts.includes(index, family.name) {
            continue;
        }
        let (started, other) = (Instant::now(), Other::new(family));
        let file = family.write(folder.path());
        add(&window, family, &file);
        chat(&window, family);
        refuse_import(&window, family, &other);
        train(&window, family);
        export(&window, family, folder.path());
        chat_with_adapter(&window, family, &other);
        println!("{}: {:.1} s", family.name, started.elapsed().as_secs_f64());
    }
}
