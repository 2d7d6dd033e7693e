//! Measures the CPU again once the machine is idle, if other programs slowed its check down: what
//! suits the machine should not depend on what it did in that second.

use crate::{
    shared::Shared,
    wire::{Device, Event},
};
use hearth_protocol::DeviceCheck;
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

/// Measures again in the background if the check of these devices' CPU was slowed down, until an
/// attempt is not, and emits [`Event::DevicesMeasured`] then.
pub(crate) fn start(shared: &Arc<Shared>, devices: &[Device]) {
    if !was_busy(devices) || shared.is_remeasuring.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut delay = shared.remeasure_delay;
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        loop {
            sleep(delay).await;
            let Some(shared) = shared.upgrade() else { return };
            if measure_if_idle(&shared).await {
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

/// Checks the CPU if the machine is idle. Returns whether its recorded check was not slowed down.
async fn measure_if_idle(shared: &Shared) -> bool {
    let Some(cpu) = idle_cpu(shared).await.filter(|_| !shared.is_computing()) else {
        return false;
    };
    shared.host.check(cpu).await.is_ok_and(|devices| !was_busy(&devices))
}

/// The id of the CPU if it is idle.
async fn idle_cpu(shared: &Shared) -> Option<String> {
    // Each call returns the utilization since the call before.
    shared.host.devices().await.ok()?;
    sleep(LOAD_WINDOW).await;
    let cpu = shared.host.devices().await.ok()?.into_iter().next()?;
    let is_idle = cpu.load.is_some_and(|load| load < IDLE_LOAD);
    is_idle.then_some(cpu.id)
}
