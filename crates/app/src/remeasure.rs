//! Measures the CPU again once the machine is idle, if other programs or Hearth itself slowed its
//! check down: what suits the machine should not depend on what it did in that second.

use crate::{
    shared::Shared,
    wire::{Device, Event, Problem},
};
use hearth_protocol::{DeviceCheck, Model, ModelStatus};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;

/// Longest delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(16 * 60);

/// Utilization of the CPU below which the machine is idle.
const IDLE_LOAD: f32 = 0.15;

/// Time over which the utilization is measured.
const LOAD_WINDOW: Duration = Duration::from_secs(1);

/// A check of a device.
pub(crate) struct Check {
    /// All devices after it.
    pub devices: Vec<Device>,
    /// Whether an answer, a title, a load or a run was in progress during the check. The recorded
    /// load does not include one that started and ended meanwhile.
    pub is_disturbed: bool,
}

/// Checks a device.
pub(crate) async fn check(shared: &Shared, device: String) -> Result<Check, Problem> {
    let (was_computing, before) = (is_computing(shared), shared.computations());
    let devices = shared.host.check(device).await?;
    let is_disturbed = was_computing || shared.computations() != before;
    Ok(Check { devices, is_disturbed })
}

/// Measures again in the background if the check of these devices' CPU was slowed down or
/// disturbed, until an attempt is not, and emits [`Event::DevicesMeasured`] then.
pub(crate) fn start(shared: &Arc<Shared>, devices: &[Device], is_disturbed: bool) {
    let is_needed = is_disturbed || was_busy(devices);
    if !is_needed || shared.is_remeasuring.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut delay = shared.remeasure_delay;
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut is_disturbed = is_disturbed;
        loop {
            sleep(delay).await;
            let Some(shared) = shared.upgrade() else { return };
            if measure_if_idle(&shared, &mut is_disturbed).await {
                shared.is_remeasuring.store(false, Ordering::Relaxed);
                shared.emit(Event::DevicesMeasured);
                return;
            }
            delay = MAX_DELAY.min(2 * delay);
        }
    });
}

/// Whether other programs slowed the check of the CPU down.
fn was_busy(devices: &[Device]) -> bool {
    let checks = devices.first().into_iter().flat_map(|cpu| &cpu.backends);
    checks
        .filter_map(|option| option.check.as_ref())
        .any(DeviceCheck::was_busy)
}

/// Whether an answer, a title, a load or a run is in progress.
fn is_computing(shared: &Shared) -> bool {
    let is_loading = || {
        let models = shared.host.live_models();
        let mut statuses = models.iter().map(Model::status);
        statuses.any(|status| matches!(*status.borrow(), ModelStatus::Loading { .. }))
    };
    shared.is_computing() || is_loading()
}

/// Checks the CPU if the machine is idle. Returns whether its recorded check, perhaps one that the
/// user started meanwhile, was neither slowed down nor disturbed. `is_disturbed`: whether the last
/// check was disturbed.
async fn measure_if_idle(shared: &Shared, is_disturbed: &mut bool) -> bool {
    // Each call returns the utilization since the call before.
    match shared.host.devices().await {
        Ok(devices) if *is_disturbed || was_busy(&devices) => {}
        Ok(_) => return true,
        Err(_) => return false,
    }
    sleep(LOAD_WINDOW).await;
    let Ok(devices) = shared.host.devices().await else {
        return false;
    };
    let idle = devices
        .into_iter()
        .next()
        .filter(|cpu| cpu.load.is_some_and(|load| load < IDLE_LOAD));
    let Some(cpu) = idle.filter(|_| !is_computing(shared)) else {
        return false;
    };
    let Ok(check) = check(shared, cpu.id).await else {
        return false;
    };
    *is_disturbed = check.is_disturbed;
    !check.is_disturbed && !was_busy(&check.devices)
}
