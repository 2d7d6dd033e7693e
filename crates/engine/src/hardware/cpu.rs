//! The CPU: name, cores, instruction set and utilization.

use super::cores;
use hearth_kernels::Isa;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use sysinfo::{CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, RefreshKind, System};

/// Physical cores, at most the number of threads available to this process.
pub fn physical_cores() -> usize {
    let given = std::thread::available_parallelism().map_or(1, usize::from);
    System::physical_core_count().map_or(given, |cores| cores.clamp(1, given))
}

/// Performance cores among [`physical_cores`]; all, if there is only one kind or it is unknown.
pub fn performance_cores() -> usize {
    let all = physical_cores();
    cores::performance().map_or(all, |fast| fast.clamp(1, all))
}

/// Product name.
pub fn cpu_name() -> String {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(kind).ok();
    let brand = system
        .as_ref()
        .and_then(|system| system.cpus().first())
        .map(|cpu| cpu.brand().trim().to_owned());
    brand
        .filter(|brand| !brand.is_empty())
        .unwrap_or_else(|| format!("{} CPU", std::env::consts::ARCH))
}

/// Name of the instruction set that the kernels use.
pub fn instructions() -> &'static str {
    Isa::best().label()
}

/// Utilization of all cores between the last two calls, from 0 to 1. `None` in the first call.
pub fn load() -> Option<f32> {
    /// Counters of the last reading, its time, and its result.
    struct Last(System, Instant, Option<f32>);
    static LAST: Mutex<Option<Last>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Last(system, read, load)) = last.as_mut() {
        // Below this interval the counters are meaningless.
        if read.elapsed() >= MINIMUM_CPU_UPDATE_INTERVAL {
            system.refresh_cpu_usage();
            *read = Instant::now();
            *load = Some((system.global_cpu_usage() / 100.0).clamp(0.0, 1.0));
        }
        return *load;
    }
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
    *last = System::new_with_specifics(kind)
        .ok()
        .map(|system| Last(system, Instant::now(), None));
    None
}
