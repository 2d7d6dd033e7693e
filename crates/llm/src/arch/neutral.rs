//! Neutral values of metadata keys: with them, a key does not change the computation.

use super::config::Config;
use super::spec::RopeScaling;
use hearth_formats::gguf::Value;
use hearth_formats::shape::{AttentionShape, LayerShape, MAX_LAYERS};
use hearth_formats::shortened;

/// A value with which a key does not change the computation.
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
    /// The scale of attention scores: `1 / sqrt(head_dim)`.
    ScoreScale,
    /// RoPE's base.
    RopeBase,
    /// Any number, if RoPE is not scaled by YaRN.
    WithoutYarn,
}

impl Neutral {
    fn matches_number(self, value: f64, config: &Config) -> bool {
        match self {
            Self::Number(number) => value == number,
            Self::Text(_) => false,
            Self::HeadDim => attention(config).all(|attention| value == attention.head_dim as f64),
            Self::RopeDims => value == config.rope_dims as f64,
            Self::Width => value == config.width as f64,
            Self::WholeContext => value >= config.context_trained as f64,
            Self::RopeBase => value == f64::from(config.rope_base),
            Self::WithoutYarn => !matches!(config.rope_scaling, RopeScaling::Yarn(_)),
            Self::ScoreScale => attention(config).all(|attention| {
                // Gemma 3 27B divides by the root of the second.
                let widths = [attention.head_dim, config.width / attention.heads].map(|width| width as f64);
                widths.iter().any(|width| (value * width.sqrt() - 1.0).abs() < 1e-6)
            }),
        }
    }
}

/// The attention of each layer that has it.
fn attention(config: &Config) -> impl Iterator<Item = AttentionShape> {
    config.layer_shapes.iter().filter_map(LayerShape::attention)
}

/// Whether a value, or each value of a list, is one of `neutral`. A list of more numbers than any
/// model has layers is not.
pub(super) fn is_neutral(value: &Value, neutral: &[Neutral], config: &Config) -> bool {
    if let Value::Str(text) = value {
        return neutral
            .iter()
            .any(|candidate| matches!(candidate, Neutral::Text(neutral_text) if neutral_text == text));
    }
    let is_neutral_number = |number: f64| neutral.iter().any(|candidate| candidate.matches_number(number, config));
    let Some(mut numbers) = value.numbers() else {
        return false;
    };
    // Some numbers are compared with each layer, so the length of a list is limited.
    numbers.by_ref().take(MAX_LAYERS).all(is_neutral_number) && numbers.next().is_none()
}

/// Maximum numbers of a list in a message.
const MAX_NUMBERS: usize = 4;
/// Maximum characters of a text in a message.
const MAX_TEXT_CHARACTERS: usize = 60;

/// Formats a value for a message, shortened.
pub(super) fn describe_value(value: &Value) -> String {
    let mut numbers = match (value, value.numbers()) {
        (Value::Str(text), _) => return format!("'{}'", shortened(text, MAX_TEXT_CHARACTERS)),
        (Value::Bool(flag), _) => return flag.to_string(),
        (_, None) => return value.type_name().to_owned(),
        (_, Some(numbers)) => numbers,
    };
    if !matches!(value, Value::Array(_)) {
        return format_number(numbers.next().unwrap_or_default());
    }
    let mut elements: Vec<String> = numbers.by_ref().take(MAX_NUMBERS).map(format_number).collect();
    elements.extend(numbers.next().map(|_| "...".to_owned()));
    format!("[{}]", elements.join(", "))
}

fn format_number(number: f64) -> String {
    if number.abs() < 1e9 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
