//! Benchmarks the loaded model.

use crate::Engine;
use crate::numbers::saturating_u32;
use crate::problem::from_session;
use hearth_llm::{Session, greedy};
use hearth_protocol::{Measured, Problem, ProblemCode, RequestReason};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Maximum tokens of the measured prefill.
const MAX_PROMPT_TOKENS: usize = 512;
/// Maximum tokens of the measured decode.
const MAX_ANSWER_TOKENS: usize = 64;

impl Engine {
    /// Prefills random tokens and decodes greedily, in a separate session. `progress` receives the
    /// completed fraction, from 0 to 1. It returns `Break` to cancel.
    ///
    /// # Errors
    /// The context is too short, the GPU failed, or the measurement was cancelled.
    pub fn measure(&self, progress: &mut dyn FnMut(f32) -> ControlFlow<()>) -> Result<Measured, Problem> {
        let context = self.session.context();
        let answer_tokens = MAX_ANSWER_TOKENS.min(context / 4);
        let prompt_tokens = MAX_PROMPT_TOKENS.min(context - answer_tokens);
        if answer_tokens == 0 {
            let context = saturating_u32(context);
            return Err(Problem::new(
                ProblemCode::BadRequest,
                RequestReason::ContextTooShort { context },
            ));
        }
        let cancelled = || Problem::new(ProblemCode::Cancelled, RequestReason::MeasurementCancelled);
        let vocab = self.model().config().vocab as u64;
        // Knuth's generator for MMIX: the same tokens on every machine.
        let mut state = 1u64;
        let mut token = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % vocab) as u32
        };
        let ids: Vec<u32> = (0..prompt_tokens).map(|_| token()).collect();
        let mut prefill = |ids: &[u32], fraction: f32| {
            let format = self.session.cache_format();
            let session = Session::with_cache(Arc::clone(self.model()), prompt_tokens + answer_tokens, format);
            let mut session = session.map_err(from_session)?;
            let start = Instant::now();
            let prefill = session
                .prefill(ids, &mut |_, _| progress(fraction))
                .map_err(from_session)?;
            let seconds = start.elapsed().as_secs_f64();
            if prefill.completed {
                Ok((session, seconds))
            } else {
                Err(cancelled())
            }
        };
        // Warm-up: touches memory and fills caches.
        prefill(&ids[..prompt_tokens.div_ceil(2)], 0.0)?;
        let (mut session, prefill_seconds) = prefill(&ids, 0.2)?;
        let start = Instant::now();
        let mut next = greedy(session.logits()).unwrap_or_default();
        for step in 0..answer_tokens {
            if progress(0.5 + 0.5 * step as f32 / answer_tokens as f32).is_break() {
                return Err(cancelled());
            }
            next = session.push_greedy(next).map_err(from_session)?.unwrap_or_default();
        }
        let decode_seconds = start.elapsed().as_secs_f64();
        Ok(Measured {
            prompt_tokens_per_second: prompt_tokens as f64 / prefill_seconds.max(1e-9),
            tokens_per_second: answer_tokens as f64 / decode_seconds.max(1e-9),
            prompt_tokens: saturating_u32(prompt_tokens),
            tokens: saturating_u32(answer_tokens),
        })
    }
}
