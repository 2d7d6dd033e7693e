//! Layers with a sliding window.

use super::config::Config;
use super::spec::{LayerSpec, MixerSpec};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::Value;

/// The key of the sliding window in tokens.
const WINDOW: &str = "attention.sliding_window";
/// The key of the layers that have it.
const PATTERN: &str = "attention.sliding_window_pattern";

impl HeaderKeys<'_> {
    /// The sliding window in tokens, the token itself included; `None` if it is 0.
    pub(super) fn window(&self, default: u32) -> Result<Option<usize>, LoadError> {
        let window = self.gguf.u32(&self.key(WINDOW))?.unwrap_or(default);
        Ok((window > 0).then_some(window as usize))
    }

    /// For each layer of the model, whether it has the sliding window. The file has a list with a
    /// flag for each, also for layers for multi-token prediction, or a period `n`: the last of
    /// every `n` layers has full attention. With a period of 0, no layer has full attention.
    pub(super) fn windowed_layers(&self, config: &Config, default_period: u32) -> Result<Vec<bool>, LoadError> {
        let (key, layers) = (self.key(PATTERN), config.n_layers());
        let flags = match self.gguf.metadata().get(&key) {
            Some(value @ Value::Array(_)) => value.numbers(),
            _ => None,
        };
        let Some(flags) = flags else {
            let period = self.gguf.u32(&key)?.unwrap_or(default_period) as usize;
            let is_windowed = |layer: usize| period == 0 || layer % period + 1 < period;
            return Ok((0..layers).map(is_windowed).collect());
        };
        let mut is_windowed: Vec<bool> = flags.map(|flag| flag != 0.0).collect();
        let (found, expected) = (is_windowed.len(), layers + config.prediction_layers);
        if found != layers && found != expected {
            let found = format!("a list of {found}");
            return Err(self.bad(PATTERN, found, &format!("a list of {expected}, one for each layer")));
        }
        is_windowed.truncate(layers);
        Ok(is_windowed)
    }
}

impl LayerSpec {
    /// The layer with this window.
    #[must_use]
    pub(super) fn with_window(mut self, window: Option<usize>) -> Self {
        if let Some(MixerSpec::Attention { heads, .. }) = &mut self.mixer {
            heads.window = window;
        }
        self
    }
}
