//! Admission of a model to memory: beside the others, in place of unused ones, or after them.

use super::{Inner, ledger::InstanceId, model::Entry};
use crate::{LoadRequest, Plan, PlanRequest, Problem, ProblemCode, Reservation, Stage};
use std::{path::PathBuf, sync::Arc};
use tokio::{sync::MutexGuard, time::Instant};

/// Maximum duration of a turn beside unused models, as a multiple of its duration without them.
const MAX_SLOWDOWN: f64 = 1.05;

/// Another model that is loaded.
pub(super) struct OtherModel {
    entry: Arc<Entry>,
    pub instance: InstanceId,
    pub path: PathBuf,
    pub is_idle: bool,
    last_used: Instant,
    pub reservation: Reservation,
}

impl Inner {
    /// The loaded models except this one.
    pub fn others(&self, except: Option<&Arc<Entry>>) -> Vec<OtherModel> {
        let entries = self.live_entries();
        let others = entries
            .into_iter()
            .filter(|entry| except.is_none_or(|this| !Arc::ptr_eq(this, entry)));
        let loaded = others.filter_map(|entry| {
            let (instance, is_idle) = entry.loaded_instance()?;
            Some(OtherModel {
                instance: instance.id,
                path: entry.request.path.clone(),
                is_idle,
                last_used: entry.last_used(),
                reservation: self.ledger.reservation(instance.id),
                entry,
            })
        });
        loaded.collect()
    }

    /// Waits until no other model is being loaded, finds memory for a model and plans it: beside
    /// the loaded ones if it is as fast there, else in place of unused ones, of which the least
    /// recently used are unloaded first. Waits for models in use if it does not fit beside them;
    /// others may load meanwhile. No other model loads until the guard is dropped. `None` means
    /// that the requested device does not exist, which the worker reports.
    ///
    /// # Errors
    /// The file or the settings are invalid, or the planner cannot be started, or died.
    pub async fn admit(&self, entry: &Arc<Entry>) -> Result<(MutexGuard<'_, ()>, Option<Plan>), Problem> {
        let mut memory_freed = self.memory_freed.subscribe();
        let mut load_guard = self.load_lock.lock().await;
        loop {
            memory_freed.borrow_and_update();
            let others = self.others(Some(entry));
            let instances: Vec<InstanceId> = others.iter().map(|other| other.instance).collect();
            let plan_beside = match self.choose(entry, &instances, Vec::new()).await {
                Ok(plan) => plan,
                Err(problem) if problem.code == ProblemCode::NoDevice => return Ok((load_guard, None)),
                Err(problem) => return Err(problem),
            };
            let (idle, busy): (Vec<OtherModel>, Vec<OtherModel>) = others.into_iter().partition(|other| other.is_idle);
            let Some(least_recent) = idle.iter().min_by_key(|other| other.last_used) else {
                if plan_beside.fits || busy.is_empty() {
                    return Ok((load_guard, Some(plan_beside)));
                }
                entry.show_progress(0.0, Stage::WaitingForMemory);
                drop(load_guard);
                // This host owns the sender.
                let _ = memory_freed.changed().await;
                load_guard = self.load_lock.lock().await;
                continue;
            };
            let busy_instances: Vec<InstanceId> = busy.iter().map(|other| other.instance).collect();
            let replaced = idle.iter().map(|other| other.reservation.clone()).collect();
            let plan_alone = self.choose(entry, &busy_instances, replaced).await?;
            if plan_beside.fits && !is_slower(&plan_beside, &plan_alone) {
                return Ok((load_guard, Some(plan_beside)));
            }
            if let Some(instance) = least_recent.entry.exit_if_idle() {
                tracing::info!(path = %least_recent.path.display(), "an unused model is unloaded for another one");
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
        let mut show_progress = |fraction, stage| entry.show_progress(fraction, stage);
        self.planner.choose(request, &mut show_progress).await
    }
}

/// Whether a model is slower beside unused models than without them.
fn is_slower(beside: &Plan, alone: &Plan) -> bool {
    match (beside.turn_seconds, alone.turn_seconds) {
        (Some(beside), Some(alone)) => beside > alone * MAX_SLOWDOWN,
        _ => beside.gpu_layers < alone.gpu_layers,
    }
}

/// The plan request of a load.
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
