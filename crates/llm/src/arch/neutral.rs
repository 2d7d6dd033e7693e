//! Values of metadata keys with which a key changes nothing.

use crate::config::Config;
use hearth_formats::gguf::Value;
use hearth_formats::shortened;

/// A value with which a key changes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Neutral {
    /// A number; booleans are 0 and 1.
    Number(f64),
    /// A text.
    Text(&'static str),
    /// The width of a head.
    HeadDim,
    /// The elements of a head that RoPE rotates.
    RopeDims,
    /// The width of the residual stream.
    Width,
    /// The context length or more.
    WholeContext,
    /// The factor of scores: one over the root of a head's width.
    ScoreScale,
}

impl Neutral {
    fn is_number(self, found: f64, config: &Config) -> bool {
        match self {
            Self::Number(number) => found == number,
            Self::Text(_) => false,
            Self::HeadDim => found == config.head_dim as f64,
            Self::RopeDims => found == config.rope_dims as f64,
            Self::Width => found == config.width as f64,
            Self::WholeContext => found >= config.context_trained as f64,
            Self::ScoreScale => {
                // Gemma 3 27B uses the second.
                let widths = [config.head_dim, config.width / config.heads].map(|width| width as f64);
                widths.iter().any(|width| (found * width.sqrt() - 1.0).abs() < 1e-6)
            }
        }
    }
}

/// Whether a value, or each value of a list, is one of `neutral`.
pub(super) fn is_neutral(found: &Value, neutral: &[Neutral], config: &Config) -> bool {
    if let Value::Str(text) = found {
        return neutral
            .iter()
            .any(|one| matches!(one, Neutral::Text(known) if known == text));
    }
    let is_one = |number: f64| neutral.iter().any(|one| one.is_number(number, config));
    found.numbers().is_some_and(|mut numbers| numbers.all(is_one))
}

/// Most numbers of a list in a message.
const SHOWN: usize = 4;
/// Most characters of a text in a message.
const TEXT_CHARACTERS: usize = 60;

/// A value for a message.
pub(super) fn shown(value: &Value) -> String {
    let text = |text: &str| format!("'{}'", shortened(text, TEXT_CHARACTERS));
    let mut numbers = match (value, value.numbers()) {
        (Value::Str(string), _) => return text(string),
        (Value::Bool(flag), _) => return flag.to_string(),
        (_, None) => return value.type_name().to_owned(),
        (_, Some(numbers)) => numbers,
    };
    if !matches!(value, Value::Array(_)) {
        return shown_number(numbers.next().unwrap_or_default());
    }
    let mut shown: Vec<String> = numbers.by_ref().take(SHOWN).map(shown_number).collect();
    shown.extend(numbers.next().map(|_| "...".to_owned()));
    format!("[{}]", shown.join(", "))
}

fn shown_number(number: f64) -> String {
    if number.abs() < 1e9 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
