//! A minimal W3C WebDriver client.

use crate::wait::{self, PATIENCE};
use base64::Engine;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The standard's key of an element id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// An open window. Dropping it closes the window.
pub struct Session {
    agent: ureq::Agent,
    address: String,
}

/// An element of the page.
#[derive(Clone)]
pub struct Element(String);

/// A key that is not a character.
#[derive(Clone, Copy)]
pub struct Key(pub char);

impl Key {
    /// Enter.
    pub const ENTER: Key = Key('\u{e007}');
    /// Tab, which leaves a field.
    pub const TAB: Key = Key('\u{e004}');
    /// Delete.
    pub const DELETE: Key = Key('\u{e017}');
    /// End.
    pub const END: Key = Key('\u{e010}');
    /// Home.
    pub const HOME: Key = Key('\u{e011}');
    /// Control.
    pub const CONTROL: Key = Key('\u{e009}');
}

impl Session {
    /// Opens `application` with arguments through the driver at `driver` (`http://127.0.0.1:PORT`).
    ///
    /// # Errors
    /// The driver's error.
    pub fn open(driver: &str, application: &Path, arguments: &[&str]) -> Result<Self, String> {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = config.timeout_global(Some(Duration::from_secs(180))).build().into();
        let options = json!({"application": application, "args": arguments});
        let capabilities = json!({"capabilities": {"alwaysMatch": {"tauri:options": options}}});
        let session = call(&agent, Some(&capabilities), &format!("{driver}/session"))?;
        let id = session["sessionId"].as_str().ok_or("the driver named no session")?;
        Ok(Self {
            address: format!("{driver}/session/{id}"),
            agent,
        })
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        call(&self.agent, Some(body), &format!("{}/{path}", self.address))
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        call(&self.agent, None, &format!("{}/{path}", self.address))
    }

    /// All elements that match, in the page's order.
    pub fn all(&self, css: &str) -> Vec<Element> {
        let elements = self.post("elements", &json!({"using": "css selector", "value": css}));
        let elements = elements.unwrap_or_else(|error| panic!("looking for {css}: {error}"));
        let ids = elements
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|element| element[ELEMENT].as_str());
        ids.map(|id| Element(id.to_owned())).collect()
    }

    /// The first element that matches, once there is one.
    pub fn one(&self, css: &str) -> Element {
        self.until(PATIENCE, css, || self.all(css).into_iter().next())
    }

    /// Waits until `condition` returns `Some`.
    ///
    /// # Panics
    /// Panics with `what` and the page's text after `limit`.
    pub fn until<T>(&self, limit: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
        wait::poll(limit, condition).unwrap_or_else(|| {
            let page = self.script("return document.body.innerText").unwrap_or_default();
            panic!(
                "not within {limit:?}: {what}. The page shows:\n{}",
                page.as_str().unwrap_or_default()
            );
        })
    }

    /// Clicks an element.
    ///
    /// # Panics
    /// Panics if the element is gone or covered.
    pub fn click(&self, element: &Element) {
        self.try_click(element)
            .unwrap_or_else(|error| panic!("clicking: {error}"));
    }

    /// Clicks an element.
    ///
    /// # Errors
    /// The element is gone or covered.
    pub fn try_click(&self, element: &Element) -> Result<(), String> {
        self.post(&format!("element/{}/click", element.0), &json!({}))
            .map(|_| ())
    }

    /// Types text into an element.
    pub fn fill(&self, element: &Element, text: &str) {
        let result = self.post(&format!("element/{}/value", element.0), &json!({ "text": text }));
        result.unwrap_or_else(|error| panic!("typing: {error}"));
    }

    /// Presses a key in an element.
    pub fn press(&self, element: &Element, key: Key) {
        self.fill(element, &key.0.to_string());
    }

    /// Holds Control and types a character, wherever the focus is.
    pub fn shortcut(&self, character: char) {
        let text = format!("{}{character}", Key::CONTROL.0);
        self.fill(&self.one(":focus, body"), &text);
    }

    /// The visible text of an element. `None` means that it is gone.
    pub fn text(&self, element: &Element) -> Option<String> {
        self.get(&format!("element/{}/text", element.0))
            .ok()?
            .as_str()
            .map(str::to_owned)
    }

    /// An attribute of an element. `None` means that it has none or is gone.
    pub fn attribute(&self, element: &Element, name: &str) -> Option<String> {
        self.get(&format!("element/{}/attribute/{name}", element.0))
            .ok()?
            .as_str()
            .map(str::to_owned)
    }

    /// Sets the size of the window in pixels, and waits until the page has it.
    ///
    /// # Panics
    /// Panics if the window does not get this size.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height});
        let zoom = self.script("return outerWidth / innerWidth").expect("a script");
        self.post("window/rect", &size)
            .unwrap_or_else(|error| panic!("resizing the window: {error}"));
        // The page's width is in zoomed pixels.
        let has_size = format!(
            "return Math.abs(outerWidth - {width}) <= 1 && Math.abs(innerWidth * {zoom} - {width}) <= 2 * {zoom}"
        );
        self.until(PATIENCE, &format!("the window is {width} pixels wide"), || {
            (self.script(&has_size).ok()? == true).then_some(())
        });
    }

    /// Runs a function body in the page.
    ///
    /// # Errors
    /// The exception.
    pub fn script(&self, body: &str) -> Result<Value, String> {
        self.post("execute/sync", &json!({"script": body, "args": []}))
    }

    /// Saves a screenshot of the page as a PNG file.
    ///
    /// # Panics
    /// Panics if the driver returns no image.
    pub fn screenshot(&self, file: &Path) {
        // WebKit's driver waits for the next paint, which an idle page never makes: a corner blinks
        // meanwhile.
        let blink = "const dot = document.createElement('i'); dot.id = 'blink'; \
                     dot.style.cssText = 'position:fixed;right:0;bottom:0;width:1px;height:1px'; \
                     document.body.append(dot); let on = 0; \
                     setInterval(() => { on ^= 1; dot.style.background = on ? '#8881' : '#8882'; }, 30);";
        self.script(blink)
            .unwrap_or_else(|error| panic!("before a screenshot: {error}"));
        let image = self
            .get("screenshot")
            .unwrap_or_else(|error| panic!("a screenshot: {error}"));
        self.script("document.getElementById('blink').remove()")
            .unwrap_or_else(|error| panic!("after it: {error}"));
        let image = base64::engine::general_purpose::STANDARD.decode(image.as_str().unwrap_or_default());
        std::fs::create_dir_all(file.parent().expect("a screenshot is in a folder")).expect("the folder can be made");
        std::fs::write(file, image.expect("the driver sends base64")).expect("a screenshot can be written");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The driver may have exited.
        let _ = self.agent.delete(&self.address).call();
    }
}

/// Sends a request. Returns the `value` of the response.
fn call(agent: &ureq::Agent, body: Option<&Value>, address: &str) -> Result<Value, String> {
    let response = match body {
        Some(body) => agent
            .post(address)
            .content_type("application/json")
            .send(body.to_string()),
        None => agent.get(address).call(),
    };
    let mut response = response.map_err(|error| format!("the driver cannot be reached: {error}"))?;
    let is_success = response.status().is_success();
    let text = response
        .body_mut()
        .with_config()
        .limit(64 << 20)
        .read_to_string()
        .map_err(|error| error.to_string())?;
    let mut value: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let value = value["value"].take();
    if is_success { Ok(value) } else { Err(value.to_string()) }
}
