//! The chunks of a prompt: long enough for full speed, short enough to be cancelled soon.

use crate::cache::CacheSize;
use std::time::Duration;

/// Tokens of a prompt's first chunk, before its speed is known.
const FIRST: usize = 128;
/// The smallest chunk: below, its overhead is measurable.
const SMALLEST: usize = 16;
/// Target time between two cancellation checks of a prefill.
const STEP_TIME: Duration = Duration::from_millis(60);

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
    pub const LARGEST: usize = CacheSize::STEP;

    /// Its tokens.
    pub fn tokens(self) -> usize {
        self.0
    }

    /// Adapts it after a step of `tokens` tokens, so that one of its `checks` takes about
    /// [`STEP_TIME`]: a layer, or on an asynchronous GPU the whole step.
    pub fn adapt(&mut self, tokens: usize, took: Duration, checks: usize) {
        if tokens < self.0 {
            return;
        }
        let step = took / checks.max(1) as u32;
        if step > STEP_TIME {
            self.0 = (self.0 / 2).max(SMALLEST);
        } else if step < STEP_TIME / 2 {
            self.0 = (self.0 * 2).min(Self::LARGEST);
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
            chunk.adapt(tokens, Duration::from_millis(milliseconds), 10);
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
}
