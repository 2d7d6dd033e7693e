//! Measuring the loaded model's speed. Any other request to the model takes precedence and cancels
//! the measurement.

use super::{Target, selection};
use crate::{
    shared::Shared,
    store::{measurement, now},
    wire::{ChatReason, Event, Measurement, Problem, ProblemCode},
};
use hearth_protocol as protocol;
use protocol::{Model, ModelInfo, Request};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// The reply to a measurement.
pub(crate) type Reply = oneshot::Sender<Result<Measurement, Problem>>;

/// A measurement in progress. Answers wait until it is dropped.
pub(super) struct InProgress(watch::Sender<bool>);

impl InProgress {
    pub(super) fn new(is_measuring: watch::Sender<bool>) -> Self {
        is_measuring.send_replace(true);
        Self(is_measuring)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Measures a model and saves the results. It is cancelled when `cancelled` becomes `true`.
pub(super) async fn measure(
    shared: Arc<Shared>,
    target: &Target,
    model: Model,
    cancelled: watch::Receiver<bool>,
    in_progress: InProgress,
    reply: Reply,
) {
    let result = run(&shared, target, &model, cancelled).await;
    // Before the reply, so that a request in response to it finds the model free.
    drop(in_progress);
    // The receiver may have been dropped.
    let _ = reply.send(result);
}

/// Sends the request and returns the saved result.
async fn run(
    shared: &Arc<Shared>,
    target: &Target,
    model: &Model,
    mut cancelled: watch::Receiver<bool>,
) -> Result<Measurement, Problem> {
    let lease = model
        .ready()
        .await
        .map_err(|error| selection::not_ready(error).unwrap_or_else(stopped))?;
    let mut events = lease.request(Request::Measure);
    loop {
        tokio::select! {
            Ok(()) = cancelled.changed() => events.cancel(),
            event = events.next() => match event {
                Some(protocol::Event::Progress { fraction, .. }) => shared.emit(Event::MeasureProgress { fraction }),
                Some(protocol::Event::Measured(measured)) => {
                    return save(shared, row(target, lease.info()), measured).await;
                }
                Some(protocol::Event::Failed(_)) if *cancelled.borrow() => return Err(stopped()),
                Some(protocol::Event::Failed(problem)) => return Err(problem),
                Some(_) => {}
                None => return Err(stopped()),
            },
        }
    }
}

/// Saves a row with its results.
async fn save(
    shared: &Arc<Shared>,
    row: measurement::Measurement,
    measured: protocol::Measured,
) -> Result<Measurement, Problem> {
    let row = measurement::Measurement {
        prompt_tokens_per_second: measured.prompt_tokens_per_second,
        tokens_per_second: measured.tokens_per_second,
        prompt_tokens: measured.prompt_tokens,
        tokens: measured.tokens,
        measured_at: now(),
        ..row
    };
    let write = move |shared: &Shared| {
        shared.store.write(|t| measurement::save(t, &row))?;
        Ok(row.into())
    };
    shared.blocking(write).await
}

/// The row of a measurement of this model, without its results.
fn row(target: &Target, info: &ModelInfo) -> measurement::Measurement {
    measurement::Measurement {
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
    }
}

/// Identity of the device that the model runs on.
fn identity(info: &ModelInfo) -> String {
    let device = info.placement.iter().find(|device| device.id == info.device);
    device.map_or_else(|| info.device.clone(), |device| device.identity.clone())
}

fn stopped() -> Problem {
    Problem::new(ProblemCode::Cancelled, ChatReason::MeasurementCancelled)
}
