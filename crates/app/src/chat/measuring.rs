//! Measuring how fast the loaded model is. Whatever else is wanted of the model goes first, and ends it.

use super::{Chat, Loaded};
use crate::{
    store::{measurement, now},
    wire::{Code, Event, Measurement, Problem},
};
use hearth_protocol::{GenerationId, Measured, ModelInfo, Request};
use std::time::Duration;
use tokio::{sync::oneshot, time::Instant};

/// A worker that was told to stop measuring has this long before it is ended.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Who waits for a measurement.
pub(crate) type Reply = oneshot::Sender<Result<Measurement, Problem>>;

/// A measurement that is under way.
pub(super) struct Measuring {
    id: GenerationId,
    reply: Reply,
    /// What is measured, with nothing measured yet.
    row: measurement::Measurement,
    /// When the worker is ended because it does not stop; none: it was not told to.
    pub(super) stop_by: Option<Instant>,
}

impl Chat {
    /// Begins, or says why that cannot be.
    pub(super) fn measure(&mut self, reply: Reply) {
        let (code, message) = match (&self.loaded, &self.worker) {
            _ if self.measuring.is_some() => (Code::Busy, "A measurement is under way already. Wait until it is done."),
            _ if self.current.is_some() || !self.waiting.is_empty() => (
                Code::Busy,
                "An answer is being written, and would be measured with it. Stop it, or wait until it is done.",
            ),
            (Loaded::Ready { target, info }, Some((worker, _))) if self.wanted.as_ref().is_none_or(|w| w == target) => {
                self.last_generation += 1;
                let id = self.last_generation;
                let row = measurement::Measurement {
                    model: target.id.clone(),
                    model_name: target.name.clone(),
                    device: identity(info),
                    gpu_layers: info.gpu_layers,
                    layers_total: info.layers_total,
                    kv: info.kv.to_string(),
                    threads: info.threads,
                    prompt_tokens_per_second: 0.0,
                    tokens_per_second: 0.0,
                    prompt_tokens: 0,
                    tokens: 0,
                    measured_at: 0,
                };
                // A worker that is gone says so by itself.
                let _ = worker.send(Request::Measure { id });
                self.measuring = Some(Measuring {
                    id,
                    reply,
                    row,
                    stop_by: None,
                });
                return;
            }
            _ => (Code::NoModel, "No model is loaded. Load one, then measure it."),
        };
        // Whoever asked may have gone; here and below.
        let _ = reply.send(Err(Problem {
            code,
            message: message.to_owned(),
        }));
    }

    /// Tells the worker to stop measuring; it ends when the worker says so.
    pub(super) fn stop_measuring(&mut self) {
        if let (Some(measuring), Some((worker, _))) = (&mut self.measuring, &self.worker)
            && measuring.stop_by.is_none()
        {
            measuring.stop_by = Some(Instant::now() + STOP_WITHIN);
            let _ = worker.send(Request::Cancel { id: measuring.id });
        }
    }

    pub(super) fn measured_in_part(&self, id: GenerationId, fraction: f32) {
        if self.measuring.as_ref().is_some_and(|measuring| measuring.id == id) {
            self.shared.emit(Event::MeasureProgress { fraction });
        }
    }

    /// The worker is done: what it measured is kept.
    pub(super) async fn measured(&mut self, id: GenerationId, result: Result<Measured, Problem>) {
        let Some(measuring) = self.measuring.take_if(|measuring| measuring.id == id) else {
            return;
        };
        let answer = match result {
            Ok(measured) => {
                let row = measurement::Measurement {
                    prompt_tokens_per_second: measured.prompt_tokens_per_second,
                    tokens_per_second: measured.tokens_per_second,
                    prompt_tokens: measured.prompt_tokens,
                    tokens: measured.tokens,
                    measured_at: now(),
                    ..measuring.row
                };
                let keep = move |shared: &crate::shared::Shared| {
                    shared.store.write(|t| measurement::keep(t, &row))?;
                    Ok(row.into())
                };
                self.shared.blocking(keep).await
            }
            Err(_) if measuring.stop_by.is_some() => Err(stopped()),
            Err(problem) => Err(problem),
        };
        let _ = measuring.reply.send(answer);
    }

    /// Nobody measures any more.
    pub(super) fn end_measuring(&mut self, problem: &Problem) {
        if let Some(measuring) = self.measuring.take() {
            let stopped = measuring.stop_by.map(|_| stopped());
            let _ = measuring.reply.send(Err(stopped.unwrap_or_else(|| problem.clone())));
        }
    }
}

/// What the device that answers are written on is called from start to start.
fn identity(info: &ModelInfo) -> String {
    let device = info.placement.iter().find(|device| device.id == info.device);
    device.map_or_else(|| info.device.clone(), |device| device.identity.clone())
}

pub(super) fn stopped() -> Problem {
    Problem {
        code: Code::Cancelled,
        message: "The measurement was stopped; nothing was kept of it.".to_owned(),
    }
}
