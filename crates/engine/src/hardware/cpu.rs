//! The CPU: name, cores, instruction set and utilization.

use super::cores;
use hearth_kernels::Isa;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use sysinfo::{CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, RefreshKind, System};

/// Physical cores, at most the number of threads available to this process.
pub fn physical_cores() -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    System::physical_core_count().map_or(threads, |cores| cores.clamp(1, threads))
}

/// Performance cores among [`physical_cores`]. All cores if the CPU has one kind of cores, or if
/// the kinds are unknown.
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

/// Interval of [`load_now`].
const LOAD_WINDOW: Duration = Duration::from_millis(500);

/// Utilization of all cores in the next half second, from 0 to 1. `None` means unknown.
pub fn load_now() -> Option<f32> {
    load();
    thread::sleep(LOAD_WINDOW);
    load()
}

/// Utilization of all cores between the last two calls, from 0 to 1. `None` in the first call.
pub fn load() -> Option<f32> {
    /// Counters at the last call.
    struct Sample {
        system: System,
        time: Instant,
        load: Option<f32>,
    }
    static LAST: Mutex<Option<Sample>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sample) = last.as_mut() {
        // In a shorter interval the counters are meaningless.
        if sample.time.elapsed() >= MINIMUM_CPU_UPDATE_INTERVAL {
            sample.system.refresh_cpu_usage();
            sample.time = Instant::now();
            sample.load = Some((sample.system.global_cpu_usage() / 100.0).clamp(0.0, 1.0));
        }
        return sample.load;
    }
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
    *last = System::new_with_specifics(kind).ok().map(|system| Sample {
        system,
        time: Instant::now(),
        load: None,
    });
    None
}
