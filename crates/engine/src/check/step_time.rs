//! The time of a decode step, and the overheads in it.

use super::models::{load, tokens};
use super::sample::Sample;
use hearth_kernels::Quant;
use hearth_llm::{Model, Place, Session};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Width of the models that measure overheads. The time of their weights is negligible.
const WIDTH: usize = 64;
/// Layers of the two models whose difference is the overhead of a layer.
const LAYERS: [usize; 2] = [2, 18];
/// Minimum and maximum number of steps, of which the median is reported.
const MIN_STEPS: usize = 7;
const MAX_STEPS: usize = 200;
/// Time after which no further step is measured.
const MEASURE_TIME: Duration = Duration::from_millis(250);
/// Minimum fraction of a step that is attributed to its weights. The difference of two nearly equal
/// times would be noise.
const MIN_WEIGHTS_FRACTION: f64 = 0.25;

/// Seconds of a decode step that do not depend on the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overheads {
    /// Per step: embedding, output layer, and reading the token.
    pub step: f64,
    /// Per layer: norms, attention over a short context, synchronization of threads, and launches
    /// of kernels on a GPU.
    pub layer: f64,
}

impl Overheads {
    /// Measures the overheads with two narrow models.
    ///
    /// # Errors
    /// A model could not be run.
    pub fn measure(place: Place) -> Result<Self, Box<dyn Error>> {
        let seconds = |layers| step_seconds(load(&Sample::llama(layers, WIDTH, 4 * WIDTH, &[Quant::F32]), place)?);
        Ok(Self::from_times(seconds(LAYERS[0])?, seconds(LAYERS[1])?))
    }

    /// Computes the overheads from the step times of the models with few and with many layers.
    fn from_times(few: f64, many: f64) -> Self {
        let layer = ((many - few) / (LAYERS[1] - LAYERS[0]) as f64).max(0.0);
        Self {
            step: (few - LAYERS[0] as f64 * layer).max(0.0),
            layer,
        }
    }

    /// Seconds that the weights take in a step of this duration.
    pub fn weights_seconds(&self, step: f64, layers: usize) -> f64 {
        let overhead = self.step + layers as f64 * self.layer;
        (step - overhead).max(MIN_WEIGHTS_FRACTION * step).max(1e-9)
    }
}

/// Median seconds of a decode step, from an empty context.
///
/// # Errors
/// The model could not be run.
pub(super) fn step_seconds(model: Arc<Model>) -> Result<f64, Box<dyn Error>> {
    let ids = tokens(&model, MAX_STEPS);
    let mut session = Session::new(model, 2 * MAX_STEPS)?;
    // The first steps fault pages in and compile kernels.
    for id in &ids[..3] {
        session.push_greedy(*id)?;
    }
    let (start, mut seconds) = (Instant::now(), Vec::new());
    for id in &ids[3..] {
        if seconds.len() >= MIN_STEPS && start.elapsed() >= MEASURE_TIME {
            break;
        }
        let step_start = Instant::now();
        session.push_greedy(*id)?;
        seconds.push(step_start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that takes 0.6 ms a step, 0.1 ms a layer and 1 ms for 100 MB.
    #[test]
    fn overheads_and_weights_are_separated() {
        let step = |layers: usize, bytes: f64| 6e-4 + 1e-4 * layers as f64 + bytes * 1e-11;
        let overheads = Overheads::from_times(step(LAYERS[0], 0.0), step(LAYERS[1], 0.0));
        let close = |actual: f64, expected: f64| (actual - expected).abs() < 1e-9;
        assert!(
            close(overheads.step, 6e-4) && close(overheads.layer, 1e-4),
            "{overheads:?}"
        );
        assert!(close(overheads.weights_seconds(step(4, 1e8), 4), 1e-3));
    }

    #[test]
    fn noise_makes_no_time_negative() {
        let overheads = Overheads::from_times(2e-3, 1e-3);
        assert_eq!(overheads, Overheads { step: 2e-3, layer: 0.0 });
        assert!(overheads.weights_seconds(1e-3, 4) > 0.0);
    }
}
