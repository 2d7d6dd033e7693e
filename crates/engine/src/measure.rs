//! Benchmark of the loaded model.

use crate::Engine;
use crate::numbers::saturating_u32;
use crate::problem::{from_session, problem};
use hearth_llm::{Session, greedy};
use hearth_protocol::{Measured, Problem, ProblemCode};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Tokens of prefill and decode.
const PROMPT: usize = 512;
const ANSWER: usize = 64;

impl Engine {
    /// Prefills random tokens and decodes greedily, in a separate session. `progress` receives the
    /// fraction, from 0 to 1; it returns `Break` to cancel.
    ///
    /// # Errors
    /// The context is too short, the GPU failed, or the measurement was cancelled.
    pub fn measure(&self, progress: &mut dyn FnMut(f32) -> ControlFlow<()>) -> Result<Measured, Problem> {
        let context = self.session.context();
        let answer = ANSWER.min(context / 4);
        let prompt = PROMPT.min(context - answer);
        if answer == 0 {
            let message = format!("A context of {context} tokens is too short for a measurement. Choose a longer one.");
            return Err(problem(ProblemCode::BadRequest, message));
        }
        let stopped = || problem(ProblemCode::Cancelled, "The measurement was cancelled.");
        let vocab = self.model().config().vocab as u64;
        // Knuth's generator for MMIX: the same tokens on every machine.
        let mut state = 1u64;
        let mut token = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % vocab) as u32
        };
        let ids: Vec<u32> = (0..prompt).map(|_| token()).collect();
        let mut read = |ids: &[u32], share: f32| {
            let format = self.session.cache_format();
            let session = Session::with_cache(Arc::clone(self.model()), prompt + answer, format);
            let mut session = session.map_err(from_session)?;
            let began = Instant::now();
            let read = session
                .prefill(ids, &mut |_, _| progress(share))
                .map_err(from_session)?;
            let seconds = began.elapsed().as_secs_f64();
            if read.completed {
                Ok((session, seconds))
            } else {
                Err(stopped())
            }
        };
        // Warm-up: touches memory and fills caches.
        read(&ids[..prompt.div_ceil(2)], 0.0)?;
        let (mut session, reading) = read(&ids, 0.2)?;
        let began = Instant::now();
        let mut next = greedy(session.logits()).unwrap_or_default();
        for step in 0..answer {
            if progress(0.5 + 0.5 * step as f32 / answer as f32).is_break() {
                return Err(stopped());
            }
            next = session.push_greedy(next).map_err(from_session)?.unwrap_or_default();
        }
        let answering = began.elapsed().as_secs_f64();
        Ok(Measured {
            prompt_tokens_per_second: prompt as f64 / reading.max(1e-9),
            tokens_per_second: answer as f64 / answering.max(1e-9),
            prompt_tokens: saturating_u32(prompt),
            tokens: saturating_u32(answer),
        })
    }
}
