//! The chunks of a prompt: long enough for full speed, short enough to be cancelled soon.

use crate::cache::CacheSize;
use crate::model::Model;
use std::time::Duration;

/// Tokens of a prompt's first chunk, before its speed is known.
const FIRST: usize = 128;
/// The smallest chunk: below, its overhead is measurable.
const MIN_TOKENS: usize = 16;
/// Target time between two cancellation checks of a prefill.
const STEP_TIME: Duration = Duration::from_millis(60);
/// Target time of a step with most layers on a GPU. A short chunk leaves a large GPU idle and takes
/// as long as a long one, so with a lower target it would stay short.
const GPU_STEP_TIME: Duration = Duration::from_millis(400);

/// The number of tokens that a prefill processes in a step, adapted to the measured speed.
#[derive(Debug, Clone, Copy)]
pub struct Chunk(usize);

impl Default for Chunk {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Chunk {
    /// The largest chunk: larger ones do not speed up the GEMMs.
    pub const MAX_TOKENS: usize = CacheSize::STEP;

    /// Its tokens.
    pub fn tokens(self) -> usize {
        self.0
    }

    /// The target time of a model's step. On the CPU, a step can be cancelled after each layer; a
    /// GPU is given all layers at once. `shared` means that other answers wait for the step.
    pub fn step_time(model: &Model, shared: bool) -> Duration {
        let layers = model.config().n_layers.max(1);
        match model.placement().gpu_layers() {
            on_gpu if 2 * on_gpu > layers => GPU_STEP_TIME,
            0 if !shared => STEP_TIME * layers as u32,
            _ => STEP_TIME,
        }
    }

    /// Adapts it after a step of `tokens` tokens, so that a step takes about `target`.
    pub fn adapt(&mut self, tokens: usize, took: Duration, target: Duration) {
        if tokens < self.0 {
            return;
        }
        if took > target {
            self.0 = (self.0 / 2).max(MIN_TOKENS);
        } else if took < target / 2 {
            self.0 = (self.0 * 2).min(Self::MAX_TOKENS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_follows_the_speed_within_its_bounds() {
        let mut chunk = Chunk::default();
        let mut after = |tokens, milliseconds| {
            chunk.adapt(tokens, Duration::from_millis(milliseconds), 10 * STEP_TIME);
            chunk.tokens()
        };
        assert_eq!(after(100, 1), 128, "a shorter chunk says nothing");
        assert_eq!([after(128, 200), after(256, 200), after(512, 200)], [256, 512, 512]);
        assert_eq!([after(512, 400), after(512, 601), after(256, 10_000)], [512, 256, 128]);
        assert_eq!(
            [
                after(128, 10_000),
                after(64, 10_000),
                after(32, 10_000),
                after(16, 10_000)
            ],
            [64, 32, 16, 16]
        );
    }

    #[test]
    fn a_chunk_on_a_gpu_recovers_from_steps_that_compiled_kernels() {
        let mut chunk = Chunk::default();
        let mut after = |milliseconds| {
            chunk.adapt(chunk.tokens(), Duration::from_millis(milliseconds), GPU_STEP_TIME);
            chunk.tokens()
        };
        // An H200 took as long for 16 tokens of a model with 1B weights as for 128.
        let expected = [64, 32, 64, 128, 256, 512];
        assert_eq!([9_000, 3_000, 145, 145, 145, 150].map(&mut after), expected);
    }
}
