//! Thinking: the template variables that switch it and set its length.

use super::stack::on_large_stack;
use super::{ChatTemplate, GenerationPrompt, NAME, probe_chat};
use minijinja::Value;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Variables that switch thinking on or off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// The variable that sets the length of thinking.
const EFFORT: &str = "reasoning_effort";

/// A choice of thinking. `None` leaves a variable undefined: the template's default applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thinking {
    /// Whether the model thinks.
    pub enabled: Option<bool>,
    /// The length of its thinking: `low`, `medium` or `high`.
    pub effort: Option<&'static str>,
}

impl Thinking {
    /// The values of the template's variables.
    pub(super) fn variables(self) -> Value {
        let switches = self
            .enabled
            .into_iter()
            .flat_map(|enabled| SWITCHES.map(|name| (name, Value::from(enabled))));
        let effort = self.effort.map(|effort| (EFFORT, Value::from(effort)));
        Value::from_pairs(switches.chain(effort))
    }
}

/// The settings of thinking that have an effect in a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThinkingSupport {
    /// Whether the model thinks by default. `None` means that it cannot be switched on or off.
    pub switch: Option<bool>,
    /// Whether [`Thinking::effort`] has an effect.
    pub effort: bool,
}

impl ChatTemplate {
    /// Finds the settings of thinking that have an effect: the template reads their variable, and
    /// renders a probe differently for different values.
    pub fn thinking(&self) -> ThinkingSupport {
        let variables = self.undeclared_variables();
        let render = |enabled, effort| self.render_probe(Thinking { enabled, effort });
        let mut support = ThinkingSupport::default();
        if SWITCHES.iter().any(|name| variables.contains(*name)) {
            let [on, off] = [Some(true), Some(false)].map(|enabled| render(enabled, None));
            support.switch = (on.is_some() && off.is_some() && on != off).then(|| render(None, None) != off);
        }
        if variables.contains(EFFORT) {
            let [low, high] = ["low", "high"].map(|effort| render(None, Some(effort)));
            support.effort = low.is_some() && high.is_some() && low != high;
        }
        support
    }

    /// The variables that the template reads and does not set.
    fn undeclared_variables(&self) -> HashSet<String> {
        on_large_stack(|| {
            // Parses the source again. minijinja's parser can panic.
            let parse = || {
                let template = self.environment.get_template(NAME).ok();
                template.map(|template| template.undeclared_variables(false))
            };
            Ok(catch_unwind(AssertUnwindSafe(parse)).ok().flatten().unwrap_or_default())
        })
        .unwrap_or_default()
    }

    /// Renders a short user message. `None` if the template refuses it.
    fn render_probe(&self, thinking: Thinking) -> Option<String> {
        self.render_chat(&probe_chat().with_thinking(thinking), GenerationPrompt::Add)
            .ok()
    }
}
