//! Measuring the loaded model's speed. Any other request to the model takes precedence and cancels
//! the measurement.

use super::{Chat, LoadState};
use crate::{
    store::{measurement, now},
    wire::{Code, Event, Measurement, Problem},
};
use hearth_protocol::{GenerationId, Measured, ModelInfo, Request};
use std::time::Duration;
use tokio::{sync::oneshot, time::Instant};

/// How long a worker may take to cancel a measurement before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The reply to a measurement.
pub(crate) type Reply = oneshot::Sender<Result<Measurement, Problem>>;

/// The current measurement.
pub(super) struct Measuring {
    id: GenerationId,
    reply: Reply,
    /// The row to save, without its results.
    row: measurement::Measurement,
    /// When the worker is killed if it does not cancel. `None` means that no cancellation was
    /// requested.
    pub(super) stop_by: Option<Instant>,
}

impl Chat {
    /// Starts a measurement, or replies why it cannot start.
    pub(super) fn measure(&mut self, reply: Reply) {
        let (code, message) = match (&self.loaded, &self.worker) {
            _ if self.measuring.is_some() => (Code::Busy, "A measurement is already running. Wait until it is done."),
            _ if self.current.is_some() || !self.waiting.is_empty() => (
                Code::Busy,
                "An answer is being generated, which would distort the measurement. Stop it, or wait until it is done.",
            ),
            (LoadState::Ready { target, info }, Some((worker, _)))
                if self.requested.as_ref().is_none_or(|w| w == target) =>
            {
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
                // The exit of a worker is reported as a message.
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
        // Here and below, the receiver may have been dropped.
        let _ = reply.send(Err(Problem {
            code,
            message: message.to_owned(),
        }));
    }

    /// Cancels the measurement, which ends with the worker's event.
    pub(super) fn stop_measuring(&mut self) {
        if let (Some(measuring), Some((worker, _))) = (&mut self.measuring, &self.worker)
            && measuring.stop_by.is_none()
        {
            measuring.stop_by = Some(Instant::now() + STOP_TIMEOUT);
            let _ = worker.send(Request::Cancel { id: measuring.id });
        }
    }

    pub(super) fn measure_progress(&self, id: GenerationId, fraction: f32) {
        if self.measuring.as_ref().is_some_and(|measuring| measuring.id == id) {
            self.shared.emit(Event::MeasureProgress { fraction });
        }
    }

    /// Ends the measurement and saves its results.
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
                let save = move |shared: &crate::shared::Shared| {
                    shared.store.write(|t| measurement::save(t, &row))?;
                    Ok(row.into())
                };
                self.shared.blocking(save).await
            }
            Err(_) if measuring.stop_by.is_some() => Err(stopped()),
            Err(problem) => Err(problem),
        };
        let _ = measuring.reply.send(answer);
    }

    /// Fails the measurement.
    pub(super) fn end_measuring(&mut self, problem: &Problem) {
        if let Some(measuring) = self.measuring.take() {
            let stopped = measuring.stop_by.map(|_| stopped());
            let _ = measuring.reply.send(Err(stopped.unwrap_or_else(|| problem.clone())));
        }
    }
}

/// Identity of the device that the model runs on.
fn identity(info: &ModelInfo) -> String {
    let device = info.placement.iter().find(|device| device.id == info.device);
    device.map_or_else(|| info.device.clone(), |device| device.identity.clone())
}

pub(super) fn stopped() -> Problem {
    Problem {
        code: Code::Cancelled,
        message: "The measurement was cancelled. Nothing was saved.".to_owned(),
    }
}
