//! The chunk size of a prefill: large enough for full speed, small enough for fast cancellation.

use crate::cache::CacheSize;
use crate::model::Model;
use std::time::Duration;

/// Tokens of the first chunk, before the speed was measured.
const FIRST_TOKENS: usize = 128;
/// Tokens of the smallest chunk. Smaller ones have a measurable overhead.
const MIN_TOKENS: usize = 16;
/// Target time between two cancellation checks of a prefill.
const STEP_TIME: Duration = Duration::from_millis(60);
/// Target time of a step with most layers on a GPU. A small chunk leaves a large GPU idle and takes
/// as long as a large one, so with a lower target the chunk would stay small.
const GPU_STEP_TIME: Duration = Duration::from_millis(400);

/// The number of tokens that a prefill processes in a step, adapted to the measured speed.
#[derive(Debug, Clone, Copy)]
pub struct Chunk(usize);

impl Default for Chunk {
    fn default() -> Self {
        Self(FIRST_TOKENS)
    }
}

impl Chunk {
    /// Tokens of the largest chunk. Larger ones do not speed up the GEMMs.
    pub const MAX_TOKENS: usize = CacheSize::STEP;

    /// The number of tokens.
    pub fn tokens(self) -> usize {
        self.0
    }

    /// The target time of a model's step. On the CPU, a step can be cancelled after each layer. On
    /// a GPU all layers are enqueued at once. `shared` means that other answers wait for the step.
    pub fn step_time(model: &Model, shared: bool) -> Duration {
        let layers = model.config().n_layers().max(1);
        match model.placement().gpu_layers() {
            on_gpu if 2 * on_gpu > layers => GPU_STEP_TIME,
            0 if !shared => STEP_TIME * layers as u32,
            _ => STEP_TIME,
        }
    }

    /// Adapts the size after a step of `tokens` tokens that took `took`, so that a step takes about
    /// `target`.
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
        let mut tokens_after = |tokens, milliseconds| {
            chunk.adapt(tokens, Duration::from_millis(milliseconds), 10 * STEP_TIME);
            chunk.tokens()
        };
        assert_eq!(tokens_after(100, 1), 128, "the step was shorter than the chunk");
        assert_eq!(
            [tokens_after(128, 200), tokens_after(256, 200), tokens_after(512, 200)],
            [256, 512, 512]
        );
        assert_eq!(
            [
                tokens_after(512, 400),
                tokens_after(512, 601),
                tokens_after(256, 10_000)
            ],
            [512, 256, 128]
        );
        assert_eq!(
            [
                tokens_after(128, 10_000),
                tokens_after(64, 10_000),
                tokens_after(32, 10_000),
                tokens_after(16, 10_000)
            ],
            [64, 32, 16, 16]
        );
    }

    #[test]
    fn a_chunk_on_a_gpu_recovers_from_steps_that_compiled_kernels() {
        let mut chunk = Chunk::default();
        let mut tokens_after = |milliseconds| {
            chunk.adapt(chunk.tokens(), Duration::from_millis(milliseconds), GPU_STEP_TIME);
            chunk.tokens()
        };
        // An H200 took as long for 16 tokens of a model with 1B weights as for 128.
        let expected = [64, 32, 64, 128, 256, 512];
        assert_eq!([9_000, 3_000, 145, 145, 145, 150].map(&mut tokens_after), expected);
    }
}
