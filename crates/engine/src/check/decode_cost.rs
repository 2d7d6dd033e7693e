//! CPU decode speed per weight format and per layer, measured on synthetic models.
//!
//! A step of a model takes `step_overhead + layers · layer_overhead + Σ bytes · seconds_per_byte`:
//! a constant, a constant per layer (norms, attention over a short context, synchronization of
//! threads as far as a narrow model shows it), and the time to read and multiply the weights, which
//! depends on their format.

use super::models::load;
use super::sample::Sample;
use super::step_time::{Overheads, step_seconds};
use hearth_kernels::Quant;
use hearth_llm::Place;
use serde::{Deserialize, Serialize};
use std::error::Error;

/// Minimum weight bytes of a format's model: more than the caches of desktop CPUs hold.
const MIN_BYTES: usize = 160 << 20;
/// Width of a format's model.
const WIDTH: usize = 2048;

/// Cost of a decode step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeCost {
    /// Seconds per step, independent of the model.
    step_overhead: f64,
    /// Seconds per layer, in addition to the time of its weights.
    layer_overhead: f64,
    /// Names of formats, and the seconds per byte of their weights.
    formats: Vec<(String, f64)>,
}

impl DecodeCost {
    /// Version of the measurement, raised when it changes, so that earlier results are ignored.
    pub const VERSION: u32 = 1;

    /// Measures the cost per step and per layer. [`DecodeCost::add`] measures formats.
    ///
    /// # Errors
    /// A synthetic model could not be run.
    pub fn measure() -> Result<Self, Box<dyn Error>> {
        let Overheads { step, layer } = Overheads::measure(Place::Cpu)?;
        Ok(Self {
            step_overhead: step,
            layer_overhead: layer,
            formats: Vec::new(),
        })
    }

    /// Whether the cost of a format is known.
    pub fn has(&self, format: Quant) -> bool {
        self.seconds_per_byte(format).is_some()
    }

    /// Measures the cost of a format, unless it is known.
    ///
    /// # Errors
    /// A synthetic model could not be run.
    pub fn add(&mut self, format: Quant) -> Result<(), Box<dyn Error>> {
        if self.has(format) {
            return Ok(());
        }
        let formats: &'static [Quant] = Quant::ALL
            .iter()
            .position(|quant| *quant == format)
            .map_or(&[], |index| {
                const ALL: &[Quant] = &Quant::ALL;
                &ALL[index..=index]
            });
        let layers = MIN_BYTES.div_ceil(layer_bytes(format).max(1));
        let seconds = step_seconds(load(&Sample::llama(layers, WIDTH, 4 * WIDTH, formats), Place::Cpu)?)?;
        let overhead = self.step_overhead + layers as f64 * self.layer_overhead;
        let cost = (seconds - overhead) / (layer_bytes(format) * layers) as f64;
        if cost <= 0.0 {
            // Plans would predict infinite speed from it.
            return Err("another program disturbed the measurement".into());
        }
        self.formats.push((format.name().to_owned(), cost));
        Ok(())
    }

    /// Adds the costs of formats that only `other` has.
    pub fn merge(&mut self, other: Self) {
        for (name, cost) in other.formats {
            if self.formats.iter().all(|(existing, _)| *existing != name) {
                self.formats.push((name, cost));
            }
        }
    }

    /// Seconds per step, independent of the model.
    pub fn step_overhead(&self) -> f64 {
        self.step_overhead
    }

    /// Seconds of a layer with these weights. `None` means that a format was not measured.
    pub fn layer_seconds(&self, weights: &[(Quant, u64)]) -> Option<f64> {
        Some(self.layer_overhead + self.weights_seconds(weights)?)
    }

    /// Seconds to multiply by these weights. `None` means that a format was not measured.
    pub fn weights_seconds(&self, weights: &[(Quant, u64)]) -> Option<f64> {
        let seconds = weights
            .iter()
            .map(|(format, bytes)| Some(self.seconds_per_byte(*format)? * *bytes as f64));
        seconds.sum()
    }

    fn seconds_per_byte(&self, format: Quant) -> Option<f64> {
        let cost = self.formats.iter().find(|(name, _)| name == format.name());
        cost.map(|(_, seconds)| *seconds)
    }
}

/// Bytes of a layer of a format's model.
fn layer_bytes(format: Quant) -> usize {
    let weights = WIDTH * (2 * WIDTH + WIDTH) + 3 * WIDTH * 4 * WIDTH;
    weights / format.block_elements() * format.block_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_its_parts() {
        let cost = DecodeCost {
            step_overhead: 1.0,
            layer_overhead: 0.5,
            formats: vec![("Q8_0".to_owned(), 0.25)],
        };
        assert_eq!(cost.layer_seconds(&[(Quant::Q8_0, 8)]), Some(2.5));
        assert_eq!(cost.weights_seconds(&[(Quant::Q8_0, 8), (Quant::Q8_0, 4)]), Some(3.0));
        assert_eq!(cost.layer_seconds(&[(Quant::Q4_0, 8)]), None, "never measured");
        assert_eq!(cost.layer_seconds(&[]), Some(0.5));
    }

    #[test]
    fn merging_adds_what_was_measured_elsewhere() {
        let cost = |formats: &[(&str, f64)]| DecodeCost {
            formats: formats.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect(),
            ..DecodeCost::default()
        };
        let mut merged = cost(&[("Q8_0", 1.0)]);
        merged.merge(cost(&[("Q8_0", 2.0), ("F16", 3.0)]));
        assert_eq!(merged, cost(&[("Q8_0", 1.0), ("F16", 3.0)]));
    }
}
