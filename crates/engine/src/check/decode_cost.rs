//! Decode speed of the CPU, per format of the weights and per layer, measured on synthetic models.
//!
//! A step of a model takes `step_overhead + layers · layer_overhead + Σ bytes · seconds_per_byte`:
//! a constant, a constant per layer (norms, attention over a short context, synchronisation of
//! threads as far as a narrow model shows it), and the time to read and multiply the weights, which
//! depends on their format.

use super::models::{load, tokens};
use super::sample::Sample;
use hearth_formats::Architecture;
use hearth_kernels::Quant;
use hearth_llm::{Place, Session};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum bytes of the weights of a format's model: more than the caches of desktops hold.
const MIN_BYTES: usize = 160 << 20;
/// Width of a format's model.
const WIDTH: usize = 2048;
/// Layers of the two models whose difference is the time of a layer.
const LAYERS: [usize; 2] = [2, 18];
/// Minimum and maximum number of steps; the median is reported.
const MIN_STEPS: usize = 7;
const MAX_STEPS: usize = 200;
const MEASURE_TIME: Duration = Duration::from_millis(250);

/// Cost of a decode step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeCost {
    /// Seconds of a step, whatever the model.
    step_overhead: f64,
    /// Seconds of a layer, in addition to those of its weights.
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
        let [few, many] = LAYERS.map(|layers| step_seconds(&sample(layers, 64, &[Quant::F32])));
        let (few, many) = (few?, many?);
        let layer_overhead = ((many - few) / (LAYERS[1] - LAYERS[0]) as f64).max(0.0);
        Ok(Self {
            step_overhead: (few - LAYERS[0] as f64 * layer_overhead).max(0.0),
            layer_overhead,
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
        let formats: &'static [Quant] = Quant::ALL.iter().position(|it| *it == format).map_or(&[], |at| {
            const ALL: &[Quant] = &Quant::ALL;
            &ALL[at..=at]
        });
        let layers = MIN_BYTES.div_ceil(layer_bytes(format).max(1));
        let seconds = step_seconds(&sample(layers, WIDTH, formats))?;
        let overhead = self.step_overhead + layers as f64 * self.layer_overhead;
        let cost = (seconds - overhead) / (layer_bytes(format) * layers) as f64;
        if cost <= 0.0 {
            // Recorded, it would promise an endless speed.
            return Err("another program disturbed the measurement".into());
        }
        self.formats.push((format.name().to_owned(), cost));
        Ok(())
    }

    /// Adds the costs of formats that only `other` knows.
    pub fn merge(&mut self, other: Self) {
        for (name, cost) in other.formats {
            if self.formats.iter().all(|(known, _)| *known != name) {
                self.formats.push((name, cost));
            }
        }
    }

    /// Seconds of a step, whatever the model.
    pub fn step_overhead(&self) -> f64 {
        self.step_overhead
    }

    /// Seconds of a layer with these weights. `None` means that a format was not measured.
    pub fn layer_seconds(&self, weights: &[(Quant, u64)]) -> Option<f64> {
        Some(self.layer_overhead + self.weights_seconds(weights)?)
    }

    /// Seconds to multiply by these weights.
    pub fn weights_seconds(&self, weights: &[(Quant, u64)]) -> Option<f64> {
        let seconds = weights
            .iter()
            .map(|(format, bytes)| Some(self.seconds_per_byte(*format)? * *bytes as f64));
        seconds.sum()
    }

    fn seconds_per_byte(&self, format: Quant) -> Option<f64> {
        let known = self.formats.iter().find(|(name, _)| name == format.name());
        known.map(|(_, cost)| *cost)
    }
}

fn sample(layers: usize, width: usize, formats: &'static [Quant]) -> Sample {
    Sample {
        architecture: Architecture::Llama,
        layers,
        width,
        ffn_width: 4 * width,
        heads: width / 64,
        kv_heads: (width / 128).max(1),
        vocab: 256,
        formats,
    }
}

/// Bytes of a layer of a format's model.
fn layer_bytes(format: Quant) -> usize {
    let weights = WIDTH * (2 * WIDTH + WIDTH) + 3 * WIDTH * 4 * WIDTH;
    weights / format.block_elements() * format.block_bytes()
}

/// Median seconds of a decode step.
fn step_seconds(sample: &Sample) -> Result<f64, Box<dyn Error>> {
    let model = load(sample, Place::Cpu)?;
    let ids = tokens(&model, MAX_STEPS);
    let mut session = Session::new(Arc::clone(&model), 2 * MAX_STEPS)?;
    // The first steps fault pages in.
    for id in &ids[..3] {
        session.push_greedy(*id)?;
    }
    let (began, mut seconds) = (Instant::now(), Vec::new());
    for id in &ids[3..] {
        if seconds.len() >= MIN_STEPS && began.elapsed() >= MEASURE_TIME {
            break;
        }
        let step = Instant::now();
        session.push_greedy(*id)?;
        seconds.push(step.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
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
