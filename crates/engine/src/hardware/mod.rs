//! Hardware: CPU, memory, and the devices that models can run on.
//!
//! Graphics drivers are queried once, in a separate process ([`probe`]). Memory and utilization are
//! read again in each call of [`devices`], without calling a graphics driver.

#[cfg(feature = "wgpu")]
mod adapters;
mod backends;
mod builds;
mod cores;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod decode_cost;
mod gpu;
mod memory;
mod merge;
mod nvml;
mod prefetch;
mod probe;
pub(crate) mod records;
mod selection;
mod sysfs;
mod team;
mod vulkan;

pub use backends::{build_for, check, check_build, check_installed, check_new, place};
pub(crate) use backends::{no_such, other_program, unusable};
pub use builds::own as own_build;
pub use cpu::{instructions, performance_cores, physical_cores};
pub(crate) use decode_cost::decode_cost;
pub use gpu::{Gpu, GpuBackend, Kind, Live, Pci};
pub use memory::{Memory, memory};
pub use merge::rank;
pub use prefetch::prefetches;
pub(crate) use prefetch::{can_record_prefetches, record_prefetches, use_recorded_prefetches};
pub use probe::{LIMIT, Probe, check_here, exit_with_parent, probe, query, this_program};
pub use records::{FormatPrefetch, set_records_file};
pub use selection::is_auto_selected;
pub(crate) use team::team_size;

use crate::numbers::saturating_u32;
use hearth_protocol::{DeviceInfo, DeviceStatus, DriverProblem};
use std::sync::OnceLock;

/// The id of the device that always exists.
pub const CPU: &str = "cpu";

/// All devices; the first is [`CPU`]. The first call queries the graphics drivers, which may take
/// up to [`LIMIT`].
pub fn devices() -> Vec<DeviceInfo> {
    let cpu = cpu_info(problem().cloned());
    let gpus: Vec<DeviceInfo> = gpus().iter().map(|gpu| with_reasons(gpu.info(), &cpu)).collect();
    [vec![cpu], gpus].concat()
}

/// The devices to choose from for a requested `device` (`None` means automatic): [`devices`], or
/// only the CPU, without querying the graphics drivers, if no GPU can be chosen.
pub fn devices_for(device: Option<&str>) -> Vec<DeviceInfo> {
    if needs_drivers(device) {
        devices()
    } else {
        vec![cpu_info(None)]
    }
}

/// Queries the graphics drivers in the background if [`devices_for`] will need the result.
pub fn probe_ahead(device: Option<&str>) {
    if needs_drivers(device) {
        // If no thread can be started, they are queried later.
        let _ = std::thread::Builder::new().spawn(cached_probe);
    }
}

/// Whether a GPU may be used for a requested `device` (`None` means automatic). A software renderer
/// is only used if it is named.
pub fn needs_drivers(device: Option<&str>) -> bool {
    match device {
        Some(device) => device != CPU,
        None => probe::is_program_overridden() || sysfs::may_have_gpu(),
    }
}

/// All GPUs in their current state, `gpu0` first. The first call queries the graphics drivers,
/// which may take up to [`LIMIT`].
pub fn gpus() -> Vec<Gpu> {
    let mut gpus = cached_probe().gpus.clone();
    backends::rank(&mut gpus);
    refresh(&mut gpus);
    gpus
}

/// The reason why the graphics drivers could not be queried. `None` means that they answered.
pub fn problem() -> Option<&'static DriverProblem> {
    cached_probe().problem.as_ref()
}

/// The index by which `hearth_llm` opens the GPU with this id. A GPU that this build cannot open
/// has a placeholder index, for plans. `None` means that the id is not a GPU's.
pub fn adapter_index(id: &str) -> Option<usize> {
    /// First placeholder, above the index of any real GPU.
    const PLACEHOLDER: usize = 1000;
    let gpus = &cached_probe().gpus;
    match gpus.iter().position(|gpu| gpu.id == id) {
        Some(index) => Some(gpus[index].adapter.unwrap_or(PLACEHOLDER + index)),
        // A GPU of a hypothetical machine in a test.
        None => id.strip_prefix("gpu")?.parse().ok(),
    }
}

/// Updates memory and utilization without calling a graphics driver.
pub fn refresh(gpus: &mut [Gpu]) {
    let main_memory = memory();
    for gpu in gpus {
        match (gpu.kind, gpu.live) {
            (Kind::Discrete, Live::Nvml) => nvml::refresh(gpu),
            (Kind::Discrete, Live::Sysfs) => sysfs::refresh(gpu),
            (Kind::Discrete, Live::Unavailable) => {}
            (Kind::Integrated | Kind::Software, _) => {
                if let (Some(total), Some(main)) = (gpu.memory_total, main_memory) {
                    gpu.memory_free = Some(main.free.min(total));
                }
            }
        }
    }
}

/// The result of querying the drivers with every installed build. The first call queries them.
fn cached_probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| {
        if probe::is_probing() {
            return Probe::default();
        }
        let builds = builds::all();
        let probes: Vec<Probe> = std::thread::scope(|scope| {
            let query = |build: &'_ builds::Build| probe(&build.program, LIMIT);
            let threads: Vec<_> = builds.iter().map(|build| scope.spawn(move || query(build))).collect();
            // A thread that panicked counts as a probe without GPUs.
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default())
                .collect()
        });
        let (mut problem, mut gpus) = (None, Vec::new());
        for (build, probe) in builds.iter().zip(probes) {
            if let Some(error) = &probe.problem {
                tracing::warn!("{}: {error}", build.name);
            }
            if build.name == builds::own() {
                problem = probe.problem;
            }
            gpus.push((build.name, probe.gpus));
        }
        Probe {
            gpus: merge::join(builds::own(), gpus),
            problem,
        }
    })
}

/// Adds the reasons for the automatic selection of the GPU and of its build.
pub fn with_reasons(gpu: DeviceInfo, cpu: &DeviceInfo) -> DeviceInfo {
    DeviceInfo {
        selection: Some(selection::selection(&gpu, cpu)),
        build_reason: selection::build_reason(&gpu.backends),
        ..gpu
    }
}

/// The CPU, with the problem of the graphics drivers, if any.
fn cpu_info(driver_problem: Option<DriverProblem>) -> DeviceInfo {
    let memory = memory();
    let cores = saturating_u32(physical_cores());
    DeviceInfo {
        id: CPU.to_owned(),
        identity: CPU.to_owned(),
        kind: CPU.to_owned(),
        name: cpu::cpu_name(),
        backend: CPU.to_owned(),
        memory_total: memory.map(|memory| memory.total),
        memory_free: memory.map(|memory| memory.free),
        usable: true,
        status: DeviceStatus::Cpu {
            cores,
            instructions: instructions().to_owned(),
        },
        driver_problem,
        load: cpu::load(),
        cores: Some(cores),
        performance_cores: u32::try_from(performance_cores()).ok(),
        backend_names: vec![CPU.to_owned()],
        backends: vec![backends::cpu_backend()],
        ..DeviceInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_always_exists_and_has_memory() {
        let devices = devices();
        let cpu = &devices[0];
        assert_eq!(
            (cpu.id.as_str(), cpu.kind.as_str(), cpu.backend.as_str(), cpu.usable),
            (CPU, CPU, CPU, true)
        );
        assert!(!cpu.name.is_empty());
        assert!(
            cpu.memory_free <= cpu.memory_total && cpu.memory_total > Some(0),
            "{cpu:?}"
        );
        assert!(
            cpu.performance_cores <= cpu.cores && cpu.performance_cores > Some(0),
            "{cpu:?}"
        );
    }

    #[test]
    fn a_lost_gpu_is_unusable() {
        let mut gpus = [Gpu {
            pci: "ffff:ff:1f.7".parse().ok(),
            memory_free: Some(1),
            usable: true,
            live: Live::Sysfs,
            ..Gpu::default()
        }];
        refresh(&mut gpus);
        assert_eq!((gpus[0].usable, gpus[0].memory_free), (false, None));
        assert_eq!(gpus[0].status, DeviceStatus::Lost);
    }
}
