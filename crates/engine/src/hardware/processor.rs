//! The processor: its name, cores, vector instructions and load.

use super::cores;
use hearth_kernels::dot::{Isa, Level};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use sysinfo::{CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, RefreshKind, System};

/// Cores without their hyper-threads, and no more than the system gives this process.
pub fn physical_cores() -> usize {
    let given = std::thread::available_parallelism().map_or(1, usize::from);
    System::physical_core_count().map_or(given, |cores| cores.clamp(1, given))
}

/// How many of [`physical_cores`] are the fast ones, where a processor has two kinds; else, and where it cannot be told,
/// all.
pub fn performance_cores() -> usize {
    let all = physical_cores();
    cores::performance().map_or(all, |fast| fast.clamp(1, all))
}

/// The maker's name for the processor.
pub fn processor_name() -> String {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(kind).ok();
    let brand = system
        .as_ref()
        .and_then(|system| system.cpus().first())
        .map(|cpu| cpu.brand().trim().to_owned());
    brand
        .filter(|brand| !brand.is_empty())
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The vector instructions that Hearth's loops use here, as people call them.
pub fn instructions() -> &'static str {
    match Isa::best().level() {
        Level::Scalar => "plain ones",
        Level::Avx2 => "AVX2",
        Level::Avx512 => "AVX-512 VNNI",
        Level::Neon => "NEON",
        Level::NeonDot => "NEON with dot products",
    }
}

/// How busy the whole processor was between the last two calls, 0 to 1; none at the first.
pub fn load() -> Option<f32> {
    /// The counters of the last reading, when it was, and what it gave.
    struct Last(System, Instant, Option<f32>);
    static LAST: Mutex<Option<Last>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Last(system, read, load)) = last.as_mut() {
        // Sooner, the counters say nothing.
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
