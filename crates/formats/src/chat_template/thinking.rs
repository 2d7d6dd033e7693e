//! Thinking: the variables with which templates switch a model's thoughts.

use super::stack::on_large_stack;
use super::{Chat, ChatTemplate, GenerationPrompt, Message, NAME, PROBE, Role};
use minijinja::Value;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variables for on and off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// The variable for how long a model thinks.
const EFFORT: &str = "reasoning_effort";

/// A choice of thinking. `None` leaves its variable undefined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thinking {
    /// Whether the model thinks.
    pub enabled: Option<bool>,
    /// The length of its thoughts: `low`, `medium` or `high`.
    pub effort: Option<&'static str>,
}

impl Thinking {
    /// The template's variables.
    pub(super) fn variables(self) -> Value {
        let switches = self
            .enabled
            .into_iter()
            .flat_map(|enabled| SWITCHES.map(|name| (name, Value::from(enabled))));
        let effort = self.effort.map(|effort| (EFFORT, Value::from(effort)));
        Value::from_pairs(switches.chain(effort))
    }
}

/// The thinking that a template can switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThinkingSupport {
    /// Whether the model thinks by default. `None` means that it cannot be switched on or off.
    pub switch: Option<bool>,
    /// Whether the effort has an effect.
    pub effort: bool,
}

impl ChatTemplate {
    /// The thinking that the template can switch: it reads the variable, and renders a conversation
    /// differently for different values.
    pub fn thinking(&self) -> ThinkingSupport {
        let reads = self.undeclared();
        let rendered = |enabled, effort| self.probed(Thinking { enabled, effort });
        let mut support = ThinkingSupport::default();
        if SWITCHES.iter().any(|name| reads.contains(*name)) {
            let [on, off] = [Some(true), Some(false)].map(|enabled| rendered(enabled, None));
            support.switch = (on.is_some() && off.is_some() && on != off).then(|| rendered(None, None) != off);
        }
        if reads.contains(EFFORT) {
            let [low, high] = ["low", "high"].map(|effort| rendered(None, Some(effort)));
            support.effort = low.is_some() && high.is_some() && low != high;
        }
        support
    }

    /// The variables that the template reads and does not set.
    fn undeclared(&self) -> HashSet<String> {
        on_large_stack(|| {
            // Parsed before; a panic of the parser would have refused the template then.
            let read = || {
                let template = self.environment.get_template(NAME).ok();
                template.map(|template| template.undeclared_variables(false))
            };
            Ok(catch_unwind(AssertUnwindSafe(read)).ok().flatten().unwrap_or_default())
        })
        .unwrap_or_default()
    }

    /// The prompt of a short message. `None` if the template refuses it.
    fn probed(&self, thinking: Thinking) -> Option<String> {
        let message = Message {
            role: Role::User,
            content: PROBE.to_owned(),
        };
        let chat = Chat::from(&[message][..]).with_thinking(thinking);
        self.render_chat(&chat, GenerationPrompt::Add).ok()
    }
}
