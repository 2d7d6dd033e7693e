//! Admission of a model to memory: next to the others, instead of unused ones, or after them.

use super::{Inner, ledger::InstanceId, model::Entry};
use crate::{LoadRequest, Plan, PlanRequest, Problem, ProblemCode, Reservation, Stage};
use std::{path::PathBuf, sync::Arc};
use tokio::{sync::MutexGuard, time::Instant};

/// Maximum duration of a turn next to unused models, as a multiple of its duration alone.
const SLOWER_BESIDE: f64 = 1.05;

/// Another model that is loaded.
pub(super) struct Other {
    entry: Arc<Entry>,
    pub instance: InstanceId,
    pub path: PathBuf,
    pub is_idle: bool,
    used: Instant,
    pub reservation: Reservation,
}

impl Inner {
    /// The loaded models, but for this one.
    pub fn others(&self, except: Option<&Arc<Entry>>) -> Vec<Other> {
        let entries = self.live();
        let others = entries
            .into_iter()
            .filter(|entry| except.is_none_or(|this| !Arc::ptr_eq(this, entry)));
        let loaded = others.filter_map(|entry| {
            let (instance, is_idle) = entry.loaded()?;
            Some(Other {
                instance: instance.id,
                path: entry.request.path.clone(),
                is_idle,
                used: entry.used(),
                reservation: self.ledger.reservation(instance.id),
                entry,
            })
        });
        loaded.collect()
    }

    /// Waits for the turn to load, finds memory for a model and plans it: beside the loaded ones if
    /// it is as fast there, else in place of unused ones, of which the least recently used are
    /// unloaded first. Waits for models in use if it does not fit beside them; others may load
    /// meanwhile. The turn lasts as long as the guard. `None` means that the requested device does
    /// not exist, which the worker reports.
    ///
    /// # Errors
    /// The file or the settings are invalid, or the planner cannot be started, or died.
    pub async fn admit(&self, entry: &Arc<Entry>) -> Result<(MutexGuard<'_, ()>, Option<Plan>), Problem> {
        let mut freed = self.memory_freed.subscribe();
        let mut turn = self.loading.lock().await;
        loop {
            freed.borrow_and_update();
            let others = self.others(Some(entry));
            let all: Vec<InstanceId> = others.iter().map(|other| other.instance).collect();
            let beside = match self.choose(entry, &all, Vec::new()).await {
                Ok(plan) => plan,
                Err(problem) if problem.code == ProblemCode::NoDevice => return Ok((turn, None)),
                Err(problem) => return Err(problem),
            };
            let (idle, busy): (Vec<Other>, Vec<Other>) = others.into_iter().partition(|other| other.is_idle);
            let Some(oldest) = idle.iter().min_by_key(|other| other.used) else {
                if beside.fits || busy.is_empty() {
                    return Ok((turn, Some(beside)));
                }
                entry.show_progress(0.0, Stage::WaitingForMemory);
                drop(turn);
                // The host lives as long as this.
                let _ = freed.changed().await;
                turn = self.loading.lock().await;
                continue;
            };
            let busy: Vec<InstanceId> = busy.iter().map(|other| other.instance).collect();
            let replaced = idle.iter().map(|other| other.reservation.clone()).collect();
            let alone = self.choose(entry, &busy, replaced).await?;
            if beside.fits && !is_slower(&beside, &alone) {
                return Ok((turn, Some(beside)));
            }
            if let Some(instance) = oldest.entry.exit_if_idle() {
                tracing::info!(path = %oldest.path.display(), "an unused model is unloaded for another one");
                instance.exited().await;
            }
        }
    }

    /// Plans a model beside `reserved` ones, with the memory of `replaced` ones free.
    async fn choose(
        &self,
        entry: &Entry,
        reserved: &[InstanceId],
        replaced: Vec<Reservation>,
    ) -> Result<Plan, Problem> {
        let request = PlanRequest {
            replaced,
            reserved: self.ledger.reservations(reserved.iter().copied()),
            check: true,
            ..plan_request(&entry.request)
        };
        let mut show = |fraction, stage| entry.show_progress(fraction, stage);
        self.planner.choose(request, &mut show).await
    }
}

/// Whether a plan is slower than another one.
fn is_slower(beside: &Plan, alone: &Plan) -> bool {
    match (beside.turn_seconds, alone.turn_seconds) {
        (Some(beside), Some(alone)) => beside > alone * SLOWER_BESIDE,
        _ => beside.gpu_layers < alone.gpu_layers,
    }
}

/// The plan of a load.
fn plan_request(request: &LoadRequest) -> PlanRequest {
    PlanRequest {
        path: request.path.clone(),
        context: request.context,
        device: request.device.clone(),
        build: request.build.clone(),
        gpu_layers: request.gpu_layers,
        kv: request.kv,
        draft: request.draft.clone(),
        ..PlanRequest::default()
    }
}
